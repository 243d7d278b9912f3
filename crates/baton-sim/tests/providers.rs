//! Models of other makes (R3): the road's first task over Anthropic's Messages, through a killed hub; and a model that is found on this
//! machine because nobody named one. Hub, device and terminal are the built binary; the model is scripted, over real HTTP.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_proto::{ModelErrorKind, Phase, SessionEvent};
use baton_sim::ledger::Ledger;
use baton_sim::scripted_model::ScriptedModel;
use serde_json::{Value, json};
use std::time::Duration;
use support::house::{House, Plan, calls, messages, open_approvals, script, task};
use support::hub::Unusual;
use support::workspace::admin_template;

const KEY: &str = "sk-ant-canary-0123456789abcdefghijklmnop";
const ANTHROPIC: &str = "[model]\nprovider = \"anthropic\"\n";

const SAID: &str = "把首页按钮的圆角改成 8px,并检查深色模式下的对比度是否足够";
const DONE: &str = "首页按钮的圆角已改为 8px,深色模式下对比度足够。";
const BUTTON: &str = r#"<button class="btn btn-primary" id="btnNavbarSearch" type="button">"#;
const ROUNDED: &str = r#"<button class="btn btn-primary" id="btnNavbarSearch" type="button" style="border-radius: 8px">"#;

/// The agent's part of the road's first task. Each answer follows from the request alone.
fn road() -> Value {
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let rule = |results: usize, reply: Value| json!({"when": {"last_user_contains": SAID, "results": results}, "reply": reply});
    json!([
        rule(
            0,
            json!({"thinking": "Two steps.", "text": "…", "calls": [
            call("set_plan", json!({"steps": [{"id": "radius", "title": "Radius"}, {"id": "contrast", "title": "Contrast", "depends_on": ["radius"]}]})),
            call("start_step", json!({"step_id": "radius"})),
            call("find_text", json!({"pattern": "btnNavbarSearch", "path": "index.html", "literal": true}))]})
        ),
        rule(
            3,
            json!({"calls": [
            call("read_file", json!({"path": "index.html", "start_line": 15, "end_line": 30})),
            call("edit_file", json!({"path": "index.html", "old_text": BUTTON, "new_text": ROUNDED})),
            call("record_fact", json!({"key": "button.corner_radius", "value": "8px", "scope": "session", "source": "the user"}))]})
        ),
        rule(
            6,
            json!({"calls": [
            call("finish_step", json!({"step_id": "radius", "conclusion": "8px", "product": "index.html"})),
            call("start_step", json!({"step_id": "contrast"})),
            call("read_file", json!("{path: 'index.html', start_line: 20, end_line: 21,}"))]})
        ),
        rule(9, json!({"calls": [call("record_entry", json!({"text": "contrast checked"}))]})),
        rule(
            10,
            json!({"calls": [
            call("finish_step", json!({"step_id": "contrast", "conclusion": "good enough"})),
            call("finish_task", json!({"summary": DONE}))]})
        ),
    ])
}

