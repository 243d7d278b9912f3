//! One connection of a device: what it says goes to the owners of its sessions, what they owe it comes back (F7, D4).

use crate::directory::Identity;
use crate::hub::{Hub, Shared};
use crate::owner::Input;
use crate::questions::Answer;
use crate::subscription::{Subscription, SubscriptionItem};
use baton_core::Command;
use baton_core::user::UserCommand;
use baton_proto::{
    CallId, Capabilities, Changed, ClientFrame, DeltaPart, ErrorBody, ErrorCode, HEARTBEAT_S, HubFrame, JournalId, Limits, Operation,
    RunningCall, RunningState, SessionId, ToolSpec, Workspace,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Frames that may wait for one connection. What doesn't fit is not buffered: subscriptions wait and catch up from the log, and a
/// device that doesn't take its calls is given them again when it reconnects.
const WAITING_FRAMES: usize = 256;
/// Sessions that one connection may follow at once.
const MAX_SUBSCRIPTIONS: usize = 64;
/// Operations and acknowledgements of one connection that may wait; while they do, nothing more is read from it.
const WAITING_OPERATIONS: usize = 64;
/// Between two words that the same list has changed. The last change is always told, if later.
const NOTICE_EVERY: Duration = Duration::from_millis(200);

static NEXT_LINK: AtomicU64 = AtomicU64::new(1);

/// What a connection is to send, or that it is to end.
#[derive(Debug)]
pub enum LinkFrame {
    Frame(Box<HubFrame>),
    Close { reason: String },
}

/// The directory's end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) id: u64,
    pub(crate) sender: mpsc::Sender<LinkFrame>,
    closing: mpsc::Sender<String>,
}

impl Connected {
    /// A connection that takes no more is too slow to act; it is closed, and what it missed is sent again when it is back.
    pub(crate) fn try_send(&self, frame: HubFrame) -> bool {
        match self.sender.try_send(LinkFrame::Frame(Box::new(frame))) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.close("The connection takes frames too slowly.");
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }

    /// One whose frames nobody takes.
    #[cfg(test)]
    pub(crate) fn unheard(id: u64) -> Self {
        Self { id, sender: mpsc::channel(1).0, closing: mpsc::channel(1).0 }
    }

    pub(crate) fn close(&self, reason: &str) {
        let _ = self.closing.try_send(reason.to_owned());
    }
}

/// The hub's side of one connection. Dropping it detaches the device.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    hub: Arc<Hub>,
    who: Identity,
    id: u64,
    sender: mpsc::Sender<LinkFrame>,
    /// Done one after the other, so that what was said first is heard first. They are done also when the connection is gone by then:
    /// whoever asks again with the same id is told what became of it.
    operations: mpsc::Sender<Operation>,
    acknowledgements: mpsc::Sender<Acknowledgement>,
    subscriptions: BTreeMap<SessionId, JoinHandle<()>>,
    notices: JoinHandle<()>,
}

/// What a device is told once its word is durable.
#[derive(Debug)]
struct Acknowledgement {
    /// `None`: nobody will ever want it, since there is no such session.
    durable: Option<oneshot::Receiver<()>>,
    frame: HubFrame,
}

