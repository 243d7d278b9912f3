use crate::support::{PATIENCE, Server, Socket, assert_refused, fresh, hello, kind, operation, raw};
use baton_proto::{ClientType, ErrorCode, Trust};
use baton_server::{Access, routes};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn another_users_ids_are_absent_on_every_route() {
    let server = Server::start().await;
    let ada = server.phone().await;
    let session = server.session(&ada).await;
    let other = server.hub.create_user("bob").await.unwrap();
    let bob = server.pair(other, Trust::Trusted, ClientType::Phone).await;
    let link = server.request("POST", "/v1/invitations").bearer_auth(&ada.token).json(&json!({"trust": "trusted"})).send().await.unwrap();
    let link: serde_json::Value = link.json().await.unwrap();
    let mut tried = 0;
    for route in routes().iter().filter(|route| route.access == Access::Private) {
        let (path, absent) = match route.path {
            path if path.ends_with("/file") => {
                (path.replace("{session}", &session.to_string()) + "?path=x", path.replace("{session}", &fresh()) + "?path=x")
            }
            path if path.contains("{invitation}") => {
                (path.replace("{invitation}", link["invitation_id"].as_str().unwrap()), path.replace("{invitation}", &fresh()))
            }
            path if path.contains("{session}") => (path.replace("{session}", &session.to_string()), path.replace("{session}", &fresh())),
            path if path.contains("{device}") => (path.replace("{device}", &ada.id.to_string()), path.replace("{device}", &fresh())),
            _ => continue,
        };
        let ask = async |path: &str, body: &str| {
            let request = server.request(route.method, path).bearer_auth(&bob.token);
            let request = if route.method == "POST" { request.body(r#"{"number":"000"}"#) } else { request };
            let request = if route.method == "PATCH" { request.body(body.to_owned()) } else { request };
            assert_refused(request.send().await.unwrap(), 404, ErrorCode::NotFound, path).await
        };
        for body in ["{}", r#"{"name":"mine now"}"#, r#"{"trust":"guest"}"#] {
            let (foreign, unknown) = (ask(&path, body).await, ask(&absent, body).await);
            assert_eq!((&foreign["detail"], &foreign["hint"]), (&unknown["detail"], &unknown["hint"]), "{path}");
        }
        tried += 1;
    }
    assert_eq!(tried, 12);
    for list in ["/v1/sessions", "/v1/workspaces"] {
        let text = server.get(&bob, list).await.to_string();
        assert!(!text.contains(&session.to_string()), "{text}");
    }
    assert!(!server.get(&bob, "/v1/devices").await.to_string().contains(&ada.id.to_string()));
    // Nothing of it did anything.
    let devices = server.get(&ada, "/v1/devices").await;
    assert_eq!((&devices["devices"][0]["name"], &devices["devices"][0]["trust"]), (&json!("a phone"), &json!("trusted")));
}

#[tokio::test]
async fn another_users_ids_are_absent_in_operations_and_frames() {
    let server = Server::start().await;
    let ada = server.phone().await;
    let session = server.session(&ada).await;
    let other = server.hub.create_user("bob").await.unwrap();
    let bob = server.pair(other, Trust::Trusted, ClientType::Phone).await;
    for (intent, payload) in [
        ("say", json!({"text": "/show x"})),
        ("cancel", json!({})),
        ("take_over", json!({"force": true})),
        ("set_note", json!({"key": "a", "value": "b"})),
    ] {
        let reply = server.operate(&bob, &operation(session, intent, payload)).await;
        assert_eq!((&reply["status"], &reply["error"]["code"]), (&json!("rejected"), &json!("not_found")), "{reply}");
    }
    let mut socket = server.connect_with(&bob, json!({"cursors": {session.to_string(): 0}})).await;
    let error = socket.until("error").await;
    assert_eq!(error["error"]["code"], "not_found");
    socket.send(&json!({"type": "subscribe", "session_id": session})).await;
    assert_eq!(socket.until("error").await["error"]["code"], "not_found");
    let mut say = operation(session, "say", json!({"text": "hi"}));
    say["type"] = json!("op");
    socket.send(&say).await;
    let ack = socket.until("ack").await;
    assert_eq!((&ack["status"], &ack["error"]["code"]), (&json!("rejected"), &json!("not_found")), "{ack}");
    for frame in [
        json!({"type": "tool_started", "session_id": session, "call_id": fresh(), "attempt": 1}),
        json!({"type": "tool_progress", "session_id": session, "call_id": fresh(), "attempt": 1, "text": "x"}),
        json!({"type": "tool_result", "session_id": session, "call_id": fresh(), "attempt": 1, "outcome": {"status": "interrupted", "known": ""}}),
        json!({"type": "unsubscribe", "session_id": session}),
    ] {
        socket.send(&frame).await;
    }
    socket.send(&json!({"type": "heartbeat"})).await;
    socket.until("heartbeat").await;
    let events = server.get(&ada, &format!("/v1/sessions/{session}/events")).await;
    let by_bob = events["changes"].as_array().unwrap().iter().filter(|change| change.to_string().contains(&bob.id.to_string())).count();
    assert_eq!(by_bob, 0);
}

#[tokio::test]
async fn ids_that_are_none_are_absent_too() {
    let server = Server::start().await;
    let phone = server.phone().await;
    for path in ["/v1/sessions/x", "/v1/sessions/%2e%2e", "/v1/sessions/1/brief", "/v1/sessions/%ff/snapshot", "/v1/sessions/../hub/events"]
    {
        let response = server.request("GET", path).bearer_auth(&phone.token).send().await.unwrap();
        assert_refused(response, 404, ErrorCode::NotFound, path).await;
    }
}

#[tokio::test]
async fn trust_decides_and_what_a_device_claims_of_itself_does_not() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let guest = server.pair(server.user, Trust::Guest, ClientType::Phone).await;
    // A guest sees how the work stands, and nothing of what was said (H9).
    server.get(&guest, "/v1/sessions").await;
    server.get(&guest, &format!("/v1/sessions/{session}/brief")).await;
    for path in ["", "/history", "/events", "/snapshot", "/diff"] {
        let path = format!("/v1/sessions/{session}{path}");
        let looked = server.request("GET", &path).bearer_auth(&guest.token).send().await.unwrap();
        assert_refused(looked, 403, ErrorCode::TrustTooLow, &path).await;
    }
    for path in ["/v1/search?q=hi".to_owned(), format!("/v1/blobs/{}", "0".repeat(64))] {
        let looked = server.request("GET", &path).bearer_auth(&guest.token).send().await.unwrap();
        assert_refused(looked, 403, ErrorCode::TrustTooLow, &path).await;
    }
    let mut say = operation(session, "say", json!({"text": "hi"}));
    say["trust"] = json!("trusted");
    let reply = server.operate(&guest, &say).await;
    assert_eq!((&reply["status"], &reply["error"]["code"]), (&json!("rejected"), &json!("trust_too_low")), "{reply}");
    // Its trust is what the directory says, whatever it says of itself.
    let mut socket = Socket::dial(server.address, &guest.token).await;
    socket.send(&json!({"type": "hello", "protocol": 1, "client_type": "phone", "trust": "trusted"})).await;
    assert_eq!(socket.next().await["trust"], "guest");
    for device in [&phone, &guest] {
        let revoke = server.request("DELETE", &format!("/v1/devices/{}", device.id)).bearer_auth(&guest.token).send().await.unwrap();
        if device.id == guest.id {
            assert_eq!(revoke.status(), 204, "a device may give itself up");
        } else {
            assert_refused(revoke, 403, ErrorCode::TrustTooLow, "revoke another").await;
        }
    }
    // Sender and type may be given and must match.
    let standard = server.pair(server.user, Trust::Standard, ClientType::Phone).await;
    for (field, value) in [("sender_id", json!(phone.id)), ("client_type", json!("ide"))] {
        let mut say = operation(session, "say", json!({"text": "hi"}));
        say[field] = value;
        let reply = server.operate(&standard, &say).await;
        assert_eq!(reply["status"], "rejected", "{field}: {reply}");
    }
    let renamed = server
        .request("PATCH", &format!("/v1/devices/{}", standard.id))
        .bearer_auth(&phone.token)
        .json(&json!({"name": "sofa", "trust": "guest"}));
    let renamed: Value = renamed.send().await.unwrap().json().await.unwrap();
    assert_eq!((&renamed["name"], &renamed["trust"]), (&json!("sofa"), &json!("guest")));
}

#[tokio::test]
async fn revocation_closes_the_sockets_within_two_seconds_and_kills_the_token() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let tablet = server.pair(server.user, Trust::Trusted, ClientType::Phone).await;
    let mut reading = server.connect(&tablet).await;
    let mut second_tab = server.connect(&tablet).await;
    let begun = Instant::now();
    let revoked = server.request("DELETE", &format!("/v1/devices/{}", tablet.id)).bearer_auth(&phone.token).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    for socket in [&mut reading, &mut second_tab] {
        let last = socket.rest().await.pop().unwrap();
        assert_eq!(kind(&last), "bye");
        assert!(last["reason"].as_str().unwrap().contains("revoked"), "{last}");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let dead = server.request("GET", "/v1/hub").bearer_auth(&tablet.token).send().await.unwrap();
    assert_refused(dead, 401, ErrorCode::Unauthenticated, "the token").await;
    assert_eq!(Socket::try_dial(server.address, &[("authorization", &format!("Bearer {}", tablet.token))]).await.err(), Some(401));
    assert_eq!(server.get(&phone, "/v1/devices").await["devices"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_device_that_does_not_read_is_gone_after_its_revocation_all_the_same() {
    let server = Server::start_with(|config| {
        config.limits.connections = 2;
        config.limits.headers = PATIENCE;
    })
    .await;
    let phone = server.phone().await;
    let tablet = server.pair(server.user, Trust::Trusted, ClientType::Phone).await;
    let mut deaf = Socket::dial_narrow(server.address, &tablet.token).await;
    deaf.send(&hello(&tablet, &json!({}))).await;
    deaf.stuff().await;
    let begun = Instant::now();
    let revoked = server.request("DELETE", &format!("/v1/devices/{}", tablet.id)).bearer_auth(&phone.token).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    // It still reads nothing. That the hub has let it go is seen by its place: the other one is that of the client used above.
    assert_eq!(raw(server.address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    deaf.until_ended().await;
}
