use super::card::{Card, CardId};
use super::screen::Style;
use super::{Chat, Link, Mode, wrap};
use crate::failure::{Failure, plainly};
use baton_client::Incoming;
use baton_proto::{ApprovalState, Change, Changed, DeltaPart, EntityView, HandoffState, HubFrame, QuestionState};

/// What comes from the hub.
impl Chat {
    pub(super) fn word(&mut self, word: Incoming) -> Result<(), Failure> {
        match word {
            Incoming::Frame(frame) => self.frame(*frame)?,
            Incoming::UnknownChange(change) if change.session_id == self.session => {
                self.seen = change.seq;
                self.say(&format!("[{}] something that this version doesn't know ({})", change.seq, change.event_type));
                for entity in &change.upserts {
                    self.known.take(entity);
                    self.lay(entity);
                }
            }
            Incoming::UnknownChange(_) => {}
            Incoming::Connected(welcome) => {
                self.hub = welcome.hub;
                self.post.at_once();
                if std::mem::replace(&mut self.link, Link::Up) != Link::Up {
                    self.say("(connected again)");
                }
                if let Some(message) = self.known.answering() {
                    self.shown.under_way(message);
                }
            }
            Incoming::Disconnected { reason } => {
                let reason = plainly(&reason);
                if self.link == Link::Up {
                    self.say(&format!("(the link to the hub is gone: {reason}; what you type is kept and sent once)"));
                }
                self.link = Link::Down(reason);
            }
            Incoming::Refused(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn frame(&mut self, frame: HubFrame) -> Result<(), Failure> {
        match frame {
            HubFrame::Change(change) if change.session_id == self.session => self.change(&change),
            HubFrame::View(view) if view.session_id == self.session => self.begin(&view),
            HubFrame::Delta { session_id, message_id, part, offset, text, .. }
                if session_id == self.session && self.shown.delta(message_id, part, offset, &text) =>
            {
                let style = if part == DeltaPart::Thinking { Style::Dim } else { Style::Plain };
                self.screen.append(style, &text);
            }
            HubFrame::Progress { session_id, text, .. } if session_id == self.session => {
                self.progress = text.lines().rfind(|line| !line.trim().is_empty()).map(wrap::shown);
            }
            HubFrame::Reset { session_id, reason } if session_id == self.session => {
                self.say(&format!("(started again from the present state: {reason})"));
            }
            HubFrame::HandoffOffer { session_id, from, brief, .. } => {
                let device = self.known.device(from);
                self.say(&format!("{device} offers you session {session_id}:\n{}", brief.text));
                if session_id != self.session {
                    self.say(&format!("To take it: baton chat --session {session_id}"));
                }
            }
            HubFrame::Changed { what: Changed::Devices } => self.read_devices(),
            HubFrame::Error { session_id, error } if session_id.is_none_or(|it| it == self.session) => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) {
        self.seen = change.seq;
        for entity in &change.upserts {
            self.known.take(entity);
        }
        let added = self.shown.change(change);
        if let Some(end) = added.end {
            self.screen.end(end);
        }
        if let Some(thinking) = added.thinking {
            self.screen.print(Style::Dim, &thinking);
        }
        if !added.lines.is_empty() {
            self.progress = None;
        }
        for line in &added.lines {
            if line.spoken {
                self.screen.print(Style::Plain, "\n");
            }
            self.screen.print(if line.spoken { Style::Bold } else { Style::Plain }, &line.text);
        }
        for entity in &change.upserts {
            self.lay(entity);
        }
    }

    /// Lays down what waits for the user, and takes away what no longer does, with a word on who answered it.
    pub(super) fn lay(&mut self, entity: &EntityView) {
        let (id, open, end) = match entity {
            EntityView::Approval(it) => {
                let who = it.decided_by.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
                let end = match it.state {
                    ApprovalState::Approved => format!("(allowed on {who})"),
                    ApprovalState::Rejected => format!("(refused on {who})"),
                    _ => format!("(asked no longer: {})", it.reason.clone().unwrap_or_default()),
                };
                (CardId::Approval(it.id), (it.state == ApprovalState::Open).then(|| Card::Approval(it.clone())), end)
            }
            EntityView::Question(it) => {
                let who = it.answered_by.as_ref().map(|sender| sender.name.clone()).unwrap_or_default();
                let end = match it.state {
                    QuestionState::Answered => format!("(answered on {who}: {})", it.answer.clone().unwrap_or_default()),
                    _ => format!("(asked no longer: {})", it.reason.clone().unwrap_or_default()),
                };
                (CardId::Question(it.id), (it.state == QuestionState::Open).then(|| Card::Question(it.clone())), end)
            }
            EntityView::Handoff(it) if it.to == self.known.own() => {
                let end = match it.state {
                    HandoffState::Accepted => "(this terminal has the session now)",
                    HandoffState::Declined => "(declined)",
                    _ => "(the offer is gone)",
                };
                let from = self.known.device(it.from);
                (CardId::Offer(it.id), (it.state == HandoffState::Offered).then(|| Card::Offer(it.clone(), from)), end.to_owned())
            }
            _ => return,
        };
        match open {
            Some(card) => drop(self.desk.lay(card)),
            None if self.desk.remove(id).is_some() => {
                self.leave_mode(id);
                self.say(&end);
            }
            None => {}
        }
    }

    /// A card that is gone takes back what its keys meant. What was being written stays in the line.
    fn leave_mode(&mut self, id: CardId) {
        if matches!(self.mode, Mode::Remember(it) | Mode::Reason(it) | Mode::Danger(it) if it == id) {
            self.mode = Mode::Free;
        }
        if matches!(id, CardId::Question(question) if self.answers_to == Some(question)) {
            self.answers_to = None;
        }
    }
}
