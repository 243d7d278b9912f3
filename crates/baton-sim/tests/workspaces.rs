//! Two sessions that want the same workspace (E6): one works, the other stands in line, says for what, and goes on by itself.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::{ChangeEntry, Http, Token};
use baton_proto::{
    Activity, Capabilities, ClientType, Delivery, EntityView, EventBody, Intent, InvitationClaim, Operation, OperationId, SessionId,
    WaitingOn, WorkState,
};
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::json;
use std::time::Duration;
use support::hub::Hub;
use support::workspace::admin_template;
use uuid::Uuid;

struct End {
    http: Http,
}

impl End {
    async fn pair(hub: &Hub) -> Self {
        let anybody = Http::new(hub.url().parse().expect("an address"), None).expect("a client");
        let secret = hub.owner_link().split("invite=").nth(1).expect("a secret").to_owned();
        let claim = InvitationClaim {
            secret,
            name: "end".to_owned(),
            client_type: ClientType::Cli,
            capabilities: Capabilities::default(),
            cookie: false,
        };
        let token = Token::new(&anybody.claim_invitation(&claim).await.expect("let in").token).expect("a token");
        Self { http: Http::new(hub.url().parse().expect("an address"), Some(token)).expect("a client") }
    }

    async fn ask(&self, session: Option<SessionId>, intent: Intent) -> SessionId {
        let mut operation = Operation::new(OperationId(Uuid::now_v7()), session, intent);
        operation.epoch = session.map(|_| 1);
        let reply = self.http.operate(&operation).await.expect("an answer");
        assert_eq!(reply.error, None);
        reply.session_id.expect("a session")
    }

    async fn say(&self, text: &str) -> SessionId {
        let session = self.ask(None, Intent::NewSession { title: None, workspace: None }).await;
        self.ask(Some(session), Intent::Say { text: text.to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Steer })
            .await
    }

    async fn until(&self, session: SessionId, what: &str, holds: impl Fn(&[EntityView]) -> bool) -> Vec<EntityView> {
        let end = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            if let Ok(view) = self.http.session(session).await
                && holds(&view.entities)
            {
                return view.entities;
            }
            assert!(tokio::time::Instant::now() < end, "it never came: {what}: {:#?}", self.http.session(session).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn names(&self, session: SessionId) -> Vec<&'static str> {
        let page = self.http.events(session, 0, Some(500)).await.expect("the log");
        page.changes
            .iter()
            .map(|entry| match entry {
                ChangeEntry::Known(change) => change.event.body.name(),
                ChangeEntry::Unknown(_) => "unknown",
            })
            .collect()
    }
}

fn state(entities: &[EntityView]) -> Option<(WorkState, Activity)> {
    entities.iter().find_map(|entity| match entity {
        EntityView::Session(session) => Some((session.state, session.activity)),
        _ => None,
    })
}

fn done(entities: &[EntityView]) -> bool {
    state(entities).is_some_and(|(state, _)| state == WorkState::Completed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_stands_in_line_for_its_workspace_and_goes_on_by_itself_also_over_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let script: Script = serde_json::from_value(json!([
        {"when": {"last_user_contains": "first", "results": 0}, "reply": {"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo first >> order.txt"]}}]}},
        {"when": {"last_user_contains": "second", "results": 0}, "reply": {"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo second >> order.txt"]}}]}},
        {"when": {"last_user_contains": "third", "results": 0}, "reply": {"text": "nothing to do", "delay_ms": 150}},
        {"when": {}, "reply": {"text": "done"}},
    ]))
    .expect("a script");
    let model = ScriptedModel::start(script).await.expect("the model starts");
    let workspace = admin_template(directory.path());
    let mut hub = Hub::up(directory.path(), &workspace, Some(&model.url())).await;
    let end = End::pair(&hub).await;

    // The first session only waits for a human: it doesn't keep the workshop closed meanwhile.
    let first = end.say("first").await;
    end.until(first, "the first asks", |entities| state(entities).is_some_and(|(state, _)| state == WorkState::AwaitingInput)).await;
    let third = end.say("third, slowly").await;
    end.until(third, "the third works", |entities| state(entities).is_some_and(|(state, _)| state == WorkState::Running)).await;

    // The second one comes while the third works: it stands in line, and says for what.
    let second = end.say("second").await;
    let waiting = end
        .until(second, "the second waits", |entities| state(entities).is_some_and(|(_, activity)| activity == Activity::AwaitingWorkspace))
        .await;
    let on = waiting.iter().find_map(|entity| match entity {
        EntityView::Task(task) => task.waiting_on.clone(),
        _ => None,
    });
    assert!(matches!(on, Some(WaitingOn::Workspace { behind, .. }) if behind == third), "{on:?}");

    // A restart of the hub in between changes nothing of that.
    hub.kill().await;
    hub.start().await;
    end.until(third, "the third is done", done).await;
    end.until(second, "the second goes on by itself", |entities| {
        state(entities).is_some_and(|(state, _)| state == WorkState::AwaitingInput)
    })
    .await;
    let names = end.names(second).await;
    assert_eq!(names.iter().filter(|name| **name == "workspace_waited").count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "workspace_granted").count(), 1, "{names:?}");

    // Both are allowed in the other order; each runs once, one after the other.
    for session in [second, first] {
        let entities = end
            .until(session, "it still asks", |entities| state(entities).is_some_and(|(state, _)| state == WorkState::AwaitingInput))
            .await;
        let approval = entities.iter().find_map(|entity| match entity {
            EntityView::Approval(approval) if approval.state == baton_proto::ApprovalState::Open => Some(approval.id),
            _ => None,
        });
        let approval_id = approval.expect("an open approval");
        end.ask(Some(session), Intent::confirm(approval_id, baton_proto::Decision::Approve)).await;
    }
    end.until(first, "the first is done", done).await;
    end.until(second, "the second is done", done).await;
    let order = std::fs::read_to_string(workspace.join("order.txt")).expect("both ran");
    let mut lines: Vec<_> = order.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["first", "second"], "each ran once");
}
