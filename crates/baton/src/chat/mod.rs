//! A conversation in a terminal: what is said and done goes by as it comes, and what waits for the user is answered in place.
//!
//! One task owns everything: keys, the hub's words and answers to what was sent come in here, one after the other. It never decides how the
//! session stands; that it is told. It draws with `screen`, and what is typed leaves through `post`.

mod card;
mod keys;
mod known;
mod line;
mod post;
mod screen;
mod wrap;

use crate::commands::show;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::progress::Shown;
use crate::{interrupt, pick};
use baton_client::{Connection, ConnectionConfig, Hello, Http, Incoming, Timing};
use baton_proto::{
    ApprovalState, Change, Changed, ClientType, DeltaPart, EntityView, HandoffState, HubFrame, HubInfo, Intent, QuestionId, QuestionState,
    Role, SessionEvent, SessionId, SessionView,
};
use card::{Card, CardId, Desk};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use known::Known;
use line::Line;
use post::{News, Post};
use screen::{Below, Screen, Style};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Entries of the timeline that are shown at the beginning.
const RECENT: usize = 20;

/// Whether the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Leave,
}

/// What the keys mean at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They write, or act on the card in front while nothing is written.
    Free,
    /// Which calls are allowed from now on.
    Remember(CardId),
    /// The reason of a refusal.
    Reason(CardId),
    /// The word that allows something dangerous.
    Danger(CardId),
}

/// The one who talks, and about what.
pub(crate) struct Talk<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) profile_name: Option<&'a str>,
    pub(crate) http: Http,
    pub(crate) hub: HubInfo,
    pub(crate) view: SessionView,
}

impl std::fmt::Debug for Talk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").field("session", &self.view.session_id).finish_non_exhaustive()
    }
}

/// Talks until the user leaves.
pub(crate) async fn talk(talk: Talk<'_>) -> Result<u8, Failure> {
    let session = talk.view.session_id;
    let (post, mut answers) = Post::open(talk.profile_name, talk.http.clone(), session)?;
    let url = talk.profile.hub_url()?;
    let (handle, mut incoming) = Connection::spawn(ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: talk.profile.token()?,
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::from([(session, talk.view.seq)]),
        timing: Timing::default(),
    });
    let (notes, mut noted) = mpsc::channel(16);
    let screen = Screen::open()?;
    let mut keys = EventStream::new();
    let mut chat = Chat {
        session,
        http: talk.http,
        hub: talk.hub,
        known: Known::new(talk.profile.device_id),
        shown: Shown::default(),
        desk: Desk::default(),
        line: Line::default(),
        mode: Mode::Free,
        answers_to: None,
        post,
        link: Link::Up,
        progress: None,
        stopped_at: None,
        seen: 0,
        notes,
        screen,
    };
    chat.read_devices();
    chat.begin(&talk.view);
    let mut asked_to_stop = std::pin::pin!(interrupt::asked_to_stop());
    let ended = loop {
        chat.post.send();
        chat.draw();
        let wake = chat.wake();
        let flow = tokio::select! {
            key = keys.next() => match key {
                Some(Ok(event)) => chat.event(event),
                // The terminal is gone.
                Some(Err(_)) | None => Ok(Flow::Leave),
            },
            word = incoming.recv() => match word {
                Some(word) => chat.word(word).map(|()| Flow::On),
                None => Err(Failure::unreachable("The link to the hub ended.", "Start `baton chat` again; the session is safe on the hub.")),
            },
            Some(answer) = answers.recv() => chat.answered(answer).map(|()| Flow::On),
            Some(note) = noted.recv() => {
                chat.noted(note);
                Ok(Flow::On)
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => Ok(Flow::On),
            _ = &mut asked_to_stop => Ok(Flow::Leave),
        };
        match flow {
            Ok(Flow::On) => {}
            Ok(Flow::Leave) => break Ok(0),
            Err(failure) => break Err(failure),
        }
    };
    let (waiting, written) = (chat.post.waiting() + chat.post.held().count(), chat.line.take());
    drop(chat);
    handle.stop().await;
    if !written.trim().is_empty() {
        eprintln!("Not sent: {}", wrap::shown(&written));
    }
    if waiting > 0 {
        eprintln!("{waiting} still to be sent; it is kept here until you run: baton chat --session {session}");
    }
    ended
}

/// How the link to the hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// Since something failed, in words.
    Down(String),
}

/// What came back from something that was asked on the side.
#[derive(Debug)]
enum Note {
    Devices(Vec<baton_proto::DeviceView>),
    Trouble(Failure),
}

struct Chat {
    session: SessionId,
    http: Http,
    hub: HubInfo,
    known: Known,
    shown: Shown,
    desk: Desk,
    line: Line,
    mode: Mode,
    /// The question that was in front when the line was begun.
    answers_to: Option<QuestionId>,
    post: Post,
    link: Link,
    /// The last word of a running call.
    progress: Option<String>,
    /// When the agent was last asked to stop by Ctrl+C.
    stopped_at: Option<Instant>,
    /// The newest sequence number that was shown.
    seen: u64,
    notes: mpsc::Sender<Note>,
    screen: Screen,
}

