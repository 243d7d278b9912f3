//! What people say and what their devices find is theirs: the hub's log tells what happened, never what was said (E9).

use crate::support::{Server, fresh, operation};
use baton_proto::{ClientType, Trust};
use serde_json::json;
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn e9_nothing_that_was_said_or_found_is_in_the_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(log.clone());
    // Frames and bodies are seen by the libraries that carry them; what Baton itself writes is looked at down to the last detail.
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let workspace = fresh();
    let tool = json!({
        "name": "read_file", "description": "Reads a file.", "parameters": {"type": "object"}, "effect": "read", "risk": "safe", "timeout_s": 30
    });
    let offered = json!({"tools": [tool], "workspaces": [{"workspace_id": workspace, "name": "site", "baseline": {"path": "/srv/site"}}]});
    let mut hands = server.connect_with(&machine, offered).await;
    let new =
        json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": workspace, "title": "CANARY title"}});
    let session = server.operate(&phone, &new).await["session_id"].as_str().unwrap().parse().unwrap();
    let show = operation(session, "say", json!({"text": "/show CANARY-path.txt"}));
    assert_eq!(server.operate(&phone, &show).await["status"], "accepted");
    let call = hands.until("tool_call").await;
    let about = |attempt: u32, text: &str| {
        json!({
            "type": "tool_result", "session_id": call["session_id"], "call_id": call["call_id"], "attempt": attempt,
            "outcome": {"status": "succeeded", "content": text, "bytes": 14}
        })
    };
    hands.send(&about(1, "CANARY result")).await;
    hands.until("tool_result_ack").await;
    // Refused ones too: of no attempt that there is, of no kind that is known, and not understood.
    hands.send(&about(9, "CANARY stray")).await;
    hands.until("tool_result_ack").await;
    hands.send(&json!({"type": "CANARY frame"})).await;
    hands.until("error").await;
    let said = operation(session, "say", json!({"text": "CANARY words"}));
    server.operate(&phone, &said).await;
    let stale =
        json!({"v": 1, "operation_id": fresh(), "session_id": session, "intent": "say", "payload": {"text": "CANARY stale"}, "epoch": 9});
    assert_eq!(server.operate(&phone, &stale).await["status"], "rejected");
    let odd = json!({"v": 1, "operation_id": fresh(), "session_id": session, "intent": "say", "payload": "CANARY payload", "epoch": 1});
    let refused = server.request("POST", "/v1/ops").bearer_auth(&phone.token).json(&odd).send().await.unwrap();
    assert_eq!(refused.status(), 400);

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("baton_server") && log.contains("answered"), "the log was written");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("CANARY") && line.contains("baton")).collect();
    assert!(lines.is_empty(), "it was in the log: {lines:?}");
}
