//! Following a session in a terminal: each change as a line, until the agent rests or waits for the user.

use crate::failure::{AWAITING_INPUT, FAILED, Failure, INTERRUPTED, plainly};
use crate::output::{self, Output};
use crate::profile::Profile;
use crate::{interrupt, words};
use baton_client::{Connection, ConnectionConfig, Hello, Incoming, Timing};
use baton_proto::{
    ApprovalState, CallOrigin, CallState, Change, ClientType, DeltaPart, EntityView, HubFrame, MessageId, QuestionState, Role,
    SessionEvent, SessionId, StepStatus, TurnId, TurnState,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When following ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The agent rests after that turn, or waits for the user. One that was open before may end meanwhile.
    Rest(Option<TurnId>),
    /// The same, after the turn that begins with what was said behind the one under way.
    RestBehind,
    /// Never.
    Interrupted,
}

/// Follows a session after a sequence number; returns the exit code that says how it stands.
pub(crate) async fn follow(
    profile: &Profile,
    session: SessionId,
    after: u64,
    until: Until,
    raw: bool,
    out: &Output,
) -> Result<u8, Failure> {
    let url = profile.hub_url()?;
    let config = ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: profile.token()?,
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::from([(session, after)]),
        timing: Timing::default(),
    };
    let (handle, mut incoming) = Connection::spawn(config);
    let mut shown = Shown::default();
    let mut lost = 0;
    let mut refused = false;
    let mut asked_to_stop = std::pin::pin!(interrupt::asked_to_stop());
    let code = loop {
        let word = tokio::select! {
            word = incoming.recv() => word,
            _ = &mut asked_to_stop, if until != Until::Interrupted => {
                handle.stop().await;
                eprintln!("\nbaton: The agent goes on without this terminal.\n       Back to it: baton chat --session {session}   |   Stop it: baton stop {session}");
                return Ok(INTERRUPTED);
            }
        };
        let Some(word) = word else { break FAILED };
        match word {
            Incoming::Frame(frame) => match *frame {
                HubFrame::Change(change) if change.session_id == session => {
                    if raw {
                        print_raw(&change)?;
                    } else {
                        print(&mut shown, &change, out);
                    }
                    refused |= change.upserts.iter().any(is_refused_request);
                    if let Some(code) = rests(&change, until) {
                        break if refused && code == 0 { FAILED } else { code };
                    }
                }
                HubFrame::Delta { session_id, message_id, part: DeltaPart::Text, offset, text, .. }
                    if !raw && !out.is_json() && session_id == session && shown.delta(message_id, DeltaPart::Text, offset, &text) =>
                {
                    print_piece(&text);
                }
                HubFrame::Error { error, .. } => return Err(error.into()),
                HubFrame::Reset { reason, .. } => {
                    out.say(&json!({"event": "reset", "reason": reason}), &format!("(started again from the present state: {reason})"));
                }
                _ => {}
            },
            Incoming::UnknownChange(change) => {
                out.say(
                    &json!({"event": "unknown_change", "seq": change.seq}),
                    &format!("[{}] something this version doesn't know", change.seq),
                );
            }
            Incoming::Connected(_) => lost = 0,
            Incoming::Disconnected { reason } => {
                lost += 1;
                let reason = plainly(&reason);
                if lost == 1 {
                    eprintln!("baton: the link to the hub is gone ({reason}); trying again");
                }
                // A hub that restarts is back within seconds; one that isn't there needs the user.
                if lost > 12 {
                    return Err(Failure::unreachable(
                        format!("The hub can't be reached: {reason}."),
                        "Start it again; the task is safe there, and `baton show` tells how it stands.",
                    ));
                }
            }
            Incoming::Refused(error) => return Err(error.into()),
        }
    };
    handle.stop().await;
    Ok(code)
}

fn print_raw(change: &Change) -> Result<(), Failure> {
    let text = serde_json::to_string(change).map_err(|error| Failure::failed(error.to_string(), "Report this."))?;
    output::json_line(&text);
    Ok(())
}

/// How the session stands after a change, if it stands still.
fn rests(change: &Change, until: Until) -> Option<u8> {
    let queued = || change.upserts.iter().any(|entity| matches!(entity, EntityView::Session(session) if !session.queued.is_empty()));
    let awaited = |ended: TurnId| match until {
        Until::Rest(turn) => turn.is_none_or(|turn| turn == ended),
        Until::RestBehind => !queued(),
        Until::Interrupted => false,
    };
    match &change.event.body {
        _ if until == Until::Interrupted => None,
        SessionEvent::TurnFinished { turn_id, .. } if awaited(*turn_id) => Some(0),
        SessionEvent::TurnInterrupted { turn_id, .. } if awaited(*turn_id) => Some(FAILED),
        // What is queued stays where it is after a failure.
        SessionEvent::TurnFailed { turn_id, .. } if awaited(*turn_id) || until == Until::RestBehind => Some(FAILED),
        SessionEvent::ApprovalRequested { .. } | SessionEvent::QuestionAsked { .. } => Some(AWAITING_INPUT),
        _ => None,
    }
}

