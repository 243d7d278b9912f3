//! Following a session (D4): whatever is missed on the way comes again from the log, in order, once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on fails")]

use async_trait::async_trait;
use baton_model::{DeltaSink, Model};
use baton_proto::{
    Capabilities, ClientType, EntityView, Intent, InvitationClaim, MAX_FRAME_BYTES, ModelAnswer, ModelError, ModelRequest, Operation,
    OperationId, Reply, ReplyStatus, SessionId, Trust,
};
use baton_runtime::{Hub, HubConfig, Identity, Subscription, SubscriptionItem};
use baton_store::SqliteStore;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// However slow the machine is, what is awaited comes within this.
const PATIENCE: Duration = Duration::from_secs(20);

/// A model that says a lot, in many small pieces.
#[derive(Debug)]
struct Talker {
    pieces: usize,
    /// Whether it comes to an end.
    ends: bool,
}

#[async_trait]
impl Model for Talker {
    fn name(&self) -> &'static str {
        "talker"
    }

    async fn complete(&self, _: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        for _ in 0..self.pieces {
            sink.text("word ");
        }
        if !self.ends {
            std::future::pending::<()>().await;
        }
        Ok(ModelAnswer { text: "word ".repeat(self.pieces), ..ModelAnswer::default() })
    }
}

struct World {
    hub: Arc<Hub>,
    who: Identity,
    session: SessionId,
    _data: TempDir,
}

impl World {
    async fn new(model: Option<Arc<dyn Model>>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let hub = Hub::open(SqliteStore::open(data.path()).unwrap(), HubConfig::new("0.0.0-test", model)).await.unwrap();
        let user = hub.create_user("ada").await.unwrap();
        let secret = hub.invite(user, None, Trust::Trusted).await.unwrap().secret;
        let claim = InvitationClaim {
            secret,
            name: "phone".to_owned(),
            client_type: ClientType::Phone,
            capabilities: Capabilities::default(),
            cookie: false,
        };
        let credentials = hub.claim_invitation(IpAddr::V4(Ipv4Addr::LOCALHOST), &claim).await.unwrap();
        let who = Identity { user_id: user, device_id: credentials.device_id };
        let mut world = Self { hub, who, session: SessionId(uuid::Uuid::nil()), _data: data };
        let reply = world.operate(json!({"intent": "new_session"})).await;
        world.session = reply.session_id.unwrap();
        world
    }

    async fn operate(&self, mut operation: serde_json::Value) -> Reply {
        operation["v"] = json!(1);
        operation["operation_id"] = json!(OperationId(uuid::Uuid::now_v7()));
        if operation["intent"] != "new_session" {
            operation["session_id"] = json!(self.session);
            operation["epoch"] = json!(1);
        }
        let operation = Operation::decode(operation).unwrap();
        let fresh = matches!(operation.intent, Intent::NewSession { .. });
        let reply = self.hub.submit(self.who, operation).await;
        assert!(fresh || reply.status == ReplyStatus::Accepted, "{reply:?}");
        reply
    }

    async fn note(&self, number: usize) {
        self.operate(json!({"intent": "set_note", "payload": {"key": format!("k{}", number % 7), "value": number.to_string()}})).await;
    }

    async fn say(&self, text: &str) {
        let mut follower = self.hub.subscribe(self.who, self.session, None).await.unwrap();
        self.operate(json!({"intent": "say", "payload": {"text": text}})).await;
        loop {
            if let SubscriptionItem::Change(change) = next(&mut follower).await
                && baton_proto::EventBody::name(&change.event.body) == "turn_finished"
            {
                return;
            }
        }
    }

    async fn head(&self) -> u64 {
        self.hub.changes(self.who, self.session, 0, 1).await.unwrap().1
    }
}

async fn next(follower: &mut Subscription) -> SubscriptionItem {
    tokio::time::timeout(PATIENCE, follower.next()).await.expect("something in time").expect("not the end")
}

