//! Calls over the wire when things go wrong between hub and device: results that come twice, late, for nothing or too large, and hubs that
//! come and go meanwhile (C10, C12, C27, C41, C43, C44).

use crate::support::{Device, Server, Socket, fresh, kind, operation};
use baton_proto::{ClientType, MAX_FRAME_BYTES, MAX_RESULT_BYTES, SessionId, Timestamp, Trust};
use baton_runtime::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;

/// Two tools that need no preparation: one that reads, and one that acts once.
fn tools() -> Value {
    let tool = |name: &str, effect: &str| {
        json!({
            "name": name, "description": "Does it.", "effect": effect, "risk": "safe", "timeout_s": 30,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "argv": {"type": "array", "items": {"type": "string"}}}}
        })
    };
    json!([tool("read_file", "read"), tool("run_command", "once")])
}

/// A machine with a workspace, as it connects each time.
struct Machine {
    device: Device,
    workspace: String,
}

impl Machine {
    async fn new(server: &Server) -> Self {
        Self { device: server.pair(server.user, Trust::Trusted, ClientType::Device).await, workspace: fresh() }
    }

    /// Connects with what its journal says is under way.
    async fn connect(&self, server: &Server, running: Value) -> Socket {
        let workspaces = json!([{"workspace_id": self.workspace, "name": "site", "baseline": {"path": "/srv/site"}}]);
        server.connect_with(&self.device, json!({"tools": tools(), "workspaces": workspaces, "running": running})).await
    }

    async fn session(&self, server: &Server, phone: &Device) -> SessionId {
        let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": self.workspace}});
        server.operate(phone, &new).await["session_id"].as_str().unwrap().parse().unwrap()
    }
}

async fn say(server: &Server, phone: &Device, session: SessionId, text: &str) {
    let reply = server.operate(phone, &operation(session, "say", json!({"text": text}))).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
}

fn about(kind: &str, call: &Value) -> Value {
    json!({"type": kind, "session_id": call["session_id"], "call_id": call["call_id"], "attempt": call["attempt"]})
}

fn result(call: &Value, content: &str) -> Value {
    let mut result = about("tool_result", call);
    result["outcome"] = json!({"status": "succeeded", "content": content, "bytes": content.len()});
    result
}

async fn log(server: &Server, by: &Device, session: SessionId) -> Vec<Value> {
    let page = server.get(by, &format!("/v1/sessions/{session}/events?after=0&limit=1000")).await;
    page["changes"].as_array().unwrap().clone()
}

fn count(log: &[Value], wanted: &str) -> usize {
    log.iter().filter(|change| change["event"]["type"] == wanted).count()
}

/// Waits for an event of that type; the screen follows the session.
async fn until_event(screen: &mut Socket, wanted: &str) -> Value {
    loop {
        let change = screen.until("change").await;
        if change["event"]["type"] == wanted {
            return change;
        }
    }
}

