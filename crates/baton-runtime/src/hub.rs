use crate::attachments;
use crate::clock::{Clock, SystemClock};
use crate::directory::{Directory, Identity};
use crate::error::{HubError, told};
use crate::guarded::Guarded;
use crate::listing::Waiting;
use crate::live::Live;
use crate::owner::{Input, Owner, WAITING_INPUTS};
use crate::pairing::{MadeInvitation, Pairing};
use crate::questions::Questions;
use crate::spending::Spending;
use crate::take_up::{TakingUp, patiently};
use crate::tools::Checks;
use crate::uploads::Uploads;
use crate::workspaces::Workspaces;
use baton_core::user::UserCommand;
use baton_core::{Budgets, Ids, Session, commands};
use baton_model::Model;
use baton_proto::{
    Capabilities, Changed, ClientType, Credentials, DevicePatch, DeviceView, Digest, ErrorBody, ErrorCode, HubInfo, Intent,
    InvitationApproval, InvitationClaim, InvitationId, InvitationState, InvitationView, Operation, PairingApproval, PairingId,
    PairingPreview, PairingRequest, PairingStarted, PairingState, Price, Reply, ReplyStatus, SessionId, Trust, UserId,
};
use baton_store::{Store, StreamId, StreamKind};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// What a hub is made of besides its store.
#[derive(Debug)]
pub struct HubConfig {
    pub version: String,
    pub model: Option<Arc<dyn Model>>,
    pub clock: Arc<dyn Clock>,
    /// Where the pieces of uploads are kept; without it the hub takes none.
    pub uploads_dir: Option<PathBuf>,
    /// Tokens of one task, after which it pauses until its user lets it go on.
    pub task_tokens: Option<u64>,
    /// Tokens of one user and day, after which work pauses until it is confirmed.
    pub day_tokens: Option<u64>,
    /// Tokens that the model's window holds, for ends to show how full it is.
    pub context_tokens: Option<u64>,
    /// What the model's tokens cost.
    pub price: Option<Price>,
}

impl HubConfig {
    pub fn new(version: impl Into<String>, model: Option<Arc<dyn Model>>) -> Self {
        Self {
            version: version.into(),
            model,
            clock: Arc::new(SystemClock),
            uploads_dir: None,
            task_tokens: None,
            day_tokens: None,
            context_tokens: None,
            price: None,
        }
    }
}

/// The engine of one hub process.
#[derive(Debug)]
pub struct Hub {
    pub(crate) shared: Arc<Shared>,
    pub(crate) uploads: Uploads,
    /// Held while a session is imported.
    pub(crate) importing: tokio::sync::Mutex<()>,
    pairing: Pairing,
    version: String,
    context_tokens: Option<u64>,
    pub(crate) price: Option<Price>,
}

/// What every owner, link and reader has in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) workspaces: Workspaces,
    pub(crate) questions: Questions,
    pub(crate) spending: Spending,
    pub(crate) waiting: Waiting,
    sessions: Mutex<Sessions>,
    failure: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// Ordered, so that whoever is told, is told in the same order each time.
    open: BTreeMap<(UserId, SessionId), Handle>,
    closing: bool,
}

/// The way to a session's owner, and to what it says live.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) live: Arc<Live>,
}

impl Shared {
    pub(crate) fn model_name(&self) -> Option<String> {
        self.model.as_ref().map(|model| model.name().to_owned())
    }

    /// The hub can't go on; whoever runs it is told why.
    pub(crate) fn fail(&self, reason: String) {
        self.failure.send_if_modified(|failure| failure.is_none().then(|| *failure = Some(reason)).is_some());
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, user: UserId, session: SessionId) {
        self.sessions().open.remove(&(user, session));
    }

    /// Takes an idle owner off the map, unless something reached it in the meantime.
    pub(crate) fn retire(&self, user: UserId, session: SessionId, inputs: &mpsc::Receiver<Input>) -> bool {
        let mut sessions = self.sessions();
        if !inputs.is_empty() {
            return false;
        }
        sessions.open.remove(&(user, session));
        true
    }

