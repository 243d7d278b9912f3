//! The list of sessions (ux 27): named, pinned and put away by their user, and counted by what waits.

use crate::support::{Device, Server, fresh, operation};
use baton_proto::{ClientType, SessionId, Trust};
use serde_json::{Value, json};

async fn titled(server: &Server, by: &Device, title: &str) -> SessionId {
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"title": title}});
    server.operate(by, &new).await["session_id"].as_str().unwrap().parse().unwrap()
}

async fn change(server: &Server, by: &Device, session: SessionId, intent: &str, payload: Value) {
    // Another device has it by now, perhaps: where a session stands in the list needs no epoch.
    let mut change = operation(session, intent, payload);
    change.as_object_mut().unwrap().remove("epoch");
    let reply = server.operate(by, &change).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
}

async fn titles(server: &Server, by: &Device, query: &str) -> Vec<String> {
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let page = server.get(by, &format!("/v1/sessions?limit=2{query}{before}")).await;
        found.extend(page["sessions"].as_array().unwrap().iter().map(|line| line["title"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn sessions_are_renamed_pinned_and_put_away_on_any_device_also_over_a_restart() {
    let server = Server::start().await;
    let (phone, desk) = (server.phone().await, server.phone().await);
    let mut sessions = Vec::new();
    for number in 1..=7 {
        sessions.push(titled(&server, &phone, &format!("session {number}")).await);
    }
    change(&server, &desk, sessions[0], "rename", json!({"title": "首页按钮"})).await;
    change(&server, &desk, sessions[1], "pin", json!({"pinned": true})).await;
    for put_away in &sessions[2..6] {
        change(&server, &desk, *put_away, "archive", json!({"archived": true})).await;
    }
    for round in 0..2 {
        assert_eq!(titles(&server, &phone, "").await, ["session 7", "session 2", "首页按钮"], "{round}");
        assert_eq!(titles(&server, &phone, "&archived=true").await, ["session 6", "session 5", "session 4", "session 3"], "{round}");
        assert_eq!(titles(&server, &phone, "&pinned=true").await, ["session 2"], "{round}");
        assert_eq!(titles(&server, &phone, "&waiting=true").await, Vec::<String>::new(), "{round}");
    }
    let view = server.get(&phone, &format!("/v1/sessions/{}", sessions[3])).await;
    assert_eq!(view["entities"][0]["archived"], true, "it is still readable");

    let server = server.restarted().await;
    assert_eq!(titles(&server, &phone, "&archived=true").await.len(), 4);
    change(&server, &phone, sessions[3], "archive", json!({"archived": false})).await;
    assert_eq!(titles(&server, &phone, "").await, ["session 7", "session 4", "session 2", "首页按钮"]);
    assert_eq!(titles(&server, &phone, "&archived=true").await, ["session 6", "session 5", "session 3"]);
}

#[tokio::test]
async fn what_waits_for_the_user_is_counted_over_all_sessions_also_over_a_restart() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let (workspace, tool) = (
        fresh(),
        json!({
            "name": "run_command", "description": "Runs a command.",
            "parameters": {"type": "object", "properties": {"argv": {"type": "array", "items": {"type": "string"}}}, "required": ["argv"]},
            "effect": "once", "risk": "sensitive", "prepare": true, "timeout_s": 30
        }),
    );
    let offered = json!({"tools": [tool], "workspaces": [{"workspace_id": workspace, "name": "site", "baseline": {"path": "/srv/site"}}]});
    let mut hands = server.connect_with(&machine, offered).await;
    for number in 1..=3 {
        titled(&server, &phone, &format!("idle {number}")).await;
    }
    let asking = titled(&server, &phone, "asking").await;
    titled(&server, &phone, "newest").await;
    let said = server.operate(&phone, &operation(asking, "say", json!({"text": "/run rm -r build"}))).await;
    assert_eq!(said["status"], "accepted", "{said}");
    let mut screen = server.connect(&phone).await;
    screen.send(&json!({"type": "subscribe", "session_id": asking})).await;
    let call = hands.until("prepare_call").await;
    let prepared = json!({"risk": "dangerous", "risk_reason": "It deletes files.", "preview": "rm -r build",
                          "risk_said": [{"code": "deletes_file", "text": "It deletes files."}]});
    hands.send(&json!({"type": "prepared", "session_id": asking, "call_id": call["call_id"], "prepared": prepared})).await;
    let card = loop {
        let view = server.get(&phone, &format!("/v1/sessions/{asking}")).await;
        let open = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "approval").cloned();
        match open {
            Some(open) => break open,
            None => screen.until("change").await,
        };
    };
    assert_eq!(card["binding"]["risk_said"][0]["code"], "deletes_file", "an end can say it in its own language");
    assert_eq!(card["not_remembered"]["code"], "remember.dangerous");
    assert_eq!(server.get(&phone, "/v1/sessions?limit=1").await["waiting_total"], 1, "also of what is on another page");
    assert_eq!(titles(&server, &phone, "&waiting=true").await, ["asking"]);
    let mut away = operation(asking, "archive", json!({"archived": true}));
    away.as_object_mut().unwrap().remove("epoch");
    assert_eq!(server.operate(&phone, &away).await["error"]["code"], "illegal_transition", "nothing that waits is put out of sight");

    drop((hands, screen));
    let server = server.restarted().await;
    assert_eq!(server.get(&phone, "/v1/sessions?limit=1").await["waiting_total"], 1);
    let rejected = server.operate(&phone, &operation(asking, "confirm", json!({"approval_id": card["id"], "decision": "reject"}))).await;
    assert_eq!(rejected["status"], "accepted", "{rejected}");
    assert_eq!(server.get(&phone, "/v1/sessions").await["waiting_total"], 0);
    assert_eq!(titles(&server, &phone, "&waiting=true").await, Vec::<String>::new());
}
