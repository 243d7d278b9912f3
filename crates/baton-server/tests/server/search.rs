//! Search of messages (ux 27): over all of a user's sessions, nobody else's, and of what was acknowledged at once.

use crate::support::{Device, Server, fresh, operation};
use baton_proto::{ClientType, SessionId, Trust};
use serde_json::{Value, json};

fn run_command() -> Value {
    json!({
        "name": "run_command", "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"argv": {"type": "array", "items": {"type": "string"}}}, "required": ["argv"]},
        "effect": "once", "risk": "sensitive", "prepare": true, "timeout_s": 30
    })
}

/// A session without a workspace of its own that others work in, in which these commands were said one after the other.
async fn said(server: &Server, by: &Device, title: &str, workspace: &str, text: &str) -> SessionId {
    let payload = json!({"title": title, "workspace": workspace});
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": payload});
    let session = server.operate(by, &new).await["session_id"].as_str().unwrap().parse().unwrap();
    let reply = server.operate(by, &operation(session, "say", json!({"text": text}))).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
    session
}

async fn found(server: &Server, by: &Device, words: &str) -> Vec<Value> {
    // Every byte escaped, as a browser would.
    let q = words.bytes().fold(String::new(), |q, byte| q + &format!("%{byte:02X}"));
    let results = server.get(by, &format!("/v1/search?q={q}")).await;
    assert_eq!(results["complete"], true);
    results["hits"].as_array().unwrap().clone()
}

#[tokio::test]
async fn messages_are_found_by_their_words_by_whoever_they_belong_to_also_over_a_restart() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let other_user = server.hub.create_user("grace").await.unwrap();
    let stranger = server.pair(other_user, Trust::Trusted, ClientType::Phone).await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let workspaces = [fresh(), fresh()];
    let listed: Vec<_> =
        workspaces.iter().map(|id| json!({"workspace_id": id, "name": "site", "baseline": {"path": format!("/srv/{id}")}})).collect();
    let hands = server.connect_with(&machine, json!({"tools": [run_command()], "workspaces": listed})).await;
    let first = said(&server, &phone, "圆角", &workspaces[0], "/run echo 把首页按钮的圆角改成 8px").await;
    let second = said(&server, &phone, "Buttons", &workspaces[1], "/run echo round the Buttons").await;

    let hits = found(&server, &phone, "按钮").await;
    assert_eq!(hits.len(), 1, "{hits:?}");
    let hit = &hits[0];
    assert_eq!((hit["session_id"].as_str().unwrap(), hit["title"].as_str().unwrap()), (first.to_string().as_str(), "圆角"));
    assert_eq!((&hit["role"], &hit["excerpt"]), (&json!("user"), &json!("/run echo 把首页按钮的圆角改成 8px")));
    assert_eq!(hit["matches"], json!([[13, 15]]));
    let before = hit["seq"].as_u64().unwrap() + 1;
    let history = server.get(&phone, &format!("/v1/sessions/{first}/history?before={before}&limit=1")).await;
    assert_eq!(history["entries"][0]["id"], hit["message_id"], "the hit opens at the message");
    assert_eq!(found(&server, &phone, "butt ROUND").await[0]["session_id"], second.to_string());
    assert_eq!(found(&server, &phone, "echo").await.len(), 2, "the newest first");
    assert_eq!(found(&server, &phone, "echo").await[0]["session_id"], second.to_string());
    assert!(found(&server, &phone, "按钮 round").await.is_empty(), "all of the words");
    assert!(found(&server, &stranger, "按钮").await.is_empty(), "what belongs to another user is absent");

    for (q, status) in [("", 400), ("%22%2A", 400), (&"x".repeat(201), 413)] {
        let refused = server.request("GET", &format!("/v1/search?q={q}")).bearer_auth(&phone.token).send().await.unwrap();
        assert_eq!(refused.status(), status, "{q}");
    }
    drop(hands);
    let server = server.restarted().await;
    assert_eq!(found(&server, &phone, "圆角").await.len(), 1);
}