    /// Tells a session that waited for its workspace that it has it now.
    pub(crate) fn tell_granted(&self, user: UserId, session: SessionId) {
        let handle = self.sessions().open.get(&(user, session)).cloned();
        let Some(handle) = handle else { return };
        tokio::spawn(async move {
            // An owner that is gone has left the line, and passed the workspace on.
            let _ = handle.inputs.send(Input::WorkspaceGranted).await;
        });
    }

    /// Drives a session that has something to do.
    pub(crate) async fn take_up(self: &Arc<Self>, user: UserId, id: SessionId) -> Result<(), ErrorBody> {
        self.start(user, id)?;
        self.state(user, id).await.map(|_| ())
    }

    pub(crate) fn is_loaded(&self, user: UserId, id: SessionId) -> bool {
        self.sessions().open.contains_key(&(user, id))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.sessions().closing
    }

    /// Sessions of a user that are loaded.
    pub(crate) fn loaded(&self, user: UserId) -> Vec<(SessionId, Handle)> {
        self.sessions().open.iter().filter(|((of, _), _)| *of == user).map(|((_, id), handle)| (*id, handle.clone())).collect()
    }

    /// The owner of a session that exists, started if need be. Another user's session is absent (O3).
    pub(crate) async fn session(self: &Arc<Self>, user: UserId, id: SessionId) -> Result<Handle, ErrorBody> {
        if let Some(handle) = self.sessions().open.get(&(user, id)) {
            return Ok(handle.clone());
        }
        let stream = StreamId { kind: StreamKind::Session, id: id.0 };
        let head = self.store.head(user, stream).await.map_err(|error| told(&HubError::Store(error)))?;
        if head.is_none() {
            return Err(ErrorBody::not_found("session"));
        }
        self.start(user, id)
    }

    /// The owner of a session, which may be about to be created.
    fn start(self: &Arc<Self>, user: UserId, id: SessionId) -> Result<Handle, ErrorBody> {
        let mut sessions = self.sessions();
        if sessions.closing {
            return Err(ErrorBody::new(ErrorCode::ShuttingDown, "The hub is stopping.", "Send it again in a moment."));
        }
        if let Some(handle) = sessions.open.get(&(user, id)) {
            return Ok(handle.clone());
        }
        let (sender, inputs) = mpsc::channel(WAITING_INPUTS);
        let live = Arc::new(Live::new());
        let handle = Handle { inputs: sender, live: Arc::clone(&live) };
        let owner = Owner::new(Arc::clone(self), user, id, inputs, handle.inputs.downgrade(), live);
        sessions.open.insert((user, id), handle.clone());
        drop(sessions);
        tokio::spawn(owner.run());
        Ok(handle)
    }

    /// The present state of a session, as its owner has it.
    pub(crate) async fn state(self: &Arc<Self>, user: UserId, id: SessionId) -> Result<Box<Session>, ErrorBody> {
        // An owner that retires at this moment is started again.
        for _ in 0..3 {
            let handle = self.session(user, id).await?;
            let (reply, answer) = oneshot::channel();
            if handle.inputs.send(Input::Read { reply }).await.is_ok()
                && let Ok(state) = answer.await
            {
                return state;
            }
        }
        Err(unreachable_session())
    }
}

fn unreachable_session() -> ErrorBody {
    ErrorBody::new(ErrorCode::Internal, "The session can't be reached at the moment.", "Try again; look at the hub's log if it stays so.")
}

