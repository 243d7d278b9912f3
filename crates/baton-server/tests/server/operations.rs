use crate::support::{Server, assert_refused, fresh, operation};
use baton_proto::ErrorCode;
use serde_json::{Value, json};

#[tokio::test]
async fn c03_c09_the_same_operation_twice_happens_once() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"title": "One"}});
    let first = server.operate(&phone, &new).await;
    let second = server.operate(&phone, &new).await;
    assert_eq!((&first["status"], &second["status"]), (&json!("accepted"), &json!("duplicate")));
    assert_eq!(first["session_id"], second["session_id"]);
    assert_eq!(server.get(&phone, "/v1/sessions").await["sessions"].as_array().unwrap().len(), 1);

    let session = first["session_id"].as_str().unwrap().parse().unwrap();
    let note = operation(session, "set_note", json!({"key": "greeting", "value": "hello"}));
    let first = server.operate(&phone, &note).await;
    let again = server.operate(&phone, &note).await;
    assert_eq!((&first["status"], &again["status"]), (&json!("accepted"), &json!("duplicate")), "{first} {again}");
    assert_eq!(first["version"], again["version"]);
    let mut other = note.clone();
    other["payload"]["value"] = json!("something else");
    let conflict = server.operate(&phone, &other).await;
    assert_eq!((&conflict["status"], &conflict["error"]["code"]), (&json!("rejected"), &json!("operation_conflict")), "{conflict}");
    let said = server.get(&phone, &format!("/v1/sessions/{session}/events?limit=1000")).await;
    let messages = said["changes"].as_array().unwrap().iter().filter(|change| change["event"]["type"] == "note_set").count();
    assert_eq!(messages, 1);
}

#[tokio::test]
async fn what_cannot_be_understood_is_named_and_changes_nothing() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let before = server.get(&phone, &format!("/v1/sessions/{session}/events")).await["head"].clone();
    let with = |field: &str, value: Value| {
        let mut operation = operation(session, "set_note", json!({"key": "k", "value": "v"}));
        operation[field] = value;
        operation.to_string()
    };
    let without = |field: &str| {
        let mut operation = operation(session, "set_note", json!({"key": "k", "value": "v"}));
        operation.as_object_mut().unwrap().remove(field);
        operation.to_string()
    };
    let nested = |levels: usize| with("payload", serde_json::from_str(&format!("{}1{}", "[".repeat(levels), "]".repeat(levels))).unwrap());
    let rows: Vec<(&str, String, u16, ErrorCode)> = vec![
        ("nothing", String::new(), 400, ErrorCode::Invalid),
        ("no JSON", "{".to_owned(), 400, ErrorCode::Invalid),
        ("no object", "[]".to_owned(), 400, ErrorCode::Invalid),
        ("not UTF-8 as text", "\"\\ud800\"".to_owned(), 400, ErrorCode::Invalid),
        ("two values", format!("{}{}", without("x"), without("x")), 400, ErrorCode::Invalid),
        ("no version", without("v"), 400, ErrorCode::UnsupportedVersion),
        ("another version", with("v", json!(2)), 400, ErrorCode::UnsupportedVersion),
        ("a version of another type", with("v", json!("1")), 400, ErrorCode::Invalid),
        ("no id", without("operation_id"), 400, ErrorCode::Invalid),
        ("an id that is none", with("operation_id", json!("x")), 400, ErrorCode::Invalid),
        ("an id of another type", with("operation_id", json!(7)), 400, ErrorCode::Invalid),
        ("a session that is none", with("session_id", json!("x")), 400, ErrorCode::Invalid),
        ("no intent", without("intent"), 400, ErrorCode::Invalid),
        ("an unknown intent", with("intent", json!("fly")), 400, ErrorCode::Invalid),
        ("an intent of another type", with("intent", json!({})), 400, ErrorCode::Invalid),
        ("no payload where one is needed", without("payload"), 400, ErrorCode::Invalid),
        ("a payload of another type", with("payload", json!("hi")), 400, ErrorCode::Invalid),
        ("a text of another type", with("payload", json!({"key": 5, "value": "v"})), 400, ErrorCode::Invalid),
        ("an unknown delivery", operation(session, "say", json!({"text": "x", "delivery": "fax"})).to_string(), 400, ErrorCode::Invalid),
        ("a negative epoch", with("epoch", json!(-1)), 400, ErrorCode::Invalid),
        ("a time that is none", with("sent_at", json!("yesterday")), 400, ErrorCode::Invalid),
        ("an unknown client type", with("client_type", json!("toaster")), 400, ErrorCode::Invalid),
        ("nested too deep", nested(64), 400, ErrorCode::Invalid),
        ("nested much too deep", format!("{{\"payload\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000)), 400, ErrorCode::Invalid),
        ("a body a byte too large", " ".repeat(baton_proto::MAX_BODY_BYTES + 1), 413, ErrorCode::TooLarge),
        ("a large body", " ".repeat(1024 * 1024), 413, ErrorCode::TooLarge),
    ];
    for (case, body, status, code) in rows {
        let response = server.request("POST", "/v1/ops").bearer_auth(&phone.token).body(body).send().await.unwrap();
        let problem = assert_refused(response, status, code, case).await;
        match case {
            "nested too deep" => assert!(problem["detail"].as_str().unwrap().contains("64"), "{problem}"),
            "a large body" => assert!(problem["detail"].as_str().unwrap().contains("262144"), "{problem}"),
            _ => {}
        }
    }
    let whole = format!("{}{}", with("x", json!(1)), " ".repeat(baton_proto::MAX_BODY_BYTES - 400));
    let response = server.request("POST", "/v1/ops").bearer_auth(&phone.token).body(whole.clone()).send().await.unwrap();
    assert!(whole.len() < baton_proto::MAX_BODY_BYTES && response.status() == 200, "what just fits is taken: {}", response.status());
    let after = server.get(&phone, &format!("/v1/sessions/{session}/events")).await;
    let mentioned = after["changes"].as_array().unwrap().iter().filter(|change| change["event"]["type"] == "note_set").count();
    assert!(before.as_u64().unwrap() > 0 && mentioned == 1, "only the last one happened: {after}");
}

#[tokio::test]
async fn what_is_understood_and_refused_is_a_reply() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let mut stale = operation(session, "say", json!({"text": "hi"}));
    stale["epoch"] = json!(7);
    let mut none = operation(session, "say", json!({"text": "hi"}));
    none.as_object_mut().unwrap().remove("epoch");
    let long = operation(session, "say", json!({"text": "x".repeat(baton_proto::MAX_TEXT_BYTES + 1)}));
    let rows = [
        ("another epoch", stale, "stale_epoch"),
        ("no epoch", none, "invalid"),
        ("too long", long, "too_large"),
        ("an approval that isn't", operation(session, "confirm", json!({"approval_id": fresh(), "decision": "approve"})), "not_found"),
        ("a session that isn't", operation(uuid::Uuid::now_v7().into(), "say", json!({"text": "hi"})), "not_found"),
        ("new, with a session", operation(session, "new_session", json!({})), "invalid"),
        ("a command that isn't", operation(session, "say", json!({"text": "/frobnicate"})), "invalid"),
    ];
    for (case, operation, code) in rows {
        let reply = server.operate(&phone, &operation).await;
        assert_eq!((&reply["status"], &reply["error"]["code"]), (&json!("rejected"), &json!(code)), "{case}: {reply}");
        assert_eq!(reply["operation_id"], operation["operation_id"], "{case}");
    }
}

