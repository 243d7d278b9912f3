//! Cases of the trade, by their numbers: ways in which systems of this kind fail their users.

use crate::strict;
use crate::world::{World, baseline, code, id, say, succeeded};
use baton_core::{Command, Effect, decide};
use baton_proto::ErrorCode::{ApprovalClosed, NeedsConfirmation, StaleEpoch, StaleVersion};
use baton_proto::{
    Activity, ApprovalId, CallState, Decision, EntityView, Intent, ModelMessage, Operation, Outcome, Phase, Risk, SessionEvent, TurnState,
};
use serde_json::json;

fn make() -> (&'static str, serde_json::Value) {
    ("run_command", json!({"argv": ["make"]}))
}

fn approval_shown(world: &World, approval_id: ApprovalId) -> baton_proto::ApprovalEntity {
    match &world.shown[&("approval", approval_id.to_string())] {
        EntityView::Approval(shown) => (**shown).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c01_an_approval_open_on_two_ends_runs_once_and_names_who_decided() {
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    let approval_id = world.approval();
    world.confirm("phone", approval_id, Decision::Approve).unwrap();
    assert_eq!(approval_shown(&world, approval_id).decided_by.unwrap().device_id, id("phone"));
    let dispatches = world.pending().into_iter().filter(|effect| matches!(effect, Effect::Dispatch { .. })).count();
    assert_eq!(dispatches, 1);
    let late = world.confirm("cli", approval_id, Decision::Approve);
    assert_eq!(code(&late), Some(ApprovalClosed));
    assert!(late.unwrap_err().message.contains("phone"), "the other end is told by whom");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolPlanned { .. })), 1);
}

#[test]
fn c02_three_approvals_are_answered_alone_in_any_order() {
    let mut world = World::calling(&[make(), ("run_command", json!({"argv": ["ls"]})), ("run_command", json!({"argv": ["df"]}))]);
    let calls: Vec<_> = world.state.calls.keys().copied().collect();
    for call_id in calls {
        let prepared = baton_proto::Prepared {
            risk: Risk::Sensitive,
            risk_reason: "it runs a command".to_owned(),
            risk_said: Vec::new(),
            digests: std::collections::BTreeMap::new(),
            preview: "a command".to_owned(),
            directory: None,
            refusal: None,
        };
        world.run(None, &Command::Prepared { call_id, device: id("laptop"), prepared }).unwrap();
    }
    let open: Vec<_> = world.state.open_approvals().map(|approval| (approval.id, approval.call_id)).collect();
    assert_eq!(open.len(), 3);
    world.confirm("phone", open[2].0, Decision::Approve).unwrap();
    assert!(world.pending().contains(&Effect::Dispatch { call_id: open[2].1, attempt: 1, device: id("laptop") }), "at once");
    world.confirm("cli", open[0].0, Decision::Reject).unwrap();
    assert_eq!(world.state.open_approvals().count(), 1);
    world.confirm("phone", open[1].0, Decision::Approve).unwrap();
    let states: Vec<_> = open.iter().map(|(_, call)| world.state.calls[call].state()).collect();
    assert_eq!(states, [CallState::Failed, CallState::Planned, CallState::Planned]);
}

#[test]
fn c03_the_same_approval_sent_again_runs_nothing_twice() {
    // The runtime answers the second one from its record of operations; were that lost, the core would still refuse it.
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    let approval_id = world.approval();
    let operation = world.operation(Intent::confirm(approval_id, Decision::Approve), |_| {});
    world.run(Some("phone"), &Command::Operation(operation.clone())).unwrap();
    world.perform("run_command");
    assert_eq!(code(&world.run(Some("phone"), &Command::Operation(operation))), Some(ApprovalClosed));
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolPlanned { .. })), 1);
}

