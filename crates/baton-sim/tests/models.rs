//! Models that misbehave (R2, R3, R4), seen from a terminal: what is shown, what the log has, and that every next request is one which a
//! strict provider takes. Hub, device and terminal are the built binary; the model is scripted, over real HTTP.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_proto::{Activity, CallState, ModelCause, ModelErrorKind, Phase, Role, SessionEvent, SessionId, WaitingOn};
use serde_json::{Value, json};
use support::house::{House, Plan, call, calls, messages, script, session_of, task};
use support::hub::Unusual;

const KEY: &str = "sk-canary-0123456789abcdefghijklmnop";

fn rule(user: &str, results: usize, reply: Value) -> Value {
    json!({"when": {"last_user_contains": user, "results": results}, "reply": reply})
}

fn calling(tool: &str, arguments: Value) -> Value {
    json!({"calls": [{"name": tool, "arguments": arguments}]})
}

/// What the model made of the last call's outcome.
fn answer(text: &str) -> Value {
    json!({"text": text})
}

/// How often and why the model was asked in a session.
async fn asked(house: &House, session: SessionId) -> Vec<ModelCause> {
    let events = house.events(session).await.into_iter();
    events
        .filter_map(|event| match event {
            SessionEvent::ModelStarted { cause, .. } => Some(cause),
            _ => None,
        })
        .collect()
}

