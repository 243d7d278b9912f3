//! What has to hold after each step, judged by the durable log and the world outside, and by nothing that the hub says of itself.

use super::outside::Did;
use baton_core::{CallStage, Session, pending};
use baton_proto::{
    ApprovalId, CallId, CallOrigin, Decision, Digest, EntityView, ErrorCode, Event, HubFrame, MessageId, OperationId, Reply, ReplyStatus,
    Risk, SessionEvent, SessionId, UserId,
};
use baton_store::{Head, OperationRow, StateCache, StoredEvent, StreamId};
use std::collections::BTreeMap;

/// What is known of one session, event by event.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) state: Session,
    events: Vec<StoredEvent>,
    /// The same, read: comparing these is cheap.
    changes: Vec<Option<(Event, Vec<EntityView>)>>,
    calls: BTreeMap<CallId, Call>,
    approvals: BTreeMap<ApprovalId, (CallId, Option<Decision>)>,
    operations: BTreeMap<OperationId, Done>,
    versions: BTreeMap<(&'static str, String), u64>,
}

#[derive(Debug)]
struct Call {
    digest: Digest,
    /// `None`: it needs no approval. Otherwise whether it was given.
    approved: Option<bool>,
    attempt: u32,
    endings: u32,
    /// What the user was told at the end.
    succeeded: bool,
    acts: bool,
}

#[derive(Debug)]
struct Done {
    last: u64,
    messages: Vec<MessageId>,
}

/// Every session's log, and what was found wrong.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) logs: BTreeMap<SessionId, Log>,
    /// First outcomes that were acknowledged to ends.
    acked: BTreeMap<OperationId, (UserId, Reply, bool)>,
    pub(crate) violations: Vec<String>,
    pub(crate) steps: u64,
    pub(crate) doubled: u64,
    pub(crate) lost: u64,
}

impl Checker {
    pub(crate) fn wrong(&mut self, what: String) {
        if self.violations.len() < 20 {
            self.violations.push(what);
        }
    }

    /// Events became durable.
    pub(crate) fn committed(&mut self, user: UserId, stream: StreamId, head: &Head, events: Vec<StoredEvent>) {
        let id = SessionId(stream.id);
        let log = self.logs.entry(id).or_insert_with(|| Log::new(user, id));
        let mut wrong = Vec::new();
        for stored in events {
            self.steps += 1;
            log.take(stored, &mut wrong);
        }
        log.whole(head, &mut wrong);
        for what in wrong {
            self.wrong(format!("{id}: {what}"));
        }
    }

    pub(crate) fn known(&self, stream: StreamId) -> u64 {
        self.logs.get(&SessionId(stream.id)).map_or(0, |log| log.events.len() as u64)
    }

    /// After a crash: all that was ever seen as durable is still there, byte for byte.
    pub(crate) fn reopened(&mut self, stream: StreamId, events: &[StoredEvent]) {
        let Some(log) = self.logs.get(&SessionId(stream.id)) else { return };
        if log.events.len() > events.len() || log.events.iter().zip(events).any(|(seen, there)| seen != there) {
            self.lost += 1;
            self.wrong(format!("{stream}: what was durable is gone after a crash ({} of {} events)", events.len(), log.events.len()));
        }
    }

    /// A cached state is the fold of the log up to its number.
    pub(crate) fn cached(&mut self, stream: StreamId, cache: &StateCache) {
        let Some(log) = self.logs.get(&SessionId(stream.id)) else { return };
        if cache.seq != log.state.seq {
            return;
        }
        if serde_json::from_slice::<Session>(&cache.bytes).ok().as_ref() != Some(&log.state) {
            self.wrong(format!("{stream}: the cached state at {} isn't the fold of the log", cache.seq));
        }
    }

