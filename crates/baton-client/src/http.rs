//! Every HTTP route of the hub as one typed call each.

use crate::lenient::{ReadChange, UnknownChange, read_change, read_error, read_reply, read_view};
use crate::{ClientError, HubUrl, Token, tls};
use baton_proto::{
    AddedUser, Brief, CallId, Change, Credentials, DeviceId, DevicePatch, DeviceView, ErrorBody, ErrorCode, FoundPaths, History, HubInfo,
    Invitation, InvitationApproval, InvitationClaim, InvitationId, InvitationRequest, InvitationState, InvitationView, NewUser, Operation,
    PairingApproval, PairingClaim, PairingId, PairingPreview, PairingRequest, PairingStarted, PairingState, Reply, Rule, RuleId,
    SearchResults, SessionFilter, SessionId, SessionImport, SessionList, SessionView, Snapshot, TaskId, Trust, UsageReport, WorkspaceDiff,
};
use reqwest::header::AUTHORIZATION;
use reqwest::{Client, Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// An answer is at most this large, in bytes; a page of events is the largest there is.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a new device asks what became of its request.
const ASK_EVERY: Duration = Duration::from_millis(700);

/// A hub as it is asked over HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    hub: HubUrl,
    token: Option<Token>,
    client: Client,
}

/// One page of a session's log.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangePage {
    pub changes: Vec<ChangeEntry>,
    /// The session's last sequence number when the page was made.
    pub head: u64,
}

/// One entry of a page, in order; the next page begins after the last entry's sequence number.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeEntry {
    Known(Box<Change>),
    /// Of a kind that this version doesn't know (C19).
    Unknown(UnknownChange),
}

impl ChangeEntry {
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Known(change) => change.seq,
            Self::Unknown(change) => change.seq,
        }
    }
}

impl Http {
    /// Without a token, only pairing and invitations can be asked for. No redirect is followed and no proxy asked, so
    /// that the token reaches the named hub only.
    pub fn new(hub: HubUrl, token: Option<Token>) -> Result<Self, ClientError> {
        tls::choose_cryptography();
        let unusable = |why: String| ClientError::Unreachable(format!("TLS can't be set up: {why}"));
        let mut builder = Client::builder();
        if let Some(config) = hub.authority().client_config().map_err(unusable)? {
            builder = builder.tls_backend_preconfigured(config);
        }
        let client = builder
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .build()
            .map_err(|error| unusable(causes(&error)))?;
        Ok(Self { hub, token, client })
    }

    /// `GET /v1/hub`.
    pub async fn hub(&self) -> Result<HubInfo, ClientError> {
        self.get(&["hub"], &[]).await
    }

    /// `GET /v1/sessions`; `before` is the `next` of the page before.
    pub async fn sessions(&self, before: Option<&str>, limit: Option<u32>) -> Result<SessionList, ClientError> {
        self.get(&["sessions"], &query(before.map(str::to_owned), limit)).await
    }

    /// `GET /v1/sessions`, those that a filter lets through.
    pub async fn sessions_that(&self, filter: SessionFilter, before: Option<&str>, limit: Option<u32>) -> Result<SessionList, ClientError> {
        let mut asked = query(before.map(str::to_owned), limit);
        let flags = [("archived", filter.archived), ("waiting", filter.waiting), ("pinned", filter.pinned)];
        asked.extend(flags.into_iter().filter(|(_, set)| *set).map(|(name, _)| (name, "true".to_owned())));
        self.get(&["sessions"], &asked).await
    }

    /// `GET /v1/search`.
    pub async fn search(&self, words: &str, limit: Option<u32>) -> Result<SearchResults, ClientError> {
        let mut asked = query(None, limit);
        asked.push(("q", words.to_owned()));
        self.get(&["search"], &asked).await
    }

    /// `GET /v1/sessions/{id}`. Entities of kinds that this version doesn't know are left out.
    pub async fn session(&self, id: SessionId) -> Result<SessionView, ClientError> {
        let value = self.get(&["sessions", &id.to_string()], &[]).await?;
        read_view(value).map_err(ClientError::Protocol)
    }

    /// `GET /v1/sessions/{id}/snapshot`.
    pub async fn snapshot(&self, id: SessionId) -> Result<Snapshot, ClientError> {
        self.get(&["sessions", &id.to_string(), "snapshot"], &[]).await
    }