impl Hub {
    /// Takes up a connection whose first frame was `hello`. Frames for it come out of the receiver.
    pub async fn connect(self: &Arc<Self>, who: Identity, hello: ClientFrame) -> Result<(Link, LinkFrames), ErrorBody> {
        let ClientFrame::Hello { protocol, client_type, capabilities, tools, workspaces, cursors, running, journal } = hello else {
            return Err(ErrorBody::invalid("The first frame of a connection is `hello`."));
        };
        if protocol != baton_proto::PROTOCOL_VERSION {
            return Err(ErrorBody::new(
                ErrorCode::UnsupportedVersion,
                format!("The end speaks version {protocol} of the protocol, this hub speaks {}.", baton_proto::PROTOCOL_VERSION),
                "Update whichever is older.",
            ));
        }
        let record = self.device(who).ok_or_else(not_paired)?;
        if client_type != record.client_type {
            return Err(ErrorBody::invalid("The connection names another client type than the token's device."));
        }
        let held = workspaces.clone();
        self.describe(who, capabilities, tools, workspaces, journal).await?;
        let (sender, frames) = mpsc::channel(WAITING_FRAMES);
        let (closing, closed) = mpsc::channel(1);
        let id = NEXT_LINK.fetch_add(1, Ordering::Relaxed);
        let welcome = HubFrame::Welcome {
            device_id: record.device_id,
            user_id: who.user_id,
            name: record.name,
            trust: record.trust,
            heartbeat_s: HEARTBEAT_S,
            limits: Limits::default(),
            hub: self.info(),
        };
        // The first frame of a fresh channel always fits.
        let _ = sender.try_send(LinkFrame::Frame(Box::new(welcome)));
        if !self.shared.directory.attach(who, Connected { id, sender: sender.clone(), closing }) {
            return Err(not_paired());
        }
        let notices = tokio::spawn(forward_notices(self.shared.directory.notices(), who, sender.clone()));
        let (operations, asked) = mpsc::channel(WAITING_OPERATIONS);
        tokio::spawn(operate(Arc::clone(self), who, asked, sender.clone()));
        let (acknowledgements, owed) = mpsc::channel(WAITING_OPERATIONS);
        tokio::spawn(acknowledge(owed, sender.clone()));
        let mut link = Link {
            shared: Arc::clone(&self.shared),
            hub: Arc::clone(self),
            who,
            id,
            sender,
            operations,
            acknowledgements,
            subscriptions: BTreeMap::new(),
            notices,
        };
        link.report(running).await;
        link.look(&held).await;
        link.go_on(cursors).await;
        Ok((link, LinkFrames { frames, closed }))
    }

    /// Keeps what a device offers. A tool that can't be offered is refused with its reason.
    async fn describe(
        &self,
        who: Identity,
        capabilities: Capabilities,
        tools: Vec<ToolSpec>,
        workspaces: Vec<Workspace>,
        journal: Option<JournalId>,
    ) -> Result<(), ErrorBody> {
        let mut names = std::collections::BTreeSet::new();
        for tool in &tools {
            let twice = (!names.insert(tool.name.clone())).then(|| format!("the tool '{}' is offered twice", tool.name));
            if let Some(problem) = twice.or_else(|| self.shared.checks.problem(tool)) {
                return Err(ErrorBody::invalid(format!("A tool can't be registered: {problem}.")));
            }
        }
        let workspaces = workspaces.into_iter().map(|workspace| Workspace { device_id: Some(who.device_id), ..workspace }).collect();
        let command = UserCommand::Describe { device: who.device_id, capabilities, tools, workspaces, journal };
        self.shared.directory.submit(who.user_id, command).await.map(|_| ())
    }
}

/// What comes out of a link: frames, or the word that it is to end.
#[derive(Debug)]
pub struct LinkFrames {
    frames: mpsc::Receiver<LinkFrame>,
    closed: mpsc::Receiver<String>,
}

impl LinkFrames {
    /// The next thing to do with the connection; `None` when the link is gone.
    pub async fn next(&mut self) -> Option<LinkFrame> {
        tokio::select! {
            biased;
            Some(reason) = self.closed.recv() => Some(LinkFrame::Close { reason }),
            frame = self.frames.recv() => frame,
        }
    }

    /// Resolves with the reason when the connection is to end, whatever else waits; for while a frame is being written.
    pub async fn closing(&mut self) -> String {
        match self.closed.recv().await {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }
}

impl Link {
    pub const fn identity(&self) -> Identity {
        self.who
    }

