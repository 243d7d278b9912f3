//! An end with a user in front of it: it follows sessions by cursor, keeps a map of entities, sends operations until each has its
//! outcome, and answers what it is asked.

use super::net::{Line, Word};
use super::plan::{Action, Deed, Who};
use super::scripts::request;
use super::shared::{EndState, Shared};
use baton_proto::{
    ApprovalState, Capabilities, ClientFrame, ClientType, Decision, EntityView, ErrorCode, HandoffState, HubFrame, Intent, Operation,
    OperationId, PROTOCOL_VERSION, Phase, QuestionKind, QuestionState, Reply, ReplyStatus, SessionId, TurnState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// Without an outcome for this long, an operation is sent again.
const PATIENCE: Duration = Duration::from_secs(4);
/// How often a piece of work is asked for anew when it was refused.
const MAX_TRIES: u32 = 60;

struct End {
    shared: Arc<Shared>,
    who: Who,
    line: Line,
    up: bool,
    /// Everybody's, as actions name them.
    sessions: Vec<SessionId>,
    own: Vec<SessionId>,
    kept: Kept,
    again: BTreeMap<SessionId, Instant>,
}

/// What outlives an end's process: its outbox, what it has of the sessions, and what its user remembers.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) replicas: BTreeMap<SessionId, Replica>,
    outbox: Vec<Asked>,
    actions: Vec<(Action, u32)>,
    /// What was answered, offered or resumed, so that it isn't asked over and over.
    answered: BTreeSet<Uuid>,
}

#[derive(Debug, Default)]
pub(crate) struct Replica {
    cursor: Option<u64>,
    entities: BTreeMap<(&'static str, String), EntityView>,
}

#[derive(Debug)]
struct Asked {
    operation: Operation,
    due: Instant,
    action: Option<(Action, u32)>,
}

/// Lives until it is killed; the next one goes on with what is kept.
pub(crate) async fn live(shared: Arc<Shared>, who: Who, kept: Kept) {
    let line = Line::new(&shared, who);
    let sessions = shared.sessions.get().cloned().unwrap_or_default();
    let own = shared.sessions_of(who);
    let mut end = End { shared, who, line, up: false, sessions, own, kept, again: BTreeMap::new() };
    end.serve().await;
}

impl Kept {
    /// Before an end has ever run: its user has plans.
    pub(crate) fn new(shared: &Shared, who: Who) -> Self {
        let actions = shared.plan.actions.iter().filter(|action| action.who == who).map(|action| (*action, 0)).collect();
        Self { actions, ..Self::default() }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.keep(self.who, std::mem::take(&mut self.kept));
    }
}

impl End {
    async fn serve(&mut self) {
        let stream = format!("user {}", self.who.name());
        let mut look = Instant::now();
        loop {
            tokio::select! {
                biased;
                word = self.line.words.recv() => match word {
                    None => return,
                    Some(Word::Up(connection)) => {
                        self.line.use_connection(connection);
                        self.up = true;
                        // What an earlier connection refused is asked for by the greeting.
                        self.again.clear();
                        self.greet();
                    }
                    Some(Word::Frame(frame)) => self.take(*frame),
                    Some(Word::Down) => self.up = false,
                },
                () = sleep_until(look) => {
                    look = Instant::now() + self.shared.draw(&stream, |draw| draw.wait(200, 1_500));
                    self.retry();
                    self.use_it(&stream);
                }
            }
            self.tell_how_far();
        }
    }

    fn tell_how_far(&self) {
        let cursors = self.kept.replicas.iter().filter_map(|(id, replica)| Some((*id, replica.cursor?))).collect();
        let state = EndState { busy: !self.kept.outbox.is_empty() || !self.kept.actions.is_empty() || !self.up, cursors };
        self.shared.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(self.who, state);
    }

    fn greet(&mut self) {
        let cursors: BTreeMap<_, _> = self.kept.replicas.iter().filter_map(|(id, replica)| Some((*id, replica.cursor?))).collect();
        let client_type = match self.who {
            Who::Phone | Who::Neighbour => ClientType::Phone,
            Who::Tablet => ClientType::Tablet,
            Who::Cli | Who::Laptop => ClientType::Cli,
        };
        let fresh: Vec<_> = self.own.iter().copied().filter(|id| !cursors.contains_key(id)).collect();
        self.line.send(ClientFrame::Hello {
            protocol: PROTOCOL_VERSION,
            client_type,
            capabilities: Capabilities::default(),
            tools: Vec::new(),
            workspaces: Vec::new(),
            cursors,
            running: Vec::new(),
            journal: None,
        });
        for session_id in fresh {
            self.line.send(ClientFrame::Subscribe { session_id, after: None });
        }
        for asked in &mut self.kept.outbox {
            asked.due = Instant::now() + PATIENCE;
            send(&self.line, &asked.operation);
        }
    }