    /// A frame leaves the hub: whatever it says has to be durable by now.
    pub(crate) fn sent(&mut self, to: UserId, frame: &HubFrame, incarnation: u64, row: Option<OperationRow>) {
        self.steps += 1;
        self.kept_apart(to, frame);
        match frame {
            HubFrame::Ack(reply) if reply.status == ReplyStatus::Accepted => {
                let kept = row.and_then(|row| serde_json::from_slice::<Reply>(&row.reply).ok());
                if kept.as_ref() != Some(reply) {
                    self.wrong(format!("operation {} is acknowledged before it is durable", reply.operation_id));
                }
            }
            HubFrame::ToolCall(call) => {
                if call.fence != incarnation {
                    self.wrong(format!("call {} is sent under another hub's fence", call.call_id));
                }
                let planned = self.logs.get(&call.session_id).and_then(|log| log.calls.get(&call.call_id));
                if planned.is_none_or(|planned| planned.attempt < call.attempt) {
                    self.wrong(format!("call {} attempt {} is sent before its intention is durable", call.call_id, call.attempt));
                }
            }
            HubFrame::ToolResultAck { session_id, call_id, attempt } => {
                let call = self.logs.get(session_id).and_then(|log| log.state.calls.get(call_id));
                let still = call.is_some_and(
                    |call| matches!(call.stage, CallStage::Planned { attempt: at } | CallStage::Started { attempt: at } if at == *attempt),
                );
                if still {
                    self.wrong(format!("the result of {call_id} is acknowledged before it is durable"));
                }
            }
            HubFrame::Change(change) => {
                let place = usize::try_from(change.seq).unwrap_or(0).wrapping_sub(1);
                let stored = self.logs.get(&change.session_id).and_then(|log| log.changes.get(place)).and_then(Option::as_ref);
                if stored.is_none_or(|(event, upserts)| *event != change.event || *upserts != change.upserts) {
                    self.wrong(format!("change {} is shown and isn't what the log has", change.seq));
                }
            }
            _ => {}
        }
    }

    /// Nothing of a session goes to anybody but its user (O3). Whoever names another's session is told that there is none.
    fn kept_apart(&mut self, to: UserId, frame: &HubFrame) {
        let others: Vec<_> = self.logs.iter().filter(|(_, log)| log.state.user != to).map(|(id, _)| id.to_string()).collect();
        if others.is_empty() {
            return;
        }
        let told = match frame {
            HubFrame::Ack(reply) => reply.error.as_ref().map(|error| error.code),
            HubFrame::Error { error, .. } => Some(error.code),
            _ => None,
        };
        let refused = told.is_some_and(|code| code == ErrorCode::NotFound || !code.is_final());
        let text = serde_json::to_string(frame).unwrap_or_default();
        if !refused && others.iter().any(|id| text.contains(id)) {
            self.wrong(format!("another user's session is shown: {}", text.chars().take(200).collect::<String>()));
        }
    }

    /// An end got the outcome of an operation.
    pub(crate) fn acked(&mut self, user: UserId, reply: &Reply, says: bool) {
        let first = Reply { status: ReplyStatus::Accepted, ..reply.clone() };
        match self.acked.get(&reply.operation_id) {
            None => {
                self.acked.insert(reply.operation_id, (user, first, says));
            }
            Some((_, before, _)) if *before == first => {}
            Some(_) => self.wrong(format!("operation {} has two outcomes", reply.operation_id)),
        }
    }

    /// An effect is about to happen.
    pub(crate) fn acts(&mut self, did: &Did) {
        let call = self.logs.get(&did.session).and_then(|log| log.calls.get(&did.call_id));
        let Some(call) = call.filter(|call| call.attempt >= did.attempt) else {
            return self.wrong(format!("{} {} acts without a durable intention", did.tool, did.call_id));
        };
        if call.digest != Digest::of_json(&did.arguments) {
            self.wrong(format!("{} {} runs with other arguments than were proposed and approved", did.tool, did.call_id));
        } else if call.approved == Some(false) {
            self.wrong(format!("{} {} runs without approval", did.tool, did.call_id));
        }
    }

    pub(crate) fn doubled(&mut self, did: &Did) {
        self.doubled += 1;
        self.wrong(format!("{} '{}' happened twice, the second time by {} attempt {}", did.tool, did.mark(), did.call_id, did.attempt));
    }