impl Chat {
    /// Shows the end of the timeline, and what waits.
    fn begin(&mut self, view: &SessionView) {
        let after = std::mem::replace(&mut self.seen, view.seq);
        // What is held back here is this terminal's own.
        self.desk.keep(|id| matches!(id, CardId::Held(_)) || view.entities.iter().any(|entity| is_about(entity, id)));
        for entity in &view.entities {
            self.known.take(entity);
            self.lay(entity);
        }
        let mut timeline: Vec<(u64, String)> = view
            .entities
            .iter()
            .filter(|entity| matches!(entity, EntityView::Message(_) | EntityView::Call(_)))
            .filter_map(show::entry)
            .filter(|(seq, _)| *seq > after)
            .collect();
        timeline.sort_by_key(|(seq, _)| *seq);
        let left_out = timeline.len().saturating_sub(RECENT);
        if left_out > 0 || view.history_before.is_some() {
            self.say(&format!("(earlier: baton show {})", self.session));
        }
        for (_, text) in timeline.drain(..).skip(left_out) {
            self.screen.print(Style::Plain, &text);
        }
        for entity in &view.entities {
            if let EntityView::Message(message) = entity
                && message.role == Role::User
            {
                self.line.remember(&message.text);
            }
        }
        if after == 0 {
            self.say("Enter sends, Alt+Enter makes a new line, /help tells more, Ctrl+D leaves.");
            if self.hub.model.is_none() {
                self.say("No model is configured on this hub; slash commands work without one.");
            }
            if self.post.waiting() > 0 {
                self.say(&format!("{} from last time is sent now.", self.post.waiting()));
            }
            self.hold_up();
        }
        if let Some(message) = self.known.answering() {
            self.shown.under_way(message);
        }
    }

    /// Something that the terminal itself has to say.
    fn say(&mut self, text: &str) {
        self.screen.print(Style::Dim, text);
    }

    fn trouble(&mut self, failure: &Failure) {
        self.say(&failure.words());
    }