#[tokio::test]
async fn c27_a_result_twice_or_for_nothing_is_recorded_once_and_later_turns_work() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    let mut other = Machine::new(&server).await.connect(&server, json!([])).await;
    say(&server, &phone, session, "/show a.txt").await;
    let call = hands.until("tool_call").await;
    let before = log(&server, &phone, session).await.len();

    let with = |field: &str, value: Value| {
        let mut wrong = result(&call, "wrong");
        wrong[field] = value;
        wrong
    };
    // For nothing: each is answered, so that its sender stops, and leaves no trace.
    let rows = [
        ("no such call", with("call_id", json!(fresh()))),
        ("no such session", with("session_id", json!(fresh()))),
        ("no such attempt", with("attempt", json!(2))),
        ("attempt 0", with("attempt", json!(0))),
    ];
    for (case, wrong) in rows {
        hands.send(&wrong).await;
        let answer = hands.until("tool_result_ack").await;
        assert_eq!((&answer["call_id"], &answer["attempt"]), (&wrong["call_id"], &wrong["attempt"]), "{case}");
    }
    other.send(&result(&call, "of another device")).await;
    other.until("tool_result_ack").await;
    assert_eq!(log(&server, &phone, session).await.len(), before, "nothing of it is recorded");

    for content in ["right", "right", "another one"] {
        hands.send(&result(&call, content)).await;
        assert_eq!(hands.until("tool_result_ack").await["call_id"], call["call_id"]);
    }
    let written = log(&server, &phone, session).await;
    assert_eq!((count(&written, "tool_succeeded"), count(&written, "turn_finished")), (1, 1));
    let shown = server.get(&phone, &format!("/v1/sessions/{session}")).await.to_string();
    assert!(shown.contains("right") && !shown.contains("wrong") && !shown.contains("another one") && !shown.contains("of another device"));

    // And the next turn works; a word on the old call changes nothing of it.
    say(&server, &phone, session, "/show b.txt").await;
    let next = hands.until("tool_call").await;
    assert_ne!(next["call_id"], call["call_id"]);
    hands.send(&result(&call, "once more")).await;
    hands.until("tool_result_ack").await;
    hands.send(&result(&next, "second")).await;
    hands.until("tool_result_ack").await;
    let written = log(&server, &phone, session).await;
    assert_eq!((count(&written, "tool_succeeded"), count(&written, "turn_finished")), (2, 2));
}

#[tokio::test]
async fn c43_a_result_that_is_too_large_is_settled_at_once_and_never_retried() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    // More than a result may have; and more than fits a stored event, since it grows in JSON.
    let rows = ["x".repeat(MAX_RESULT_BYTES + 1), "x".repeat(200_000), "\u{1}".repeat(30_000)];
    for (number, content) in rows.iter().enumerate() {
        say(&server, &phone, session, "/show large.txt").await;
        let call = hands.until("tool_call").await;
        hands.send(&result(&call, content)).await;
        assert_eq!(hands.until("tool_result_ack").await["call_id"], call["call_id"], "its sender needn't send it again");
        let written = log(&server, &phone, session).await;
        assert_eq!(count(&written, "tool_planned"), number + 1, "it isn't run again");
        assert_eq!(count(&written, "tool_succeeded") + count(&written, "tool_failed"), number + 1, "each is settled");
        assert_eq!(count(&written, "turn_finished"), number + 1, "and its turn with it");
        let settled =
            written.iter().rfind(|change| ["tool_succeeded", "tool_failed"].contains(&change["event"]["type"].as_str().unwrap())).unwrap();
        assert!(settled["event"].to_string().len() <= baton_proto::MAX_EVENT_BYTES, "{}", settled["event"].to_string().len());
        let said = settled["event"]["data"].to_string();
        let whole = settled["event"]["data"]["result"]["content"] == json!(content);
        let words = said.contains(&MAX_RESULT_BYTES.to_string()) || said.contains("left out");
        assert!(whole || words, "what is missing is said: {}", &said[..300]);
    }
    // A frame beyond the limit is refused in words; its sender shortens it.
    say(&server, &phone, session, "/show larger.txt").await;
    let call = hands.until("tool_call").await;
    hands.send(&result(&call, &"x".repeat(300_000))).await;
    let refused = hands.until("error").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains(&MAX_FRAME_BYTES.to_string()), "{refused}");
    hands.send(&result(&call, "shortened")).await;
    hands.until("tool_result_ack").await;
    assert_eq!(count(&log(&server, &phone, session).await, "tool_planned"), rows.len() + 1, "nor is that one");
}