impl Hub {
    /// Opens a hub over its store, and takes up every session that has something to do.
    pub async fn open(store: Arc<dyn Store>, config: HubConfig) -> Result<Arc<Self>, HubError> {
        let failure = watch::channel(None).0;
        let store = Guarded::over(store, failure.clone());
        let directory = Arc::new(patiently(|| Directory::load(Arc::clone(&store), Arc::clone(&config.clock))).await?);
        let uploads = Uploads::open(config.uploads_dir, Arc::clone(&store), Arc::clone(&config.clock), Arc::clone(&directory))?;
        let limits = Budgets { task: config.task_tokens, day: config.day_tokens, spent_today: 0 };
        let users: Vec<_> = directory.users().into_iter().map(|(user, _)| user).collect();
        let spending = patiently(|| Spending::load(limits, &*store, &*config.clock, &users)).await?;
        let shared = Arc::new(Shared {
            store,
            clock: Arc::clone(&config.clock),
            directory: Arc::clone(&directory),
            model: config.model,
            checks: Arc::default(),
            workspaces: Workspaces::default(),
            questions: Questions::default(),
            spending,
            waiting: Waiting::default(),
            sessions: Mutex::default(),
            failure,
        });
        let taking_up = TakingUp::start(&shared).await?;
        for (user, session) in shared.workspaces.open() {
            shared.tell_granted(user, session);
        }
        taking_up.go_on(&shared);
        Ok(Arc::new(Self {
            uploads,
            pairing: Pairing::new(directory, config.clock),
            shared,
            importing: tokio::sync::Mutex::default(),
            version: config.version,
            context_tokens: config.context_tokens,
            price: config.price,
        }))
    }

    pub fn info(&self) -> HubInfo {
        HubInfo {
            version: self.version.clone(),
            incarnation: self.shared.store.incarnation(),
            model: self.shared.model_name(),
            context_tokens: self.context_tokens.filter(|_| self.shared.model.is_some()),
            commands: commands(),
        }
    }

    /// Resolves with the reason when the hub can't go on.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.subscribe();
        // Taken out before anything is awaited, so that the wait can be moved between threads.
        let reason = failure.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Ends links, lets owners finish what they are writing, and closes the store.
    pub async fn shut_down(&self, reason: &str) {
        self.shared.directory.close_all(reason);
        let open: Vec<_> = {
            let mut sessions = self.shared.sessions();
            sessions.closing = true;
            std::mem::take(&mut sessions.open).into_iter().collect()
        };
        let mut waiting: Vec<_> = open.into_iter().map(|(_, handle)| handle.inputs.downgrade()).collect();
        // Owners end when the last way to them is gone and their inputs are drained.
        for _ in 0..50 {
            waiting.retain(|inputs| inputs.upgrade().is_some());
            if waiting.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.shared.directory.keep_all_seen().await;
        if let Err(error) = self.shared.store.close().await {
            tracing::warn!(%error, "the store did not close cleanly");
        }
    }

    // Users and devices.

    pub fn users(&self) -> Vec<(UserId, String)> {
        self.shared.directory.users()
    }

    pub async fn create_user(&self, name: &str) -> Result<UserId, ErrorBody> {
        if self.users().iter().any(|(_, known)| known == name.trim()) {
            return Err(ErrorBody::new(ErrorCode::IllegalTransition, format!("There is a user '{name}' already."), "Choose another name."));
        }
        let now = self.shared.clock.now();
        let id = Ids::new(now, self.shared.clock.random()).fresh();
        self.shared.directory.submit(id, UserCommand::Create { name: name.to_owned() }).await?;
        Ok(id)
    }

    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let who = self.shared.directory.identify(token)?;
        self.shared.directory.hear(who);
        Some(who)
    }

    /// Word that a user's list of devices or sessions has changed. A receiver that lags reads the lists again.
    pub fn changes_of_lists(&self) -> broadcast::Receiver<(UserId, Changed)> {
        self.shared.directory.notices()
    }

    /// The record of a device that isn't revoked.
    pub fn device(&self, who: Identity) -> Option<baton_proto::DeviceRecord> {
        self.shared.directory.record(who)
    }