/// The numbers of the changes until `last`.
async fn numbers(follower: &mut Subscription, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        match next(follower).await {
            SubscriptionItem::Change(change) => seen.push(change.seq),
            SubscriptionItem::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    seen
}

#[tokio::test]
async fn a_follower_that_was_overrun_has_every_change_once() {
    let world = World::new(Some(Arc::new(Talker { pieces: 1500, ends: true }))).await;
    let begun = world.head().await;
    let mut follower = world.hub.subscribe(world.who, world.session, Some(begun)).await.unwrap();
    world.note(0).await;
    // More pieces than wait for a follower: what was before them is gone from the channel.
    world.say("Tell me a lot.").await;
    world.note(1).await;
    let head = world.head().await;
    assert!(head > begun + 5);
    assert_eq!(numbers(&mut follower, head).await, (begun + 1..=head).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_follower_that_was_overrun_by_mere_words_is_not_left_behind() {
    let world = World::new(Some(Arc::new(Talker { pieces: 1500, ends: false }))).await;
    let begun = world.head().await;
    let mut follower = world.hub.subscribe(world.who, world.session, Some(begun)).await.unwrap();
    // It has read all there was, and waits for word.
    world.note(0).await;
    assert_eq!(numbers(&mut follower, begun + 1).await, [begun + 1]);
    let mut watching = world.hub.subscribe(world.who, world.session, None).await.unwrap();
    world.operate(json!({"intent": "say", "payload": {"text": "Tell me a lot."}})).await;
    while !matches!(next(&mut watching).await, SubscriptionItem::Delta { .. }) {}
    // No change comes after the words by which its gap could be noticed.
    let head = world.head().await;
    assert_eq!(numbers(&mut follower, head).await, (begun + 2..=head).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_followers_have_every_change_once_and_a_sleeping_one_holds_nobody_back() {
    let world = World::new(None).await;
    let begun = world.head().await;
    let mut sleeping = world.hub.subscribe(world.who, world.session, Some(begun)).await.unwrap();
    let mut followers = Vec::new();
    for _ in 0..1000 {
        let mut follower = world.hub.subscribe(world.who, world.session, Some(begun)).await.unwrap();
        followers.push(tokio::spawn(async move { numbers(&mut follower, begun + 40).await }));
    }
    for number in 0..40 {
        world.note(number).await;
    }
    let wanted: Vec<_> = (begun + 1..=begun + 40).collect();
    for follower in followers {
        assert_eq!(follower.await.unwrap(), wanted);
    }
    assert_eq!(numbers(&mut sleeping, begun + 40).await, wanted);
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let world = World::new(None).await;
    let begun = world.head().await;
    let mut follower = world.hub.subscribe(world.who, world.session, Some(begun)).await.unwrap();
    let writer = async {
        for number in 0..60 {
            world.note(number).await;
        }
    };
    let reader = async {
        let mut seen = Vec::new();
        while seen.last() != Some(&(begun + 60)) {
            // Each wait is dropped after its first look, whatever it had begun.
            tokio::select! {
                biased;
                item = follower.next() => if let Some(SubscriptionItem::Change(change)) = item { seen.push(change.seq) },
                () = tokio::task::yield_now() => {}
            }
        }
        seen
    };
    let ((), seen) = tokio::join!(writer, async { tokio::time::timeout(PATIENCE, reader).await.expect("in time") });
    assert_eq!(seen, (begun + 1..=begun + 60).collect::<Vec<_>>());
}

/// A view takes what fits a frame, and pages of history bring everything before it, each bounded too.
#[tokio::test]
async fn long_messages_are_all_there_in_a_bounded_view_and_bounded_pages() {
    let world = World::new(Some(Arc::new(Talker { pieces: 1, ends: true }))).await;
    for number in 0..24 {
        world.say(&format!("{number} {}", "x".repeat(30_000))).await;
    }
    let view = world.hub.view(world.who, world.session).await.unwrap();
    assert!(bytes(&view) <= MAX_FRAME_BYTES && bytes(&view) > MAX_FRAME_BYTES / 2, "{}", bytes(&view));
    let said = |entities: &[EntityView]| -> BTreeSet<String> {
        let text = |entity: &EntityView| match entity {
            EntityView::Message(message) if message.sender.is_some() => Some(message.text.clone()),
            _ => None,
        };
        entities.iter().filter_map(text).collect()
    };
    let mut seen = said(&view.entities);
    let in_view = seen.len();
    assert!((1..24).contains(&in_view), "{in_view}");
    let mut before = view.history_before;
    let mut pages = 0;
    while let Some(from) = before {
        let page = world.hub.history(world.who, world.session, Some(from), 100).await.unwrap();
        assert!(bytes(&page) <= MAX_FRAME_BYTES + 1024, "{}", bytes(&page));
        seen.extend(said(&page.entries));
        before = page.before;
        pages += 1;
        assert!(before.is_none_or(|before| before < from), "each page goes on further back");
    }
    assert_eq!(seen.len(), 24);
    assert!(pages >= 2);
}

fn bytes(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).unwrap().len()
}

/// Whoever attaches in the middle of a long answer has it from its beginning, in pieces that fit a frame.
#[tokio::test]
async fn the_answer_so_far_comes_in_pieces_that_fit() {
    #[derive(Debug)]
    struct Stuck;

    #[async_trait]
    impl Model for Stuck {
        fn name(&self) -> &'static str {
            "stuck"
        }

        async fn complete(&self, _: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
            sink.text(&"\u{1}é".repeat(60_000));
            std::future::pending().await
        }
    }

    let world = World::new(Some(Arc::new(Stuck))).await;
    let mut first = world.hub.subscribe(world.who, world.session, None).await.unwrap();
    world.operate(json!({"intent": "say", "payload": {"text": "Go on."}})).await;
    while !matches!(next(&mut first).await, SubscriptionItem::Delta { .. }) {}
    let mut second = world.hub.subscribe(world.who, world.session, None).await.unwrap();
    let mut came = String::new();
    while came.len() < 180_000 {
        if let SubscriptionItem::Delta { offset, text, .. } = next(&mut second).await {
            assert!(serde_json::to_string(&text).unwrap().len() < MAX_FRAME_BYTES);
            assert_eq!(offset, came.len() as u64);
            came.push_str(&text);
        }
    }
    assert_eq!(came, "\u{1}é".repeat(60_000));
}
