//! How much work a long list and a long session are, counted and not timed (C35).

use async_trait::async_trait;
use baton_proto::{
    Actor, Capabilities, ClientType, Digest, Event, EventBody, InvitationClaim, Lane, Language, OperationId, SessionEvent, SessionId,
    Timestamp, Trust, UserId,
};
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{
    Append, Appended, EventRow, FoundTexts, Head, HeadWrite, OperationRow, SqliteStore, StateCache, Store, StoreError, StoredEvent,
    StreamId, StreamKind,
};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uuid::Uuid;

const SESSIONS: usize = 3000;
/// Events of the long session.
const LONG: usize = 40_000;

/// The real store, and how much was read from it.
#[derive(Debug)]
struct Counted {
    store: Arc<SqliteStore>,
    heads: AtomicUsize,
    events: AtomicUsize,
}

impl Counted {
    /// Head rows and events that were read since the last time.
    fn taken(&self) -> (usize, usize) {
        (self.heads.swap(0, Ordering::SeqCst), self.events.swap(0, Ordering::SeqCst))
    }

    fn count<T>(counter: &AtomicUsize, rows: Result<Vec<T>, StoreError>) -> Result<Vec<T>, StoreError> {
        counter.fetch_add(rows.as_ref().map_or(0, Vec::len), Ordering::SeqCst);
        rows
    }
}

#[async_trait]
impl Store for Counted {
    fn incarnation(&self) -> u64 {
        self.store.incarnation()
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        self.store.append(append).await
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.store.remember(user, operation).await
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.store.operation(user, id).await
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        let head = self.store.head(user, stream).await?;
        self.heads.fetch_add(usize::from(head.is_some()), Ordering::SeqCst);
        Ok(head)
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        Self::count(&self.heads, self.store.heads(user, kind, before, limit).await)
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        Self::count(&self.heads, self.store.active(kind).await)
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        Self::count(&self.heads, self.store.all(kind).await)
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        Self::count(&self.events, self.store.read(user, stream, after, limit).await)
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        Self::count(&self.events, self.store.read_back(user, stream, before, kinds, limit).await)
    }

    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        self.store.search(user, words, limit).await
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.store.state(user, stream).await
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.store.put_state(user, stream, state).await
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.store.put_blob(user, bytes).await
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.blob(user, digest).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}

async fn open(path: &std::path::Path) -> (Arc<Counted>, Arc<Hub>, Identity) {
    let store =
        Arc::new(Counted { store: SqliteStore::open(path).expect("it works"), heads: AtomicUsize::new(0), events: AtomicUsize::new(0) });
    let hub = Hub::open(Arc::clone(&store) as Arc<dyn Store>, HubConfig::new("0.0.0-test", None)).await.expect("it works");
    let user = match hub.users().first() {
        Some((id, _)) => *id,
        None => hub.create_user("ada").await.expect("it works"),
    };
    let secret = hub.invite(user, None, Trust::Trusted).await.expect("it works").secret;
    let claim = InvitationClaim {
        secret,
        name: "phone".to_owned(),
        client_type: ClientType::Phone,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let credentials = hub.claim_invitation(IpAddr::V4(Ipv4Addr::LOCALHOST), &claim).await.expect("it works");
    (store, hub, Identity { user_id: user, device_id: credentials.device_id })
}

/// Writes a session of notes as a hub would have written it.
async fn write(store: &dyn Store, user: UserId, events: usize) -> SessionId {
    let mut state = baton_core::Session::empty(SessionId(Uuid::now_v7()));
    let stream = StreamId { kind: StreamKind::Session, id: state.id.0 };
    while usize::try_from(state.seq).expect("it works") < events {
        let expected_seq = state.seq;
        let mut rows = Vec::new();
        while usize::try_from(state.seq).expect("it works") < events && rows.len() < 2000 {
            let body = if state.seq == 0 {
                let title = format!("session of {events}");
                SessionEvent::SessionCreated { user_id: user, title, language: Language::En, workspace: None, holder: None, epoch: 1 }
            } else {
                SessionEvent::NoteSet { key: format!("k{}", state.seq % 7), value: state.seq.to_string() }
            };
            let at = Timestamp(1_800_000_000_000 + i64::try_from(state.seq).expect("it works"));
            let event = Event { at, lane: Lane::default(), actor: Actor::Hub, operation_id: None, body };
            state.apply(&event);
            rows.push(EventRow {
                kind: event.body.name().to_owned(),
                event: serde_json::to_vec(&event).expect("it works"),
                upserts: serde_json::to_vec(&baton_core::upserts(&state, &event)).expect("it works"),
            });
        }
        let summary = serde_json::to_vec(&baton_core::summary(&state)).expect("it works");
        let head = HeadWrite { epoch: 1, active: false, wake_at: None, updated_at: state.updated_at, summary };
        store
            .append(Append { stream, user, expected_seq, fence: store.incarnation(), rows, head, operation: None })
            .await
            .expect("it works");
    }
    let cache = StateCache { seq: state.seq, format: baton_core::STATE_FORMAT, bytes: serde_json::to_vec(&state).expect("it works") };
    store.put_state(user, stream, cache).await.expect("it works");
    state.id
}

#[tokio::test(flavor = "multi_thread")]
async fn c35_a_long_list_and_a_long_session_are_as_little_work_as_short_ones() {
    let data = tempfile::tempdir().expect("it works");
    let (store, hub, who) = open(data.path()).await;
    let (mut short, mut long) = (None, None);
    let mut writing = tokio::task::JoinSet::new();
    for number in 0..SESSIONS {
        let (store, user) = (Arc::clone(&store.store), who.user_id);
        let events = if number == SESSIONS / 2 { LONG } else { 6 };
        writing.spawn(async move { (events, write(store.as_ref(), user, events).await) });
        if writing.len() > 200 {
            let (events, id) = writing.join_next().await.expect("it works").expect("it works");
            *(if events == LONG { &mut long } else { &mut short }) = Some(id);
        }
    }
    while let Some(written) = writing.join_next().await {
        let (events, id) = written.expect("it works");
        *(if events == LONG { &mut long } else { &mut short }) = Some(id);
    }
    hub.shut_down("The test goes on.").await;
    drop(hub);
    store.store.close().await.expect("it works");
    drop(store);

    let (store, hub, who) = open(data.path()).await;
    let (heads, events) = store.taken();
    assert!(heads < 100 && events < 200, "a start looks at what is active, not at {heads} head rows and {events} events");

    // A page costs its rows, wherever it is, and no event is read for a list.
    let mut next = None;
    let mut listed = 0;
    loop {
        let list = hub.sessions(who, next.as_deref(), 200).await.expect("it works");
        let (heads, events) = store.taken();
        assert!(heads <= 201 && events == 0, "{heads} head rows and {events} events for a page");
        listed += list.sessions.len();
        next = list.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(listed, SESSIONS);

    let mut costs = Vec::new();
    for id in [short.expect("it works"), long.expect("it works")] {
        let view = hub.view(who, id).await.expect("it works");
        assert!(view.seq == 6 || view.seq == LONG as u64);
        costs.push(store.taken().1);
    }
    assert!(costs[1] <= costs[0] + 64, "opening the long one reads {} events, a short one {}", costs[1], costs[0]);
    hub.shut_down("The test is over.").await;
}
