//! People at several ends: what one of them allows, says late, says twice, or says at the same time as another (C05, C07, C16, C38, C45);
//! and what is too long to be said (C37).

use crate::support::{Device, Server, Socket, assert_refused, fresh, kind, operation};
use baton_proto::{ClientType, ErrorCode, MAX_BODY_BYTES, MAX_TEXT_BYTES, SessionId, Timestamp, Trust};
use baton_runtime::{Clock, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A tool whose risk the device finds out beforehand.
fn run_command() -> Value {
    json!({
        "name": "run_command",
        "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"argv": {"type": "array", "items": {"type": "string"}}}, "required": ["argv"]},
        "effect": "once", "risk": "sensitive", "prepare": true, "timeout_s": 30
    })
}

/// A machine that offers the tool in a workspace, and a session there of the phone's.
async fn at_work(server: &Server, phone: &Device) -> (Socket, SessionId) {
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let workspace = fresh();
    let offered =
        json!({"tools": [run_command()], "workspaces": [{"workspace_id": workspace, "name": "site", "baseline": {"path": "/srv/site"}}]});
    let hands = server.connect_with(&machine, offered).await;
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": workspace}});
    let session = server.operate(phone, &new).await["session_id"].as_str().unwrap().parse().unwrap();
    (hands, session)
}

/// The one approval that is open, once it is.
async fn open_approval(server: &Server, by: &Device, screen: &mut Socket, session: SessionId) -> Value {
    loop {
        let view = server.get(by, &format!("/v1/sessions/{session}")).await;
        let open = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "approval" && entity["state"] == "open");
        if let Some(open) = open {
            return open.clone();
        }
        screen.until("change").await;
    }
}

async fn log(server: &Server, by: &Device, session: SessionId) -> Vec<Value> {
    let page = server.get(by, &format!("/v1/sessions/{session}/events?after=0&limit=1000")).await;
    page["changes"].as_array().unwrap().clone()
}

fn numbers(log: &[Value]) -> Vec<u64> {
    log.iter().map(|change| change["seq"].as_u64().unwrap()).collect()
}

fn of_type<'a>(log: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    log.iter().filter(|change| change["event"]["type"] == wanted).collect()
}

#[tokio::test]
async fn c05_what_one_end_allowed_answers_for_no_other_call_and_no_other_end() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let couch = server.pair(server.user, Trust::Standard, ClientType::Phone).await;
    let visitor = server.pair(server.user, Trust::Guest, ClientType::Phone).await;
    let (mut hands, session) = at_work(&server, &phone).await;
    let mut screen = server.connect(&phone).await;
    screen.send(&json!({"type": "subscribe", "session_id": session})).await;
    screen.until("view").await;
    let confirm = |approval: &Value, confirmed: bool| {
        let mut confirm = operation(session, "confirm", json!({"approval_id": approval["id"], "decision": "approve"}));
        confirm["confirmed"] = json!(confirmed);
        confirm
    };
    let prepared = |call: &Value| {
        json!({"type": "prepared", "session_id": session, "call_id": call["call_id"],
               "prepared": {"risk": "dangerous", "risk_reason": "It deletes files.", "preview": "rm -r build"}})
    };

    // The trusted phone allows the command once, in the two steps that a dangerous one takes.
    let said = server.operate(&phone, &operation(session, "say", json!({"text": "/run rm -r build"}))).await;
    assert_eq!(said["status"], "accepted", "{said}");
    let call = hands.until("prepare_call").await;
    hands.send(&prepared(&call)).await;
    let first = open_approval(&server, &phone, &mut screen, session).await;
    assert_eq!(server.operate(&phone, &confirm(&first, false)).await["error"]["code"], "needs_confirmation");
    assert_eq!(server.operate(&phone, &confirm(&first, true)).await["status"], "accepted");
    let ran = hands.until("tool_call").await;
    assert_eq!(ran["call_id"], call["call_id"]);
    hands
        .send(&json!({"type": "tool_result", "session_id": session, "call_id": ran["call_id"], "attempt": 1,
                       "outcome": {"status": "succeeded", "content": "", "bytes": 0}}))
        .await;
    hands.until("tool_result_ack").await;

    // The very same command, asked for by another end, is asked about again; and nobody's trust is lent to anybody.
    let mut again = operation(session, "say", json!({"text": "/run rm -r build"}));
    again["confirmed"] = json!(true);
    let said = server.operate(&couch, &again).await;
    assert_eq!(said["status"], "accepted", "{said}");
    let call = hands.until("prepare_call").await;
    hands.send(&prepared(&call)).await;
    let second = open_approval(&server, &phone, &mut screen, session).await;
    assert_ne!(second["id"], first["id"]);
    for (who, by) in [("standard", &couch), ("guest", &visitor)] {
        for confirmed in [false, true] {
            let refused = server.operate(by, &confirm(&second, confirmed)).await;
            assert_eq!(refused["error"]["code"], "trust_too_low", "{who}: {refused}");
        }
        // What the envelope says of its sender's trust counts for nothing.
        let mut boast = confirm(&second, true);
        boast["trust"] = json!("trusted");
        boast["sender_id"] = json!(phone.id);
        assert_eq!(server.operate(by, &boast).await["status"], "rejected", "{who}");
    }
    let late = server.operate(&phone, &confirm(&first, true)).await;
    assert_eq!(late["error"]["code"], "approval_closed", "the first card authorises nothing else: {late}");
    let log_so_far = log(&server, &phone, session).await;
    assert_eq!(of_type(&log_so_far, "tool_planned").len(), 1, "only the first one has been let through");
    assert_eq!(server.operate(&phone, &confirm(&second, true)).await["status"], "accepted");
    let ran = hands.until("tool_call").await;
    assert_eq!(ran["call_id"], call["call_id"]);
}