    /// `GET /v1/sessions/{id}/brief`.
    pub async fn brief(&self, id: SessionId) -> Result<Brief, ClientError> {
        self.get(&["sessions", &id.to_string(), "brief"], &[]).await
    }

    /// `GET /v1/sessions/{id}/diff`: what the agent changed in one task, step or call; by default in the newest task.
    pub async fn diff(
        &self,
        id: SessionId,
        task: Option<TaskId>,
        step: Option<&str>,
        call: Option<CallId>,
    ) -> Result<WorkspaceDiff, ClientError> {
        let named = [("task", task.map(|it| it.to_string())), ("step", step.map(str::to_owned)), ("call", call.map(|it| it.to_string()))];
        let query: Vec<_> = named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        self.get(&["sessions", &id.to_string(), "diff"], &query).await
    }

    /// `GET /v1/sessions/{id}/file`: a file of the session's workspace as its device shows it, at most 8 MiB.
    pub async fn file(&self, id: SessionId, path: &str) -> Result<Vec<u8>, ClientError> {
        let url = self.url(&["sessions", &id.to_string(), "file"], &[("path", path.to_owned())]);
        self.answer(Method::GET, url, None::<&()>).await
    }

    /// `GET /v1/sessions/{id}/paths`: paths of the session's workspace that fit the beginning of one.
    pub async fn paths(&self, id: SessionId, begun: &str, limit: Option<u32>) -> Result<FoundPaths, ClientError> {
        let mut query = query(None, limit);
        query.push(("q", begun.to_owned()));
        self.get(&["sessions", &id.to_string(), "paths"], &query).await
    }

    /// `GET /v1/sessions/{id}/history`; `before` is the `before` of the page before, or a view's `history_before`.
    pub async fn history(&self, id: SessionId, before: Option<u64>, limit: Option<u32>) -> Result<History, ClientError> {
        self.get(&["sessions", &id.to_string(), "history"], &query(before.map(|it| it.to_string()), limit)).await
    }

    /// `GET /v1/sessions/{id}/events`: what came after sequence number `after`, oldest first.
    pub async fn events(&self, id: SessionId, after: u64, limit: Option<u32>) -> Result<ChangePage, ClientError> {
        #[derive(serde::Deserialize)]
        struct Page {
            changes: Vec<Value>,
            head: u64,
        }
        let mut query = query(None, limit);
        query.push(("after", after.to_string()));
        let page: Page = self.get(&["sessions", &id.to_string(), "events"], &query).await?;
        let entry = |value| match read_change(value).map_err(ClientError::Protocol)? {
            ReadChange::Known(change) => Ok(ChangeEntry::Known(change)),
            ReadChange::Unknown(change) => Ok(ChangeEntry::Unknown(change)),
        };
        Ok(ChangePage { changes: page.changes.into_iter().map(entry).collect::<Result<_, ClientError>>()?, head: page.head })
    }

    /// `POST /v1/ops`. A rejection is a reply too, wherever the hub put it.
    pub async fn operate(&self, operation: &Operation) -> Result<Reply, ClientError> {
        match self.send::<Value>(Method::POST, &["ops"], &[], Some(operation)).await {
            Ok(value) => read_reply(value).map_err(ClientError::Protocol),
            // An operation was looked at and refused; that the device is unknown is about the request, not about it.
            Err(ClientError::Hub(error)) if error.code != ErrorCode::Unauthenticated => {
                Ok(Reply::rejected(operation.operation_id, operation.session_id, error))
            }
            Err(error) => Err(error),
        }
    }

    /// `GET /v1/devices`.
    pub async fn devices(&self) -> Result<Vec<DeviceView>, ClientError> {
        #[derive(serde::Deserialize)]
        struct List {
            devices: Vec<DeviceView>,
        }
        self.get::<List>(&["devices"], &[]).await.map(|list| list.devices)
    }

    /// `PATCH /v1/devices/{id}`.
    pub async fn change_device(&self, id: DeviceId, patch: &DevicePatch) -> Result<(), ClientError> {
        self.send_for_nothing(Method::PATCH, &["devices", &id.to_string()], Some(patch)).await
    }