    /// Takes one frame of the client's. An error is for the client to read; the connection goes on.
    pub async fn receive(&mut self, frame: ClientFrame) -> Result<(), ErrorBody> {
        let device = self.who.device_id;
        self.shared.directory.hear(self.who);
        match frame {
            ClientFrame::Hello { .. } => return Err(ErrorBody::invalid("`hello` is the first frame only.")),
            ClientFrame::Subscribe { session_id, after } => self.subscribe(session_id, after).await,
            ClientFrame::Unsubscribe { session_id } => {
                if let Some(task) = self.subscriptions.remove(&session_id) {
                    task.abort();
                }
            }
            ClientFrame::Op { operation } => {
                let operation = Operation::decode(operation)?;
                // It takes operations until the link is dropped.
                let _ = self.operations.send(operation).await;
            }
            // Whoever carries the frames answers it, since the answer shows that the line itself lives (C20).
            ClientFrame::Heartbeat { capabilities, .. } => {
                if let (Some(capabilities), Some(record)) = (capabilities, self.hub.device(self.who)) {
                    self.hub.describe(self.who, capabilities, record.tools, record.workspaces, None).await?;
                }
            }
            ClientFrame::ToolStarted { session_id, call_id, attempt } => {
                self.command(session_id, Command::ToolStarted { call_id, attempt, device }, None).await;
            }
            ClientFrame::ToolProgress { session_id, call_id, attempt, text } => {
                let text = baton_core::words::excerpt(&text, 2048);
                self.input(session_id, Input::Progress { device, call_id, attempt, text }).await;
            }
            ClientFrame::Prepared { session_id, call_id, prepared } => {
                self.command(session_id, Command::Prepared { call_id, device, prepared }, None).await;
            }
            ClientFrame::ToolResult { session_id, call_id, attempt, outcome } => {
                let acknowledgement = HubFrame::ToolResultAck { session_id, call_id, attempt };
                self.command(session_id, Command::ToolResult { call_id, attempt, device, outcome }, Some(acknowledgement)).await;
            }
            ClientFrame::Probed { session_id, call_id, attempt, finding } => {
                self.command(session_id, Command::Probed { call_id, attempt, device, finding }, None).await;
            }
            ClientFrame::WorkspaceChanged { workspace, files, files_left_out } => {
                self.workspace_changed(workspace, files, files_left_out).await?;
            }
            ClientFrame::ChangesShown { question, changes } => {
                self.shared.questions.answered(device, question, Answer::Changes(*changes));
            }
            ClientFrame::FileShown { question, shown } => self.shared.questions.answered(device, question, Answer::File(shown)),
            ClientFrame::PathsFound { question, found } => self.shared.questions.answered(device, question, Answer::Paths(found)),
        }
        Ok(())
    }

    async fn workspace_changed(&self, workspace: Workspace, files: Vec<String>, files_left_out: u32) -> Result<(), ErrorBody> {
        let Some(record) = self.hub.device(self.who) else { return Ok(()) };
        let baseline = workspace.baseline.clone();
        let id = workspace.workspace_id;
        let mut workspaces: Vec<_> = record.workspaces.into_iter().filter(|known| known.workspace_id != id).collect();
        workspaces.push(workspace);
        self.hub.describe(self.who, record.capabilities, record.tools, workspaces, None).await?;
        self.shared.workspaces.saw(self.who.user_id, id, &baseline);
        for (session, _) in self.shared.loaded(self.who.user_id) {
            let Ok(state) = self.shared.state(self.who.user_id, session).await else { continue };
            if state.workspace.as_ref().is_some_and(|known| known.workspace_id == id) {
                let command = Command::WorkspaceSeen { baseline: baseline.clone(), files: files.clone(), files_left_out };
                self.command(session, command, None).await;
            }
        }
        Ok(())
    }

    /// Tells the sessions that are loaded how a device's workspaces look on its return. A session that has a call there is told by what
    /// becomes of the call: what the call changed isn't somebody else's.
    async fn look(&self, workspaces: &[Workspace]) {
        for Workspace { workspace_id, baseline, .. } in workspaces {
            self.shared.workspaces.saw(self.who.user_id, *workspace_id, baseline);
            for (session, _) in self.shared.loaded(self.who.user_id) {
                let Ok(state) = self.shared.state(self.who.user_id, session).await else { continue };
                let acts = state.calls.values().any(|call| call.may_act_on(self.who.device_id));
                if !acts && state.workspace.as_ref().is_some_and(|known| known.workspace_id == *workspace_id) {
                    let command = Command::WorkspaceSeen { baseline: baseline.clone(), files: Vec::new(), files_left_out: 0 };
                    self.command(session, command, None).await;
                }
            }
        }
    }