    fn take(&mut self, frame: HubFrame) {
        match frame {
            HubFrame::View(view) => {
                let entities = view.entities.into_iter().map(|entity| ((entity.kind(), entity.id()), entity)).collect();
                self.kept.replicas.insert(view.session_id, Replica { cursor: Some(view.seq), entities });
            }
            HubFrame::Change(change) => {
                let replica = self.kept.replicas.entry(change.session_id).or_default();
                if replica.cursor.map(|cursor| cursor + 1) != Some(change.seq) {
                    let what = format!("{} gets change {} after {:?}", self.who.name(), change.seq, replica.cursor);
                    self.shared.violation(&what);
                }
                replica.cursor = Some(change.seq);
                self.again.remove(&change.session_id);
                for entity in change.upserts {
                    replica.entities.insert((entity.kind(), entity.id()), entity);
                }
            }
            HubFrame::Reset { session_id, reason } => {
                self.shared.violation(&format!("{} is reset although it has missed nothing: {reason}", self.who.name()));
                self.kept.replicas.remove(&session_id);
            }
            HubFrame::Ack(reply) => self.acked(reply),
            HubFrame::Error { session_id: Some(session), .. } if self.own.contains(&session) => {
                self.again.insert(session, Instant::now() + Duration::from_secs(1));
            }
            _ => {}
        }
    }

    fn acked(&mut self, reply: Reply) {
        let Some(place) = self.kept.outbox.iter().position(|asked| asked.operation.operation_id == reply.operation_id) else { return };
        let code = reply.error.as_ref().map(|error| error.code);
        let says = matches!(self.kept.outbox[place].operation.intent, Intent::Say { .. });
        match (reply.status, code) {
            (ReplyStatus::Accepted, _) | (ReplyStatus::Duplicate, None) => {
                self.shared.acked(self.who, &reply, says);
                let asked = self.kept.outbox.remove(place);
                if let Some((Action { session, deed: Deed::Work { .. }, .. }, _)) = asked.action {
                    self.shared.worked(session, Some(reply.version));
                }
            }
            (_, Some(ErrorCode::NeedsConfirmation)) => {
                let asked = &mut self.kept.outbox[place];
                asked.operation.confirmed = true;
                asked.due = Instant::now() + PATIENCE;
                send(&self.line, &asked.operation);
            }
            (_, Some(code)) if !code.is_final() => self.kept.outbox[place].due = Instant::now() + Duration::from_millis(700),
            _ => {
                let asked = self.kept.outbox.remove(place);
                if let Some((action @ Action { session, deed: Deed::Work { .. }, .. }, tries)) = asked.action {
                    self.shared.worked(session, None);
                    if tries < MAX_TRIES {
                        self.kept.actions.push((action, tries + 1));
                    }
                }
            }
        }
    }

    /// What has no outcome is sent again under the same id.
    fn retry(&mut self) {
        let now = Instant::now();
        for asked in self.kept.outbox.iter_mut().filter(|asked| asked.due <= now) {
            asked.due = now + PATIENCE;
            // What was asked under an older epoch stays what it was; the hub says whether it still holds.
            send(&self.line, &asked.operation);
        }
        let due: Vec<_> = self.again.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for session_id in due {
            self.again.remove(&session_id);
            let after = self.kept.replicas.get(&session_id).and_then(|replica| replica.cursor);
            self.line.send(ClientFrame::Subscribe { session_id, after });
        }
    }

    fn ask(&mut self, stream: &str, session: SessionId, intent: Intent, action: Option<(Action, u32)>) {
        let id: OperationId = self.shared.draw(stream, super::seeded::Seeded::id);
        let mut operation = Operation::new(id, Some(session), intent);
        operation.epoch = self.session(session).map(|(epoch, _)| epoch);
        send(&self.line, &operation);
        if self.shared.draw(stream, |draw| draw.chance(5)) {
            // A nervous finger.
            send(&self.line, &operation);
        }
        self.kept.outbox.push(Asked { operation, due: Instant::now() + PATIENCE, action });
    }

    fn session(&self, id: SessionId) -> Option<(u64, bool)> {
        let replica = self.kept.replicas.get(&id)?;
        let at_rest = !replica.entities.values().any(|entity| match entity {
            EntityView::Turn(turn) => matches!(turn.state, TurnState::Running | TurnState::Waiting | TurnState::Stopping),
            EntityView::Task(task) => task.phase == Phase::Paused,
            _ => false,
        });
        replica.entities.values().find_map(|entity| match entity {
            EntityView::Session(session) => Some((session.epoch, at_rest)),
            _ => None,
        })
    }

    /// The user looks at the screen, and does what is to be done.
    fn use_it(&mut self, stream: &str) {
        if !self.up {
            return;
        }
        for session in self.own.clone() {
            self.answer(stream, session);
        }
        let now = self.shared.since_begin();
        let mut later = Vec::new();
        for (action, tries) in std::mem::take(&mut self.kept.actions) {
            if action.deed == Deed::Pry {
                if action.at_ms > now {
                    later.push((action, tries));
                } else {
                    self.pry(stream);
                }
                continue;
            }
            let session = self.sessions[action.session];
            let Some((_, at_rest)) = self.session(session) else {
                later.push((action, tries));
                continue;
            };
            let seen = self.kept.replicas.get(&session).and_then(|replica| replica.cursor).unwrap_or(0);
            let is_work = matches!(action.deed, Deed::Work { .. });
            if action.at_ms > now || (is_work && !self.shared.may_work(action.session, seen, at_rest)) {
                later.push((action, tries));
                continue;
            }
            let intent = self.intent(&action);
            self.ask(stream, session, intent, Some((action, tries)));
        }
        later.append(&mut self.kept.actions);
        self.kept.actions = later;
    }

