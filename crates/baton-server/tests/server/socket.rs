use crate::support::{Server, Socket, fresh, hello, kind, operation};
use baton_proto::{ClientType, MAX_FRAME_BYTES, Trust};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_connection_is_welcomed_after_its_hello_and_answers_heartbeats() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = Socket::dial(server.address, &phone.token).await;
    socket.send(&hello(&phone, &json!({}))).await;
    let welcome = socket.next().await;
    assert_eq!((&welcome["type"], &welcome["device_id"], &welcome["trust"]), (&json!("welcome"), &json!(phone.id), &json!("trusted")));
    assert_eq!((&welcome["limits"]["max_frame_bytes"], &welcome["hub"]["version"]), (&json!(262_144), &json!("0.0.0-test")));
    socket.send(&json!({"type": "heartbeat", "epochs": {}})).await;
    socket.until("heartbeat").await;
    let plain = server.request("GET", "/v1/ws").bearer_auth(&phone.token).send().await.unwrap();
    assert_eq!(plain.status(), 426);
}

#[tokio::test]
async fn a_connection_that_does_not_begin_with_a_good_hello_ends() {
    let server = Server::start_with(|config| config.limits.hello = Duration::from_millis(300)).await;
    let phone = server.phone().await;
    let rows = [
        ("another frame", json!({"type": "heartbeat"}).to_string(), "invalid"),
        ("no JSON", "hello".to_owned(), "invalid"),
        ("another protocol", json!({"type": "hello", "protocol": 2, "client_type": "phone"}).to_string(), "unsupported_version"),
        ("another client type", json!({"type": "hello", "protocol": 1, "client_type": "ide"}).to_string(), "invalid"),
        ("a tool that can't be", hello(&phone, &json!({"tools": [{"name": "Bad Name", "description": "x", "parameters": {"type": "object"}, "effect": "read", "risk": "safe", "timeout_s": 1}]})).to_string(), "invalid"),
        ("too deep", format!("{{\"type\":\"hello\",\"x\":{}{}}}", "[".repeat(70), "]".repeat(70)), "invalid"),
        ("silence", String::new(), "invalid"),
    ];
    for (case, text, code) in rows {
        let mut socket = Socket::dial(server.address, &phone.token).await;
        if !text.is_empty() {
            socket.send_text(&text).await;
        }
        let frames = socket.rest().await;
        assert_eq!(frames.len(), 1, "{case}: {frames:?}");
        assert_eq!((kind(&frames[0]), &frames[0]["error"]["code"]), ("error", &json!(code)), "{case}: {frames:?}");
    }
    assert_eq!(server.get(&phone, "/v1/devices").await["devices"][0]["online"], false);
}