async fn failures(house: &House, session: SessionId) -> Vec<ModelErrorKind> {
    let events = house.events(session).await.into_iter();
    events
        .filter_map(|event| match event {
            SessionEvent::ModelFailed { error, .. } => Some(error.kind),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_calls_that_cannot_be_taken_as_written() {
    let rules = json!([
        rule("repairable", 0, calling("read_file", json!("{path: 'note.txt',}"))),
        rule("repairable", 1, answer("It says {{last_result}}")),
        rule("a guess", 0, calling("write_file", json!("{\"path\": \"new.txt\", \"content\": \"it said \"hello\" twice\"}"))),
        rule("a guess", 1, answer("Not written: {{last_result}}")),
        rule("torn off", 0, calling("write_file", json!("{\"path\": \"new.txt\", \"content\": \"half of"))),
        rule("torn off", 1, answer("Not written: {{last_result}}")),
        rule("torn reading", 0, calling("read_file", json!("{\"path\": \"note.txt\""))),
        rule("torn reading", 1, answer("It says {{last_result}}")),
        rule("hopeless", 0, calling("read_file", json!("read the note, please"))),
        rule("hopeless", 1, answer("Told: {{last_result}}")),
        rule("nonexistent", 0, calling("launch_rocket", json!({"to": "moon"}))),
        rule("nonexistent", 1, answer("Told: {{last_result}}")),
        rule("bad name", 0, calling("rm -rf \u{1b}[2J/", json!({}))),
        rule("bad name", 1, answer("Told.")),
        rule("unfit", 0, calling("read_file", json!({"path": 7, "colour": "red"}))),
        rule("unfit", 1, answer("Told: {{last_result}}")),
        rule(
            "mixed",
            0,
            json!({"calls": [
            {"name": "read_file", "arguments": {"path": "note.txt"}},
            {"name": "read_file", "arguments": "{{{"},
            {"name": "launch_rocket", "arguments": {}},
            {"name": "read_file", "arguments": {"path": "page.html"}}]})
        ),
        rule("mixed", 4, answer("All four are answered.")),
    ]);
    let house = House::with_model(rules).await;

    // Each row: what is said, the tool, its code where it failed, and what the user reads.
    let rows = [
        ("repairable", "read_file", None, "milk and bread"),
        ("a guess", "write_file", Some("invalid_arguments"), "not valid JSON"),
        ("torn off", "write_file", Some("invalid_arguments"), "mending them might change a value"),
        ("torn reading", "read_file", None, "milk and bread"),
        ("hopeless", "read_file", Some("invalid_arguments"), "not valid JSON"),
        ("nonexistent", "launch_rocket", Some("unknown_tool"), "There is no tool 'launch_rocket'"),
        ("unfit", "read_file", Some("invalid_arguments"), "arguments.path"),
    ];
    for (said, tool, code, read) in rows {
        let (session, outcome) = house.ask(said).await;
        assert_eq!(outcome.code, 0, "{said}: {}", outcome.errors);
        let view = house.view(session).await;
        let made = call(&view, tool);
        assert_eq!(made.error.as_ref().map(|error| error.code.as_str()), code, "{said}");
        assert_eq!(made.state, if code.is_some() { CallState::Failed } else { CallState::Succeeded }, "{said}");
        let last = messages(&view).pop().expect("a message");
        assert_eq!(last.0, Role::Agent);
        assert!(last.1.contains(read), "{said}: {}", last.1);
        assert_eq!(task(&view).phase, Phase::Done, "{said}");
        // A refused call was never dispatched.
        let started = house.events(session).await.iter().any(|event| matches!(event, SessionEvent::ToolStarted { .. }));
        assert_eq!(started, code.is_none(), "{said}");
    }
    assert!(!house.workspace.join("new.txt").exists(), "nothing was written on a guess");

    let (session, outcome) = house.ask("bad name").await;
    assert_eq!(outcome.code, 0);
    let shown = house.terminal.show(&["show", &session.to_string()], "").await;
    assert!(!shown.out.contains('\u{1b}'), "an escape reaches the terminal: {:?}", shown.out);
    assert!(shown.out.contains("⟨U+001B⟩[2J"), "{}", shown.out);

    let (session, outcome) = house.ask("mixed").await;
    assert_eq!(outcome.code, 0);
    let states: Vec<_> = calls(&house.view(session).await).iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::Succeeded, CallState::Failed, CallState::Failed, CallState::Succeeded]);
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_going_in_circles_and_going_on_without_end() {
    let mut rules = vec![
        json!({"when": {"last_user_contains": "circles"}, "reply": calling("read_file", json!({"path": "note.txt"}))}),
        rule("endless", 25, calling("finish_task", json!({"summary": "At last."}))),
    ];
    rules.extend((0..25).map(|n| rule("endless", n, calling("find_text", json!({"pattern": format!("word {n}")})))));
    let house = House::with_model(Value::Array(rules)).await;

    let (session, outcome) = house.ask("circles").await;
    assert_eq!(outcome.code, 4, "paused isn't done: {outcome:?}");
    let view = house.view(session).await;
    let made = calls(&view);
    let ran = made.iter().filter(|call| call.state == CallState::Succeeded).count();
    let guarded = made.iter().filter(|call| call.error.as_ref().is_some_and(|error| error.code == "repeated_call")).count();
    assert_eq!((ran, guarded), (3, 3), "{made:#?}");
    assert_eq!(task(&view).phase, Phase::Paused);
    let shown = house.terminal.show(&["show", &session.to_string()], "").await;
    assert!(shown.out.contains("kept repeating the same call of 'read_file'"), "the reason is shown: {}", shown.out);
    let plain = house.terminal.show(&["send", "--session", &session.to_string(), "--wait", "circles again"], "").await;
    assert_eq!(plain.code, 4);
    assert!(plain.out.contains("kept repeating the same call"), "{}", plain.out);

    let (session, outcome) = house.ask("endless").await;
    assert_eq!(outcome.code, 4, "{outcome:?}");
    let view = house.view(session).await;
    assert_eq!((asked(&house, session).await.len(), task(&view).phase), (25, Phase::Paused));
    assert!(messages(&view).iter().any(|(role, text)| *role == Role::Hub && text.contains("25 model calls")), "{view:#?}");
    house.terminal.ok(&["resume", &session.to_string()]).await;
    let view = house.until(session, "the task's end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert_eq!(task(&view).summary.as_deref(), Some("At last."));
    let again = house.terminal.run(&["resume", &session.to_string()]).await;
    assert_eq!(again.code, 4, "a task that has ended isn't resumed");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_providers_that_fail_for_a_while() {
    let flawless = |user: &str| rule(user, 0, answer(&format!("Whole answer to {user}.")));
    let failing =
        |user: &str, fault: Value| rule(user, 0, json!({"text": "Half-said words that are never heard of again.", "fault": fault}));
    let rules = json!([
        rule("twice", 0, json!({"text": "Whole answer to twice.", "fault": {"status": 500, "times": 2}})),
        rule("later", 0, json!({"text": "Whole answer to later.", "fault": {"status": 429, "retry_after": 2, "times": 1}})),
        failing("cut", json!("cut")),
        failing("garbage", json!("garbage")),
        failing("empty", json!("empty")),
    ]);
    let house = House::with_model(rules).await;

    let (session, outcome) = house.ask("twice").await;
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(failures(&house, session).await, [ModelErrorKind::Unavailable; 2]);
    assert_eq!(asked(&house, session).await, [ModelCause::Input, ModelCause::Retry, ModelCause::Retry]);

    let words = house.terminal.show(&["send", "--new", "--wait", "later"], "");
    let looking = async {
        let list = support::until("the session", || async {
            let list = house.phone.sessions(None, None).await.ok()?.sessions;
            list.into_iter().find(|session| session.title == "later").map(|session| session.session_id)
        });
        let session = list.await;
        let waiting = house
            .until(session, "the pause", |view| (session_of(view).activity == Activity::Retrying).then(|| task(view).waiting_on.clone()));
        assert!(matches!(waiting.await, Some(WaitingOn::Model { .. })), "what is waited for is shown");
        session
    };
    let (words, session) = tokio::join!(words, looking);
    assert_eq!(words.code, 0);
    assert!(words.out.contains("asked too often") && words.out.contains("tried again"), "the pause is shown: {}", words.out);
    let log = house.log(session).await;
    let failed = log.iter().find_map(|change| match &change.event.body {
        SessionEvent::ModelFailed { error, retry_at, .. } => Some((change.event.at, error.kind, (*retry_at)?)),
        _ => None,
    });
    let (failed_at, kind, retry_at) = failed.expect("a failure with a time of the next try");
    assert_eq!(kind, ModelErrorKind::RateLimited);
    assert!(retry_at >= failed_at.plus(2000), "not before the provider allows it");
    let retried = log.iter().rfind(|change| matches!(change.event.body, SessionEvent::ModelStarted { .. })).expect("another try");
    assert!(retried.event.at >= retry_at, "tried again before its time");

    for (said, kind) in [("cut", ModelErrorKind::Unavailable), ("garbage", ModelErrorKind::Malformed), ("empty", ModelErrorKind::Malformed)]
    {
        let before = house.model().requests().len();
        let session = house.tell(said).await;
        house.model().wait_for_requests(before + 1).await;
        // The failing answer has been decided upon with the request; from now on the model is well.
        house.model().replace(script(json!([
            flawless("cut"),
            flawless("garbage"),
            flawless("empty"),
            rule("and then", 0, answer("Then."))
        ])));
        let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
        assert_eq!(failures(&house, session).await, [kind], "{said}");
        let words = format!("Whole answer to {said}.");
        assert_eq!(messages(&view), [(Role::User, said.to_owned()), (Role::Agent, words.clone())], "{said}");
        let next = house.terminal.run(&["send", "--session", &session.to_string(), "--wait", "and then"]).await;
        assert_eq!(next.code, 0, "{said}");
        let request = house.model().requests().pop().expect("a request").body.to_string();
        assert!(request.contains(&words) && !request.contains("Half-said"), "{said}: {request}");
        let restored = json!([failing("cut", json!("cut")), failing("garbage", json!("garbage")), failing("empty", json!("empty"))]);
        house.model().replace(script(restored));
    }
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_models_that_fall_silent() {
    let silent = json!([
        rule("before", 0, json!({"text": "Never.", "fault": "hang"})),
        rule("amidst", 0, json!({"text": "Half-said words that are never heard of again.", "fault": "stall"})),
    ]);
    let house = House::build(Plan {
        rules: Some(silent.clone()),
        config: Some("[model]\nfirst_token_timeout_s = 1\nidle_timeout_s = 1\n"),
        ..Plan::default()
    })
    .await;
    for (said, words) in [("before", "said nothing for 1 s"), ("amidst", "fell silent in the middle of its answer")] {
        let before = house.model().requests().len();
        let session = house.tell(said).await;
        house.model().wait_for_requests(before + 1).await;
        house.model().replace(script(json!([rule("before", 0, answer("Well again.")), rule("amidst", 0, answer("Well again."))])));
        let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
        assert_eq!(messages(&view), [(Role::User, said.to_owned()), (Role::Agent, "Well again.".to_owned())]);
        let events = house.events(session).await;
        let failed = events.iter().find_map(|event| match event {
            SessionEvent::ModelFailed { error, .. } => Some(error.clone()),
            _ => None,
        });
        let failed = failed.expect("a failure");
        assert_eq!(failed.kind, ModelErrorKind::TimedOut);
        assert!(failed.message.contains(words), "{}", failed.message);
        house.model().replace(script(silent.clone()));
    }
    // A silent model is stopped at once, and its connection closed.
    let session = house.tell("before").await;
    house.until(session, "the question", |view| (session_of(view).activity == Activity::Thinking).then_some(())).await;
    house.terminal.ok(&["stop", &session.to_string()]).await;
    let view = house.rest(session).await;
    assert_eq!(task(&view).phase, Phase::Cancelled);
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_s6_a_refused_key_is_said_once_and_shown_nowhere() {
    let refusing = json!([{"reply": {"fault": {"status": 401}}}]);
    let house = House::build(Plan {
        rules: Some(refusing),
        hub: Unusual { arguments: &["--log", "debug"], variables: &[("BATON_MODEL_KEY", KEY)], ..Unusual::default() },
        ..Plan::default()
    })
    .await;
    let (session, outcome) = house.ask("hello").await;
    assert_eq!(outcome.code, 4);
    assert_eq!(house.model().requests().len(), 1, "a refused key isn't tried again");
    assert_eq!(house.model().requests()[0].bearer.as_deref(), Some(KEY), "the key goes to the model");
    assert_eq!(failures(&house, session).await, [ModelErrorKind::Unauthorized]);
    let view = house.view(session).await;
    assert_eq!(task(&view).phase, Phase::Paused);
    let shown = house.terminal.show(&["show", &session.to_string()], "").await;
    assert!(shown.out.contains("refused the key") && shown.out.contains("Check that the key"), "{}", shown.out);
    let plain = house.terminal.show(&["send", "--session", &session.to_string(), "--wait", "hello again"], "").await;
    assert_eq!(plain.code, 4);
    assert!(plain.out.contains("refused the key"), "the reason is shown where it was waited for: {}", plain.out);

    let log = serde_json::to_string(&house.log(session).await).expect("JSON");
    let snapshot = serde_json::to_string(&house.phone.snapshot(session).await.expect("a snapshot")).expect("JSON");
    for (place, text) in
        [("terminal", shown.out + &plain.out + &plain.errors), ("log", house.hub.logs()), ("events", log), ("snapshot", snapshot)]
    {
        assert!(!text.contains(KEY) && !text.contains("sk-canary"), "the key is in the {place}");
    }

    // Once the key is right, the same task goes on.
    house.model().replace(script(json!([{"reply": {"text": "Welcome."}}])));
    house.terminal.ok(&["resume", &session.to_string()]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_a_reset_context_is_not_sent_to_the_model_and_comes_back_when_undone() {
    let rules = json!([rule("walrus", 0, answer("Noted.")), rule("colour", 0, answer("Which one?")), rule("again", 0, answer("Blue."))]);
    let house = House::build(Plan { rules: Some(rules), ..Plan::default() }).await;
    let session = house.tell("the walrus is blue").await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    let session = session.to_string();

    let refused = house.terminal.show(&["reset", "--session", &session], "").await;
    assert!(refused.code == 4 && refused.errors.contains("--confirm"), "how to go on is said: {refused:?}");
    let reset = house.terminal.show(&["reset", "--session", &session, "--confirm"], "").await;
    assert!(reset.code == 0 && reset.out.contains("begins afresh"), "{reset:?}");
    let next = async |words: &str| {
        assert_eq!(house.terminal.run(&["send", "--session", &session, "--wait", words]).await.code, 0, "{words}");
        house.model().requests().pop().expect("a request").body.to_string()
    };
    let request = next("which colour").await;
    assert!(!request.contains("walrus"), "the model is shown what it was to forget: {request}");
    assert!(house.terminal.show(&["show", &session], "").await.out.contains("walrus"), "people still read it");

    assert_eq!(house.terminal.run(&["reset", "--session", &session, "--undo"]).await.code, 0);
    let request = next("and again").await;
    assert!(request.contains("the walrus is blue") && request.contains("which colour"), "{request}");
    assert_eq!(house.terminal.run(&["reset", "--session", &session, "--undo"]).await.code, 4, "there is nothing more to take back");
    house.all_dialogues_were_valid();
}