    pub fn devices(&self, who: Identity) -> Vec<DeviceView> {
        let mut views = self.shared.directory.views(who);
        for view in &mut views {
            self.shared.workspaces.bring_up_to_date(who.user_id, &mut view.workspaces);
        }
        views
    }

    pub fn workspaces(&self, who: Identity) -> Vec<baton_proto::Workspace> {
        let mut workspaces = self.shared.directory.workspaces(who.user_id);
        self.shared.workspaces.bring_up_to_date(who.user_id, &mut workspaces);
        workspaces
    }

    /// Makes a one-time link's secret. `by` is the trusted device that asks, which decides about whoever opens it; or `None` for the hub's
    /// own start, whose link lets in at once.
    pub async fn invite(&self, user: UserId, by: Option<Identity>, trust: Trust) -> Result<MadeInvitation, ErrorBody> {
        match by {
            Some(by) => self.pairing.make_link(by, trust),
            None => self.pairing.invite(user, trust).await,
        }
    }

    /// Lets in whoever opened a link that the hub's own machine made.
    pub async fn claim_invitation(&self, from: IpAddr, claim: &InvitationClaim) -> Result<Credentials, ErrorBody> {
        self.pairing.claim_invitation(from, claim).await
    }

    /// Somebody opens a link, whoever made it.
    pub async fn open_invitation(&self, from: IpAddr, claim: &InvitationClaim) -> Result<InvitationState, ErrorBody> {
        self.pairing.open_link(from, claim).await
    }

    /// The links that a device made, and who opened them.
    pub fn invitations(&self, by: Identity) -> Vec<InvitationView> {
        self.pairing.links(by)
    }

    pub fn approve_invitation(&self, by: Identity, id: InvitationId, approval: &InvitationApproval) -> Result<InvitationView, ErrorBody> {
        self.pairing.approve_link(by, id, &approval.number)
    }

    pub fn refuse_invitation(&self, by: Identity, id: InvitationId) -> Result<InvitationView, ErrorBody> {
        self.pairing.refuse_link(by, id)
    }

    /// Pairs a device that the hub's own start brings along.
    pub async fn pair_own_device(&self, user: UserId, name: &str) -> Result<Credentials, ErrorBody> {
        self.pairing.pair(user, name.to_owned(), ClientType::Device, Capabilities::default(), Trust::Trusted).await
    }

    pub fn start_pairing(&self, from: IpAddr, request: PairingRequest) -> Result<PairingStarted, ErrorBody> {
        self.pairing.start(from, request)
    }

    pub fn preview_pairing(&self, by: Identity, from: IpAddr, code: &str) -> Result<PairingPreview, ErrorBody> {
        self.pairing.trusted(by)?;
        self.pairing.preview(from, code)
    }

    pub fn approve_pairing(&self, by: Identity, from: IpAddr, code: &str, approval: &PairingApproval) -> Result<PairingPreview, ErrorBody> {
        self.pairing.approve(by, from, code, approval)
    }

    pub async fn claim_pairing(&self, from: IpAddr, id: PairingId, secret: &str) -> Result<PairingState, ErrorBody> {
        self.pairing.claim(from, id, secret).await
    }

    /// Changes a device's name or trust. A device may rename itself; everything else needs a trusted one.
    pub async fn change_device(&self, by: Identity, device: baton_proto::DeviceId, patch: DevicePatch) -> Result<(), ErrorBody> {
        if device != by.device_id || patch.trust.is_some() {
            self.pairing.trusted(by)?;
        }
        if let Some(name) = patch.name {
            self.shared.directory.submit(by.user_id, UserCommand::Rename { device, name }).await?;
        }
        if let Some(trust) = patch.trust {
            self.shared.directory.submit(by.user_id, UserCommand::SetTrust { device, trust }).await?;
        }
        Ok(())
    }