#[tokio::test]
async fn a_frame_that_cannot_be_understood_is_answered_and_the_connection_goes_on() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = server.connect(&phone).await;
    let rows = [
        ("no JSON", "{".to_owned(), "invalid"),
        ("no type", "{}".to_owned(), "invalid"),
        ("an unknown type", r#"{"type":"dance"}"#.to_owned(), "invalid"),
        ("a type of another type", r#"{"type":5}"#.to_owned(), "invalid"),
        ("a mistyped field", r#"{"type":"subscribe","session_id":7}"#.to_owned(), "invalid"),
        ("a missing field", r#"{"type":"subscribe"}"#.to_owned(), "invalid"),
        ("a second hello", hello(&phone, &json!({})).to_string(), "invalid"),
        ("an unnamed operation", json!({"type": "op", "v": 1, "intent": "say"}).to_string(), "invalid"),
        ("too deep", format!("{{\"type\":\"op\",\"x\":{}{}}}", "[".repeat(1000), "]".repeat(1000)), "invalid"),
        ("a byte too large", format!("{{\"type\":\"heartbeat\",\"x\":\"{}\"}}", "x".repeat(MAX_FRAME_BYTES - 26)), "too_large"),
    ];
    for (case, text, code) in rows {
        socket.send_text(&text).await;
        let error = socket.until("error").await;
        assert_eq!(error["error"]["code"], code, "{case}: {error}");
    }
    socket.send_message(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(socket.until("error").await["error"]["code"], "invalid");
    socket.send_message(Message::Ping(vec![1].into())).await;
    // What just fits is taken.
    let padding = MAX_FRAME_BYTES - r#"{"type":"heartbeat","x":""}"#.len();
    socket.send_text(&format!("{{\"type\":\"heartbeat\",\"x\":\"{}\"}}", "x".repeat(padding))).await;
    socket.until("heartbeat").await;
}

#[tokio::test]
async fn an_operation_that_cannot_be_read_is_answered_by_its_id() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = server.connect(&phone).await;
    let id = fresh();
    socket.send(&json!({"type": "op", "v": 1, "operation_id": id, "intent": "fly"})).await;
    let ack = socket.until("ack").await;
    assert_eq!((&ack["operation_id"], &ack["status"], &ack["error"]["code"]), (&json!(id), &json!("rejected"), &json!("invalid")));
}

#[tokio::test]
async fn twenty_frames_in_a_row_that_mean_nothing_end_the_connection() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = server.connect(&phone).await;
    for _ in 0..19 {
        socket.send_text("?").await;
    }
    // One that means something begins the count anew.
    socket.send(&json!({"type": "heartbeat"})).await;
    socket.until("heartbeat").await;
    for _ in 0..20 {
        socket.send_text("?").await;
    }
    let frames = socket.rest().await;
    let last = frames.last().unwrap();
    assert!(last["error"]["message"].as_str().unwrap().contains("in a row"), "{last}");
    assert_eq!(frames.iter().filter(|frame| kind(frame) == "error").count(), 21);
}

#[tokio::test]
async fn a_frame_of_eight_mebibytes_ends_the_connection() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut stream = server.connect(&phone).await.into_inner();
    // The connection may break while the rest of the frame is still being written.
    let _ = futures::SinkExt::send(&mut stream, Message::text("x".repeat(8 * 1024 * 1024))).await;
    let ended = async { while let Some(Ok(_)) = futures::StreamExt::next(&mut stream).await {} };
    tokio::time::timeout(crate::support::PATIENCE, ended).await.expect("the end");
    drop(stream);
    server.connect(&phone).await;
}

#[tokio::test]
async fn a_dead_link_is_noticed_and_a_quiet_live_one_stays() {
    let server = Server::start_with(|config| {
        config.limits.ping = Duration::from_millis(100);
        config.limits.silence = Duration::from_millis(600);
    })
    .await;
    let phone = server.phone().await;
    let other = server.pair(server.user, Trust::Trusted, ClientType::Phone).await;
    let mut watching = server.connect(&other).await;
    // A connection that reads answers pings, whatever else it does. It hears of the other one's coming and going.
    let dead = server.connect(&phone).await;
    let mut online = true;
    while online {
        let frame = watching.until("changed").await;
        assert_eq!(frame["what"], "devices");
        let devices = server.get(&other, "/v1/devices").await;
        let seen =
            devices["devices"].as_array().unwrap().iter().find(|device| device["device_id"] == json!(phone.id)).unwrap()["online"].clone();
        online = seen == true;
    }
    watching.send(&json!({"type": "heartbeat"})).await;
    watching.until("heartbeat").await;
    drop(dead);
}

/// Follows a session over many connections, each cut at an arbitrary place, and compares what came with the log.
#[tokio::test]
async fn c17_a_stream_over_many_reconnects_is_the_log_without_gap_or_repeat() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let follower = server.pair(server.user, Trust::Trusted, ClientType::Phone).await;
    let session = server.session(&phone).await;
    let writer = async {
        for number in 0..40 {
            let reply = server.operate(&phone, &operation(session, "set_note", json!({"key": format!("k{number}"), "value": "v"}))).await;
            assert_eq!(reply["status"], "accepted", "{reply}");
        }
    };
    let reader = async {
        let mut seen: Vec<Value> = Vec::new();
        let mut connection = 0_usize;
        let noted = |seen: &[Value]| seen.iter().any(|change| change.to_string().contains("\"k39\""));
        while !noted(&seen) {
            let cursor = seen.last().map_or(0, |change| change["seq"].as_u64().unwrap());
            // By hello's cursors and by `subscribe` in turn; each connection ends after a few changes.
            let mut socket = if connection.is_multiple_of(2) {
                server.connect_with(&follower, json!({"cursors": {session.to_string(): cursor}})).await
            } else {
                let mut socket = server.connect(&follower).await;
                socket.send(&json!({"type": "subscribe", "session_id": session, "after": cursor})).await;
                socket
            };
            for _ in 0..=connection % 4 {
                let change = socket.until("change").await;
                seen.push(change);
                if noted(&seen) {
                    break;
                }
            }
            connection += 1;
        }
        assert!(connection > 5, "{connection}");
        seen
    };
    let ((), seen) = tokio::join!(writer, reader);
    let log = server.get(&phone, &format!("/v1/sessions/{session}/events?after=0&limit=1000")).await;
    let streamed: Vec<_> = seen.iter().map(|change| (&change["seq"], &change["event"])).collect();
    let logged: Vec<_> =
        log["changes"].as_array().unwrap().iter().map(|change| (&change["seq"], &change["event"])).take(streamed.len()).collect();
    assert_eq!(streamed, logged);
}

#[tokio::test]
async fn a_subscription_without_a_cursor_begins_with_the_view() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let mut socket = server.connect(&phone).await;
    socket.send(&json!({"type": "subscribe", "session_id": session})).await;
    let view = socket.until("view").await;
    let mut note = operation(session, "set_note", json!({"key": "k", "value": "v"}));
    note["type"] = json!("op");
    socket.send(&note).await;
    let mut wanted = vec!["ack", "change"];
    while !wanted.is_empty() {
        let frame = socket.next().await;
        if kind(&frame) == "change" && wanted.contains(&"change") {
            assert_eq!(frame["seq"].as_u64(), view["seq"].as_u64().map(|seq| seq + 1));
        }
        wanted.retain(|kind_wanted| *kind_wanted != kind(&frame));
    }
    // A cursor from the future is no ground to stand on.
    socket.send(&json!({"type": "subscribe", "session_id": session, "after": 1_000_000})).await;
    assert_eq!(socket.until("reset").await["session_id"], json!(session));
    socket.until("view").await;
}
