use crate::support::{Server, fresh, kind, operation};
use baton_proto::{ClientType, Trust};
use serde_json::{Value, json};

fn read_file() -> Value {
    json!({
        "name": "read_file",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "effect": "read", "risk": "safe", "timeout_s": 30
    })
}

#[tokio::test]
async fn a_slash_command_goes_to_the_device_and_its_result_comes_back() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let workspace = fresh();
    let offered = json!({
        "tools": [read_file()],
        "workspaces": [{"workspace_id": workspace, "device_id": phone.id, "name": "site", "baseline": {"path": "/srv/site"}}]
    });
    let mut hands = server.connect_with(&machine, offered).await;
    let workspaces = server.get(&phone, "/v1/workspaces").await;
    assert_eq!(workspaces["workspaces"][0]["device_id"], json!(machine.id), "whose workspace it is follows from the connection");
    let reply = server
        .operate(&phone, &json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": workspace}}))
        .await;
    let session = reply["session_id"].as_str().unwrap().parse().unwrap();

    let mut screen = server.connect(&phone).await;
    screen.send(&json!({"type": "subscribe", "session_id": session})).await;
    screen.until("view").await;
    let mut show = operation(session, "say", json!({"text": "/show index.html"}));
    show["type"] = json!("op");
    screen.send(&show).await;

    let call = hands.until("tool_call").await;
    assert_eq!((&call["tool"], &call["arguments"], &call["attempt"]), (&json!("read_file"), &json!({"path": "index.html"}), &json!(1)));
    let about = |kind: &str| json!({"type": kind, "session_id": call["session_id"], "call_id": call["call_id"], "attempt": 1});
    hands.send(&about("tool_started")).await;
    let mut progress = about("tool_progress");
    progress["text"] = json!("reading");
    hands.send(&progress).await;
    let mut result = about("tool_result");
    result["outcome"] = json!({"status": "succeeded", "content": "<h1>Hello</h1>", "bytes": 14});
    hands.send(&result).await;
    let acknowledged = hands.until("tool_result_ack").await;
    assert_eq!(acknowledged["call_id"], call["call_id"]);
    // A device that missed the acknowledgement sends its result again.
    hands.send(&result).await;
    hands.until("tool_result_ack").await;

    let mut kinds = Vec::new();
    let mut progressed = false;
    while kinds.last().map(String::as_str) != Some("turn_finished") {
        let frame = screen.next().await;
        progressed |= kind(&frame) == "progress" && frame["text"] == "reading";
        if kind(&frame) == "change" {
            kinds.push(frame["event"]["type"].as_str().unwrap().to_owned());
        }
    }
    assert!(progressed, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "tool_succeeded").count(), 1, "{kinds:?}");
    let view = server.get(&phone, &format!("/v1/sessions/{session}")).await;
    assert!(view.to_string().contains("<h1>Hello</h1>"));
}

#[tokio::test]
async fn a_call_that_was_lost_with_its_connection_is_sent_again() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let workspace = fresh();
    let offered = json!({
        "tools": [read_file()],
        "workspaces": [{"workspace_id": workspace, "name": "site", "baseline": {"path": "/srv/site"}}]
    });
    let mut hands = server.connect_with(&machine, offered.clone()).await;
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": workspace}});
    let session = server.operate(&phone, &new).await["session_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(server.operate(&phone, &operation(session, "say", json!({"text": "/show a.txt"}))).await["status"], "accepted");
    let first = hands.until("tool_call").await;
    drop(hands);
    // Its journal knows nothing of the call, so it never took it.
    let mut hands = server.connect_with(&machine, offered).await;
    let again = hands.until("tool_call").await;
    assert_eq!((&again["call_id"], &again["arguments"]), (&first["call_id"], &json!({"path": "a.txt"})));
}