#[tokio::test]
async fn c44_hubs_that_come_and_go_use_up_no_attempt_and_fail_nothing() {
    let mut server = Server::start().await;
    let phone = server.phone().await;
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    say(&server, &phone, session, "/run make").await;
    let call = hands.until("tool_call").await;
    hands.send(&about("tool_started", &call)).await;
    let mut screen = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
    until_event(&mut screen, "tool_started").await;
    for _ in 0..12 {
        drop((hands, screen));
        server = server.restarted().await;
        let running = json!([{"session_id": session, "call_id": call["call_id"], "attempt": 1, "state": "running"}]);
        hands = machine.connect(&server, running).await;
        screen = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
    }
    hands.send(&result(&call, "made")).await;
    // It may be told of the call that it has, and of nothing else: nothing is begun anew, looked up or stopped.
    let answer = loop {
        let frame = hands.next().await;
        match kind(&frame) {
            "tool_result_ack" => break frame,
            "tool_call" => assert_eq!((&frame["call_id"], &frame["attempt"]), (&call["call_id"], &json!(1)), "{frame}"),
            "probe_call" | "cancel_call" => panic!("{frame}"),
            _ => {}
        }
    };
    assert_eq!(answer["call_id"], call["call_id"]);
    let written = log(&server, &phone, session).await;
    assert_eq!((count(&written, "tool_planned"), count(&written, "tool_succeeded"), count(&written, "turn_finished")), (1, 1, 1));
    assert_eq!(count(&written, "question_asked") + count(&written, "tool_failed"), 0);
    let view = server.get(&phone, &format!("/v1/sessions/{session}")).await;
    let shown = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "call").unwrap();
    assert_eq!((&shown["attempt"], &shown["state"]), (&json!(1), &json!("succeeded")));
}

#[tokio::test]
async fn c41_a_session_that_everybody_reaches_for_at_the_start_has_one_driver() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    say(&server, &phone, session, "/run make").await;
    hands.until("tool_call").await;
    drop(hands);
    let server = server.restarted().await;
    let before = count(&log(&server, &phone, session).await, "recovered");
    // Its device, which never wrote the call down, readers, followers, and writers, all at once with the hub's own recovery.
    let read = async || {
        for _ in 0..10 {
            server.get(&phone, &format!("/v1/sessions/{session}")).await;
        }
    };
    let follow = async || {
        let mut socket = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
        until_event(&mut socket, "tool_proposed").await;
    };
    let write = async |name: &'static str| {
        for number in 0..10 {
            let reply = server.operate(&phone, &operation(session, "set_note", json!({"key": name, "value": number.to_string()}))).await;
            assert_eq!(reply["status"], "accepted", "{reply}");
        }
    };
    let (mut hands, ..) =
        tokio::join!(machine.connect(&server, json!([])), read(), read(), follow(), follow(), write("a"), write("b"), write("c"));
    let call = hands.until("tool_call").await;
    hands.send(&about("tool_started", &call)).await;
    hands.send(&result(&call, "made")).await;
    loop {
        let frame = hands.next().await;
        match kind(&frame) {
            "tool_result_ack" => break,
            "tool_call" => panic!("dispatched a second time: {frame}"),
            _ => {}
        }
    }
    let written = log(&server, &phone, session).await;
    assert!(count(&written, "recovered") <= before + 1, "taken up once");
    assert_eq!((count(&written, "tool_planned"), count(&written, "tool_succeeded"), count(&written, "note_set")), (1, 1, 30));
    let numbers: Vec<_> = written.iter().map(|change| change["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=written.len() as u64).collect::<Vec<_>>());
}

/// The machine's clock, set forward.
#[derive(Debug)]
struct Ahead {
    by_ms: i64,
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus(self.by_ms)
    }

    fn random(&self) -> u64 {
        SystemClock.random()
    }
}