/// A slash command that failed: its turn ends in good order all the same, and scripts have to be told.
fn is_refused_request(entity: &EntityView) -> bool {
    matches!(entity, EntityView::Call(call) if call.origin == CallOrigin::User && call.state == CallState::Failed)
}

/// What a terminal has been shown already.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The answer under way, as far as changes tell.
    answering: Option<Answering>,
    /// Whether the last line is still open.
    streaming: bool,
    /// What the hub said last, which is the reason of a turn's end as well.
    said_by_hub: Option<String>,
    /// What came while an answer is being shown, where that may wait for its end.
    waiting: Option<Vec<Line>>,
}

/// How many bytes of an answer were shown as they came. `None`: that part is shown whole at its end.
#[derive(Debug)]
struct Answering {
    message: MessageId,
    text: Option<u64>,
    thinking: Option<u64>,
}

impl Answering {
    const fn new(message: MessageId) -> Self {
        Self { message, text: Some(0), thinking: Some(0) }
    }
}

/// What a change adds to what is shown.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// How the line that is still open ends, if there is one.
    pub(crate) end: Option<&'static str>,
    /// Thinking that wasn't shown as it came.
    pub(crate) thinking: Option<String>,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Whether a person said it.
    pub(crate) spoken: bool,
    pub(crate) text: String,
}

impl Shown {
    /// Beside cards, which show what waits for the user. Answers are never broken off by what comes meanwhile, such as a message: that
    /// follows them.
    pub(crate) fn beside_cards() -> Self {
        Self { waiting: Some(Vec::new()), ..Self::default() }
    }

    /// Before the next piece of an answer that was under way when the terminal came: the hub sends it from its beginning.
    pub(crate) fn under_way(&mut self, message: MessageId) {
        self.answering = Some(Answering::new(message));
    }

    /// Whether a piece of an answer goes on with what is shown. Pieces can overtake the changes before them, and some may have come before
    /// this terminal was there: then the answer is shown whole at its end, so that nothing stands in the wrong place or twice.
    pub(crate) fn delta(&mut self, message: MessageId, part: DeltaPart, offset: u64, text: &str) -> bool {
        let Some(answering) = self.answering.as_mut().filter(|answering| answering.message == message) else { return false };
        let shown = match part {
            DeltaPart::Text => &mut answering.text,
            DeltaPart::Thinking => &mut answering.thinking,
        };
        let Some(bytes) = shown.as_mut().filter(|bytes| **bytes == offset) else { return false };
        *bytes += text.len() as u64;
        self.streaming = true;
        true
    }

    /// Takes a change in.
    pub(crate) fn change(&mut self, change: &Change) -> Added {
        let mut added = Added::default();
        let mut streamed = false;
        if let Some(waiting) = self.waiting.as_mut().filter(|_| self.streaming && !ends_answer(&change.event.body)) {
            waiting.extend(lines(change, false, false));
            return added;
        }
        // What shows nothing breaks nothing off, such as a look at the workspace.
        if self.streaming && !ends_answer(&change.event.body) && lines(change, false, true).is_empty() {
            return added;
        }
        if let (SessionEvent::ModelFinished { message_id, text, .. }, Some(answering)) = (&change.event.body, &self.answering)
            && answering.message == *message_id
        {
            streamed = answering.text == Some(text.len() as u64);
            added.thinking = finished_thinking(change, *message_id).filter(|thinking| answering.thinking != Some(thinking.len() as u64));
        }
        if std::mem::take(&mut self.streaming) {
            added.end = Some(if streamed { "" } else { " …" });
            // What comes after a change stands in another place.
            if let Some(answering) = &mut self.answering {
                answering.text = None;
                answering.thinking = None;
            }
        }
        if let SessionEvent::ModelStarted { message_id, .. } = &change.event.body {
            self.answering = Some(Answering::new(*message_id));
        }
        if let SessionEvent::MessageAdded { role: Role::Hub, text, .. } = &change.event.body {
            self.said_by_hub = Some(text.clone());
        }
        if let SessionEvent::TurnInterrupted { reason, .. } | SessionEvent::TurnFailed { reason, .. } = &change.event.body
            && self.said_by_hub.as_ref() == Some(reason)
        {
            added.lines = self.waited();
            return added;
        }
        added.lines = lines(change, streamed, self.waiting.is_none());
        added.lines.extend(self.waited());
        added
    }