    /// `DELETE /v1/devices/{id}`: its token is dead from then on.
    pub async fn revoke_device(&self, id: DeviceId) -> Result<(), ClientError> {
        self.send_for_nothing(Method::DELETE, &["devices", &id.to_string()], None::<&()>).await
    }

    /// `GET /v1/rules`: remembered approvals.
    pub async fn rules(&self) -> Result<Vec<Rule>, ClientError> {
        #[derive(serde::Deserialize)]
        struct List {
            rules: Vec<Rule>,
        }
        self.get::<List>(&["rules"], &[]).await.map(|list| list.rules)
    }

    /// `GET /v1/usage`: tokens by day.
    pub async fn usage(&self) -> Result<UsageReport, ClientError> {
        self.get(&["usage"], &[]).await
    }

    /// `DELETE /v1/rules/{id}`.
    pub async fn remove_rule(&self, id: RuleId) -> Result<(), ClientError> {
        self.send_for_nothing(Method::DELETE, &["rules", &id.to_string()], None::<&()>).await
    }

    /// `POST /v1/pairings`, by a new device.
    pub async fn start_pairing(&self, request: &PairingRequest) -> Result<PairingStarted, ClientError> {
        self.send(Method::POST, &["pairings"], &[], Some(request)).await
    }

    /// `POST /v1/pairings/{pairing_id}/claim`, by the new device with its secret.
    pub async fn claim_pairing(&self, id: PairingId, claim: &PairingClaim) -> Result<PairingState, ClientError> {
        self.send(Method::POST, &["pairings", &id.to_string(), "claim"], &[], Some(claim)).await
    }

    /// `GET /v1/pairings/{code}`, by a trusted device before it approves (S4).
    pub async fn preview_pairing(&self, code: &str) -> Result<PairingPreview, ClientError> {
        self.get(&["pairings", code], &[]).await
    }

    /// `POST /v1/pairings/{code}/approve`, by a trusted device, with the number that the new one shows.
    pub async fn approve_pairing(&self, code: &str, approval: &PairingApproval) -> Result<(), ClientError> {
        self.send_for_nothing(Method::POST, &["pairings", code, "approve"], Some(approval)).await
    }

    /// `POST /v1/invitations`, by a trusted device.
    pub async fn invite(&self, trust: Trust) -> Result<Invitation, ClientError> {
        self.send(Method::POST, &["invitations"], &[], Some(&InvitationRequest { trust })).await
    }

    /// `POST /v1/invitations/claim`, by whoever holds the link. What has to be confirmed first is asked about by `claim_pairing`.
    pub async fn open_invitation(&self, claim: &InvitationClaim) -> Result<InvitationState, ClientError> {
        self.send(Method::POST, &["invitations", "claim"], &[], Some(claim)).await
    }

