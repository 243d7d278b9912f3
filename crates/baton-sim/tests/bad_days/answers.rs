//! Approvals and questions, answered twice, late, by two at once, and over a crash (C01–C07, C20, C42).

use crate::support::command::Terminal;
use crate::support::house::{House, call, is, messages, open_approvals, open_question, operate, refusal, session_of, task};
use crate::{calling, rule};
use baton_proto::{
    ApprovalState, CallState, Decision, EntityView, ErrorCode, Intent, Operation, OperationId, Phase, SessionId, SessionView, StepStatus,
    Trust, WorkState,
};
use serde_json::json;
use uuid::Uuid;

/// A command that asks before it runs, and leaves a line for each run.
fn marking(file: &str) -> serde_json::Value {
    calling("run_command", json!({"argv": ["sh", "-c", format!("echo ran >> {file}")]}))
}

fn approval(view: &SessionView) -> baton_proto::ApprovalEntity {
    let found = view.entities.iter().find_map(|entity| match entity {
        EntityView::Approval(approval) => Some((**approval).clone()),
        _ => None,
    });
    found.expect("an approval")
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_c03_c20_of_racing_answers_one_wins_and_the_others_are_told_who() {
    let rules = json!([rule("mark", 0, marking("mark.txt")), rule("mark", 1, json!({"text": "Marked."}))]);
    let house = House::with_model(rules).await;
    let other = Terminal::named(house.directory.path(), "other");
    house.pair(&other, "couch", Trust::Trusted).await;
    let (session, said) = house.ask("mark").await;
    assert_eq!(said.code, 3, "it waits for the user: {said:?}");
    let open = house.open_approval(session).await;
    assert!(house.file("mark.txt").is_empty(), "nothing runs before the answer");
    for terminal in [&house.terminal, &other] {
        let shown = terminal.show(&["show", &session.to_string()], "").await;
        assert_eq!(shown.code, 3);
        assert!(shown.out.contains("echo ran >> mark.txt") && shown.out.contains(&format!("baton approve {}", open.id)), "{}", shown.out);
    }

    let id = open.id.to_string();
    let arguments = ["approve", id.as_str()];
    let (first, second) = tokio::join!(house.terminal.run(&arguments), other.run(&arguments));
    let mut codes = [first.code, second.code];
    codes.sort_unstable();
    assert_eq!(codes, [0, 4], "{first:?} {second:?}");
    let (winner, loser) = if first.code == 0 { ("desk", &second) } else { ("couch", &first) };
    assert!(loser.errors.contains("approval_closed") && loser.errors.contains(&format!("approved on {winner}")), "{}", loser.errors);
    let late = house.terminal.run(&["reject", &id]).await;
    assert!(late.code == 4 && late.errors.contains("approval_closed"), "{late:?}");

    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert_eq!(house.file("mark.txt"), "ran\n", "it ran once");
    let decided = approval(&view);
    assert_eq!((decided.state, decided.decided_by.map(|by| by.name)), (ApprovalState::Approved, Some(winner.to_owned())));

    // The answer was lost, and the phone sends the same operation again.
    let (session, _) = house.ask("mark again").await;
    let open = house.open_approval(session).await;
    let confirm = Intent::confirm(open.id, Decision::Approve);
    let operation = Operation::new(OperationId(Uuid::now_v7()), Some(session), confirm);
    let first = house.phone.operate(&operation).await.expect("an answer");
    let again = house.phone.operate(&operation).await.expect("an answer");
    assert_eq!(again.status, baton_proto::ReplyStatus::Duplicate);
    assert_eq!((again.version, again.error), (first.version, None));
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!(house.file("mark.txt"), "ran\nran\n");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn c02_c04_c42_what_is_set_aside_or_rejected_never_runs() {
    let rules = json!([
        rule("no thanks", 0, marking("rejected.txt")),
        rule("no thanks", 1, json!({"text": "I was told: {{last_result}}"})),
        rule("first wish", 0, marking("first.txt")),
        rule("second wish", 0, marking("second.txt")),
        rule("second wish", 1, json!({"text": "The second it is."})),
        rule(
            "several",
            0,
            json!({"calls": [
            {"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo a >> several.txt"]}},
            {"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo b >> several.txt"]}},
            {"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo c >> several.txt"]}}]})
        ),
        rule("several", 3, json!({"text": "All decided."})),
    ]);
    let house = House::with_model(rules).await;
    let (session, _) = house.ask("no thanks").await;
    let open = house.open_approval(session).await;
    let rejected = house.terminal.show(&["reject", &open.id.to_string()], "").await;
    assert_eq!(rejected.code, 0);
    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert!(messages(&view).iter().any(|(_, text)| text.contains("The user said no to this call")), "the model was told: {view:#?}");
    assert!(!house.workspace.join("rejected.txt").exists());

    let (session, _) = house.ask("first wish").await;
    let old = house.open_approval(session).await;
    let steered = house.terminal.run(&["send", "--session", &session.to_string(), "--wait", "no, the second wish"]).await;
    assert_eq!(steered.code, 3, "{steered:?}");
    let fresh = house.open_approval(session).await;
    assert_ne!(fresh.id, old.id);
    let late = house.terminal.run(&["approve", &old.id.to_string()]).await;
    assert!(late.code == 4 && late.errors.contains("approval_closed") && late.errors.contains("set aside"), "{late:?}");
    let view = house.view(session).await;
    assert_eq!(open_approvals(&view).len(), 1, "the late answer authorised nothing else");
    assert!(is(&view, "run_command", CallState::AwaitingApproval).is_some());
    house.terminal.ok(&["approve", &fresh.id.to_string()]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!((house.file("first.txt"), house.file("second.txt")), (String::new(), "ran\n".to_owned()));

    // Three pend at once; each is answered alone, in any order.
    let (session, _) = house.ask("several").await;
    let open = house.until(session, "three approvals", |view| Some(open_approvals(view)).filter(|open| open.len() == 3)).await;
    let of = |what: &str| open.iter().find(|approval| approval.binding.preview.contains(what)).expect("it").id.to_string();
    house.terminal.ok(&["approve", &of("echo c")]).await;
    house.until(session, "two left", |view| (open_approvals(view).len() == 2).then_some(())).await;
    house.terminal.ok(&["reject", &of("echo a")]).await;
    house.terminal.ok(&["approve", &of("echo b")]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    let mut lines: Vec<_> = house.file("several.txt").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["b", "c"]);
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn c06_an_approval_outlives_the_hub_and_runs_once() {
    let rules = json!([rule("mark", 0, marking("mark.txt")), rule("mark", 1, json!({"text": "Marked."}))]);
    let mut house = House::with_model(rules).await;
    let (session, _) = house.ask("mark").await;
    let open = house.open_approval(session).await;
    for both in [false, true] {
        if both {
            house.hub.kill_device();
        }
        house.hub.kill().await;
        house.hub.start().await;
        house.hands().await;
        let still = house.open_approval(session).await;
        assert_eq!((still.id, &still.binding), (open.id, &open.binding), "the very same card");
        let listed = house.terminal.ok(&["sessions"]).await;
        assert_eq!(listed.event("session")["waiting"], 1, "a session that waits doesn't look idle");
    }
    assert!(house.file("mark.txt").is_empty());
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    // Once more, with nothing pending: nothing comes again.
    house.hub.kill().await;
    house.hub.start().await;
    house.hands().await;
    assert_eq!(session_of(&house.view(session).await).state, WorkState::Completed);
    assert_eq!(house.file("mark.txt"), "ran\n", "it ran once");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_h6_a_task_is_taken_over_in_the_middle_and_goes_on_at_the_same_step() {
    let rules = json!([
        rule(
            "big work",
            0,
            json!({"calls": [
            {"name": "set_plan", "arguments": {"steps": [{"id": "look", "title": "Look"}, {"id": "mark", "title": "Mark"}, {"id": "tell", "title": "Tell"}]}},
            {"name": "start_step", "arguments": {"step_id": "look"}},
            {"name": "finish_step", "arguments": {"step_id": "look", "conclusion": "seen"}},
            {"name": "start_step", "arguments": {"step_id": "mark"}},
            {"name": "record_fact", "arguments": {"key": "colour", "value": "blue", "scope": "task", "source": "the user"}}]})
        ),
        rule(
            "big work",
            5,
            json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which file?", "options": ["a.txt", "b.txt"]}}]})
        ),
        rule(
            "big work",
            6,
            json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo ran >> {{last_result}}.mark; cat *.mark"]}}]})
        ),
        rule(
            "big work",
            7,
            json!({"calls": [
            {"name": "finish_step", "arguments": {"step_id": "mark", "conclusion": "marked"}},
            {"name": "start_step", "arguments": {"step_id": "tell"}},
            {"name": "finish_step", "arguments": {"step_id": "tell", "conclusion": "told"}},
            {"name": "finish_task", "arguments": {"summary": "All three."}}]})
        ),
    ]);
    let house = House::with_model(rules).await;
    let open = Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None });
    let opened = house.phone.operate(&open).await.expect("a session");
    let session: SessionId = opened.session_id.expect("an id");
    let mut say = Operation::new(
        OperationId(Uuid::now_v7()),
        Some(session),
        Intent::Say { text: "big work".to_owned(), selection: None, attachments: Vec::new(), delivery: baton_proto::Delivery::Steer },
    );
    say.epoch = Some(opened.epoch);
    assert_eq!(refusal(&house.phone.operate(&say).await.expect("an answer")), None);
    house.open_question(session).await;
    let before = task(&house.view(session).await).clone();
    assert_eq!(before.current_step.as_deref(), Some("mark"));

    let taken = house.terminal.ok(&["take-over", &session.to_string(), "--force"]).await;
    let taken = taken.event("taken_over").clone();
    assert_eq!(taken["epoch"], 2);
    assert!(taken["brief"]["text"].as_str().is_some_and(|text| text.contains("Which file?") || text.contains("Mark")), "{taken}");
    // The old holder's next word is one of an old epoch.
    let stale = Operation { operation_id: OperationId(Uuid::now_v7()), ..say };
    assert_eq!(refusal(&house.phone.operate(&stale).await.expect("an answer")), Some(ErrorCode::StaleEpoch));

    let view = house.view(session).await;
    let after = task(&view);
    assert_eq!((after.id, &after.current_step, &after.steps, after.phase), (before.id, &before.current_step, &before.steps, before.phase));
    let question = open_question(&view).expect("the question is still there");
    let answered = house.terminal.show(&["answer", &question.id.to_string(), "b.txt"], "").await;
    assert_eq!((answered.code, answered.out.as_str()), (0, "Answered.\n"));
    let late =
        operate(&house.phone, session, Intent::Answer { question_id: question.id, text: None, option: Some("a.txt".to_owned()) }).await;
    assert_eq!(refusal(&late), Some(ErrorCode::QuestionClosed));
    let open = house.open_approval(session).await;
    assert!(open.binding.preview.contains("b.txt"), "the answer reached the agent: {}", open.binding.preview);
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    let done = task(&view);
    assert_eq!(done.id, before.id, "the same task");
    assert!(done.steps.iter().all(|step| step.status == StepStatus::Done));
    assert_eq!(call(&view, "set_plan").attempt, 0);
    assert_eq!(crate::support::house::calls(&view).iter().filter(|call| call.tool == "set_plan").count(), 1, "nothing is done again");
    house.all_dialogues_were_valid();
}