#[tokio::test]
async fn c07_another_end_answers_for_one_that_is_gone_and_goes_on() {
    let server = Server::start().await;
    let (phone, desk) = (server.phone().await, server.phone().await);
    let (mut hands, session) = at_work(&server, &phone).await;
    let mut screen = server.connect(&desk).await;
    screen.send(&json!({"type": "subscribe", "session_id": session})).await;
    screen.until("view").await;
    assert_eq!(server.operate(&phone, &operation(session, "say", json!({"text": "/run rm -r build"}))).await["status"], "accepted");
    let first = hands.until("prepare_call").await;
    let prepared = json!({"risk": "dangerous", "risk_reason": "It deletes files.", "preview": "rm -r build"});
    hands.send(&json!({"type": "prepared", "session_id": session, "call_id": first["call_id"], "prepared": prepared})).await;
    let open = open_approval(&server, &desk, &mut screen, session).await;
    // The phone that asked, and showed the card, is lost and revoked.
    let gone = server.request("DELETE", &format!("/v1/devices/{}", phone.id)).bearer_auth(&desk.token).send().await.unwrap();
    assert_eq!(gone.status(), 204);
    let mut next = operation(session, "say", json!({"text": "/run make"}));
    next["confirmed"] = json!(true);
    // A command in between could cross the one that waits: that is said at once, and its sender keeps it.
    let said = server.operate(&desk, &next).await;
    assert_eq!(said["error"]["code"], "illegal_transition", "{said}");
    let mut confirm = operation(session, "confirm", json!({"approval_id": open["id"], "decision": "approve"}));
    confirm["confirmed"] = json!(true);
    assert_eq!(server.operate(&desk, &confirm).await["status"], "accepted");
    let call = hands.until("tool_call").await;
    assert_eq!(call["call_id"], first["call_id"]);
    let done = |call: &Value| {
        json!({"type": "tool_result", "session_id": session, "call_id": call["call_id"], "attempt": 1,
               "outcome": {"status": "succeeded", "content": "", "bytes": 0}})
    };
    hands.send(&done(&call)).await;
    hands.until("tool_result_ack").await;
    next["operation_id"] = json!(fresh());
    next["epoch"] = said["epoch"].clone();
    let said = server.operate(&desk, &next).await;
    assert_eq!(said["status"], "accepted", "nobody waits for the one that is gone: {said}");
    let second = hands.until("prepare_call").await;
    assert_eq!(second["arguments"]["argv"], json!(["make"]), "it comes after it");
}

