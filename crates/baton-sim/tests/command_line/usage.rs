//! What was used, and where it ends.

use crate::rule;
use crate::support::house::{House, Plan, task};
use baton_proto::Phase;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn r4_budgets_pause_the_work_over_restarts_and_the_user_lets_it_go_on() {
    let rules = json!([
        rule("work", 0, json!({"calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]})),
        rule("work", 1, json!({"text": "Read."})),
        rule("go on", 0, json!({"text": "Done."})),
    ]);
    let price = "price_input = 1000000\nprice_output = 0\ncurrency = 'EUR'\ncontext_tokens = 4096\n";
    let config = format!("[budget]\ntask_tokens = 1\nday_tokens = 2\n[model]\n{price}");
    let mut house = House::build(Plan { rules: Some(rules), config: Some(&config), ..Plan::default() }).await;
    let (session, _) = house.ask("work").await;
    house.until(session, "the pause", |view| (task(view).phase == Phase::Paused).then_some(())).await;
    assert_eq!(house.model().requests().len(), 1, "the model isn't asked again");
    let listed = house.terminal.ok(&["sessions"]).await;
    assert!(listed.event("session")["line"].as_str().is_some_and(|line| line.contains("budget of 1 tokens")), "{listed:?}");
    let used = house.terminal.ok(&["usage"]).await;
    assert!(used.event("usage")["usage"]["input_tokens"].as_u64().is_some_and(|tokens| tokens > 2), "{used:?}");
    assert_eq!(used.event("budgets")["task_tokens"], 1);
    let (tokens, cost) = (&used.event("usage")["usage"]["input_tokens"], &used.event("usage")["cost"]);
    assert_eq!(tokens.as_f64(), cost.as_f64(), "a token costs a euro: {used:?}");
    assert_eq!(used.event("usage")["currency"], "EUR");

    house.hub.kill().await;
    house.hub.start().await;
    house.hands().await;
    let refused = house.terminal.run(&["send", "--session", &session.to_string(), "go on"]).await;
    assert!(refused.code != 0 && refused.errors.contains("budget of 2 tokens is used up"), "{refused:?}");
    house.terminal.ok(&["send", "--session", &session.to_string(), "--confirm", "--wait", "go on"]).await;
    assert_eq!(task(&house.view(session).await).phase, Phase::Done);
    house.all_dialogues_were_valid();
}
