//! Too much of something: it is bounded, it keeps its order, and it takes nothing from others.

use crate::support::{Server, assert_refused, fresh, kind, operation};
use baton_proto::{ErrorCode, MAX_FRAME_BYTES, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

#[tokio::test]
async fn operations_of_one_connection_are_done_and_answered_in_their_order() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let nowhere = SessionId(uuid::Uuid::nil());
    let mut socket = server.connect(&phone).await;
    let mut sent = Vec::new();
    for number in 0..150 {
        // Every other one needs no commit, and would be done first if they weren't in one line.
        let session = if number % 2 == 0 { session } else { nowhere };
        let mut note = operation(session, "set_note", json!({"key": "k", "value": number.to_string()}));
        note["type"] = json!("op");
        socket.send(&note).await;
        sent.push(note["operation_id"].clone());
    }
    let mut answered = Vec::new();
    while answered.len() < sent.len() {
        answered.push(socket.until("ack").await["operation_id"].clone());
    }
    assert_eq!(answered, sent);
    assert!(server.get(&phone, &format!("/v1/sessions/{session}")).await.to_string().contains("\"value\":\"148\""));
}

#[tokio::test]
async fn a_hello_with_thousands_of_cursors_is_welcomed_and_told_what_is_too_much() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let cursors: BTreeMap<String, u64> = (0..2000).map(|_| (fresh(), 0)).collect();
    let mut socket = server.connect_with(&phone, json!({"cursors": cursors})).await;
    let mut codes: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..2000 {
        let error = socket.until("error").await;
        assert!(cursors.contains_key(error["session_id"].as_str().unwrap()));
        *codes.entry(error["error"]["code"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(codes, BTreeMap::from([("not_found".to_owned(), 64), ("rate_limited".to_owned(), 1936)]));
}

#[tokio::test]
async fn a_busy_hub_tells_seldom_that_a_list_changed_and_never_forgets_the_last_time() {
    let server = Server::start().await;
    let (phone, other) = (server.phone().await, server.phone().await);
    let mut watching = server.connect(&phone).await;
    let begun = Instant::now();
    let writer = async {
        for _ in 0..60 {
            server.session(&other).await;
        }
    };
    // Reads while the other writes, so that each time counts.
    let reader = async {
        let mut told = 0;
        loop {
            if watching.until("changed").await["what"] != "sessions" {
                continue;
            }
            told += 1;
            if server.get(&phone, "/v1/sessions?limit=200").await["sessions"].as_array().unwrap().len() == 60 {
                return told;
            }
        }
    };
    let ((), told) = tokio::join!(writer, reader);
    let most = begun.elapsed().as_millis() / 200 + 2;
    assert!(told <= most, "{told} times in {:?}", begun.elapsed());
}

#[tokio::test]
async fn pairing_requests_are_limited_by_where_they_come_from() {
    let server = Server::start_with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    let ask = |from: &str| {
        let request = server.request("POST", "/v1/pairings").header("x-forwarded-for", from.to_owned());
        request.json(&json!({"name": "a tab", "client_type": "web"})).send()
    };
    let wanted: Value = ask("192.0.2.1").await.unwrap().json().await.unwrap();
    for _ in 0..8 {
        assert_eq!(ask("198.51.100.7").await.unwrap().status(), 200);
    }
    assert_refused(ask("198.51.100.7").await.unwrap(), 429, ErrorCode::RateLimited, "a ninth").await;
    // All addresses of one network of version 6 are one place.
    for number in 0..8 {
        assert_eq!(ask(&format!("2001:db8:1:2::{number}")).await.unwrap().status(), 200);
    }
    assert_refused(ask("2001:db8:1:2:ffff::1").await.unwrap(), 429, ErrorCode::RateLimited, "the same network").await;
    // A flood from many places pushes out its own.
    for place in 0..20 {
        for _ in 0..8 {
            assert_eq!(ask(&format!("203.0.113.{place}")).await.unwrap().status(), 200);
        }
    }
    let phone = server.phone().await;
    let code = wanted["code"].as_str().unwrap();
    assert_eq!(server.get(&phone, &format!("/v1/pairings/{code}")).await["name"], "a tab");
}

/// D4: whatever a session holds, its view fits a frame.
#[tokio::test]
async fn a_view_fits_a_frame_however_much_there_is() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    for number in 0..100 {
        let payload = json!({"key": format!("k{number}"), "value": "\"\n".repeat(2000)});
        assert_eq!(server.operate(&phone, &operation(session, "set_note", payload)).await["status"], "accepted");
    }
    let mut socket = server.connect(&phone).await;
    socket.send(&json!({"type": "subscribe", "session_id": session})).await;
    let view = socket.until("view").await;
    assert!(view.to_string().len() <= MAX_FRAME_BYTES, "{}", view.to_string().len());
    let notes = view["entities"].as_array().unwrap().iter().filter(|entity| entity["kind"] == "note").count();
    assert_eq!(notes, 100, "shortened rather than left out");
    assert_eq!(kind(&view), "view");
}