#[test]
fn c04_an_approval_of_a_call_that_was_replaced_authorises_nothing() {
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    let old = world.approval();
    world.say("phone", "no, with the release profile").unwrap();
    assert_eq!(approval_shown(&world, old).state, baton_proto::ApprovalState::Voided);
    world.answer("", &[("run_command", json!({"argv": ["make", "release"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    assert_eq!(code(&world.confirm("phone", old, Decision::Approve)), Some(ApprovalClosed));
    assert_eq!(world.call("run_command").state(), CallState::AwaitingApproval, "the new call isn't authorised");
    let traced = world.count(|body| matches!(body, SessionEvent::ConflictRefused { .. }));
    assert_eq!(traced, 1, "the conflict is in the trace");
}

#[test]
fn c05_only_a_device_whose_trust_covers_the_risk_approves() {
    let mut world = World::calling(&[("delete_file", json!({"path": "a"}))]);
    world.prepare("delete_file", Risk::Dangerous);
    let approval_id = world.approval();
    for confirmed in [false, true] {
        let confirm = Intent::confirm(approval_id, Decision::Approve);
        assert!(world.op_with("tablet", confirm, |operation| operation.confirmed = confirmed).is_err());
    }
    assert_eq!(code(&world.confirm("cli", approval_id, Decision::Approve)), Some(NeedsConfirmation));
    assert_eq!(world.call("delete_file").state(), CallState::AwaitingApproval);
}

#[test]
fn c06_an_approval_survives_a_day_without_the_hub() {
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    let approval_id = world.approval();
    world.now = world.now.plus(86_400_000);
    world.restart();
    assert_eq!(world.approval(), approval_id, "still open");
    world.confirm("phone", approval_id, Decision::Approve).unwrap();
    world.perform("run_command");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolStarted { .. })), 1);
}

#[test]
fn c07_any_other_end_answers_for_one_that_is_gone() {
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    world.lose("phone");
    world.confirm("cli", world.approval(), Decision::Approve).unwrap();
    assert_eq!(world.call("run_command").state(), CallState::Planned);

    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    world.lose("phone");
    world.say("cli", "never mind the build").unwrap();
    assert!(world.asked_model().is_some(), "new input isn't blocked by the prompt");
    assert_eq!(world.state.open_turn().unwrap().iterations, 2);
}

#[test]
fn c09_a_message_sent_once_makes_one_task() {
    let mut world = World::new();
    world.say("phone", "tidy the sheets").unwrap();
    world.restart();
    assert_eq!(world.count(|body| matches!(body, SessionEvent::TaskCreated { .. })), 1);
    // Another message meanwhile is read by the same turn: it makes no second task, and no second turn.
    world.say("phone", "tidy the sheets").unwrap();
    assert_eq!(world.count(|body| matches!(body, SessionEvent::TaskCreated { .. })), 1);
    assert_eq!(world.count(|body| matches!(body, SessionEvent::TurnStarted { .. })), 1);
}

#[test]
fn c13_two_devices_at_once_end_in_one_order_and_one_holder() {
    let mut world = World::new();
    let from_phone = world.operation(say("from the phone"), |_| {});
    let from_cli = world.operation(say("from the terminal"), |_| {});
    world.run(Some("cli"), &Command::Operation(from_cli)).unwrap();
    let refused = world.run(Some("phone"), &Command::Operation(from_phone));
    assert_eq!(code(&refused), Some(StaleEpoch));
    assert!(refused.unwrap_err().hint.contains("kept"), "the other is told that its text is kept");
    assert_eq!(world.state.holder.device, Some(id("cli")));
    assert_eq!(world.count(|body| matches!(body, SessionEvent::MessageAdded { .. })), 1);
}

#[test]
fn c15_a_sleeping_holder_is_no_hindrance() {
    let mut world = World::asked("work");
    world.lose("phone");
    assert!(world.asked_model().is_some(), "the work goes on with nobody there");
    world.op("cli", Intent::TakeOver { force: false }).unwrap();
    assert_eq!(world.state.holder.device, Some(id("cli")));
}

#[test]
fn c16_unsent_input_of_an_old_epoch_does_not_interleave() {
    let mut world = World::asked("work");
    world.op("cli", Intent::TakeOver { force: true }).unwrap();
    let length = world.state.seq;
    for intent in [say("from the train"), Intent::Resume { task_id: None }, Intent::Release {}] {
        assert_eq!(code(&world.op_with("phone", intent, |operation| operation.epoch = Some(1))), Some(StaleEpoch));
    }
    assert!(world.log[usize::try_from(length).unwrap()..].iter().all(|event| matches!(event.body, SessionEvent::ConflictRefused { .. })));
    assert_eq!(world.state.holder.device, Some(id("cli")));
}

#[test]
fn c22_a_turn_shows_as_in_progress_from_the_moment_it_is_accepted() {
    let world = World::asked("work");
    let summary = baton_core::summary(&world.state);
    assert_eq!(summary.activity, Activity::Thinking);
    let turn = world.state.turn.as_ref().unwrap().id.to_string();
    match &world.shown[&("turn", turn)] {
        EntityView::Turn(turn) => assert!(turn.state == baton_proto::TurnState::Running && turn.answering.is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn c23_after_a_restart_nothing_says_running_that_is_not_known_to_be() {
    let mut world = World::calling(&[("ring_bell", json!({}))]);
    world.start("ring_bell");
    world.restart();
    assert_eq!(world.call("ring_bell").state(), CallState::Unknown);
    assert!(baton_core::summary(&world.state).activity != Activity::Executing);
    let recovered = world.log.iter().find_map(|event| match &event.body {
        SessionEvent::Recovered { incarnation, found, .. } => Some((*incarnation, found.clone())),
        _ => None,
    });
    let (incarnation, found) = recovered.expect("a recovery is recorded");
    assert_eq!(incarnation, 2);
    assert!(found[0].starts_with("ring_bell"), "{found:?}");
}

#[test]
fn c25_a_turn_goes_on_by_itself_wherever_its_log_ends() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    world.perform("read_file");
    world.answer("", &[make()]);
    world.prepare("run_command", Risk::Sensitive);
    world.confirm("phone", world.approval(), Decision::Approve).unwrap();
    world.perform("run_command");
    let log = world.log.clone();
    for length in 1..=log.len() {
        // The log may end after any event; a hub that takes it up must owe something, or wait for somebody.
        let mut state = baton_core::Session::empty(world.state.id);
        for event in &log[..length] {
            state.apply(event);
        }
        let at = world.context(None);
        let decided = decide(&state, &Command::Resumed { incarnation: 3 }, &at).unwrap();
        for event in &decided.events {
            state.apply(event);
        }
        let owes = !baton_core::pending(&state).is_empty();
        let waits = state.open_approvals().next().is_some() || state.unsettled_calls().next().is_some();
        assert!(state.open_turn().is_none() || owes || waits, "stuck after {:?}", log[length - 1].body);
    }
}

#[test]
fn c26_an_interruption_during_five_calls_leaves_a_valid_dialogue() {
    let five: Vec<_> = (0..5).map(|n| ("read_file", json!({"path": format!("{n}.css")}))).collect();
    let mut world = World::calling(&five);
    let ids: Vec<_> = world.state.calls.keys().copied().collect();
    for call_id in &ids[..2] {
        let outcome = succeeded("text");
        world.run(None, &Command::ToolResult { call_id: *call_id, attempt: 1, device: id("laptop"), outcome }).unwrap();
    }
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    for call_id in &ids[2..] {
        let outcome = Outcome::Cancelled { result: None };
        world.run(None, &Command::ToolResult { call_id: *call_id, attempt: 1, device: id("laptop"), outcome }).unwrap();
    }
    world.say("phone", "only the first one, please").unwrap();
    let request = world.request();
    strict::check(&request).unwrap();
    let results: Vec<_> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            ModelMessage::Result { call_id, text, failed, .. } => Some((call_id.clone(), text.clone(), *failed)),
            _ => None,
        })
        .collect();
    assert_eq!(results.iter().map(|result| result.0.clone()).collect::<Vec<_>>(), ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(results[2..].iter().all(|(_, text, failed)| *failed && text.starts_with("not finished")), "the interrupted ones say so");
    assert_eq!(request.messages.last(), Some(&ModelMessage::user("only the first one, please")));
}

#[test]
fn c27_a_result_twice_or_for_nothing_is_recorded_once() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    world.start("read_file");
    let call_id = world.call("read_file").id;
    let send = |world: &mut World, call_id, attempt, device: &str| {
        let length = world.log.len();
        world.run(None, &Command::ToolResult { call_id, attempt, device: id(device), outcome: succeeded("text") }).unwrap();
        world.log.len() - length
    };
    let nobody = baton_proto::CallId(uuid::Uuid::from_u128(1));
    assert_eq!(send(&mut world, nobody, 1, "laptop"), 0, "no such call");
    assert_eq!(send(&mut world, call_id, 2, "laptop"), 0, "no such attempt");
    assert_eq!(send(&mut world, call_id, 1, "desk"), 0, "not its device");
    assert!(send(&mut world, call_id, 1, "laptop") > 0);
    assert_eq!(send(&mut world, call_id, 1, "laptop"), 0, "twice");
    world.answer("It says text.", &[]);
    assert_eq!(world.phase(), Phase::Done);
}

#[test]
fn c34_what_somebody_else_changed_is_told_before_the_next_step() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    world.run(None, &Command::WorkspaceSeen { baseline: baseline("2222222222222222"), files: Vec::new(), files_left_out: 0 }).unwrap();
    world.perform("read_file");
    for _ in 0..2 {
        let system = world.request().system;
        assert!(system.contains("1111111111111111") && system.contains("2222222222222222"), "{system}");
        // An attempt that failed told nobody.
        world.fail_model(baton_proto::ModelErrorKind::Unavailable, None);
        world.tick(60_000);
    }
    world.answer("", &[("read_file", json!({"path": "b"}))]);
    world.perform("read_file");
    assert!(!world.request().system.contains("Somebody else changed"), "it is told once");
    // What the agent's own call changed is no news.
    world.answer("", &[("format_file", json!({"path": "b"}))]);
    let after = baton_proto::ToolResult { baseline: Some(baseline("3333333333333333")), ..crate::world::result("done") };
    world.start("format_file");
    world.end("format_file", Outcome::Succeeded(after));
    let system = world.request().system;
    assert!(system.contains("3333333333") && !system.contains("Somebody else changed"), "{system}");
}

#[test]
fn c34_a_change_while_an_approval_pends_shows_on_its_card() {
    let mut world = World::calling(&[make()]);
    world.prepare("run_command", Risk::Sensitive);
    let approval_id = world.approval();
    assert!(!approval_shown(&world, approval_id).workspace_changed);
    world.run(None, &Command::WorkspaceSeen { baseline: baseline("2222222222222222"), files: Vec::new(), files_left_out: 0 }).unwrap();
    assert!(approval_shown(&world, approval_id).workspace_changed);
}

#[test]
fn c42_one_of_two_questions_is_answered_and_the_other_stays() {
    let mut world = World::calling(&[
        ("ring_bell", json!({})),
        ("ask_user", json!({"question": "Which colour?", "options": ["blue", "red"]})),
        ("ask_user", json!({"question": "Which page?"})),
    ]);
    let open: Vec<_> = world.state.open_questions().map(|question| (question.id, question.call_id)).collect();
    assert!(!world.pending().iter().any(|effect| matches!(effect, Effect::Dispatch { .. })), "nothing acts while a human is asked");
    let answer = Intent::Answer { question_id: open[0].0, text: Some("blue".to_owned()), option: None };
    world.op("cli", answer).unwrap();
    assert_eq!(world.question(), open[1].0, "the other stays");
    assert_eq!(world.state.calls[&open[0].1].state(), CallState::Succeeded);
    assert_eq!(world.asked_model(), None, "the model isn't asked before both are answered");
    world.op("cli", Intent::Answer { question_id: open[1].0, text: Some("home".to_owned()), option: None }).unwrap();
    world.perform("ring_bell");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolStarted { .. })), 1);
    assert!(world.asked_model().is_some());
}