    /// Opens a link, and waits until whoever made it has decided. For ends that have no screen; others show the number meanwhile.
    pub async fn claim_invitation(&self, claim: &InvitationClaim) -> Result<Credentials, ClientError> {
        let (pairing_id, secret) = match self.open_invitation(claim).await? {
            InvitationState::Approved(credentials) => return Ok(credentials),
            InvitationState::Asking { pairing_id, secret, .. } => (pairing_id, secret),
        };
        let claim = PairingClaim { secret, cookie: claim.cookie };
        loop {
            match self.claim_pairing(pairing_id, &claim).await {
                Ok(PairingState::Approved(credentials)) => return Ok(credentials),
                Ok(PairingState::Waiting { .. }) => {}
                Err(error) if error.may_be_repeated() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// `GET /v1/invitations`: the links that this device made, and who asks to be let in by them.
    pub async fn invitations(&self) -> Result<Vec<InvitationView>, ClientError> {
        #[derive(serde::Deserialize)]
        struct List {
            invitations: Vec<InvitationView>,
        }
        self.get::<List>(&["invitations"], &[]).await.map(|list| list.invitations)
    }

    /// `POST /v1/invitations/{id}/approve`, by the device that made the link, with the number that the new one shows.
    pub async fn approve_invitation(&self, id: InvitationId, approval: &InvitationApproval) -> Result<InvitationView, ClientError> {
        self.send(Method::POST, &["invitations", &id.to_string(), "approve"], &[], Some(approval)).await
    }

    /// `POST /v1/invitations/{id}/refuse`.
    pub async fn refuse_invitation(&self, id: InvitationId) -> Result<InvitationView, ClientError> {
        self.send(Method::POST, &["invitations", &id.to_string(), "refuse"], &[], Some(&serde_json::json!({}))).await
    }

    /// `POST /v1/sessions/import`, of a file that was uploaded.
    pub async fn import_session(&self, import: &SessionImport) -> Result<Reply, ClientError> {
        self.send(Method::POST, &["sessions", "import"], &[], Some(import)).await
    }

    /// `POST /v1/admin/users`, with the token that a hub leaves in its data directory.
    pub async fn add_user(&self, name: &str) -> Result<AddedUser, ClientError> {
        self.send(Method::POST, &["admin", "users"], &[], Some(&NewUser { name: name.to_owned() })).await
    }

    async fn get<T: DeserializeOwned>(&self, route: &[&str], query: &[(&str, String)]) -> Result<T, ClientError> {
        self.send(Method::GET, route, query, None::<&()>).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        route: &[&str],
        query: &[(&str, String)],
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let bytes = self.answer(method, self.url(route, query), body).await?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Protocol(format!("/v1/{} can't be read: {error}", route.join("/"))))
    }

    /// A request whose success is all there is to know.
    async fn send_for_nothing(&self, method: Method, route: &[&str], body: Option<&impl Serialize>) -> Result<(), ClientError> {
        self.answer(method, self.url(route, &[]), body).await.map(drop)
    }

    fn url(&self, route: &[&str], query: &[(&str, String)]) -> Url {
        let parts: Vec<&str> = std::iter::once("v1").chain(route.iter().copied()).collect();
        self.hub.route(&parts, query)
    }

    /// A request to a route, for what isn't JSON.
    pub(crate) fn request(&self, method: Method, route: &[&str]) -> reqwest::RequestBuilder {
        self.client.request(method, self.url(route, &[]))
    }

    pub(crate) const fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// An answer as it is.
    pub(crate) async fn bytes(&self, route: &[&str]) -> Result<Vec<u8>, ClientError> {
        self.answer(Method::GET, self.url(route, &[]), None::<&()>).await
    }

    async fn answer(&self, method: Method, url: Url, body: Option<&impl Serialize>) -> Result<Vec<u8>, ClientError> {
        let mut request = self.client.request(method, url);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.authorization());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let mut response = request.send().await.map_err(|error| unanswered(&error.without_url()))?;
        let status = response.status();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unanswered(&error.without_url()))? {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(ClientError::Protocol(format!("it is larger than {MAX_ANSWER_BYTES} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() { Ok(bytes) } else { Err(failure(status, &bytes)) }
    }
}

/// What an answer that isn't a success means.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> ClientError {
    let fallback = if status.is_server_error() { ErrorCode::Internal } else { ErrorCode::Invalid };
    if let Some(error) = serde_json::from_slice::<Value>(body).ok().and_then(|value| read_error(&value, fallback)) {
        return ClientError::Hub(error);
    }
    match status {
        StatusCode::UNAUTHORIZED => ClientError::Hub(ErrorBody::new(
            ErrorCode::Unauthenticated,
            "The hub doesn't know this device.",
            "Pair it again on a trusted device.",
        )),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            ClientError::Unreachable(format!("what stands before it answered with status {status}"))
        }
        status if status.is_redirection() => ClientError::Protocol(format!("it redirects elsewhere (status {status})")),
        status => ClientError::Protocol(format!("it has status {status} without a reason")),
    }
}

/// Why there was no answer.
pub(crate) fn unanswered(error: &(dyn std::error::Error + 'static)) -> ClientError {
    let why = causes(error);
    if tls::is_untrusted(error) { ClientError::Untrusted(why) } else { ClientError::Unreachable(why) }
}

/// An error with what caused it, since the causes are what says what to do.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}

fn query(before: Option<String>, limit: Option<u32>) -> Vec<(&'static str, String)> {
    let before = before.map(|it| ("before", it));
    let limit = limit.map(|it| ("limit", it.to_string()));
    before.into_iter().chain(limit).collect()
}