    fn intent(&self, action: &Action) -> Intent {
        let say = |text: String| Intent::Say { text, selection: None, attachments: Vec::new(), delivery: baton_proto::Delivery::Steer };
        match action.deed {
            Deed::Work { kind, number } => say(request(kind, &tag(action.session, number))),
            Deed::Steer => say("Please be quick about it. 快一点。".to_owned()),
            Deed::Command => say("/show same".to_owned()),
            Deed::Cancel | Deed::Pry => Intent::Cancel { task_id: None },
            Deed::Pause => Intent::Pause { task_id: None },
            Deed::TakeOver => Intent::TakeOver { force: true },
            Deed::Handoff(to) => Intent::Handoff { to_device: self.shared.identity(to).device_id },
            Deed::Note => Intent::SetNote { key: "seat".to_owned(), value: "window".to_owned() },
        }
    }

    /// Knows the id of somebody else's session, and asks to see it, to speak in it and to stop it.
    fn pry(&mut self, stream: &str) {
        let others = self.sessions[0];
        for after in [None, Some(0)] {
            self.line.send(ClientFrame::Subscribe { session_id: others, after });
        }
        let text = "What is going on here?".to_owned();
        let say = Intent::Say { text, selection: None, attachments: Vec::new(), delivery: baton_proto::Delivery::Steer };
        for intent in [say, Intent::Cancel { task_id: None }, Intent::TakeOver { force: true }] {
            self.ask(stream, others, intent, None);
        }
    }

    fn answer(&mut self, stream: &str, session: SessionId) {
        let Some(replica) = self.kept.replicas.get(&session) else { return };
        let own = self.shared.identity(self.who).device_id;
        let (mut intents, mut paused, mut open) = (Vec::new(), None, false);
        for entity in replica.entities.values() {
            match entity {
                EntityView::Approval(it) if it.state == ApprovalState::Open && !self.kept.answered.contains(&it.id.0) => {
                    let refuses = self.shared.plan.meddling && !self.shared.is_calm();
                    let reject = refuses && self.shared.draw(stream, |draw| draw.chance(20));
                    let decision = if reject { Decision::Reject } else { Decision::Approve };
                    intents.push((it.id.0, Intent::confirm(it.id, decision)));
                }
                EntityView::Question(it) if it.state == QuestionState::Open && !self.kept.answered.contains(&it.id.0) => {
                    // The user knows the world outside, and says what is so.
                    let option = match it.question_kind {
                        QuestionKind::Outcome if self.shared.outside().found(it.call_id) => "happened".to_owned(),
                        QuestionKind::Outcome => "do_it".to_owned(),
                        QuestionKind::Agent => it.options.first().cloned().unwrap_or_default(),
                    };
                    intents.push((it.id.0, Intent::Answer { question_id: it.id, text: None, option: Some(option) }));
                }
                EntityView::Handoff(it) if it.state == HandoffState::Offered && it.to == own && !self.kept.answered.contains(&it.id.0) => {
                    let intent = match self.shared.draw(stream, |draw| draw.between(0, 3)) {
                        0 => Intent::DeclineHandoff { handoff_id: it.id },
                        1 => continue,
                        _ => Intent::AcceptHandoff { handoff_id: it.id },
                    };
                    intents.push((it.id.0, intent));
                }
                EntityView::Task(it) if it.phase == Phase::Paused => paused = Some(it.id),
                EntityView::Turn(it) => open |= matches!(it.state, TurnState::Running | TurnState::Waiting | TurnState::Stopping),
                _ => {}
            }
        }
        let resumes = matches!(self.who, Who::Phone | Who::Neighbour)
            && !open
            && (self.shared.is_calm() || self.shared.draw(stream, |draw| draw.chance(10)));
        let asked = self.kept.outbox.iter().any(|asked| matches!(asked.operation.intent, Intent::Resume { .. }));
        if let Some(task_id) = paused.filter(|_| resumes && !asked) {
            self.ask(stream, session, Intent::Resume { task_id: Some(task_id) }, None);
        }
        for (id, intent) in intents {
            self.kept.answered.insert(id);
            self.ask(stream, session, intent, None);
        }
        // A user whose answer was refused for want of trust leaves it to another end.
    }
}

pub(crate) fn tag(session: usize, number: u64) -> String {
    format!("s{session}n{number}")
}

fn send(line: &Line, operation: &Operation) {
    if let Ok(operation) = serde_json::to_value(operation) {
        line.send(ClientFrame::Op { operation });
    }
}
