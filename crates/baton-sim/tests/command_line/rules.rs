//! Remembered approvals: granted in place, listed, removed, and gone with the trust of whoever granted them.

use crate::rule;
use crate::support::house::{House, is};
use baton_proto::{CallState, DevicePatch, Trust};
use serde_json::json;

fn touching(file: &str) -> serde_json::Value {
    json!({"calls": [{"name": "run_command", "arguments": {"argv": ["touch", file]}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_c05_what_is_remembered_is_not_asked_again_until_it_is_removed_or_its_granter_loses_trust() {
    let rules = json!([
        rule("first", 0, touching("one")),
        rule("first", 1, json!({"text": "Done."})),
        rule("second", 0, touching("two")),
        rule("second", 1, json!({"text": "Done."})),
        rule("third", 0, touching("three")),
        rule("third", 1, json!({"text": "Done."})),
        rule("fourth", 0, touching("four")),
        rule("fourth", 1, json!({"text": "Done."})),
    ]);
    let house = House::with_model(rules).await;
    let grant = async |session, extra: &[&str]| {
        let open = house.open_approval(session).await;
        house.terminal.ok(&[&["approve", &open.id.to_string(), "--remember", "always", "--prefix", "1"], extra].concat()).await;
        house.until(session, "the end", |view| is(view, "run_command", CallState::Succeeded)).await;
    };
    let (session, _) = house.ask("first").await;
    let refused = house.terminal.show(&["approve", &house.open_approval(session).await.id.to_string(), "--prefix", "1"], "").await;
    assert_eq!(refused.code, 2, "a beginning without `--remember`: {refused:?}");
    grant(session, &[]).await;

    let listed = house.terminal.ok(&["rules"]).await;
    let said = house.terminal.run(&["send", "--new", "--wait", "second"]).await;
    assert_eq!(said.code, 0, "nobody is asked: {said:?} {listed:?}");
    let known = listed.event("rule");
    assert_eq!((&known["pattern"]["words"], &known["max_risk"]), (&json!(["touch"]), &json!("sensitive")));

    let id = known["rule_id"].as_str().expect("an id").to_owned();
    house.terminal.ok(&["rules", "remove", &id]).await;
    assert!(house.terminal.ok(&["rules"]).await.lines.is_empty());
    let again = house.terminal.run(&["rules", "remove", &id]).await;
    assert!(again.code != 0 && again.errors.contains("rule"), "{again:?}");
    let (session, _) = house.ask("third").await;
    grant(session, &[]).await;
    assert_eq!(house.terminal.ok(&["rules"]).await.lines.len(), 1);

    let devices = house.phone.devices().await.expect("devices");
    let terminal = devices.iter().find(|device| device.client_type == baton_proto::ClientType::Cli).expect("the terminal");
    house.phone.change_device(terminal.device_id, &DevicePatch { name: None, trust: Some(Trust::Standard) }).await.expect("it is changed");
    assert!(house.phone.rules().await.expect("rules").is_empty(), "what it granted went with its trust");
    let (session, _) = house.ask("fourth").await;
    house.open_approval(session).await;
    house.all_dialogues_were_valid();
}