    /// Revokes a device: its token is dead and its connections are closed at once. A device may revoke itself.
    pub async fn revoke(&self, by: Identity, device: baton_proto::DeviceId) -> Result<(), ErrorBody> {
        if device != by.device_id {
            self.pairing.trusted(by)?;
        }
        self.shared.directory.submit(by.user_id, UserCommand::Revoke { device }).await.map(|_| ())
    }

    // Operations.

    /// Does one operation, or says why not. The answer is sent only once what it says is durable.
    pub async fn submit(&self, who: Identity, operation: Operation) -> Reply {
        let operation_id = operation.operation_id;
        let Some(sender) = self.shared.directory.acting(who) else {
            return Reply::rejected(
                operation_id,
                operation.session_id,
                ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't paired.", "Pair it first."),
            );
        };
        let digest = operation.digest(sender.device_id);
        let mut operation = Box::new(operation);
        if let Err(error) = attachments::look_up(&self.shared, who.user_id, &mut operation).await {
            return Reply::rejected(operation_id, operation.session_id, error);
        }
        if let Err(error) = self.shared.look_up_calls(who.user_id, &mut operation).await {
            return Reply::rejected(operation_id, operation.session_id, error);
        }
        let made = match self.remember_first(who, &operation).await {
            Ok(made) => made,
            Err(error) => return Reply::rejected(operation_id, operation.session_id, error),
        };
        let reply = self.submit_to_owner(who, operation, digest).await;
        // Whether an answer that was lost was written is unknown: its rule stays, as its approval may have.
        let unknown = reply.error.as_ref().is_some_and(|error| matches!(error.code, ErrorCode::Internal | ErrorCode::StorageFailed));
        if let Some(rule_id) = made.filter(|_| reply.status == ReplyStatus::Rejected && !unknown) {
            self.forget_again(who, rule_id).await;
        }
        reply
    }

    async fn submit_to_owner(&self, who: Identity, mut operation: Box<Operation>, digest: Digest) -> Reply {
        let operation_id = operation.operation_id;
        for _ in 0..3 {
            let handle = match self.owner_for(who, &operation).await {
                Ok(handle) => handle,
                Err(error) => return Reply::rejected(operation_id, operation.session_id, error),
            };
            let (reply, answer) = oneshot::channel();
            let input = Input::Submit { operation, digest: digest.clone(), who, reply };
            match handle.inputs.send(input).await {
                Ok(()) => match answer.await {
                    Ok(reply) => return reply,
                    // Whether it was written is unknown; the same id may be sent again and gets the first outcome.
                    Err(_) => return Reply::rejected(operation_id, None, unreachable_session()),
                },
                // The owner retired at this moment; what was not taken is sent to the next one.
                Err(mpsc::error::SendError(Input::Submit { operation: back, .. })) => operation = back,
                Err(_) => break,
            }
        }
        Reply::rejected(operation_id, None, unreachable_session())
    }

    async fn owner_for(&self, who: Identity, operation: &Operation) -> Result<Handle, ErrorBody> {
        match (operation.session_id, &operation.intent) {
            (Some(_), Intent::NewSession { .. }) => Err(ErrorBody::invalid("'new_session' names no session; the hub names it.")),
            (Some(id), _) => self.shared.session(who.user_id, id).await,
            (None, Intent::NewSession { .. }) => {
                let known = self
                    .shared
                    .store
                    .operation(who.user_id, operation.operation_id)
                    .await
                    .map_err(|error| told(&HubError::Store(error)))?;
                let first = known.and_then(|row| serde_json::from_slice::<Reply>(&row.reply).ok()).and_then(|reply| reply.session_id);
                match first {
                    // A repeat is answered by the session that the first one made.
                    Some(id) => self.shared.session(who.user_id, id).await,
                    None => self.shared.start(who.user_id, Ids::new(self.shared.clock.now(), self.shared.clock.random()).fresh()),
                }
            }
            (None, _) => Err(ErrorBody::invalid(format!("'{}' needs a `session_id`.", operation.intent.name()))),
        }
    }
}