fn anthropic(rules: Value) -> Plan<'static> {
    Plan {
        rules: Some(rules),
        config: Some(ANTHROPIC),
        hub: Unusual { arguments: &["--log", "debug"], variables: &[("ANTHROPIC_API_KEY", KEY)], ..Unusual::default() },
        ..Plan::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_the_road_over_anthropics_messages() {
    let ledger = Ledger::start(Duration::from_millis(100)).await.expect("the ledger starts");
    let mut house = House::build(Plan { workspace: Some(admin_template), ..anthropic(road()) }).await;
    let _device = house.ledger_device(&ledger).await;
    house.hands().await;
    let session = house.tell(SAID).await;
    // The hub dies in the middle of the work, and comes back to the same dialogue.
    house.model().wait_for_requests(3).await;
    house.hub.kill().await;
    house.hub.start().await;
    let view = house
        .until(session, "the end", |view| (task(view).phase == Phase::Done || !open_approvals(view).is_empty()).then(|| view.clone()))
        .await;
    for approval in open_approvals(&view) {
        house.terminal.ok(&["approve", &approval.id.to_string()]).await;
    }
    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;

    assert!(messages(&view).iter().any(|(_, text)| text == DONE), "{:?}", messages(&view));
    assert!(house.file("index.html").contains(ROUNDED));
    assert_eq!(ledger.entries().len(), 1, "the outside world was told once");
    assert_eq!(calls(&view).iter().filter(|call| call.tool == "edit_file").count(), 1);

    house.all_dialogues_were_valid();
    for request in house.model().requests() {
        assert!(request.body["system"].is_array(), "another dialect: {}", request.body);
        assert_eq!(request.bearer.as_deref(), Some(KEY));
    }
    let events = house.events(session).await;
    let usages = events.iter().filter_map(|event| match event {
        SessionEvent::ModelFinished { usage, .. } => Some(*usage),
        _ => None,
    });
    let usages: Vec<_> = usages.collect();
    assert!(usages.len() >= 5 && usages.iter().all(|usage| usage.input_tokens > 0 && usage.output_tokens > 0), "{usages:?}");
    assert!(usages.iter().skip(1).all(|usage| usage.cached_input_tokens > 0), "what the provider kept is counted apart: {usages:?}");
    let log = serde_json::to_string(&house.log(session).await).expect("JSON");
    for (place, text) in [("log", house.hub.logs()), ("events", log)] {
        assert!(!text.contains("sk-ant"), "the key is in the {place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_anthropics_failures_are_waited_out_and_told() {
    let reply = |fault: Value| json!([{"reply": {"text": "Here I am, whole and unharmed.", "fault": fault}}]);
    let house = House::build(anthropic(reply(json!({"status": 529, "retry_after": 1, "times": 1})))).await;
    let (session, outcome) = house.ask("overloaded").await;
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    let failed = |events: Vec<SessionEvent>| {
        let kinds = events.into_iter().filter_map(|event| match event {
            SessionEvent::ModelFailed { error, .. } => Some((error.kind, error.retry_after_ms)),
            _ => None,
        });
        kinds.collect::<Vec<_>>()
    };
    assert_eq!(failed(house.events(session).await), [(ModelErrorKind::Unavailable, Some(1000))]);

    for fault in ["error", "cut"] {
        house.model().replace(script(reply(json!(fault))));
        let before = house.model().requests().len();
        let session = house.tell(fault).await;
        house.model().wait_for_requests(before + 1).await;
        house.model().replace(script(reply(Value::Null)));
        let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
        assert_eq!(failed(house.events(session).await), [(ModelErrorKind::Unavailable, None)], "{fault}");
        assert_eq!(messages(&view).last().map(|(_, text)| text.as_str()), Some("Here I am, whole and unharmed."));
    }

    house.model().replace(script(reply(json!({"status": 401}))));
    let (session, outcome) = house.ask("refused").await;
    assert_eq!(outcome.code, 4);
    assert_eq!(failed(house.events(session).await), [(ModelErrorKind::Unauthorized, None)], "a refused key isn't tried again");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_a_model_on_this_machine_is_found() {
    let model = ScriptedModel::start(script(json!([{"reply": {"text": "Found and asked."}}]))).await.expect("the scripted model starts");
    let places = format!("lmstudio=127.0.0.1:{}, ollama={}", support::free_port(), model.address());
    let variables = [("BATON_LOCAL_MODELS", places.as_str()), ("ANTHROPIC_API_KEY", KEY), ("BATON_MODEL_KEY", KEY)];
    let house = House::build(Plan { hub: Unusual { variables: &variables, ..Unusual::default() }, ..Plan::default() }).await;
    let ready = &house.hub.ready;
    assert_eq!((&ready["model"], &ready["local_model"]["model"]), (&json!("scripted"), &json!("scripted")), "{ready}");
    assert_eq!((&ready["local_model"]["server"], &ready["local_model"]["tools"]), (&json!("Ollama"), &json!(true)));
    let (session, outcome) = house.ask("Is anybody there?").await;
    assert_eq!(outcome.code, 0, "{}", outcome.errors);
    assert_eq!(messages(&house.view(session).await).last().map(|(_, text)| text.as_str()), Some("Found and asked."));
    assert!(model.unanswered().is_empty());
    assert!(model.requests().iter().all(|request| request.bearer.is_none()), "a key goes to whoever listens there");
}

#[tokio::test(flavor = "multi_thread")]
async fn r3_no_model_is_looked_for_where_that_is_switched_off() {
    let model = ScriptedModel::start(script(json!([]))).await.expect("the scripted model starts");
    let places = format!("ollama={}", model.address());
    let house = House::build(Plan {
        config: Some("[model]\nlocal = false\n"),
        hub: Unusual { variables: &[("BATON_LOCAL_MODELS", &places)], ..Unusual::default() },
        ..Plan::default()
    })
    .await;
    assert_eq!((&house.hub.ready["model"], &house.hub.ready["local_model"]), (&Value::Null, &Value::Null));
}