    fn waited(&mut self) -> Vec<Line> {
        self.waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Whether nothing more comes of an answer that is being shown.
const fn ends_answer(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::ModelStarted { .. }
            | SessionEvent::ModelFinished { .. }
            | SessionEvent::ModelFailed { .. }
            | SessionEvent::TurnFinished { .. }
            | SessionEvent::TurnInterrupted { .. }
            | SessionEvent::TurnFailed { .. }
    )
}

fn finished_thinking(change: &Change, id: MessageId) -> Option<String> {
    change.upserts.iter().find_map(|entity| match entity {
        EntityView::Message(message) if message.id == id => message.thinking.clone().filter(|thinking| !thinking.trim().is_empty()),
        _ => None,
    })
}

fn print(shown: &mut Shown, change: &Change, out: &Output) {
    if out.is_json() {
        for entity in &change.upserts {
            out.say(
                &json!({"event": "upsert", "seq": change.seq, "type": baton_proto::EventBody::name(&change.event.body), "entity": entity}),
                "",
            );
        }
        return;
    }
    let added = shown.change(change);
    if let Some(end) = added.end {
        output::line(end);
    }
    for line in added.lines {
        out.say(&json!(null), &line.text);
    }
}

fn print_piece(text: &str) {
    output::bytes(baton_proto::make_visible(text).as_bytes());
}

/// What a change has to say, with what waits for the user or without it.
fn lines(change: &Change, mut streamed: bool, with_cards: bool) -> Vec<Line> {
    let is_shown = |entity: &&EntityView| with_cards || !matches!(entity, EntityView::Approval(_) | EntityView::Question(_));
    let entities = change.upserts.iter().filter(is_shown);
    entities
        .filter_map(|entity| {
            let spoken = matches!(entity, EntityView::Message(message) if message.role == Role::User);
            line(entity, &change.event.body, std::mem::take(&mut streamed)).map(|text| Line { spoken, text })
        })
        .collect()
}

/// An entity as a line, where it says something new.
fn line(entity: &EntityView, event: &SessionEvent, streamed: bool) -> Option<String> {
    Some(match (entity, event) {
        (EntityView::Message(message), SessionEvent::ModelFinished { .. }) if streamed || message.text.trim().is_empty() => return None,
        (EntityView::Message(message), _) => match message.role {
            Role::User => format!("you ({}): {}", message.sender.as_ref().map_or("?", |sender| sender.name.as_str()), message.text),
            Role::Agent => message.text.clone(),
            Role::Hub => format!("[hub] {}", message.text),
        },
        (EntityView::Call(call), _) => call_line(call)?,
        (EntityView::Task(task), SessionEvent::StepStarted { step_id, .. } | SessionEvent::StepFinished { step_id, .. }) => {
            let step = task.steps.iter().find(|step| step.step_id == *step_id)?;
            let mark = if step.status == StepStatus::Done { "✓" } else { "→" };
            format!("{mark} {} ({} %)", step.title, task.progress)
        }
        (EntityView::Approval(approval), _) if approval.state == ApprovalState::Open => crate::commands::show::approval(approval),
        (EntityView::Question(question), _) if question.state == QuestionState::Open => crate::commands::show::question(question),
        (EntityView::Turn(_), SessionEvent::ModelFailed { error, retry_at: Some(at), .. }) => {
            format!("[{}. It is tried again {}.]", error.message.trim_end_matches('.'), words::until(*at))
        }
        (EntityView::Turn(turn), SessionEvent::TurnInterrupted { .. } | SessionEvent::TurnFailed { .. })
            if turn.state != TurnState::Finished =>
        {
            format!("[{}]", turn.reason.clone().unwrap_or_default())
        }
        _ => return None,
    })
}

pub(crate) fn call_line(call: &baton_proto::CallEntity) -> Option<String> {
    let what = words::call_title(&call.tool, &call.arguments);
    let printed = || call.result.as_ref().map_or("", |result| result.content.trim_end());
    Some(match call.state {
        CallState::Started => format!("· {what}"),
        // What was asked for word by word is shown whole.
        CallState::Succeeded if call.origin == CallOrigin::User => {
            format!("✓ {}\n{}", call.tool, call.result.as_ref().map_or("", |result| result.content.as_str())).trim_end().to_owned()
        }
        CallState::Succeeded => {
            let first =
                call.result.as_ref().and_then(|result| result.content.lines().find(|line| !line.trim().is_empty())).unwrap_or_default();
            format!("✓ {what}{}", if first.is_empty() { String::new() } else { format!(" → {}", words::cut(first, 100)) })
        }
        CallState::Failed => {
            let error = call.error.as_ref().map_or_else(String::new, |error| format!(": {} {}", error.message, error.hint));
            let printed = if call.origin == CallOrigin::User { printed().to_owned() } else { tail(printed()) };
            let printed = if printed.is_empty() { printed } else { format!("\n{printed}") };
            format!("✗ {what}{}{printed}", error.trim_end())
        }
        CallState::Cancelled => format!("■ {what}: {}", call.reason.clone().unwrap_or_default()),
        CallState::Unknown => format!("? {what}: {}", call.reason.clone().unwrap_or_default()),
        _ => return None,
    })
}

/// Rows that are shown of what a failing call of the agent's printed. The last ones mostly say why.
const TAIL_ROWS: usize = 12;

/// The end of a text, and how much of it is left out.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let left_out = lines.len().saturating_sub(TAIL_ROWS);
    let shown = lines[left_out..].iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n");
    match left_out {
        0 => shown,
        count => format!("    [{} before this]\n{shown}", words::counted(count, "line", "lines")),
    }
}
