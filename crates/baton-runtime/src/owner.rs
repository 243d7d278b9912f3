//! The owner of one session: the only task that decides on it and writes to it. Inputs are a closed set; outcomes of what it starts come
//! back as inputs like any other.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::Shared;
use crate::live::{Live, Signal};
use crate::model_call::ModelJob;
use baton_core::{Command, Context, Decided, Effect, Ids, Rejection, STATE_FORMAT, Session, decide, needs_workspace, pending, summary};
use baton_proto::{
    ATTEMPT_LEASE_S, CallId, Change, Changed, DeviceId, Digest, DispatchedCall, EntityView, ErrorBody, ErrorCode, Event, EventBody,
    HubFrame, Operation, Reply, ReplyStatus, RunningState, SessionEvent, SessionId, SessionSummary, Timestamp, UserId,
};
use baton_store::{Append, EventRow, HeadWrite, OperationRow, StateCache, StoreError, StreamId, StreamKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Inputs that may wait for one session; whoever sends more waits.
pub(crate) const WAITING_INPUTS: usize = 256;
/// An owner with nothing to do and nobody following goes after this long.
const IDLE: Duration = Duration::from_mins(5);
/// Events between two caches of the state.
const CACHE_EVERY: u64 = 256;
/// Events that are read in one go when a state is folded.
const PAGE: u32 = 1000;
/// How often an append that lost against another writer is decided anew.
const MAX_RELOADS: u32 = 4;

/// Everything that can reach an owner.
#[derive(Debug)]
pub(crate) enum Input {
    Submit {
        operation: Box<Operation>,
        digest: Digest,
        who: Identity,
        reply: oneshot::Sender<Reply>,
    },
    /// An outcome, or word from a device. `done` is told once it is durable.
    Command {
        command: Box<Command>,
        done: Option<oneshot::Sender<()>>,
    },
    /// A device connected with what its journal knows of this session.
    Reported {
        device: DeviceId,
        running: Vec<(CallId, u32, RunningState)>,
    },
    /// Transient word from a running call.
    Progress {
        device: DeviceId,
        call_id: CallId,
        attempt: u32,
        text: String,
    },
    /// The workspace that the session's turn waited for is its own now.
    WorkspaceGranted,
    /// The state, for a reader.
    Read {
        reply: oneshot::Sender<Box<Session>>,
    },
}

/// What is under way for an owed effect.
#[derive(Debug)]
enum Running {
    Task(AbortHandle),
    /// Sent over the connection with that number; sent again when the device has another.
    Sent {
        link: u64,
    },
}

pub(crate) struct Owner {
    shared: Arc<Shared>,
    user: UserId,
    id: SessionId,
    state: Session,
    cached_at: u64,
    /// Ordered, so that a simulated world sees the same steps each time.
    running: BTreeMap<Effect, Running>,
    inputs: mpsc::Receiver<Input>,
    own: mpsc::WeakSender<Input>,
    live: Arc<Live>,
    last_summary: Option<SessionSummary>,
}

impl Owner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        user: UserId,
        id: SessionId,
        inputs: mpsc::Receiver<Input>,
        own: mpsc::WeakSender<Input>,
        live: Arc<Live>,
    ) -> Self {
        let mut state = Session::empty(id);
        state.user = user;
        Self { shared, user, id, state, cached_at: 0, running: BTreeMap::new(), inputs, own, live, last_summary: None }
    }

    /// Loads the state, takes up what was in flight, and serves until nothing is left to do or the store says stop.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.load().await {
            tracing::error!(session = %self.id, %error, "this session can't be loaded");
            self.refuse_all(&error).await;
            return;
        }
        let incarnation = self.shared.store.incarnation();
        if self.state.exists() && !self.command(&Command::Resumed { incarnation }).await {
            return;
        }
        loop {
            self.settle_workspace();
            self.reconcile();
            let due = self.due();
            let input = tokio::select! {
                // In a fixed order, so that a simulated world can be replayed; time comes first, so that no flood of inputs delays it.
                biased;
                () = due => {
                    if !self.command(&Command::Tick).await { break; }
                    continue;
                }
                input = self.inputs.recv() => input,
                () = tokio::time::sleep(IDLE) => {
                    if self.retire().await { return; }
                    continue;
                }
            };
            let Some(input) = input else {
                self.command(&Command::Released { incarnation }).await;
                break;
            };
            if !self.take(input).await {
                break;
            }
        }
        self.stop_running();
        self.cache().await;
        if let Some(workspace) = &self.state.workspace
            && let Some(next) = self.shared.workspaces.release(self.user, workspace.workspace_id, self.id)
        {
            self.shared.tell_granted(self.user, next);
        }
        self.shared.forget(self.user, self.id);
    }

    async fn take(&mut self, input: Input) -> bool {
        match input {
            Input::Submit { operation, digest, who, reply } => {
                let (answer, go_on) = self.submit(*operation, digest, who).await;
                // Whoever asked may be gone; the outcome is kept under the operation's id.
                let _ = reply.send(answer);
                go_on
            }
            // Word of a loss can arrive after the device is back; then what it reported on its return is newer.
            Input::Command { command, .. } if matches!(*command, Command::DeviceLost { device } if self.shared.directory.acting_link(device).is_some()) => {
                true
            }
            Input::Command { command, done } => {
                let go_on = self.command(&command).await;
                if let Some(done) = done.filter(|_| go_on) {
                    let _ = done.send(());
                }
                go_on
            }
            Input::Reported { device, running } => self.reported(device, running).await,
            Input::Progress { device, call_id, attempt, text } => {
                let known = self.state.calls.get(&call_id).is_some_and(|call| call.may_act_on(device) && call.attempt == attempt);
                if known {
                    self.live.send(Signal::Progress { call_id, attempt, text });
                }
                true
            }
            Input::WorkspaceGranted => {
                let workspace = self.state.workspace.as_ref().map(|workspace| workspace.workspace_id);
                let baseline = workspace.and_then(|workspace| self.shared.workspaces.last_seen(self.user, workspace));
                self.command(&Command::WorkspaceGranted { baseline }).await
            }
            Input::Read { reply } => {
                let _ = reply.send(Box::new(self.state.clone()));
                true
            }
        }
    }

    async fn load(&mut self) -> Result<(), HubError> {
        let stream = self.stream();
        if let Some(cache) = self.shared.store.state(self.user, stream).await?
            && cache.format == STATE_FORMAT
            && let Ok(state) = serde_json::from_slice::<Session>(&cache.bytes)
            && state.seq == cache.seq
        {
            self.cached_at = state.seq;
            self.state = state;
        }
        loop {
            let page = self.shared.store.read(self.user, stream, self.state.seq, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            for stored in page {
                self.state.apply(&Event::<SessionEvent>::decode(&stored.event)?);
            }
        }
    }

    fn stream(&self) -> StreamId {
        StreamId { kind: StreamKind::Session, id: self.id.0 }
    }

    fn context(&self, who: Option<Identity>) -> Context {
        let now = self.shared.clock.now();
        let around = self.shared.directory.around(self.user);
        let sender = who.and_then(|who| around.devices.get(&who.device_id).cloned());
        let workspace_held_by = self.claim_workspace();
        Context { now, ids: Ids::new(now, self.shared.clock.random()), sender, around, model: self.shared.model_name(), workspace_held_by }
    }

    /// Decides on an operation and answers it. The answer follows the durable commit, never precedes it.
    async fn submit(&mut self, operation: Operation, digest: Digest, who: Identity) -> (Reply, bool) {
        let operation_id = operation.operation_id;
        let command = Command::Operation(operation);
        for _ in 0..MAX_RELOADS {
            let at = self.context(Some(who));
            let (decided, mut reply) = match decide(&self.state, &command, &at) {
                Ok(decided) => {
                    let reply = Reply {
                        operation_id,
                        status: ReplyStatus::Accepted,
                        session_id: Some(self.id),
                        version: 0,
                        epoch: 0,
                        turn_id: decided.turn_id,
                        task_id: decided.task_id,
                        error: None,
                    };
                    (decided, reply)
                }
                Err(rejection) => {
                    let Rejection { error, trace } = *rejection;
                    // A repeat of what was accepted may no longer be decidable; the first outcome counts.
                    match self.first_outcome(operation_id, &digest).await {
                        Ok(Some(first)) => return (first, true),
                        Ok(None) => {}
                        Err(error) => return (Reply::rejected(operation_id, Some(self.id), told(&error)), true),
                    }
                    let mut reply = Reply::rejected(operation_id, Some(self.id), error);
                    reply.version = self.state.seq;
                    reply.epoch = self.state.holder.epoch;
                    let is_final = reply.error.as_ref().is_some_and(|error| error.code.is_final());
                    match trace {
                        Some(trace) if is_final => (trace, reply),
                        None if is_final && self.state.exists() => (Decided::nothing(&self.state), reply),
                        _ => return (reply, true),
                    }
                }
            };
            let rows = match rows(&decided) {
                Ok(rows) => rows,
                Err(error) => return (Reply::rejected(operation_id, Some(self.id), error), true),
            };
            reply.version = decided.next.seq;
            reply.epoch = decided.next.holder.epoch;
            let row = OperationRow { operation_id, digest: digest.clone(), reply: serde_json::to_vec(&reply).unwrap_or_default() };
            match self.append(decided, rows, Some(row)).await {
                Ok(()) => {
                    return (reply, true);
                }
                Err(StoreError::OperationExists(first)) => return (repeated(&first, &digest, operation_id), true),
                Err(StoreError::Conflict { .. }) => {
                    if let Err(error) = self.reload().await {
                        return (Reply::rejected(operation_id, Some(self.id), told(&error)), false);
                    }
                }
                Err(error) => {
                    let stop = error.decision() == baton_store::Decision::Stop;
                    self.report(&error);
                    return (Reply::rejected(operation_id, Some(self.id), told(&HubError::Store(error))), !stop);
                }
            }
        }
        let error = ErrorBody::new(ErrorCode::Internal, "The session kept changing while this was decided.", "Send it again.");
        (Reply::rejected(operation_id, Some(self.id), error), true)
    }

    async fn first_outcome(&self, id: baton_proto::OperationId, digest: &Digest) -> Result<Option<Reply>, HubError> {
        let known = self.shared.store.operation(self.user, id).await?;
        Ok(known.map(|row| repeated(&row, digest, id)))
    }

    /// Decides on an outcome and makes it durable. An outcome isn't lost to a failing disk: it is tried until it is written.
    async fn command(&mut self, command: &Command) -> bool {
        loop {
            let at = self.context(None);
            let decided = match decide(&self.state, command, &at) {
                Ok(decided) => decided,
                Err(rejection) => {
                    tracing::warn!(session = %self.id, error = %rejection.error, "an outcome was refused");
                    return true;
                }
            };
            if decided.events.is_empty() {
                return true;
            }
            let rows = match rows(&decided) {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::error!(session = %self.id, %error, "an outcome can't be written");
                    return true;
                }
            };
            match self.append(decided, rows, None).await {
                Ok(()) => {
                    return true;
                }
                Err(StoreError::Conflict { .. }) => {
                    if let Err(error) = self.reload().await {
                        tracing::error!(session = %self.id, %error, "this session can't be loaded again");
                        return false;
                    }
                }
                Err(error) if error.decision() == baton_store::Decision::Retry => {
                    tracing::warn!(session = %self.id, %error, "an outcome waits for the disk");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(error) => {
                    self.report(&error);
                    return false;
                }
            }
        }
    }

    async fn append(&mut self, decided: Decided, rows: Vec<EventRow>, operation: Option<OperationRow>) -> Result<(), StoreError> {
        let Decided { events, upserts, next, .. } = decided;
        let line = summary(&next);
        let append = Append {
            stream: self.stream(),
            user: self.user,
            expected_seq: self.state.seq,
            fence: self.shared.store.incarnation(),
            rows,
            head: head(&next, &line),
            operation,
        };
        self.shared.store.append(append).await?;
        let first = self.state.seq + 1;
        self.state = next;
        for ((event, upserts), seq) in events.into_iter().zip(upserts).zip(first..) {
            if matches!(
                event.body,
                SessionEvent::ModelFinished { .. }
                    | SessionEvent::ModelFailed { .. }
                    | SessionEvent::TurnStopRequested { .. }
                    | SessionEvent::ModelStarted { .. }
            ) {
                self.live.clear();
            }
            self.live.send(Signal::Change(Arc::new(Change { session_id: self.id, seq, event, upserts })));
        }
        if self.last_summary.as_ref().is_none_or(|last| differs(last, &line)) {
            self.shared.directory.notify(self.user, Changed::Sessions);
            self.last_summary = Some(line);
        }
        if self.state.seq >= self.cached_at + CACHE_EVERY {
            self.cache().await;
        }
        Ok(())
    }

    /// Another writer was first: its events come in, and what was decided is decided anew.
    async fn reload(&mut self) -> Result<(), HubError> {
        tracing::warn!(session = %self.id, "another writer was first; deciding anew");
        self.load().await
    }

    /// Keeps the folded state, so that opening a long session doesn't read its whole log. Disposable: a failure only costs time.
    async fn cache(&mut self) {
        if self.state.seq == self.cached_at {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&self.state) else { return };
        let cache = StateCache { seq: self.state.seq, format: STATE_FORMAT, bytes };
        match self.shared.store.put_state(self.user, self.stream(), cache).await {
            Ok(()) => self.cached_at = self.state.seq,
            Err(error) => tracing::debug!(session = %self.id, %error, "the state was not cached"),
        }
    }

    fn report(&self, error: &StoreError) {
        tracing::error!(session = %self.id, %error, "the store refused a write");
        if matches!(error, StoreError::Poisoned(_) | StoreError::Fenced { .. }) {
            self.shared.fail(error.to_string());
        }
    }

    /// Takes the workspace for what is about to be decided, or names the session that has it. A session that stands in line stays there.
    fn claim_workspace(&self) -> Option<(SessionId, String)> {
        let workspace = self.state.workspace.as_ref()?;
        if let Some(behind) = self.state.open_turn().and_then(|turn| turn.behind.clone()) {
            let granted = self.shared.workspaces.holds(self.user, workspace.workspace_id, self.id);
            return (!granted).then_some(behind);
        }
        self.shared.workspaces.claim(self.user, workspace.workspace_id, self.id, &self.state.title).err()
    }

    /// A workspace is held while a turn works in it, and passed on when the agent rests or only waits for a human (E6).
    fn settle_workspace(&self) {
        let Some(workspace) = &self.state.workspace else { return };
        let id = workspace.workspace_id;
        self.shared.workspaces.saw(self.user, id, &workspace.baseline);
        if !needs_workspace(&self.state)
            && let Some(next) = self.shared.workspaces.release(self.user, id, self.id)
        {
            self.shared.tell_granted(self.user, next);
        }
    }

    async fn reported(&mut self, device: DeviceId, running: Vec<(CallId, u32, RunningState)>) -> bool {
        // What runs there and isn't wanted any more is stopped now, since nobody could tell the device before.
        for (call_id, attempt, state) in &running {
            let wanted = self.state.calls.get(call_id).is_some_and(|call| call.may_act_on(device));
            if !wanted && matches!(state, RunningState::Accepted | RunningState::Running) {
                let fence = self.shared.store.incarnation();
                self.shared
                    .directory
                    .send(device, HubFrame::CancelCall { session_id: self.id, call_id: *call_id, attempt: *attempt, fence });
            }
        }
        self.command(&Command::DeviceReported { device, running }).await
    }

    /// Compares what is owed with what is under way: starts what is new, drops what has vanished.
    fn reconcile(&mut self) {
        let owed = pending(&self.state);
        let vanished: Vec<_> = self.running.keys().filter(|effect| !owed.contains(effect)).cloned().collect();
        for effect in vanished {
            if let Some(Running::Task(task)) = self.running.remove(&effect) {
                task.abort();
            }
        }
        for effect in owed {
            match &effect {
                Effect::Wake { .. } => {}
                Effect::HoldWorkspace { workspace_id } => {
                    if !self.running.contains_key(&effect) {
                        if self.shared.workspaces.wait(self.user, *workspace_id, self.id, &self.state.title) {
                            self.shared.tell_granted(self.user, self.id);
                        }
                        self.running.insert(effect, Running::Sent { link: 0 });
                    }
                }
                Effect::CallModel { model_call_id, attempt } => {
                    if !self.running.contains_key(&effect) {
                        self.start_model(&effect, *model_call_id, *attempt);
                    }
                }
                Effect::Offer { to, .. } => {
                    if !self.running.contains_key(&effect) {
                        self.offer(*to);
                        self.running.insert(effect, Running::Sent { link: 0 });
                    }
                }
                Effect::Prepare { device, .. }
                | Effect::Dispatch { device, .. }
                | Effect::Cancel { device, .. }
                | Effect::Probe { device, .. } => {
                    self.tell(*device, &effect);
                }
            }
        }
    }

    /// Hands a device-bound effect to the connection its device has at the moment. Devices recognise what they were told before.
    fn tell(&mut self, device: DeviceId, effect: &Effect) {
        let Some(link) = self.shared.directory.acting_link(device) else {
            self.running.remove(effect);
            return;
        };
        if matches!(self.running.get(effect), Some(Running::Sent { link: sent }) if *sent == link) {
            return;
        }
        let Some(frame) = self.frame(effect) else { return };
        match self.shared.directory.send(device, frame) {
            Some(link) => self.running.insert(effect.clone(), Running::Sent { link }),
            None => self.running.remove(effect),
        };
    }

    fn frame(&self, effect: &Effect) -> Option<HubFrame> {
        let (session_id, fence) = (self.id, self.shared.store.incarnation());
        let call = |id: &CallId| self.state.calls.get(id);
        Some(match effect {
            Effect::Prepare { call_id, .. } => {
                let call = call(call_id)?;
                HubFrame::PrepareCall {
                    session_id,
                    call_id: *call_id,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    fence,
                }
            }
            Effect::Dispatch { call_id, attempt, .. } => {
                let call = call(call_id)?;
                HubFrame::ToolCall(Box::new(DispatchedCall {
                    session_id,
                    call_id: *call_id,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    attempt: *attempt,
                    fence,
                    lease_s: ATTEMPT_LEASE_S,
                    digests: (*call.digests).clone(),
                }))
            }
            Effect::Cancel { call_id, attempt, .. } => HubFrame::CancelCall { session_id, call_id: *call_id, attempt: *attempt, fence },
            Effect::Probe { call_id, attempt, .. } => {
                let call = call(call_id)?;
                HubFrame::ProbeCall {
                    session_id,
                    call_id: *call_id,
                    attempt: *attempt,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    fence,
                }
            }
            Effect::CallModel { .. } | Effect::Offer { .. } | Effect::HoldWorkspace { .. } | Effect::Wake { .. } => return None,
        })
    }

    fn offer(&self, to: DeviceId) {
        let Some(transfer) = &self.state.holder.transfer else { return };
        let frame = HubFrame::HandoffOffer {
            session_id: self.id,
            handoff_id: transfer.handoff_id,
            from: transfer.from,
            brief: Box::new(baton_core::brief::brief(&self.state)),
            summary: self.state.title.clone(),
            deadline: transfer.deadline,
        };
        self.shared.directory.send_to_all(to, &frame);
    }

    fn start_model(&mut self, effect: &Effect, model_call_id: baton_proto::ModelCallId, attempt: u32) {
        let Some(call) = self.state.open_turn().and_then(|turn| turn.model.as_ref()) else { return };
        let job = ModelJob {
            model_call_id,
            attempt,
            message_id: call.message_id,
            state: self.state.clone(),
            at: self.context(None),
            store: Arc::clone(&self.shared.store),
            model: self.shared.model.clone(),
            checks: Arc::clone(&self.shared.checks),
            live: Arc::clone(&self.live),
        };
        let own = self.own.clone();
        let task = tokio::spawn(async move {
            let command = Box::new(job.run().await);
            if let Some(own) = own.upgrade() {
                // An owner that is gone takes the call up again when it is back.
                let _ = own.send(Input::Command { command, done: None }).await;
            }
        });
        self.running.insert(effect.clone(), Running::Task(task.abort_handle()));
    }

    /// Resolves when a tick is due.
    fn due(&self) -> impl Future<Output = ()> + 'static {
        let wake = pending(&self.state).into_iter().find_map(|effect| match effect {
            Effect::Wake { at } => Some(at),
            _ => None,
        });
        let wait = wake.map(|at| until(self.shared.clock.now(), at));
        async move {
            match wait {
                None => std::future::pending().await,
                Some(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// Gives the session up when nothing is under way and nobody follows. Whatever comes next loads it again.
    async fn retire(&mut self) -> bool {
        if !self.running.is_empty() || self.state.open_turn().is_some() || self.live.followers() > 0 {
            return false;
        }
        self.cache().await;
        self.shared.retire(self.user, self.id, &self.inputs)
    }

    fn stop_running(&mut self) {
        for (_, running) in std::mem::take(&mut self.running) {
            if let Running::Task(task) = running {
                task.abort();
            }
        }
    }

    /// A session that can't be loaded answers everybody in words until nobody asks any more.
    async fn refuse_all(&mut self, error: &HubError) {
        self.shared.forget(self.user, self.id);
        self.inputs.close();
        while let Some(input) = self.inputs.recv().await {
            if let Input::Submit { operation, reply, .. } = input {
                let _ = reply.send(Reply::rejected(operation.operation_id, Some(self.id), told(error)));
            }
        }
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.since(now)).unwrap_or(0))
}

/// The head row that belongs to a state.
pub(crate) fn head(state: &Session, line: &SessionSummary) -> HeadWrite {
    HeadWrite {
        epoch: state.holder.epoch,
        active: state.open_turn().is_some(),
        wake_at: pending(state).iter().find_map(|effect| match effect {
            Effect::Wake { at } => Some(*at),
            _ => None,
        }),
        updated_at: state.updated_at,
        summary: serde_json::to_vec(line).unwrap_or_default(),
    }
}

/// Events as they are stored, each with the entities that it touched.
pub(crate) fn rows(decided: &Decided) -> Result<Vec<EventRow>, ErrorBody> {
    decided.events.iter().zip(&decided.upserts).map(|(event, upserts)| row(event, upserts)).collect()
}

pub(crate) fn row(event: &Event, upserts: &[EntityView]) -> Result<EventRow, ErrorBody> {
    let unwritable =
        |error: serde_json::Error| ErrorBody::new(ErrorCode::Internal, format!("An event can't be written: {error}."), "Report this.");
    Ok(EventRow {
        kind: event.body.name().to_owned(),
        event: serde_json::to_vec(event).map_err(unwritable)?,
        upserts: serde_json::to_vec(upserts).map_err(unwritable)?,
    })
}

/// The first outcome of an operation, or that its id is taken by another one.
pub(crate) fn repeated(row: &OperationRow, digest: &Digest, operation_id: baton_proto::OperationId) -> Reply {
    if row.digest != *digest {
        let error = ErrorBody::new(
            ErrorCode::OperationConflict,
            "This operation id was used for something else.",
            "Use a fresh id for each thing you ask for.",
        );
        return Reply::rejected(operation_id, None, error);
    }
    match serde_json::from_slice::<Reply>(&row.reply) {
        Ok(first) => Reply { status: ReplyStatus::Duplicate, ..first },
        Err(_) => {
            Reply::rejected(operation_id, None, ErrorBody::new(ErrorCode::Internal, "The first outcome can't be read.", "Report this."))
        }
    }
}

/// Whether a list of sessions would look different.
fn differs(a: &SessionSummary, b: &SessionSummary) -> bool {
    let shown = |summary: &SessionSummary| (summary.state, summary.activity, summary.progress, summary.waiting, summary.holder);
    a.title != b.title || a.line != b.line || shown(a) != shown(b)
}
