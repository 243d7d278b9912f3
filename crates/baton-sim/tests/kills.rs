//! Real kills: the built binary drives scripted tasks whose tools write to an outside ledger, SIGKILL falls at random instants on hub, device
//! and both, and at the end ledger, log and a follower's stream are compared. Acknowledged input lost: 0. Effects doubled: 0. Stuck: 0.
//!
//! `BATON_KILLS=5000 BATON_SEED=7` runs longer, and another order.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::{ChangeEntry, Connection, ConnectionConfig, Hello, Http, Incoming, Timing, Token};
use baton_proto::{
    ApprovalState, Capabilities, ClientType, Delivery, EntityView, HubFrame, Intent, InvitationClaim, Operation, OperationId, Phase,
    QuestionState, ReplyStatus, SessionId, SessionView,
};
use baton_sim::ledger::Ledger;
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::Seeded;
use support::hub::{Hub, confirm, ledger_device};
use support::workspace::admin_template;
use tokio::process::Child;
use uuid::Uuid;

/// Effects of one task: each kind of tool, in turn.
const EFFECTS: usize = 6;

fn script() -> Script {
    let call = |name: &str, n: usize| json!({"name": name, "arguments": {"text": format!("effect {n}")}});
    let mut rules = Vec::new();
    for n in 0..EFFECTS {
        let tool = if n % 3 == 2 { "append_entry" } else { "record_entry" };
        rules.push(json!({"when": {"last_user_contains": "job", "results": n}, "reply": {"calls": [call(tool, n)]}}));
    }
    rules.push(json!({"when": {"last_user_contains": "job"}, "reply": {"calls": [{"name": "finish_task", "arguments": {"summary": "all effects are there"}}]}}));
    serde_json::from_value(json!(rules)).expect("the script can be read")
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Sessions that are followed at a time.
const FOLLOWED: usize = 40;

/// What a follower got, by session, in order of arrival.
type Stream = Arc<Mutex<BTreeMap<SessionId, Vec<u64>>>>;

struct World {
    hub: Hub,
    device: Option<Child>,
    directory: tempfile::TempDir,
    ledger: Ledger,
    http: Http,
    token: Token,
    kills: u64,
}

impl World {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::start(Duration::from_millis(20)).await.expect("the ledger starts");
        let model = ScriptedModel::start(script()).await.expect("the model starts");
        let workspace = admin_template(directory.path());
        let hub = Hub::up(directory.path(), &workspace, Some(&model.url())).await;
        // The model lives as long as the process; dropping it would stop it.
        std::mem::forget(model);
        let anybody = Http::new(hub.url().parse().expect("an address"), None).expect("a client");
        let secret = hub.owner_link().split("invite=").nth(1).expect("a secret").to_owned();
        let claim = InvitationClaim {
            secret,
            name: "watcher".to_owned(),
            client_type: ClientType::Cli,
            capabilities: Capabilities::default(),
            cookie: false,
        };
        let token = Token::new(&anybody.claim_invitation(&claim).await.expect("let in").token).expect("a token");
        let http = Http::new(hub.url().parse().expect("an address"), Some(token.clone())).expect("a client");
        let invitation = http.invite(baton_proto::Trust::Trusted).await.expect("an invitation");
        let device = Some(ledger_device(&hub, directory.path(), ledger.url(), Some(&invitation.secret)));
        confirm(&http).await;
        while !http.devices().await.is_ok_and(|all| all.iter().any(|device| device.name == "ledger" && device.online)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { hub, device, directory, ledger, http, token, kills: 0 }
    }

    /// A follower that lives through everything, and keeps what it gets.
    fn follow(&self) -> (baton_client::ConnectionHandle, Stream) {
        let url = self.hub.url().parse::<baton_client::HubUrl>().expect("an address");
        let config = ConnectionConfig {
            url: Arc::new(move || Ok(url.clone())),
            token: self.token.clone(),
            greeting: Arc::new(Hello::of(ClientType::Cli)),
            cursors: BTreeMap::new(),
            timing: Timing::default(),
        };
        let (handle, mut incoming) = Connection::spawn(config);
        let stream = Stream::default();
        let kept = Arc::clone(&stream);
        tokio::spawn(async move {
            while let Some(word) = incoming.recv().await {
                if let Incoming::Frame(frame) = word
                    && let HubFrame::Change(change) = *frame
                {
                    kept.lock().expect("no panic").entry(change.session_id).or_default().push(change.seq);
                }
            }
        });
        (handle, stream)
    }

    /// The log has every acknowledged input, once; and the follower's stream is the log.
    async fn compare(&self, session: SessionId, acknowledged: &[(SessionId, OperationId)], stream: &Stream, seed: u64) {
        let mut log = Vec::new();
        loop {
            let page = self.http.events(session, log.len() as u64, Some(500)).await.expect("the log");
            if page.changes.is_empty() {
                break;
            }
            log.extend(page.changes);
        }
        let operations: Vec<_> = log
            .iter()
            .filter_map(|entry| match entry {
                ChangeEntry::Known(change) if matches!(change.event.body, baton_proto::SessionEvent::MessageAdded { .. }) => {
                    change.event.operation_id
                }
                _ => None,
            })
            .collect();
        let wanted: Vec<_> = acknowledged.iter().filter(|(of, _)| *of == session).map(|(_, operation)| *operation).collect();
        assert_eq!(
            operations.iter().filter(|id| wanted.contains(id)).count(),
            wanted.len(),
            "seed {seed}: acknowledged input was lost or doubled"
        );
        let head = log.len() as u64;
        let end = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let got = stream.lock().expect("no panic").get(&session).cloned().unwrap_or_default();
            if got.last() == Some(&head) {
                assert_eq!(got, (1..=head).collect::<Vec<_>>(), "seed {seed}: the follower's stream isn't the log");
                break;
            }
            assert!(tokio::time::Instant::now() < end, "seed {seed}: the follower stopped at {:?} of {head}", got.last());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn kill(&mut self, seeded: &mut Seeded) {
        let whom = seeded.below(3);
        if whom != 1 {
            self.hub.kill().await;
        }
        if whom != 0
            && let Some(mut device) = self.device.take()
        {
            device.kill().await.expect("it can be killed");
        }
        if whom != 1 {
            self.hub.start().await;
        }
        if self.device.is_none() {
            self.device = Some(ledger_device(&self.hub, self.directory.path(), self.ledger.url(), None));
        }
        self.kills += 1;
    }

    /// Sends until it is acknowledged, always with the same id: what a client with an outbox does.
    async fn send(&self, session: Option<SessionId>, epoch: Option<u64>, intent: Intent) -> baton_proto::Reply {
        let mut operation = Operation::new(OperationId(Uuid::now_v7()), session, intent);
        operation.epoch = epoch;
        loop {
            match self.http.operate(&operation).await {
                Ok(reply) if reply.error.as_ref().is_none_or(|error| error.code.is_final()) => return reply,
                _ => tokio::time::sleep(Duration::from_millis(30)).await,
            }
        }
    }

    /// What a person does: look before saying what became of an interrupted effect, and take a paused task up again.
    async fn attend(&self, view: &SessionView) {
        for entity in &view.entities {
            match entity {
                EntityView::Question(question) if question.state == QuestionState::Open => {
                    let happened = self.ledger.entries().iter().any(|entry| entry.key == question.call_id.to_string());
                    let option = Some(if happened { "happened" } else { "do_it" }.to_owned());
                    self.send(Some(view.session_id), None, Intent::Answer { question_id: question.id, text: None, option }).await;
                }
                EntityView::Approval(approval) if approval.state == ApprovalState::Open => {
                    self.send(Some(view.session_id), None, Intent::confirm(approval.id, baton_proto::Decision::Approve)).await;
                }
                EntityView::Task(task) if task.phase == Phase::Paused => {
                    self.send(Some(view.session_id), Some(1), Intent::Resume { task_id: Some(task.id) }).await;
                }
                _ => {}
            }
        }
    }
}

fn done(view: &SessionView) -> bool {
    view.entities.iter().any(|entity| matches!(entity, EntityView::Task(task) if task.phase == Phase::Done))
}

#[tokio::test(flavor = "multi_thread")]
async fn c08_c11_c17_c23_c39_random_kills_lose_nothing_and_double_nothing() {
    let (kills, seed) = (number("BATON_KILLS", 200), number("BATON_SEED", 1));
    let mut seeded = Seeded::new(seed);
    let mut world = World::start().await;
    let (follower, stream) = world.follow();
    let mut acknowledged: Vec<(SessionId, OperationId)> = Vec::new();
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut left = 0;
    while world.kills < kills {
        // A connection follows so many sessions and no more, so the oldest is looked at and left.
        if sessions.len() - left == FOLLOWED {
            world.compare(sessions[left], &acknowledged, &stream, seed).await;
            follower.unsubscribe(sessions[left]).await;
            left += 1;
        }
        let opened = world.send(None, None, Intent::NewSession { title: None, workspace: None }).await;
        let session = opened.session_id.expect("a session");
        follower.subscribe(session, Some(0)).await;
        let said = world
            .send(
                Some(session),
                Some(1),
                Intent::Say { text: "job".to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Steer },
            )
            .await;
        assert!(matches!(said.status, ReplyStatus::Accepted | ReplyStatus::Duplicate), "{said:?}");
        acknowledged.push((session, said.operation_id));
        sessions.push(session);
        let end = tokio::time::Instant::now() + Duration::from_mins(3);
        loop {
            assert!(
                tokio::time::Instant::now() < end,
                "seed {seed}: stuck after {} kills: {:#?}",
                world.kills,
                world.http.session(session).await
            );
            if world.kills < kills {
                tokio::time::sleep(Duration::from_millis(20 + seeded.below(250))).await;
                world.kill(&mut seeded).await;
            } else {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let Ok(view) = world.http.session(session).await else { continue };
            if done(&view) {
                break;
            }
            world.attend(&view).await;
        }
    }
    // The ledger: every effect of every task once, none twice.
    let entries = world.ledger.entries();
    let keys: BTreeSet<_> = entries.iter().map(|entry| entry.key.clone()).collect();
    assert_eq!(keys.len(), entries.len(), "seed {seed}: effects were doubled");
    assert_eq!(entries.len(), sessions.len() * EFFECTS, "seed {seed}: effects are missing, or are there though nobody asked for them");
    for session in sessions.iter().skip(left) {
        world.compare(*session, &acknowledged, &stream, seed).await;
    }
    eprintln!("seed {seed}: {} kills, {} tasks, {} effects, lost 0, doubled 0, stuck 0", world.kills, sessions.len(), entries.len());
}