#[tokio::test]
async fn c16_what_an_old_holder_says_late_is_refused_with_the_newer_state_and_interleaves_nowhere() {
    let server = Server::start().await;
    let (phone, desk) = (server.phone().await, server.phone().await);
    let session = server.session(&phone).await;
    let mut take = operation(session, "take_over", json!({"force": true}));
    take["payload"] = json!({"force": true});
    let taken = server.operate(&desk, &take).await;
    assert_eq!((&taken["status"], &taken["epoch"]), (&json!("accepted"), &json!(2)), "{taken}");
    let before = log(&server, &phone, session).await.len();

    // What lay in the phone's outbox, each under the epoch that it knew; over the socket as over HTTP.
    let mut socket = server.connect(&phone).await;
    for (intent, payload) in
        [("say", json!({"text": "/show a.txt"})), ("set_note", json!({"key": "k", "value": "v"})), ("resume", json!({}))]
    {
        let late = operation(session, intent, payload);
        let refused = server.operate(&phone, &late).await;
        assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("rejected"), &json!("stale_epoch")), "{intent}: {refused}");
        assert_eq!(refused["epoch"], 2, "it is told the newer state: {refused}");
        assert!(refused["version"].as_u64().unwrap() >= before as u64, "{refused}");
        let words = format!("{} {}", refused["error"]["message"], refused["error"]["hint"]);
        assert!(words.contains("kept"), "{words}");
        let mut again = late;
        again["type"] = json!("op");
        socket.send(&again).await;
        let ack = loop {
            let frame = socket.next().await;
            if kind(&frame) == "ack" {
                break frame;
            }
        };
        assert_eq!(ack["error"]["code"], "stale_epoch", "sent again it has the same outcome: {ack}");
    }
    let log = log(&server, &phone, session).await;
    assert!(log[before..].iter().all(|change| change["event"]["type"] == "conflict_refused"), "{:#?}", &log[before..]);
    let view = server.get(&desk, &format!("/v1/sessions/{session}")).await;
    let entity = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "session").unwrap();
    assert_eq!(entity["holder"], json!(desk.id));
}

#[tokio::test]
async fn c38_two_writers_of_twenty_each_are_ordered_or_refused_and_lose_nothing() {
    let server = Server::start().await;
    let (phone, desk) = (server.phone().await, server.phone().await);
    let session = server.session(&phone).await;
    // Two tabs of one device: everything of both is there, in each one's order.
    let tab = async |name: &'static str| {
        let mut socket = server.connect(&phone).await;
        for number in 0..20 {
            let mut note = operation(session, "set_note", json!({"key": format!("{name}{number}"), "value": name}));
            note["type"] = json!("op");
            socket.send(&note).await;
            let ack = socket.until("ack").await;
            assert_eq!(ack["status"], "accepted", "{ack}");
        }
    };
    tokio::join!(tab("left"), tab("right"));
    let written = log(&server, &phone, session).await;
    let notes = of_type(&written, "note_set");
    assert_eq!(notes.len(), 40);
    for name in ["left", "right"] {
        let own: Vec<_> = notes
            .iter()
            .filter(|change| change["event"]["data"]["value"] == name)
            .map(|change| change["event"]["data"]["key"].clone())
            .collect();
        assert_eq!(own, (0..20).map(|number| json!(format!("{name}{number}"))).collect::<Vec<_>>());
    }
    assert_eq!(numbers(&written), (1..=written.len() as u64).collect::<Vec<_>>(), "one order without a gap");

    // Two devices that take the session from each other with every word: each word is in the log, or its writer was told that it isn't.
    let epoch = AtomicU64::new(1);
    let writer = async |by: &Device, name: &'static str| {
        let mut accepted = Vec::new();
        for number in 0..20 {
            let mut say = operation(session, "take_over", json!({"force": true}));
            say["epoch"] = json!(epoch.load(Ordering::Relaxed));
            let reply = server.operate(by, &say).await;
            epoch.fetch_max(reply["epoch"].as_u64().unwrap(), Ordering::Relaxed);
            match reply["status"].as_str().unwrap() {
                "accepted" => {
                    let mut note = operation(session, "set_note", json!({"key": "who", "value": format!("{name} {number}")}));
                    note["epoch"] = reply["epoch"].clone();
                    let reply = server.operate(by, &note).await;
                    match reply["status"].as_str().unwrap() {
                        "accepted" => accepted.push(format!("{name} {number}")),
                        _ => assert_eq!(reply["error"]["code"], "stale_epoch", "{reply}"),
                    }
                }
                _ => assert_eq!(reply["error"]["code"], "stale_epoch", "{reply}"),
            }
        }
        accepted
    };
    let (left, right) = tokio::join!(writer(&phone, "phone"), writer(&desk, "desk"));
    let written = log(&server, &phone, session).await;
    let kept: Vec<_> =
        of_type(&written, "note_set").iter().skip(40).map(|change| change["event"]["data"]["value"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kept.len(), left.len() + right.len());
    for (name, accepted) in [("phone", left), ("desk", right)] {
        assert_eq!(kept.iter().filter(|value| value.starts_with(name)).cloned().collect::<Vec<_>>(), accepted);
    }
    assert_eq!(numbers(&written), (1..=written.len() as u64).collect::<Vec<_>>());
}