#[tokio::test]
async fn c10_a_hub_that_was_away_for_a_week_delivers_nothing_old_again() {
    let server = Server::start().await;
    let (phone, desk) = (server.phone().await, server.phone().await);
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    say(&server, &phone, session, "/show a.txt").await;
    let call = hands.until("tool_call").await;
    hands.send(&result(&call, "milk")).await;
    hands.until("tool_result_ack").await;
    // An offer is open when it stops, and was shown at the time.
    let mut screen = server.connect(&desk).await;
    let offer = operation(session, "handoff", json!({"to_device": desk.id}));
    assert_eq!(server.operate(&phone, &offer).await["status"], "accepted");
    screen.until("handoff_offer").await;
    let head = log(&server, &phone, session).await.len();
    drop((hands, screen));

    let week = 7 * 24 * 3600 * 1000;
    let server = server.restarted_at(Arc::new(Ahead { by_ms: week })).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let mut screen = server.connect_with(&desk, json!({"cursors": {session.to_string(): head}})).await;
    // The offer has run out meanwhile: that is news. Then something new happens, to see what came before it.
    let mut seen: Vec<Value> = Vec::new();
    let view = server.get(&phone, &format!("/v1/sessions/{session}")).await;
    let epoch = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "session").unwrap()["epoch"].clone();
    let mut note = operation(session, "set_note", json!({"key": "new", "value": "new"}));
    note["epoch"] = epoch;
    let reply = server.operate(&phone, &note).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
    while seen.last().is_none_or(|frame| frame["event"]["type"] != "note_set") {
        let frame = screen.next().await;
        match kind(&frame) {
            "change" => {
                assert!(frame["seq"].as_u64().unwrap() > head as u64, "an old change again: {frame}");
                seen.push(frame);
            }
            "changed" | "heartbeat" => {}
            other => panic!("'{other}' was delivered again: {frame}"),
        }
    }
    let told: Vec<_> = seen.iter().map(|change| change["event"]["type"].as_str().unwrap()).collect();
    assert!(!told.iter().any(|name| name.starts_with("message_") || name.starts_with("tool_") || *name == "handoff_offered"), "{told:?}");
    assert_eq!(told.iter().filter(|name| **name == "handoff_expired").count(), 1, "{told:?}");
    // Nor is the call: the device's next frames are about something new.
    let mut next = operation(session, "say", json!({"text": "/show b.txt"}));
    next["epoch"] = reply["epoch"].clone();
    assert_eq!(server.operate(&phone, &next).await["status"], "accepted");
    let fresh_call = loop {
        let frame = hands.next().await;
        match kind(&frame) {
            "tool_call" => break frame,
            "tool_result_ack" | "probe_call" | "cancel_call" => panic!("{frame}"),
            _ => {}
        }
    };
    assert_eq!(fresh_call["arguments"]["path"], "b.txt");
}

#[tokio::test]
async fn c12_a_late_success_of_what_was_given_up_is_told_once_and_has_no_second_effect() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = Machine::new(&server).await;
    let mut hands = machine.connect(&server, json!([])).await;
    let session = machine.session(&server, &phone).await;
    let mut screen = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
    say(&server, &phone, session, "/run send letter").await;
    let call = hands.until("tool_call").await;
    hands.send(&about("tool_started", &call)).await;
    until_event(&mut screen, "tool_started").await;
    // Its device goes out of reach, and the user gives it up and does it in another way.
    drop(hands);
    until_event(&mut screen, "tool_unknown").await;
    assert_eq!(server.operate(&phone, &operation(session, "cancel", json!({}))).await["status"], "accepted");
    let cancelled = until_event(&mut screen, "tool_cancelled").await;
    assert!(cancelled.to_string().contains("unknown"), "that the outcome isn't known is said: {cancelled}");

    // The device is back: it had happened after all. It says so twice, since the first acknowledgement was lost.
    let running = json!([{"session_id": session, "call_id": call["call_id"], "attempt": call["attempt"], "state": "finished"}]);
    let mut hands = machine.connect(&server, running).await;
    for _ in 0..2 {
        hands.send(&result(&call, "the letter is sent")).await;
        hands.until("tool_result_ack").await;
    }
    let written = log(&server, &phone, session).await;
    let late: Vec<_> = written
        .iter()
        .filter(|change| change["event"]["type"] == "message_added" && change["event"].to_string().contains("after all"))
        .collect();
    assert_eq!(late.len(), 1, "it is recorded and told, once: {late:#?}");
    assert_eq!(
        (count(&written, "tool_planned"), count(&written, "tool_succeeded")),
        (1, 0),
        "nothing runs again, and the call keeps its one result"
    );
    let shown = server.get(&phone, &format!("/v1/sessions/{session}")).await;
    assert!(shown.to_string().contains("after all"), "every end shows it: {shown}");
    // Later turns work.
    say(&server, &phone, session, "/show a.txt").await;
    let next = hands.until("tool_call").await;
    hands.send(&result(&next, "text")).await;
    hands.until("tool_result_ack").await;
}
