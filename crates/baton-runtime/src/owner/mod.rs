//! The owner of one session: the only task that decides on it and writes to it. Inputs are a closed set; outcomes of what it starts come
//! back as inputs like any other.

mod effects;
mod log;

pub(crate) use log::{head, repeated, row, rows};

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::Shared;
use crate::live::{Live, Signal};
use baton_core::{Command, Context, Decided, Effect, Ids, Rejection, Session, decide, pending};
use baton_proto::{
    Baseline, CallId, DeviceId, Digest, ErrorBody, ErrorCode, Operation, Reply, ReplyStatus, RunningState, SessionId, SessionSummary,
    Timestamp, UserId,
};
use baton_store::{OperationRow, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Inputs that may wait for one session; whoever sends more waits.
pub(crate) const WAITING_INPUTS: usize = 256;
/// An owner with nothing to do and nobody following goes after this long.
const IDLE: Duration = Duration::from_mins(5);
/// How often an owner looks whether another hub has written to its session, where one may.
const LOOK: Duration = Duration::from_secs(5);
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
        reply: oneshot::Sender<Result<Box<Session>, ErrorBody>>,
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
    /// Another hub's events came in. What that hub had under way, nobody else follows up.
    overtaken: bool,
    /// How the workspace looks by what this owner said last.
    said_baseline: Option<Baseline>,
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
        Self {
            shared,
            user,
            id,
            state,
            cached_at: 0,
            running: BTreeMap::new(),
            inputs,
            own,
            live,
            last_summary: None,
            overtaken: false,
            said_baseline: None,
        }
    }

    /// Loads the state, takes up what was in flight, and serves until nothing is left to do or the store says stop.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.load().await {
            tracing::error!(session = %self.id, %error, "this session can't be loaded");
            self.refuse_all(&error).await;
            return;
        }
        self.note_waiting();
        let incarnation = self.shared.store.incarnation();
        if self.state.exists() && !self.command(&Command::Resumed { incarnation }).await {
            self.shared.forget(self.user, self.id);
            return;
        }
        let mut idle = Instant::now() + IDLE;
        let mut look = Instant::now() + LOOK;
        loop {
            if std::mem::take(&mut self.overtaken) && !self.command(&Command::Resumed { incarnation }).await {
                break;
            }
            self.settle_workspace();
            self.reconcile();
            let due = self.due();
            let may_be_shared = self.shared.store.may_be_shared();
            let input = tokio::select! {
                // In a fixed order, so that a simulated world can be replayed; time comes first, so that no flood of inputs delays it.
                biased;
                () = due => {
                    if !self.command(&Command::Tick).await { break; }
                    continue;
                }
                () = sleep_until(look), if may_be_shared => {
                    look = Instant::now() + LOOK;
                    if !self.look().await { break; }
                    continue;
                }
                input = self.inputs.recv() => input,
                () = sleep_until(idle) => {
                    idle = Instant::now() + IDLE;
                    if self.retire().await { return; }
                    continue;
                }
            };
            idle = Instant::now() + IDLE;
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
                if !self.follow_workspace().await {
                    return false;
                }
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
            Input::Reported { device, running } => self.look().await && self.reported(device, running).await,
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
                if !self.look().await {
                    return false;
                }
                let _ = reply.send(Ok(Box::new(self.state.clone())));
                true
            }
        }
    }

    fn context(&self, who: Option<Identity>) -> Context {
        let now = self.shared.clock.now();
        let mut around = self.shared.directory.around(self.user);
        if !self.state.exists() {
            self.shared.workspaces.bring_up_to_date(self.user, &mut Arc::make_mut(&mut around).workspaces);
        }
        let sender = who.and_then(|who| around.devices.get(&who.device_id).cloned());
        let workspace_held_by = self.claim_workspace();
        let (ids, budgets) = (Ids::new(now, self.shared.clock.random()), self.shared.spending.budgets(self.user, now));
        Context { now, ids, sender, around, model: self.shared.model_name(), budgets, workspace_held_by, so_far: self.live.so_far() }
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
                        return (Reply::rejected(operation_id, Some(self.id), told(&error)), error.may_pass());
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
                // A result that changes nothing is known already, or is news to a state that another hub has overtaken. Its device forgets
                // it once it is acknowledged, so the log is asked which it is.
                if matches!(command, Command::ToolResult { .. }) {
                    match self.catch_up().await {
                        Ok(false) => {}
                        Ok(true) => continue,
                        Err(error) if self.passes(&error).await => continue,
                        Err(_) => return false,
                    }
                }
                return true;
            }
            let rows = match rows(&decided) {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::error!(session = %self.id, %error, "an outcome can't be written");
                    // Not acknowledged: its device keeps it.
                    return false;
                }
            };
            match self.append(decided, rows, None).await {
                Ok(()) => {
                    return true;
                }
                Err(StoreError::Conflict { .. }) => {
                    if let Err(error) = self.reload().await
                        && !self.passes(&error).await
                    {
                        return false;
                    }
                }
                Err(error) => {
                    if !self.passes(&HubError::Store(error)).await {
                        return false;
                    }
                }
            }
        }
    }

    /// Takes in what another hub has added; `false` when this owner can't go on. What can't be read now is looked for again later.
    async fn look(&mut self) -> bool {
        match self.catch_up().await {
            Ok(_) => true,
            Err(error) if error.may_pass() => true,
            Err(error) => self.passes(&error).await,
        }
    }

    /// Waits until what failed may be tried again; `false`, and said to whom it concerns, when it never will.
    async fn passes(&self, error: &HubError) -> bool {
        if error.may_pass() {
            tracing::warn!(session = %self.id, %error, "an outcome waits for the disk");
            tokio::time::sleep(Duration::from_secs(1)).await;
            return true;
        }
        match error {
            HubError::Store(error) => self.report(error),
            error => tracing::error!(session = %self.id, %error, "this session can't be read any more"),
        }
        false
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

    /// A session that can't be loaded answers everybody in words until nobody asks any more.
    async fn refuse_all(&mut self, error: &HubError) {
        self.shared.forget(self.user, self.id);
        self.inputs.close();
        while let Some(input) = self.inputs.recv().await {
            match input {
                Input::Submit { operation, reply, .. } => {
                    let _ = reply.send(Reply::rejected(operation.operation_id, Some(self.id), told(error)));
                }
                Input::Read { reply } => {
                    let _ = reply.send(Err(told(error)));
                }
                // Whoever brings an outcome is not told that it is known, and brings it again.
                Input::Command { .. } | Input::Reported { .. } | Input::Progress { .. } | Input::WorkspaceGranted => {}
            }
        }
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.since(now)).unwrap_or(0))
}
