//! Sessions that come in as a file: as they were, and harmless (O1, S23).

use crate::support::{Device, Server, assert_refused, fresh, operation};
use baton_proto::{ClientType, Digest, ErrorCode, Trust};
use reqwest::Response;
use serde_json::{Value, json};

/// A file as `baton export` writes it, of whatever lines.
fn file(lines: &[String]) -> Vec<u8> {
    let mut told = lines.join("\n") + "\n";
    let digest = Digest::of_bytes(told.as_bytes());
    told += &json!({"events": lines.len() - 1, "digest": digest}).to_string();
    told.push('\n');
    told.into_bytes()
}

fn head(id: &str, events: usize) -> String {
    json!({"baton_session": 1, "session_id": id, "title": "t", "events": events, "exported_at": "2026-11-30T10:00:00.000Z", "version": "0.1.0"})
        .to_string()
}

/// A file with these events.
fn session(id: &str, events: &[Value]) -> Vec<u8> {
    let mut lines = vec![head(id, events.len())];
    lines.extend(events.iter().map(Value::to_string));
    file(&lines)
}

fn event(name: &str, data: Value) -> Value {
    let device = uuid::Uuid::from_u128(7);
    json!({"type": name, "v": 1, "at": "2026-11-30T10:00:00.000Z", "lane": "main", "actor": {"kind": "device", "id": device}, "data": data})
}

fn created() -> Value {
    let (user, device) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(7));
    event(
        "session_created",
        json!({"user_id": user, "title": "from afar", "language": "en", "workspace": null, "holder": device, "epoch": 4}),
    )
}

/// A log that ends in the middle of things: a call waits for an approval, another runs, the agent asks, and an offer is open.
fn in_the_middle() -> Vec<Value> {
    let id = |number: u128| uuid::Uuid::from_u128(number);
    let (device, turn, task) = (id(7), id(20), id(21));
    let terms = json!({"device_id": device, "effect": "once", "risk": "dangerous", "prepare": false, "lookup": false, "lasting": true, "timeout_s": 60});
    let proposed = |call: u128| {
        event(
            "tool_proposed",
            json!({"call_id": id(call), "turn_id": turn, "task_id": task, "step_id": null, "tool": "run_command", "arguments": {"argv": ["rm"]},
                "origin": "model", "terms": terms}),
        )
    };
    let binding = json!({
        "task_id": task, "turn_id": turn, "tool": "run_command", "argument_digest": "00", "file_digests": {}, "risk": "dangerous",
        "risk_reason": "", "preview": "rm", "directory": null, "device_id": device, "epoch": 4,
    });
    vec![
        created(),
        event("task_created", json!({"task_id": task, "title": "clean", "core_intent": {"goal": "clean", "version": 1, "source": "user"}})),
        event("turn_started", json!({"turn_id": turn, "task_id": task, "message_id": id(22), "literal": false})),
        event("task_phase_changed", json!({"task_id": task, "from": "idle", "to": "planning", "reason": null})),
        proposed(30),
        event("approval_requested", json!({"approval_id": id(31), "call_id": id(30), "binding": binding})),
        proposed(40),
        event("tool_planned", json!({"call_id": id(40), "attempt": 1})),
        event("tool_started", json!({"call_id": id(40), "attempt": 1, "device_id": device})),
        proposed(50),
        event(
            "question_asked",
            json!({"question_id": id(51), "kind": "agent", "call_id": id(50), "task_id": task, "text": "which?", "options": [], "known": null}),
        ),
        event("handoff_offered", json!({"handoff_id": id(60), "from": device, "to": id(8), "deadline": "2099-01-01T00:00:00.000Z"})),
    ]
}

async fn upload(server: &Server, by: &Device, bytes: &[u8]) -> String {
    let tus = |method: &str, path: &str| {
        server.client.request(method.parse().unwrap(), server.url(path)).bearer_auth(&by.token).header("tus-resumable", "1.0.0")
    };
    let begun = tus("POST", "/v1/uploads").header("upload-length", bytes.len()).send().await.unwrap();
    assert_eq!(begun.status(), 201);
    let path = begun.headers()["location"].to_str().unwrap().to_owned();
    let piece = tus("PATCH", &path).header("upload-offset", 0).header("content-type", "application/offset+octet-stream");
    assert_eq!(piece.body(bytes.to_vec()).send().await.unwrap().status(), 204);
    Digest::of_bytes(bytes).0
}