    /// At the end: whatever was acknowledged is there, once.
    pub(crate) fn check_acked(&mut self, kept: impl Fn(UserId, OperationId) -> bool) {
        let mut wrong = Vec::new();
        for (id, (user, reply, says)) in &self.acked {
            let done = reply.session_id.and_then(|session| self.logs.get(&session)).and_then(|log| log.operations.get(id));
            if !kept(*user, *id) {
                wrong.push(format!("acknowledged operation {id} is lost"));
            } else if *says && done.map_or(0, |done| done.messages.len()) != 1 {
                wrong.push(format!("what was said by operation {id} is in the log {} times", done.map_or(0, |done| done.messages.len())));
            }
        }
        self.lost += wrong.len() as u64;
        for what in wrong {
            self.wrong(what);
        }
    }

    /// At the end: whatever is shown as done was done.
    pub(crate) fn check_claims(&mut self, found: impl Fn(CallId) -> bool) {
        let claimed = self.logs.values().flat_map(|log| &log.calls).filter(|(_, call)| call.succeeded && call.acts);
        let untrue: Vec<_> = claimed.filter(|(id, _)| !found(**id)).map(|(id, _)| *id).collect();
        for id in untrue {
            self.wrong(format!("call {id} is shown as done and never happened"));
        }
    }
}

