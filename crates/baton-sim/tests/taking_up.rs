//! A hub takes up what has something to do, whoever left it and whatever the disk says at first, without anybody asking for it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use async_trait::async_trait;
use baton_model::{DeltaSink, Model};
use baton_proto::{
    Capabilities, ClientFrame, ClientType, Delivery, Effect, ErrorCode, HubFrame, Intent, InvitationClaim, ModelAnswer, ModelError,
    ModelMessage, ModelRequest, ModelToolCall, Operation, OperationId, Outcome, PROTOCOL_VERSION, Risk, SessionId, ToolResult, ToolSpec,
    Trust, UserId,
};
use baton_runtime::{Hub, HubConfig, Identity, Link, LinkFrame, LinkFrames};
use baton_sim::world::{Disk, Watch};
use baton_store::{StateCache, Store, StoreError, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// A model that wants the bell rung, and then nothing more.
#[derive(Debug)]
struct Rings;

#[async_trait]
impl Model for Rings {
    fn name(&self) -> &'static str {
        "rings"
    }

    async fn complete(&self, request: &ModelRequest, _: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        let rung = request.messages.iter().any(|message| matches!(message, ModelMessage::Result { .. }));
        let call = ModelToolCall { id: "c0".to_owned(), name: "ring_bell".to_owned(), arguments: "{}".to_owned() };
        let calls = if rung { Vec::new() } else { vec![call] };
        Ok(ModelAnswer { text: "I ring.".to_owned(), calls, ..ModelAnswer::default() })
    }
}

fn bell() -> ToolSpec {
    ToolSpec {
        name: "ring_bell".to_owned(),
        description: "Rings.".to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {}}),
        effect: Effect::Once,
        risk: Risk::Safe,
        prepare: false,
        lookup: false,
        lasting: false,
        timeout_s: 30,
    }
}

/// A device's connection to a hub.
async fn connected(hub: &Arc<Hub>, who: Identity) -> (Link, LinkFrames) {
    let hello = ClientFrame::Hello {
        protocol: PROTOCOL_VERSION,
        client_type: ClientType::Device,
        capabilities: Capabilities::default(),
        tools: vec![bell()],
        workspaces: Vec::new(),
        cursors: std::collections::BTreeMap::new(),
        running: Vec::new(),
        journal: None,
    };
    hub.connect(who, hello).await.unwrap()
}

