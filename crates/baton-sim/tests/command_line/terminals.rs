//! What a terminal prints while it waits.

use crate::rule;
use crate::support::house::{House, Plan, calls};
use baton_proto::CallState;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_waiting_terminal_shows_steps_calls_and_results_as_they_come() {
    let rules = json!([
        rule(
            "work",
            0,
            json!({"thinking": "Two steps.", "text": "I begin.", "calls": [
            {"name": "set_plan", "arguments": {"steps": [{"id": "look", "title": "Look"}, {"id": "change", "title": "Change", "depends_on": ["look"]}]}},
            {"name": "start_step", "arguments": {"step_id": "look"}},
            {"name": "read_file", "arguments": {"path": "note.txt"}}]})
        ),
        rule(
            "work",
            3,
            json!({"calls": [
            {"name": "finish_step", "arguments": {"step_id": "look", "conclusion": "seen"}},
            {"name": "start_step", "arguments": {"step_id": "change"}},
            {"name": "edit_file", "arguments": {"path": "note.txt", "old_text": "milk", "new_text": "wine"}}]})
        ),
        // In an answer of its own, since calls of one answer may begin before others of it have ended.
        rule("work", 6, json!({"calls": [{"name": "read_file", "arguments": {"path": "absent.txt"}}]})),
        rule(
            "work",
            7,
            json!({"calls": [
            {"name": "finish_step", "arguments": {"step_id": "change", "conclusion": "done"}},
            {"name": "finish_task", "arguments": {"summary": "Milk is wine."}}]})
        ),
    ]);
    let house = House::build(Plan { rules: Some(rules), ..Plan::default() }).await;
    let shown = house.terminal.show(&["send", "--new", "--wait", "work"], "").await;
    assert_eq!(shown.code, 0, "{shown:?}");
    insta::assert_snapshot!(shown.out);
    assert_eq!(house.file("note.txt"), "wine and bread\n");
    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    assert!(calls(&house.view(session).await).iter().all(|call| matches!(call.state, CallState::Succeeded | CallState::Failed)));
    house.all_dialogues_were_valid();
}
