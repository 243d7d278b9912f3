//! Saying something when the line, the agent or the conversation is in an awkward state: answers that get lost, turns under way, calls in
//! parallel, and more history than a model is shown (C09, C21, C22, C26, C36).

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, approve, calls, messages, open_approvals, operate, refusal, session_of, task};
use crate::support::hub::code_of;
use baton_proto::{
    Activity, CallState, Decision, EntityView, Intent, Operation, OperationId, Phase, ReplyStatus, Role, SessionEvent, SessionId, Trust,
    TurnState, WorkState,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

/// A line to the hub that loses the answers to the next operations: they are carried out, and whoever asked never hears of it.
struct Lossy {
    url: String,
    /// Answers that are still to be lost.
    losses: Arc<AtomicUsize>,
}

impl Lossy {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let losses = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&losses);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, port, Arc::clone(&counter)));
            }
        });
        Self { url, losses }
    }
}

/// Carries one connection. When an operation went up and its answer begins to come down, the line may break.
async fn carry(mut near: TcpStream, port: u16, losses: Arc<AtomicUsize>) {
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (mut up, mut down) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut is_operation = false;
    loop {
        tokio::select! {
            count = near.read(&mut up) => {
                let count = count.unwrap_or(0);
                // A connection carries one request at a time, so what begins so is the one that is answered next.
                if up[..count].starts_with(b"POST") || up[..count].starts_with(b"GET") {
                    is_operation = up[..count].starts_with(b"POST /v1/ops");
                }
                if count == 0 || far.write_all(&up[..count]).await.is_err() {
                    return;
                }
            }
            count = far.read(&mut down) => {
                let count = count.unwrap_or(0);
                let lost = is_operation && losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
                if lost || count == 0 || near.write_all(&down[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c09_sending_again_after_a_lost_answer_makes_one_task() {
    let rules = json!([rule("tidy", 0, json!({"text": "Tidied."}))]);
    let mut house = House::with_model(rules).await;
    let line = Lossy::to(house.hub.port).await;
    let far = Terminal::named(house.directory.path(), "far");
    let mut pairing = far.start(&["pair", &line.url, "--name", "far"]);
    let code = code_of(&mut pairing).await;
    approve(&house.phone, &code, Trust::Trusted).await;
    pairing.event("paired").await;

    // The terminal sends again by itself: the opening of the session and the message each lose an answer.
    line.losses.store(1, Ordering::SeqCst);
    let opened = far.ok(&["send", "--new", "--wait", "tidy the sheets"]).await;
    let session: SessionId = opened.event("sent")["session_id"].as_str().expect("an id").parse().expect("an id");
    line.losses.store(2, Ordering::SeqCst);
    far.ok(&["send", "--session", &session.to_string(), "--wait", "tidy the shelves"]).await;
    assert_eq!(line.losses.load(Ordering::SeqCst), 0, "the answers were lost");
    assert_eq!(house.phone.sessions(None, None).await.expect("a list").sessions.len(), 1, "one session was opened");
    let said: Vec<_> =
        messages(&house.view(session).await).into_iter().filter(|(role, _)| *role == Role::User).map(|(_, text)| text).collect();
    assert_eq!(said, ["tidy the sheets", "tidy the shelves"]);

    // An app whose user taps twice more after "connection lost", the last time after the hub came back.
    let opened = house
        .phone
        .operate(&Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None }))
        .await
        .expect("a session");
    let session = opened.session_id.expect("an id");
    let mut say = Operation::new(OperationId(Uuid::now_v7()), Some(session), words("tidy the desk"));
    say.epoch = Some(1);
    let (first, second) = tokio::join!(house.phone.operate(&say), house.phone.operate(&say));
    let mut statuses = [first.expect("an answer").status, second.expect("an answer").status];
    statuses.sort_by_key(|status| *status != ReplyStatus::Accepted);
    assert_eq!(statuses, [ReplyStatus::Accepted, ReplyStatus::Duplicate]);
    house.rest(session).await;
    house.hub.kill().await;
    house.hub.start().await;
    assert_eq!(house.phone.operate(&say).await.expect("an answer").status, ReplyStatus::Duplicate);
    let events = house.events(session).await;
    let count = |wanted: fn(&SessionEvent) -> bool| events.iter().filter(|event| wanted(event)).count();
    assert_eq!(count(|event| matches!(event, SessionEvent::TaskCreated { .. })), 1);
    assert_eq!(count(|event| matches!(event, SessionEvent::TurnStarted { .. })), 1);
    assert_eq!(count(|event| matches!(event, SessionEvent::MessageAdded { role: Role::User, .. })), 1);
    house.all_dialogues_were_valid();
}

fn words(text: &str) -> Intent {
    serde_json::from_value(json!({"intent": "say", "payload": {"text": text}})).expect("an intent")
}

#[tokio::test(flavor = "multi_thread")]
async fn c22_whoever_comes_before_the_first_token_sees_that_a_turn_is_in_progress() {
    let rules = json!([rule("think", 0, json!({"fault": "hang"}))]);
    let mut house = House::with_model(rules).await;
    let session = house.tell("think about it").await;
    for asked in [false, true] {
        // At once after the acceptance, and when the model is being asked; then by whoever comes after the hub.
        if asked {
            house.model().wait_for_requests(1).await;
            house.hub.kill().await;
            house.hub.start().await;
            house.model().wait_for_requests(2).await;
        }
        let view = house.view(session).await;
        let shown = session_of(&view);
        assert_eq!((shown.state, shown.activity), (WorkState::Running, Activity::Thinking));
        let turn = view.entities.iter().find_map(|entity| match entity {
            EntityView::Turn(turn) => Some((turn.state, turn.answering.is_some())),
            _ => None,
        });
        assert_eq!(turn, Some((TurnState::Running, true)));
        assert!(task(&view).phase != Phase::Done);
        let shown = house.terminal.show(&["show", &session.to_string()], "").await;
        assert!(shown.out.contains("  thinking  "), "{}", shown.out);
        let listed = house.terminal.ok(&["sessions"]).await;
        assert_eq!((&listed.lines[0]["state"], &listed.lines[0]["activity"]), (&json!("running"), &json!("thinking")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c21_what_the_model_is_no_longer_shown_can_still_be_scrolled_through() {
    let house = House::with_model(json!([{"when": {}, "reply": {"text": "Noted."}}])).await;
    let opened = house
        .phone
        .operate(&Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None }))
        .await
        .expect("a session");
    let session = opened.session_id.expect("an id");
    let said: Vec<String> =
        (0..30).map(|number| format!("note {number}: {}", "lorem ipsum ".repeat(250))).map(|text| text.trim().to_owned()).collect();
    for text in &said {
        let mut say = Operation::new(OperationId(Uuid::now_v7()), Some(session), words(text));
        say.epoch = Some(1);
        assert_eq!(refusal(&house.phone.operate(&say).await.expect("an answer")), None);
        house.rest(session).await;
    }
    let request = house.model().requests().pop().expect("a request").body.to_string();
    assert!(request.contains("note 29: lorem") && !request.contains(&said[2]), "the model is shown the latest only");
    assert!(request.len() < 80_000, "{}", request.len());

    // On a phone: the view, and pages back to the beginning.
    let view = house.view(session).await;
    let (mut entries, mut before) = (view.entities, view.history_before);
    while let Some(seq) = before {
        let page = house.phone.history(session, Some(seq), Some(20)).await.expect("a page");
        before = page.before;
        entries.extend(page.entries);
    }
    let scrolled: BTreeMap<_, _> = entries
        .into_iter()
        .filter_map(|entity| match entity {
            EntityView::Message(message) if message.role == Role::User => Some((message.created_seq, message.text)),
            _ => None,
        })
        .collect();
    assert_eq!(scrolled.into_values().collect::<Vec<_>>(), said, "word for word, each once");
    // In a terminal: the whole log.
    let told = house.terminal.ok(&["events", &session.to_string()]).await;
    let told: Vec<_> = told
        .lines
        .iter()
        .filter(|line| line["event"]["type"] == "message_added" || line["type"] == "message_added")
        .map(ToString::to_string)
        .collect();
    assert_eq!(told.len(), said.len());
    assert!(said.iter().zip(&told).all(|(text, line)| line.contains(text.as_str())));
}

#[tokio::test(flavor = "multi_thread")]
async fn c36_the_first_request_after_a_switch_is_as_large_after_a_long_history_as_after_a_shorter_one() {
    let house = House::with_model(json!([{"when": {}, "reply": {"text": "Noted."}}])).await;
    let mut sizes = Vec::new();
    for length in [15, 60] {
        let open = Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None });
        let session = house.phone.operate(&open).await.expect("a session").session_id.expect("an id");
        for number in 0..length {
            let mut say = Operation::new(
                OperationId(Uuid::now_v7()),
                Some(session),
                words(&format!("note {number:03}: {}", "lorem ipsum ".repeat(200))),
            );
            say.epoch = Some(1);
            assert_eq!(refusal(&house.phone.operate(&say).await.expect("an answer")), None);
            house.rest(session).await;
        }
        let id = session.to_string();
        house.terminal.ok(&["take-over", &id, "--force"]).await;
        house.terminal.ok(&["send", "--session", &id, "--wait", "where were we?"]).await;
        let request = house.model().requests().pop().expect("a request").body.to_string();
        assert!(request.contains(&format!("note {:03}: lorem", length - 1)) && request.contains("where were we?"));
        sizes.push(request.len());
    }
    assert!(sizes[1].abs_diff(sizes[0]) * 50 <= sizes[0], "within a fiftieth of each other: {sizes:?} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn c26_an_interruption_during_five_calls_leaves_a_dialogue_that_a_strict_provider_takes() {
    let sleeping = json!({"argv": ["sleep", "86400"]});
    let five = json!({"calls": [
        {"name": "run_command", "arguments": sleeping},
        {"name": "read_file", "arguments": {"path": "note.txt"}},
        {"name": "run_command", "arguments": sleeping},
        {"name": "read_file", "arguments": {"path": "page.html"}},
        {"name": "run_command", "arguments": sleeping}]});
    let rules = json!([rule("five things", 0, five), rule("rather", 0, json!({"text": "Only that, then."}))]);
    let house = House::with_model(rules).await;
    for interrupted in ["by the next message", "by a stop"] {
        let session = house.tell(&format!("five things, {interrupted}")).await;
        let open = house.until(session, "three approvals", |view| Some(open_approvals(view)).filter(|open| open.len() == 3)).await;
        for approval in open {
            let confirm = Intent::confirm(approval.id, Decision::Approve);
            assert_eq!(refusal(&operate(&house.phone, session, confirm).await), None);
        }
        house
            .until(session, "two of five are done", |view| {
                let states: Vec<_> = calls(view).iter().map(|call| call.state).collect();
                let wanted = [CallState::Started, CallState::Succeeded, CallState::Started, CallState::Succeeded, CallState::Started];
                (states == wanted).then_some(())
            })
            .await;
        let id = session.to_string();
        if interrupted == "by a stop" {
            house.terminal.ok(&["stop", &id]).await;
            house.rest(session).await;
        }
        house.terminal.ok(&["send", "--session", &id, "--interrupt", "--wait", "rather read the note only"]).await;
        let view = house.view(session).await;
        let states: Vec<_> = calls(&view).iter().map(|call| call.state).collect();
        assert_eq!(states.iter().filter(|state| **state == CallState::Succeeded).count(), 2, "{states:?}");
        assert!(states.iter().all(|state| state.is_settled()), "{states:?}");
        let request = house.model().requests().pop().expect("a request");
        assert_eq!(request.refused, None);
        let messages = request.body["messages"].as_array().expect("messages").clone();
        let asked: Vec<_> = messages
            .iter()
            .flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default())
            .map(|call| call["id"].clone())
            .collect();
        let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
        assert_eq!(asked.len(), 5);
        assert_eq!(
            results.iter().map(|result| result["tool_call_id"].clone()).collect::<Vec<_>>(),
            asked,
            "each call has one result, in order"
        );
        for (place, result) in results.iter().enumerate() {
            let text = result["content"].to_string();
            let finished = place == 1 || place == 3;
            assert_eq!(text.contains("not finished"), !finished, "{place}: {text}");
        }
        assert_eq!(states.iter().filter(|state| **state == CallState::Cancelled).count(), 3);
    }
    house.all_dialogues_were_valid();
}