#[tokio::test]
async fn pages_are_bounded_and_their_parameters_checked() {
    let server = Server::start().await;
    let phone = server.phone().await;
    for _ in 0..3 {
        server.session(&phone).await;
    }
    let first = server.get(&phone, "/v1/sessions?limit=2").await;
    assert_eq!(first["sessions"].as_array().unwrap().len(), 2);
    let rest = server.get(&phone, &format!("/v1/sessions?limit=2&before={}", first["next"].as_str().unwrap())).await;
    assert_eq!(rest["sessions"].as_array().unwrap().len(), 1);
    let session = rest["sessions"][0]["session_id"].as_str().unwrap();
    let events = server.get(&phone, &format!("/v1/sessions/{session}/events?after=0&limit=1")).await;
    assert_eq!((events["changes"].as_array().unwrap().len(), &events["changes"][0]["seq"]), (1, &json!(1)));
    server.get(&phone, &format!("/v1/sessions/{session}/history?before=5&limit=3")).await;
    server.get(&phone, &format!("/v1/sessions/{session}/snapshot")).await;
    server.get(&phone, &format!("/v1/sessions/{session}/brief")).await;
    for query in ["/v1/sessions?before=x", "/v1/sessions?limit=x", "/v1/sessions?limit=-1"] {
        let response = server.request("GET", query).bearer_auth(&phone.token).send().await.unwrap();
        assert_refused(response, 400, ErrorCode::Invalid, query).await;
    }
    for query in ["after=x", "after=-1", "limit=1e9"] {
        let response =
            server.request("GET", &format!("/v1/sessions/{session}/events?{query}")).bearer_auth(&phone.token).send().await.unwrap();
        assert_refused(response, 400, ErrorCode::Invalid, query).await;
    }
}