/// The next frame that is looked for.
async fn next<T>(frames: &mut LinkFrames, wanted: impl Fn(HubFrame) -> Option<T>) -> T {
    let found = async {
        loop {
            match frames.next().await {
                Some(LinkFrame::Frame(frame)) => {
                    if let Some(found) = wanted(*frame) {
                        return found;
                    }
                }
                other => panic!("the connection ends: {other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), found).await.expect("it comes")
}

/// The device forgets a result once it is acknowledged. A hub whose state was overtaken by another's once took one for known.
#[tokio::test(start_paused = true)]
async fn a_result_isnt_acknowledged_by_a_hub_that_is_behind_before_it_is_kept() {
    let disk = Disk::new();
    let store = || disk.open(Some(Failing::new(0, true) as Arc<dyn Watch>)) as Arc<dyn Store>;
    let one = Hub::open(store(), HubConfig::new("test", Some(Arc::new(Rings)))).await.unwrap();
    let (phone, session) = a_session(&one).await;
    let bell = one.pair_own_device(phone.user_id, "bell").await.unwrap();
    let bell = Identity { user_id: phone.user_id, device_id: bell.device_id };
    let (_link, mut frames) = connected(&one, bell).await;
    let other = Hub::open(store(), HubConfig::new("test", Some(Arc::new(Rings)))).await.unwrap();
    other.view(phone, session).await.unwrap();
    // The same device, to the hub that comes after, before there is anything to tell it.
    let (mut link, mut others) = connected(&other, bell).await;
    say(&one, phone, session).await;
    let call = next(&mut frames, |frame| if let HubFrame::ToolCall(call) = frame { Some(call) } else { None }).await;
    let result = ToolResult { content: "rung".to_owned(), bytes: 4, ..ToolResult::default() };
    let outcome = Outcome::Succeeded(result);
    let told = ClientFrame::ToolResult { session_id: session, call_id: call.call_id, attempt: call.attempt, outcome };
    link.receive(told).await.unwrap();
    next(&mut others, |frame| matches!(frame, HubFrame::ToolResultAck { .. }).then_some(())).await;
    let stream = StreamId { kind: baton_store::StreamKind::Session, id: session.0 };
    assert!(disk.events(phone.user_id, stream, 0).iter().any(|event| event.kind == "tool_succeeded"), "acknowledged and not kept");
}

/// A model that is asked and never answers.
#[derive(Debug, Default)]
struct Asked(AtomicU32);

#[async_trait]
impl Model for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }

    async fn complete(&self, _: &ModelRequest, _: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

/// A disk of which so many reads fail, and whose hub may be dead.
#[derive(Debug)]
struct Failing {
    reads: AtomicU32,
    dead: AtomicBool,
    shared: bool,
}

impl Failing {
    fn new(reads: u32, shared: bool) -> Arc<Self> {
        Arc::new(Self { reads: AtomicU32::new(reads), dead: AtomicBool::new(false), shared })
    }
}

#[async_trait]
impl Watch for Failing {
    async fn before(&self, _: u64, writes: bool) -> Result<Duration, StoreError> {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let fails = !writes && self.reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails { Err(StoreError::Io("a simulated read failed".to_owned())) } else { Ok(Duration::ZERO) }
    }

    async fn after(&self, _: u64, _: bool) {}

    fn sync_fails(&self, _: u64) -> Option<bool> {
        None
    }

    fn may_be_shared(&self) -> bool {
        self.shared
    }

    fn committed(&self, _: UserId, _: StreamId) {}

    fn cached(&self, _: StreamId, _: &StateCache) {}
}

async fn open(disk: &Arc<Disk>, watch: &Arc<Failing>) -> (Arc<Hub>, Arc<Asked>) {
    let model = Arc::new(Asked::default());
    let store: Arc<dyn Store> = disk.open(Some(Arc::clone(watch) as Arc<dyn Watch>));
    let hub = Hub::open(store, HubConfig::new("test", Some(Arc::clone(&model) as Arc<dyn Model>))).await.unwrap();
    (hub, model)
}

async fn a_session(hub: &Hub) -> (Identity, SessionId) {
    let user = hub.create_user("ada").await.unwrap();
    let invitation = hub.invite(user, None, Trust::Trusted).await.unwrap();
    let claim = InvitationClaim {
        secret: invitation.secret,
        name: "phone".to_owned(),
        client_type: ClientType::Phone,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let phone = hub.claim_invitation(std::net::Ipv4Addr::LOCALHOST.into(), &claim).await.unwrap();
    let phone = Identity { user_id: user, device_id: phone.device_id };
    let opened = hub.submit(phone, operation(None, Intent::NewSession { title: None, workspace: None })).await;
    (phone, opened.session_id.unwrap())
}

fn operation(session: Option<SessionId>, intent: Intent) -> Operation {
    Operation::new(OperationId(Uuid::now_v7()), session, intent)
}

async fn say(hub: &Hub, who: Identity, session: SessionId) {
    let intent = Intent::Say { text: "Go on.".to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Steer };
    let mut operation = operation(Some(session), intent);
    operation.epoch = Some(1);
    let said = hub.submit(who, operation).await;
    assert!(said.error.is_none(), "{said:?}");
}

/// Virtual time; whoever waits longer waits for ever.
async fn asked(model: &Asked) {
    asked_when(model, "").await;
}

async fn asked_when(model: &Asked, when: &str) {
    let end = tokio::time::Instant::now() + Duration::from_mins(5);
    while model.0.load(Ordering::SeqCst) == 0 {
        assert!(tokio::time::Instant::now() < end, "nobody takes the session up{when}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_fail_at_the_start_are_tried_again() {
    // One; as many as a start waits for; and more than that, also of those that look again later.
    for reads in [1, 4, 20] {
        let disk = Disk::new();
        let first = Failing::new(0, false);
        let (hub, model) = open(&disk, &first).await;
        let (phone, session) = a_session(&hub).await;
        say(&hub, phone, session).await;
        asked(&model).await;
        first.dead.store(true, Ordering::SeqCst);
        // A start reads who its users are and which sessions are active, and then these.
        for well in [0, STARTS_WITH] {
            if well == 0 && reads > 4 {
                continue;
            }
            let watch = Arc::new(After { watch: Failing::new(0, false), well: AtomicU32::new(well), failing: reads });
            let model = Arc::new(Asked::default());
            let store: Arc<dyn Store> = disk.open(Some(Arc::clone(&watch) as Arc<dyn Watch>));
            let _hub = Hub::open(store, HubConfig::new("test", Some(Arc::clone(&model) as Arc<dyn Model>))).await.unwrap();
            asked_when(&model, &format!(" when {well} reads go well and {reads} fail")).await;
            watch.watch.dead.store(true, Ordering::SeqCst);
        }
    }
}

/// Reads of a start before it comes to sessions: the users, one user's events in two pages, the active sessions.
const STARTS_WITH: u32 = 4;

/// So many reads go well before others fail.
#[derive(Debug)]
struct After {
    watch: Arc<Failing>,
    well: AtomicU32,
    failing: u32,
}

#[async_trait]
impl Watch for After {
    async fn before(&self, incarnation: u64, writes: bool) -> Result<Duration, StoreError> {
        if !writes && self.well.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.wrapping_sub(1))) == Ok(0) {
            self.watch.reads.store(self.failing, Ordering::SeqCst);
        }
        self.watch.before(incarnation, writes).await
    }

    async fn after(&self, _: u64, _: bool) {}

    fn sync_fails(&self, _: u64) -> Option<bool> {
        None
    }

    fn may_be_shared(&self) -> bool {
        false
    }

    fn committed(&self, _: UserId, _: StreamId) {}

    fn cached(&self, _: StreamId, _: &StateCache) {}
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cant_be_read_says_so_to_whoever_asks() {
    let disk = Disk::new();
    let watch = Failing::new(0, false);
    let (hub, _) = open(&disk, &watch).await;
    let (phone, session) = a_session(&hub).await;
    drop(hub);
    let watch = Failing::new(0, false);
    let (hub, _) = open(&disk, &watch).await;
    watch.reads.store(1000, Ordering::SeqCst);
    let refused = hub.view(phone, session).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::StorageFailed, "{refused:?}");
    watch.reads.store(0, Ordering::SeqCst);
    hub.view(phone, session).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_another_hub_left_is_taken_up_whether_or_not_it_is_loaded() {
    for loaded in [false, true] {
        let disk = Disk::new();
        let first = Failing::new(0, true);
        let (one, model) = open(&disk, &first).await;
        let (phone, session) = a_session(&one).await;
        let (other, others) = open(&disk, &Failing::new(0, true)).await;
        if loaded {
            other.view(phone, session).await.unwrap();
        }
        say(&one, phone, session).await;
        asked(&model).await;
        first.dead.store(true, Ordering::SeqCst);
        asked(&others).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_reads_what_another_hub_has_written() {
    let disk = Disk::new();
    let (one, _) = open(&disk, &Failing::new(0, true)).await;
    let (phone, session) = a_session(&one).await;
    let (other, _) = open(&disk, &Failing::new(0, true)).await;
    let before = other.view(phone, session).await.unwrap().seq;
    say(&one, phone, session).await;
    assert!(other.view(phone, session).await.unwrap().seq > before);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_a_newer_one_has_overtaken_stops() {
    let disk = Disk::new();
    let (one, _) = open(&disk, &Failing::new(0, true)).await;
    let (phone, session) = a_session(&one).await;
    let (other, _) = open(&disk, &Failing::new(0, true)).await;
    say(&other, phone, session).await;
    let why = tokio::time::timeout(Duration::from_mins(1), one.failed()).await.expect("it notices");
    assert!(why.contains("newer hub"), "{why}");
}