#[test]
fn c45_a_clock_that_steps_back_changes_no_order() {
    let mut world = World::new();
    for (n, step) in [0_i64, 0, -3_600_000, 0, -1].into_iter().enumerate() {
        world.now = world.now.plus(step);
        world.say("phone", &format!("fix number {n}")).unwrap();
        world.answer("", &[("record_fact", json!({"key": "latest", "value": format!("{n}")}))]);
        world.answer("", &[("finish_task", json!({"summary": format!("fixed {n}")}))]);
    }
    assert_eq!(world.state.facts.values().map(|fact| fact.value.as_str()).collect::<Vec<_>>(), ["4"]);
    world.say("phone", "and now?").unwrap();
    let system = world.request().system;
    let places: Vec<_> = (0..5).map(|n| system.find(&format!("fixed {n}")).unwrap_or_else(|| panic!("{n}: {system}"))).collect();
    assert!(places.is_sorted(), "earlier tasks are told in the order of the log");
}

#[test]
fn c45_the_oldest_fact_goes_first_whatever_the_clock_says() {
    let mut world = World::asked("collect");
    for n in 0..205 {
        world.now = world.now.plus(-1000);
        let calls: Vec<_> = if n % 20 == 19 {
            vec![("record_fact", json!({"key": format!("k{n}"), "value": "v"})), ("ring_bell", json!({}))]
        } else {
            vec![("record_fact", json!({"key": format!("k{n}"), "value": "v"}))]
        };
        world.answer("", &calls);
        if calls.len() > 1 {
            world.perform("ring_bell");
        }
        if world.state.open_turn().is_none() {
            world.op("phone", Intent::Resume { task_id: None }).unwrap();
        }
    }
    let keys: std::collections::BTreeSet<_> = world.state.facts.values().map(|fact| fact.key.clone()).collect();
    assert!(keys.contains("k204") && !keys.contains("k0"), "the newest stays");
}

#[test]
fn a_write_based_on_an_old_version_is_refused_and_traced() {
    let mut world = World::new();
    let set = |value: &str| Intent::SetNote { key: "style".to_owned(), value: value.to_owned() };
    world.op("phone", set("round")).unwrap();
    let version = world.state.notes["style"].version;
    world.op_with("phone", set("rounder"), |operation: &mut Operation| operation.base_version = Some(version)).unwrap();
    let refused = world.op_with("phone", set("square"), |operation| operation.base_version = Some(version));
    assert_eq!(code(&refused), Some(StaleVersion));
    assert_eq!(world.state.notes["style"].value, "rounder", "the newer state stays");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ConflictRefused { .. })), 1);
    assert!(world.state.turn.as_ref().is_none_or(|turn| turn.end.as_ref().is_some_and(|end| end.state == TurnState::Finished)));
}