impl Log {
    fn new(user: UserId, id: SessionId) -> Self {
        let mut state = Session::empty(id);
        state.user = user;
        Self {
            state,
            events: Vec::new(),
            changes: Vec::new(),
            calls: BTreeMap::new(),
            approvals: BTreeMap::new(),
            operations: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    fn take(&mut self, stored: StoredEvent, wrong: &mut Vec<String>) {
        let seq = stored.seq;
        if seq != self.state.seq + 1 {
            wrong.push(format!("event {seq} follows {}", self.state.seq));
        }
        let event = Event::<SessionEvent>::decode(&stored.event);
        match &event {
            Ok(event) => {
                let before = self.state.holder.clone();
                self.state.apply(event);
                if self.state.holder.epoch < before.epoch || self.state.holder.epoch > before.epoch + 1 {
                    wrong.push(format!("the epoch goes from {} to {}", before.epoch, self.state.holder.epoch));
                }
                if self.state.holder.device != before.device && self.state.holder.epoch == before.epoch {
                    wrong.push(format!("the holder changes within epoch {}", before.epoch));
                }
                self.operation(seq, event, wrong);
                if let Err(what) = self.machines(&event.body) {
                    wrong.push(format!("event {seq}: {what}"));
                }
            }
            Err(error) => wrong.push(format!("event {seq}: {error}")),
        }
        let upserts = serde_json::from_slice::<Vec<EntityView>>(&stored.upserts);
        match &upserts {
            Ok(upserts) => {
                for entity in upserts {
                    let known = self.versions.entry((entity.kind(), entity.id())).or_insert(0);
                    if entity.version() < *known || entity.version() > seq {
                        wrong.push(format!(
                            "event {seq}: {} {} has version {} after {known}",
                            entity.kind(),
                            entity.id(),
                            entity.version()
                        ));
                    }
                    *known = entity.version();
                }
            }
            Err(error) => wrong.push(format!("event {seq}: its entities can't be read: {error}")),
        }
        self.events.push(stored);
        self.changes.push(event.ok().zip(upserts.ok()));
    }

    /// An operation's events are one append: whatever comes later under its id is a second performance.
    fn operation(&mut self, seq: u64, event: &Event, wrong: &mut Vec<String>) {
        let Some(id) = event.operation_id else { return };
        let done = self.operations.entry(id).or_insert(Done { last: seq - 1, messages: Vec::new() });
        if done.last + 1 != seq {
            wrong.push(format!("event {seq}: operation {id} is done a second time"));
        }
        done.last = seq;
        if let SessionEvent::MessageAdded { message_id, sender: Some(_), .. } = &event.body {
            done.messages.push(*message_id);
        }
    }

    fn machines(&mut self, body: &SessionEvent) -> Result<(), String> {
        match body {
            SessionEvent::ToolProposed { call_id, arguments, origin, terms, .. } => {
                let call = Call {
                    digest: Digest::of_json(arguments),
                    approved: (*origin == CallOrigin::Model && terms.risk > Risk::Safe).then_some(false),
                    attempt: 0,
                    endings: 0,
                    succeeded: false,
                    acts: terms.device_id.is_some() && terms.effect != baton_proto::Effect::Read,
                };
                if self.calls.insert(*call_id, call).is_some() {
                    return Err(format!("call {call_id} is proposed twice"));
                }
            }
            SessionEvent::ToolPlanned { call_id, attempt, .. } => {
                let call = self.call(*call_id)?;
                if call.endings > 0 || *attempt != call.attempt + 1 {
                    return Err(format!("attempt {attempt} of {call_id} is planned after attempt {}", call.attempt));
                }
                if call.approved == Some(false) {
                    return Err(format!("{call_id} is planned without approval"));
                }
                call.attempt = *attempt;
            }
            SessionEvent::ToolSucceeded { call_id, .. } => {
                let call = self.call(*call_id)?;
                call.succeeded = true;
                call.endings += 1;
                return if call.endings > 1 { Err(format!("{call_id} ends twice")) } else { Ok(()) };
            }
            SessionEvent::ToolFailed { call_id, .. } | SessionEvent::ToolCancelled { call_id, .. } => {
                let call = self.call(*call_id)?;
                call.endings += 1;
                return if call.endings > 1 { Err(format!("{call_id} ends twice")) } else { Ok(()) };
            }
            SessionEvent::ApprovalRequested { approval_id, call_id, binding } => {
                if self.call(*call_id)?.digest != binding.argument_digest {
                    return Err(format!("approval {approval_id} is for other arguments than its call's"));
                }
                if self.approvals.insert(*approval_id, (*call_id, None)).is_some() {
                    return Err(format!("approval {approval_id} is asked twice"));
                }
            }
            SessionEvent::ApprovalDecided { approval_id, decision, .. } => {
                let Some((call_id, decided)) = self.approvals.get_mut(approval_id) else {
                    return Err(format!("approval {approval_id} was never asked"));
                };
                if decided.replace(*decision).is_some() {
                    return Err(format!("approval {approval_id} is used twice"));
                }
                let call_id = *call_id;
                if *decision == Decision::Approve {
                    self.call(call_id)?.approved = Some(true);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self, id: CallId) -> Result<&mut Call, String> {
        self.calls.get_mut(&id).ok_or_else(|| format!("call {id} was never proposed"))
    }

    /// After a whole append.
    fn whole(&self, head: &Head, wrong: &mut Vec<String>) {
        if head.seq != self.state.seq || head.epoch != self.state.holder.epoch || head.active != self.state.open_turn().is_some() {
            wrong.push(format!("the head row at {} doesn't say what the log does", head.seq));
        }
        if let Some(why) = stuck(&self.state) {
            wrong.push(format!("at {}: {why}", self.state.seq));
        }
    }

    pub(crate) fn at_rest(&self) -> bool {
        self.state.open_turn().is_none()
            && self.state.holder.transfer.is_none()
            && self.state.unsettled_calls().next().is_none()
            && !self.state.tasks.values().any(|task| task.phase == baton_proto::Phase::Paused)
    }
}

/// Why nothing will ever happen in this state, if so: a turn is open, and neither is anything owed to the world, nor is anybody waited for.
fn stuck(state: &Session) -> Option<String> {
    state.open_turn()?;
    let asks = state.open_approvals().next().is_some() || state.open_questions().next().is_some();
    let device = state.unsettled_calls().any(|call| matches!(call.stage, CallStage::Unknown { .. }));
    (pending(state).is_empty() && !asks && !device).then(|| "a turn is open, and nothing is owed and nobody is asked".to_owned())
}