    /// Tells the sessions what this device's journal knows: those it names, and those that are loaded, since silence is word too.
    async fn report(&self, running: Vec<RunningCall>) {
        let mut by_session: BTreeMap<SessionId, Vec<(CallId, u32, RunningState)>> = BTreeMap::new();
        for (session, _) in self.shared.loaded(self.who.user_id) {
            by_session.entry(session).or_default();
        }
        for call in running {
            by_session.entry(call.session_id).or_default().push((call.call_id, call.attempt, call.state));
        }
        for (session, running) in by_session {
            self.input(session, Input::Reported { device: self.who.device_id, running }).await;
        }
    }

    /// Follows what a connection names in its first frame. Nobody takes its frames yet, so nothing here may wait for room among them.
    async fn go_on(&mut self, cursors: BTreeMap<SessionId, u64>) {
        let mut refused = Vec::new();
        for (number, (session, after)) in cursors.into_iter().enumerate() {
            let followed = if number < MAX_SUBSCRIPTIONS { self.try_subscribe(session, Some(after)).await } else { Err(too_many()) };
            if let Err(error) = followed {
                refused.push((session, error));
            }
        }
        if !refused.is_empty() {
            let sender = self.sender.clone();
            tokio::spawn(async move {
                for (session, error) in refused {
                    if sender.send(LinkFrame::Frame(Box::new(HubFrame::Error { session_id: Some(session), error }))).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    async fn subscribe(&mut self, session: SessionId, after: Option<u64>) {
        if let Err(error) = self.try_subscribe(session, after).await {
            self.say_error(Some(session), error).await;
        }
    }

    async fn try_subscribe(&mut self, session: SessionId, after: Option<u64>) -> Result<(), ErrorBody> {
        self.subscriptions.retain(|_, task| !task.is_finished());
        if let Some(before) = self.subscriptions.remove(&session) {
            before.abort();
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(too_many());
        }
        let subscription = self.hub.subscribe(self.who, session, after).await?;
        let task = tokio::spawn(forward(subscription, session, self.sender.clone()));
        self.subscriptions.insert(session, task);
        Ok(())
    }

    async fn say_error(&self, session_id: Option<SessionId>, error: ErrorBody) {
        let _ = self.sender.send(LinkFrame::Frame(Box::new(HubFrame::Error { session_id, error }))).await;
    }

    async fn command(&self, session: SessionId, command: Command, acknowledgement: Option<HubFrame>) {
        let (done, durable) = oneshot::channel();
        let known = self.input(session, Input::Command { command: Box::new(command), done: Some(done) }).await;
        if let Some(frame) = acknowledgement {
            let _ = self.acknowledgements.send(Acknowledgement { durable: known.then_some(durable), frame }).await;
        }
    }

    /// Hands an input to a session's owner; `false` when the device's user has no such session.
    async fn input(&self, session: SessionId, input: Input) -> bool {
        let mut input = input;
        for _ in 0..3 {
            match self.shared.session(self.who.user_id, session).await {
                Ok(handle) => match handle.inputs.send(input).await {
                    Ok(()) => return true,
                    Err(mpsc::error::SendError(back)) => input = back,
                },
                Err(error) if error.code == ErrorCode::NotFound => return false,
                Err(_) => return true,
            }
        }
        true
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.notices.abort();
        for (_, task) in std::mem::take(&mut self.subscriptions) {
            task.abort();
        }
        if self.shared.directory.detach(self.who, self.id) {
            let (shared, who) = (Arc::clone(&self.shared), self.who);
            // Outside a runtime, which is being torn down then, there is nobody left to tell.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    for (_, handle) in shared.loaded(who.user_id) {
                        let command = Box::new(Command::DeviceLost { device: who.device_id });
                        let _ = handle.inputs.send(Input::Command { command, done: None }).await;
                    }
                });
            }
        }
    }
}

/// Carries a subscription to its connection. A slow connection holds only its own subscriptions back: they catch up from the log.
async fn forward(mut subscription: Subscription, session_id: SessionId, sender: mpsc::Sender<LinkFrame>) {
    while let Some(item) = subscription.next().await {
        let frame = match item {
            SubscriptionItem::View(view) => HubFrame::View(view),
            SubscriptionItem::Change(change) => HubFrame::Change(Box::new((*change).clone())),
            SubscriptionItem::Reset { reason } => HubFrame::Reset { session_id, reason },
            SubscriptionItem::Delta { message_id, attempt, thinking, offset, text } => HubFrame::Delta {
                session_id,
                message_id,
                attempt,
                offset,
                part: if thinking { DeltaPart::Thinking } else { DeltaPart::Text },
                text,
            },
            SubscriptionItem::Progress { call_id, attempt, text } => HubFrame::Progress { session_id, call_id, attempt, text },
            SubscriptionItem::Failed(error) => HubFrame::Error { session_id: Some(session_id), error },
        };
        if sender.send(LinkFrame::Frame(Box::new(frame))).await.is_err() {
            return;
        }
    }
}

/// Does the operations of one connection in the order in which they came.
async fn operate(hub: Arc<Hub>, who: Identity, mut asked: mpsc::Receiver<Operation>, sender: mpsc::Sender<LinkFrame>) {
    while let Some(operation) = asked.recv().await {
        let reply = hub.submit(who, operation).await;
        // A connection that is gone asks again with the same id, and gets the same outcome.
        let _ = sender.send(LinkFrame::Frame(Box::new(HubFrame::Ack(reply)))).await;
    }
}

/// Tells a device what it may forget. What isn't acknowledged is told again.
async fn acknowledge(mut owed: mpsc::Receiver<Acknowledgement>, sender: mpsc::Sender<LinkFrame>) {
    while let Some(Acknowledgement { durable, frame }) = owed.recv().await {
        let settled = match durable {
            Some(durable) => durable.await.is_ok(),
            None => true,
        };
        if settled && sender.send(LinkFrame::Frame(Box::new(frame))).await.is_err() {
            return;
        }
    }
}

/// Tells a connection which of the user's lists changed: at once, then at most every so often, and never without the last one.
async fn forward_notices(mut notices: broadcast::Receiver<(baton_proto::UserId, Changed)>, who: Identity, sender: mpsc::Sender<LinkFrame>) {
    const KINDS: [Changed; 4] = [Changed::Sessions, Changed::Devices, Changed::Invitations, Changed::Rules];
    let mut owed = [false; KINDS.len()];
    let mut not_before = [Instant::now(); KINDS.len()];
    loop {
        let due = (0..KINDS.len()).filter(|kind| owed[*kind]).min_by_key(|kind| not_before[*kind]);
        let told = async {
            match due {
                Some(kind) => tokio::time::sleep_until(not_before[kind]).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = told => if let Some(kind) = due {
                owed[kind] = false;
                if sender.send(LinkFrame::Frame(Box::new(HubFrame::Changed { what: KINDS[kind] }))).await.is_err() {
                    return;
                }
                not_before[kind] = Instant::now() + NOTICE_EVERY;
            },
            notice = notices.recv() => match notice {
                Ok((user, what)) => {
                    let of_this = |known: &Changed| user == who.user_id && *known == what;
                    owed.iter_mut().zip(&KINDS).filter(|(_, kind)| of_this(kind)).for_each(|(owed, _)| *owed = true);
                }
                // What was missed may have been of any kind, and of this user.
                Err(broadcast::error::RecvError::Lagged(_)) => owed = [true; KINDS.len()],
                Err(broadcast::error::RecvError::Closed) => return,
            },
        }
    }
}

fn too_many() -> ErrorBody {
    let message = format!("A connection follows at most {MAX_SUBSCRIPTIONS} sessions.");
    ErrorBody::new(ErrorCode::RateLimited, message, "Unsubscribe from one first.")
}

fn not_paired() -> ErrorBody {
    ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't paired.", "Pair it first.")
}