async fn import_blob(server: &Server, by: &Device, operation: &str, blob: &str) -> Response {
    let body = json!({"operation_id": operation, "blob": blob});
    server.request("POST", "/v1/sessions/import").bearer_auth(&by.token).json(&body).send().await.unwrap()
}

async fn import(server: &Server, by: &Device, bytes: &[u8]) -> Response {
    let blob = upload(server, by, bytes).await;
    import_blob(server, by, &fresh(), &blob).await
}

async fn events(server: &Server, by: &Device, session: &str) -> Vec<Value> {
    let page = server.get(by, &format!("/v1/sessions/{session}/events?limit=1000")).await;
    let changes = page["changes"].as_array().unwrap();
    assert_eq!(page["head"].as_u64().unwrap(), changes.len() as u64);
    changes.clone()
}

async fn sessions(server: &Server, by: &Device) -> usize {
    server.get(by, "/v1/sessions?limit=200").await["sessions"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_exported_session_is_the_same_on_another_hub_but_its_holder() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let id = server.session(&phone).await;
    for number in 0..5 {
        server.operate(&phone, &operation(id, "set_note", json!({"key": format!("k{number}"), "value": "\"quoted\"\n文字"}))).await;
    }
    server.operate(&phone, &operation(id, "forget", json!({"key": "k1"}))).await;
    let original = events(&server, &phone, &id.to_string()).await;
    let told: Vec<Value> = original.iter().map(|change| change["event"].clone()).collect();
    let bytes = session(&id.to_string(), &told);

    let elsewhere = Server::start().await;
    let stranger = elsewhere.hub.create_user("grace").await.unwrap();
    let other = elsewhere.pair(stranger, Trust::Trusted, ClientType::Phone).await;
    let blob = upload(&elsewhere, &other, &bytes).await;
    let operation_id = fresh();
    let first: Value = import_blob(&elsewhere, &other, &operation_id, &blob).await.json().await.unwrap();
    assert_eq!((&first["status"], &first["session_id"]), (&json!("accepted"), &json!(id)), "{first}");

    let imported = events(&elsewhere, &other, &id.to_string()).await;
    assert_eq!(imported.len(), original.len() + 2, "it is marked as imported, and its holder was let go");
    assert_eq!(imported[original.len()]["event"]["type"], "session_imported");
    for (before, after) in original.iter().zip(&imported).skip(1) {
        assert_eq!(before, after, "events and what they show are as they were");
    }
    assert_eq!(imported[0]["event"]["data"]["user_id"], json!(stranger), "it belongs to whoever imports it");
    assert_eq!(imported.last().unwrap()["event"]["type"], "handoff_released");
    let (mut before, mut after) =
        (server.get(&phone, &format!("/v1/sessions/{id}")).await, elsewhere.get(&other, &format!("/v1/sessions/{id}")).await);
    for view in [&mut before, &mut after] {
        view["seq"].take();
        view["entities"].as_array_mut().unwrap().retain(|entity| entity["kind"] != "session");
    }
    assert_eq!(before, after, "the fold is the same");

    // Sent again, and brought in once more beside the first.
    let again: Value = import_blob(&elsewhere, &other, &operation_id, &blob).await.json().await.unwrap();
    assert_eq!((&again["status"], &again["session_id"]), (&json!("duplicate"), &json!(id)), "{again}");
    let copy: Value = import(&elsewhere, &other, &bytes).await.json().await.unwrap();
    assert_eq!(copy["status"], "accepted", "{copy}");
    assert_ne!(copy["session_id"], json!(id), "the session that is there is left as it is");
    assert_eq!(sessions(&elsewhere, &other).await, 2);

    // It can be worked with, under the next hub too, by whoever takes it up.
    let elsewhere = elsewhere.restarted().await;
    assert_eq!(events(&elsewhere, &other, &id.to_string()).await, imported);
    let mut epoch = first["epoch"].clone();
    for (intent, payload) in [("take_over", json!({"force": false})), ("set_note", json!({"key": "new", "value": "here"}))] {
        let mut next = operation(id, intent, payload);
        next["epoch"] = epoch;
        let reply = elsewhere.operate(&other, &next).await;
        assert_eq!(reply["status"], "accepted", "{intent}: {reply}");
        epoch = reply["epoch"].clone();
    }
}

#[tokio::test]
async fn s23_what_was_open_elsewhere_is_closed_and_nothing_of_it_runs_or_can_be_answered() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let id = fresh();
    let told = in_the_middle();
    let reply: Value = import(&server, &phone, &session(&id, &told)).await.error_for_status().unwrap().json().await.unwrap();
    assert_eq!(reply["session_id"], json!(id));
    assert!(reply["epoch"].as_u64().unwrap() > 4, "{reply}");
    let view = server.get(&phone, &format!("/v1/sessions/{id}")).await;
    let of = |kind: &str| view["entities"].as_array().unwrap().iter().filter(|entity| entity["kind"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of("session")[0]["holder"], Value::Null);
    assert_eq!(of("session")[0]["waiting"], 0);
    assert_eq!(of("call").len(), 3);
    for (kind, state) in [("call", "cancelled"), ("approval", "voided"), ("question", "voided"), ("turn", "interrupted")] {
        assert!(!of(kind).is_empty(), "{kind}");
        for entity in of(kind) {
            assert_eq!(entity["state"], state, "{entity}");
        }
    }
    assert_eq!(of("task")[0]["phase"], "paused");
    assert!(of("workspace").is_empty());

    let approval = uuid::Uuid::from_u128(31);
    let late = json!({"v": 1, "operation_id": fresh(), "session_id": id, "intent": "confirm", "payload": {"approval_id": approval, "decision": "approve"}, "confirmed": true});
    assert_eq!(server.operate(&phone, &late).await["status"], "rejected");
    let server = server.restarted().await;
    let after = events(&server, &phone, &id).await;
    for change in &after[told.len()..] {
        let name = change["event"]["type"].as_str().unwrap();
        assert!(!["tool_planned", "tool_started", "model_started", "approval_decided"].contains(&name), "{change}");
    }
}

#[tokio::test]
async fn s23_a_file_that_is_not_understood_as_a_whole_leaves_nothing_behind() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let id = fresh();
    let good = session(&id, &[created()]);
    let text = String::from_utf8(good.clone()).unwrap();
    let note = event("note_set", json!({"key": "k", "value": "v"}));
    let with = |body: Value| session(&id, &[created(), body]);
    let changed = |field: &str, value: Value| {
        let mut event = note.clone();
        event[field] = value;
        session(&id, &[created(), event])
    };
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let many_tasks: Vec<Value> = std::iter::once(created())
        .chain((0..2_100_u128).map(|number| {
            let task = uuid::Uuid::from_u128(number);
            event("task_created", json!({"task_id": task, "title": "t", "core_intent": {"goal": "g", "version": 1, "source": "user"}}))
        }))
        .collect();
    let task = uuid::Uuid::from_u128(9);
    let plan = [json!({"step_id": "s1", "title": "x".repeat(60_000)})];
    let mut views = vec![
        created(),
        event("task_created", json!({"task_id": task, "title": "t", "core_intent": {"goal": "g", "version": 1, "source": "user"}})),
        event("task_planned", json!({"task_id": task, "steps": plan})),
    ];
    views.extend((0..2_000).map(|_| event("step_started", json!({"task_id": task, "step_id": "s1"}))));
    let overflowing = event("handoff_released", json!({"from": uuid::Uuid::from_u128(7), "epoch": u64::MAX}));
    let intent =
        event("task_created", json!({"task_id": task, "title": "t", "core_intent": {"goal": "g", "version": u32::MAX, "source": "user"}}));
    let percent = event("task_progressed", json!({"task_id": task, "progress": 255, "line": "x"}));
    let rows: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        ("an empty line", b"\n".to_vec(), ErrorCode::Invalid),
        ("no file of ours", b"hello\nworld\n".to_vec(), ErrorCode::Invalid),
        ("binary", vec![0xff; 5_000], ErrorCode::Invalid),
        ("cut in its last line", good[..good.len() - 20].to_vec(), ErrorCode::Invalid),
        ("without its last line", format!("{}\n{}\n", head(&id, 1), created()).into_bytes(), ErrorCode::Invalid),
        ("changed by a hair", text.replace("from afar", "from  far").into_bytes(), ErrorCode::Invalid),
        (
            "another format",
            file(&[head(&id, 1).replace("\"baton_session\":1", "\"baton_session\":2"), created().to_string()]),
            ErrorCode::UnsupportedVersion,
        ),
        ("no head", file(&[created().to_string(), created().to_string()]), ErrorCode::Invalid),
        ("another number of events", file(&[head(&id, 2), created().to_string()]), ErrorCode::Invalid),
        ("no events", file(&[head(&id, 0)]), ErrorCode::Invalid),
        ("not created", session(&id, std::slice::from_ref(&note)), ErrorCode::Invalid),
        ("created twice", with(created()), ErrorCode::Invalid),
        ("an unknown event", changed("type", json!("time_travelled")), ErrorCode::UnsupportedVersion),
        ("a newer event", changed("v", json!(99)), ErrorCode::UnsupportedVersion),
        ("an event of a user's stream", with(event("user_created", json!({"user_id": id, "name": "root"}))), ErrorCode::UnsupportedVersion),
        ("a missing field", changed("data", json!({"key": "k"})), ErrorCode::Invalid),
        ("a wrong type", changed("data", json!({"key": 1, "value": {}})), ErrorCode::Invalid),
        ("a wrong time", changed("at", json!("yesterday")), ErrorCode::Invalid),
        ("nested deep", changed("data", json!({"key": "k", "value": deep})), ErrorCode::Invalid),
        ("a huge event", changed("data", json!({"key": "k", "value": "x".repeat(80_000)})), ErrorCode::TooLarge),
        ("an epoch at the end of all numbers", with(overflowing), ErrorCode::Invalid),
        ("an intent at the end of all numbers", with(intent), ErrorCode::Invalid),
        ("more than all", with(percent), ErrorCode::Invalid),
        ("endless tasks", session(&id, &many_tasks), ErrorCode::TooLarge),
        ("views that outgrow their events", session(&id, &views), ErrorCode::TooLarge),
    ];
    for (case, bytes, code) in rows {
        let problem = assert_refused(import(&server, &phone, &bytes).await, code.status(), code, case).await;
        let said = problem.to_string();
        assert!(said.len() < 2_000 && said.contains("othing was imported"), "{case}: {said}");
        assert_eq!(sessions(&server, &phone).await, 0, "{case}");
    }
    // After all of these, a good one still comes in.
    assert_eq!(import(&server, &phone, &good).await.status(), 200);
    assert_eq!(sessions(&server, &phone).await, 1);
}

#[tokio::test]
async fn who_may_not_open_a_session_may_not_import_one_and_files_of_others_are_absent() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let blob = upload(&server, &phone, &session(&fresh(), &[created()])).await;
    let guest = server.pair(server.user, Trust::Guest, ClientType::Phone).await;
    assert_refused(import_blob(&server, &guest, &fresh(), &blob).await, 403, ErrorCode::TrustTooLow, "a guest").await;
    let device = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    assert_refused(import_blob(&server, &device, &fresh(), &blob).await, 403, ErrorCode::Forbidden, "a device that only acts").await;
    let stranger = server.hub.create_user("grace").await.unwrap();
    let other = server.pair(stranger, Trust::Trusted, ClientType::Phone).await;
    assert_refused(import_blob(&server, &other, &fresh(), &blob).await, 404, ErrorCode::NotFound, "another user's file").await;
    assert_eq!(sessions(&server, &other).await, 0);
    assert_eq!(import_blob(&server, &phone, &fresh(), &blob).await.status(), 200);
}