/// A clock that stands still, or goes backwards by so much with each look at it.
#[derive(Debug)]
struct Backwards {
    looks: AtomicU64,
    step_ms: i64,
}

impl Clock for Backwards {
    fn now(&self) -> Timestamp {
        let looks = i64::try_from(self.looks.fetch_add(1, Ordering::Relaxed)).unwrap();
        Timestamp(1_800_000_000_000 - looks * self.step_ms)
    }

    fn random(&self) -> u64 {
        SystemClock.random()
    }
}

#[tokio::test]
async fn c45_whatever_the_clocks_say_order_is_by_number_and_nothing_is_stale_by_its_time() {
    for step_ms in [0, 250] {
        let server = Server::start_at(Arc::new(Backwards { looks: AtomicU64::new(0), step_ms })).await;
        let phone = server.phone().await;
        let session = server.session(&phone).await;
        let mut screen = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
        // The ends' own clocks are off by years, too.
        for (number, sent_at) in
            ["2031-01-01T00:00:00Z", "2019-01-01T00:00:00Z", "2019-01-01T00:00:00Z", "2026-11-30T10:00:00Z"].iter().enumerate()
        {
            let mut note = operation(session, "set_note", json!({"key": "k", "value": number.to_string()}));
            note["sent_at"] = json!(sent_at);
            let reply = server.operate(&phone, &note).await;
            assert_eq!(reply["status"], "accepted", "{reply}");
        }
        let written = log(&server, &phone, session).await;
        let values: Vec<_> =
            of_type(&written, "note_set").iter().map(|change| change["event"]["data"]["value"].as_str().unwrap().to_owned()).collect();
        assert_eq!(values, ["0", "1", "2", "3"]);
        assert_eq!(numbers(&written), (1..=written.len() as u64).collect::<Vec<_>>());
        let times: Vec<_> = written.iter().map(|change| change["event"]["at"].as_str().unwrap()).collect();
        assert!(times.windows(2).all(|two| two[0] >= two[1]), "the clock didn't go forwards: {times:?}");
        let mut seen = Vec::new();
        while seen.len() < written.len() {
            seen.push(screen.until("change").await["seq"].as_u64().unwrap());
        }
        assert_eq!(seen, numbers(&written));
        let view = server.get(&phone, &format!("/v1/sessions/{session}")).await;
        let note = view["entities"].as_array().unwrap().iter().find(|entity| entity["kind"] == "note").unwrap();
        assert_eq!(note["value"], "3", "the last one counts");
    }
}

#[tokio::test]
async fn c37_a_text_of_three_megabytes_is_refused_with_the_limit_on_every_way_and_never_cut() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let head = server.get(&phone, &format!("/v1/sessions/{session}/events")).await["head"].clone();
    let text = "a long text ".repeat(250_000);
    let say = |text: &str| operation(session, "say", json!({"text": text}));

    let response = server.request("POST", "/v1/ops").bearer_auth(&phone.token).json(&say(&text)).send().await.unwrap();
    let problem = assert_refused(response, 413, ErrorCode::TooLarge, "as a body").await;
    assert!(problem["detail"].as_str().unwrap().contains(&MAX_BODY_BYTES.to_string()), "{problem}");
    // What fits a body and no message.
    let reply = server.operate(&phone, &say(&text[..100_000])).await;
    assert_eq!((&reply["status"], &reply["error"]["code"]), (&json!("rejected"), &json!("too_large")), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains(&MAX_TEXT_BYTES.to_string()), "{reply}");
    // Over the socket: the frame is refused in words before the connection ends, or its end says why.
    let mut socket = server.connect(&phone).await;
    let mut frame = say(&text[..100_000]);
    frame["type"] = json!("op");
    socket.send(&frame).await;
    let ack = socket.until("ack").await;
    assert!(ack["error"]["message"].as_str().unwrap().contains(&MAX_TEXT_BYTES.to_string()), "{ack}");
    let after = server.get(&phone, &format!("/v1/sessions/{session}/events")).await;
    assert_eq!(after["head"], head, "nothing of it is in the log: {after}");
    assert_eq!(kind(&ack), "ack");
}