    fn event(&mut self, event: Event) -> Result<Flow, Failure> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Paste(text) => {
                self.write(&text);
                Ok(Flow::On)
            }
            Event::Resize(width, height) => {
                self.screen.resize(width, height);
                Ok(Flow::On)
            }
            _ => Ok(Flow::On),
        }
    }

    fn word(&mut self, word: Incoming) -> Result<(), Failure> {
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
        let worked = self.known.works();
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
        let spoken = match &change.event.body {
            SessionEvent::MessageAdded { message_id, role: Role::User, .. } => Some(*message_id),
            _ => None,
        };
        if spoken.is_none() || !added.lines.is_empty() {
            self.progress = None;
        }
        // What waits is shown as a card of its own.
        if !matches!(change.event.body, SessionEvent::ApprovalRequested { .. } | SessionEvent::QuestionAsked { .. }) {
            for line in added.lines.iter().filter(|line| !line.starts_with('●')) {
                self.screen.print(if spoken.is_some() { Style::Bold } else { Style::Plain }, line);
            }
        }
        if let Some(fate) = spoken.filter(|_| worked).and_then(|message| self.known.fate(message)) {
            self.say(&format!("  ({fate})"));
        }
        for entity in &change.upserts {
            self.lay(entity);
        }
    }

    /// Lays down what waits for the user, and takes away what no longer does, with a word on who answered it.
    fn lay(&mut self, entity: &EntityView) {
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

    /// Lays down what the outbox holds back.
    fn hold_up(&mut self) {
        let held: Vec<Card> = self
            .post
            .held()
            .map(|(operation, error)| Card::Held { id: operation.operation_id, said: said(&operation.intent), error: error.clone() })
            .collect();
        for card in held {
            self.desk.lay(card);
        }
    }

    fn answered(&mut self, answer: post::Answered) -> Result<(), Failure> {
        match self.post.answered(answer)? {
            None => {}
            Some(News::Held) => self.hold_up(),
            Some(News::Refused(operation, error)) => {
                self.say(&format!("Refused: {} {}", error.message, error.hint));
                if let Some(id) = answers(&operation.intent) {
                    self.desk.ask_again(id);
                }
                if let Intent::Say { text, .. } = operation.intent {
                    self.give_back(text);
                }
            }
        }
        Ok(())
    }

    /// Text that wasn't taken goes back into the line, or is shown where something else is being written.
    fn give_back(&mut self, text: String) {
        if self.line.is_empty() && self.mode == Mode::Free {
            self.line.put(text);
        } else {
            self.say(&format!("Not sent: {text}"));
        }
    }

    fn noted(&mut self, note: Note) {
        match note {
            Note::Devices(devices) => self.known.devices(devices),
            Note::Trouble(failure) => self.trouble(&failure),
        }
    }

    fn read_devices(&self) {
        let (http, notes) = (self.http.clone(), self.notes.clone());
        tokio::spawn(async move {
            if let Ok(devices) = http.devices().await {
                let _ = notes.send(Note::Devices(devices)).await;
            }
        });
    }

    /// Stops the agent. It isn't kept for later: what it would stop then is something else.
    fn stop(&mut self) {
        let (http, notes, session) = (self.http.clone(), self.notes.clone(), self.session);
        self.say("(stopping)");
        tokio::spawn(async move {
            if let Err(failure) = pick::operate(&http, Some(session), None, Intent::Cancel { task_id: None }, false).await {
                let _ = notes.send(Note::Trouble(failure)).await;
            }
        });
    }

    fn put(&mut self, intent: Intent, confirmed: bool) {
        let text = said(&intent);
        let card = answers(&intent);
        let kept = self.post.put(intent, self.known.epoch(), confirmed);
        if let Some(id) = card.filter(|_| kept.is_ok()) {
            self.desk.answer(id);
        }
        match kept {
            Ok(()) if self.link != Link::Up => self.say(&format!("(kept until the hub is back: {text})")),
            Ok(()) => {}
            Err(failure) => {
                self.trouble(&failure);
                self.give_back(text);
            }
        }
    }

    /// When something is to be drawn or sent without anything coming in.
    fn wake(&self) -> Option<Instant> {
        let armed = self.desk.works_from().filter(|time| *time > Instant::now());
        armed.into_iter().chain(self.post.next()).min()
    }

    fn draw(&mut self) {
        if let Some(card) = self.desk.newly_in_front(Instant::now()) {
            let device = match &card {
                Card::Approval(approval) => approval.binding.device_id.map(|id| self.known.device(id)),
                _ => None,
            };
            let text = card.text(device.as_deref(), self.screen.width());
            self.screen.print(Style::Bold, &text);
        }
        let (input, cursor) = self.line.rows(self.prompt(), self.screen.width());
        self.screen.set_below(Below { status: self.status(), input, cursor });
    }

    fn status(&self) -> Vec<String> {
        let mut first = match &self.link {
            Link::Down(reason) => format!("no link to the hub, trying again ({reason})"),
            Link::Up => self.known.status(),
        };
        if self.post.waiting() > 0 {
            first = format!("{} to be sent · {first}", self.post.waiting());
        }
        if let Some(progress) = self.progress.as_ref().filter(|_| self.known.works()) {
            first = format!("{first} · {progress}");
        }
        let mut rows = vec![wrap::shown(&first)];
        rows.extend(self.card_row().map(|row| wrap::shown(&row)));
        rows
    }

    fn card_row(&self) -> Option<String> {
        match self.mode {
            Mode::Remember(id) => {
                let beginnings = self.desk.find(id).map(Card::beginnings).unwrap_or_default();
                let choices: String = beginnings.iter().map(|(count, words)| format!(" · {count} what begins with '{words}'")).collect();
                return Some(format!("always: Enter exactly this{choices} · Esc back"));
            }
            Mode::Reason(_) => return Some("why not, for the agent to read · Enter refuses · Esc back".to_owned()),
            Mode::Danger(_) => return Some("This is dangerous. Type yes and press Enter to allow it once · Esc back".to_owned()),
            Mode::Free => {}
        }
        let behind = match self.desk.waiting() {
            0 | 1 => String::new(),
            more => format!(" · {} more wait", more - 1),
        };
        match self.desk.front() {
            Some(_) if self.answers_to.is_some() => Some("Enter sends the answer".to_owned()),
            Some(_) if !self.line.is_empty() => Some("the card above waits; its keys work once this line is sent or empty".to_owned()),
            Some(card) if self.armed() => Some(format!("{}{behind}", card.keys())),
            Some(_) => None,
            None if self.desk.aside() > 0 => Some(format!("{} set aside · /cards brings it back", self.desk.aside())),
            None => None,
        }
    }

    const fn prompt(&self) -> &'static str {
        match (self.mode, self.answers_to) {
            (Mode::Reason(_), _) => "why not> ",
            (Mode::Danger(_), _) => "allow> ",
            (Mode::Free, Some(_)) => "answer> ",
            _ => "> ",
        }
    }
}

fn is_about(entity: &EntityView, id: CardId) -> bool {
    match (entity, id) {
        (EntityView::Approval(it), CardId::Approval(id)) => it.id == id,
        (EntityView::Question(it), CardId::Question(id)) => it.id == id,
        (EntityView::Handoff(it), CardId::Offer(id)) => it.id == id,
        _ => false,
    }
}

/// The card that an intent answers.
const fn answers(intent: &Intent) -> Option<CardId> {
    match intent {
        Intent::Confirm { approval_id, .. } => Some(CardId::Approval(*approval_id)),
        Intent::Answer { question_id, .. } => Some(CardId::Question(*question_id)),
        Intent::AcceptHandoff { handoff_id } | Intent::DeclineHandoff { handoff_id } => Some(CardId::Offer(*handoff_id)),
        _ => None,
    }
}

/// An intent in the words in which the user gave it.
fn said(intent: &Intent) -> String {
    match intent {
        Intent::Say { text, .. } => text.clone(),
        Intent::Confirm { decision, .. } => format!("{decision:?}").to_lowercase(),
        Intent::Answer { text, option, .. } => text.clone().or_else(|| option.clone()).unwrap_or_default(),
        other => other.name().to_owned(),
    }
}
