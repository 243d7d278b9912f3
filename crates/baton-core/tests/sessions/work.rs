//! Tasks, plans, facts, questions, the model's failures and limits: how the work goes on.

use crate::world::{World, code, id, say, succeeded, tools};
use baton_core::{Effect, ModelStage, OfferedTool, ProposedCall};
use baton_proto::ErrorCode::{DeviceOffline, IllegalTransition, ModelUnavailable, NoCapability, TooLarge, WorkspaceBusy};
use baton_proto::{
    CallState, EntityView, FactScope, Intent, Language, ModelErrorKind, ModelMessage, Phase, Risk, Role, SessionEvent, SessionId,
    StateModified, TaskId, ToolError, TurnState, WaitingOn, WorkState,
};
use serde_json::{Value, json};

fn plan(steps: &[(&str, &[&str])]) -> (&'static str, Value) {
    let steps: Vec<_> = steps.iter().map(|(id, needs)| json!({"id": id, "title": format!("do {id}"), "depends_on": needs})).collect();
    ("set_plan", json!({"steps": steps}))
}

/// The error of the latest call of that tool, as the model is told it.
fn refusal(world: &World, tool: &str) -> String {
    let call_id = world.call(tool).id;
    world
        .log
        .iter()
        .rev()
        .find_map(|event| match &event.body {
            SessionEvent::ToolFailed { call_id: id, error, .. } if *id == call_id => Some(error.code.clone()),
            _ => None,
        })
        .unwrap_or_default()
}

fn active(world: &World) -> TaskId {
    world.state.active_task().expect("an open task").id
}

fn task_shown(world: &World, task_id: TaskId) -> baton_proto::TaskEntity {
    match &world.shown[&("task", task_id.to_string())] {
        EntityView::Task(task) => (**task).clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_is_worked_off_step_by_step_and_then_the_task_is_done() {
    let mut world = World::asked("restyle the buttons");
    world.answer("", &[plan(&[("css", &[]), ("check", &["css"])])]);
    assert_eq!(world.phase(), Phase::Planning);
    world.answer("", &[("start_step", json!({"step_id": "check"}))]);
    assert_eq!(refusal(&world, "start_step"), "illegal_transition", "its dependency is open");
    world.answer("", &[("finish_task", json!({"summary": "done"}))]);
    assert_eq!(refusal(&world, "finish_task"), "illegal_transition", "steps are open");
    world.answer("", &[("start_step", json!({"step_id": "css"}))]);
    assert_eq!(world.phase(), Phase::Executing);
    world.answer("", &[("finish_step", json!({"step_id": "css", "conclusion": "8px", "product": "a.css"}))]);
    let task = task_shown(&world, active(&world));
    assert_eq!((task.progress, task.current_step.as_deref()), (50, Some("check")));
    world.answer("", &[("finish_step", json!({"step_id": "css", "conclusion": "again"}))]);
    assert_eq!(refusal(&world, "finish_step"), "illegal_transition");
    world.answer("", &[("start_step", json!({"step_id": "nonsense"}))]);
    assert_eq!(refusal(&world, "start_step"), "unknown_step");
    world.answer("", &[("finish_step", json!({"step_id": "check", "conclusion": "good"}))]);
    world.answer("", &[("finish_task", json!({"summary": "The buttons are round."}))]);
    assert_eq!(world.phase(), Phase::Done);
    assert!(world.state.stack.is_empty());
    let said =
        world.count(|body| matches!(body, SessionEvent::MessageAdded { role: Role::Agent, text, .. } if text == "The buttons are round."));
    assert_eq!(said, 1, "a summary without other words is what the user reads");
}

#[test]
fn a_plan_that_cannot_be_worked_off_is_refused() {
    let many: Vec<_> = (0..31).map(|n| json!({"id": format!("{n}"), "title": "t"})).collect();
    let rows = [
        plan(&[("a", &["b"]), ("b", &["a"])]),
        plan(&[("a", &["a"])]),
        plan(&[("a", &["nowhere"])]),
        plan(&[("a", &[]), ("a", &[])]),
        ("set_plan", json!({"steps": many})),
        ("set_plan", json!({"steps": []})),
    ];
    for row in rows {
        let mut world = World::asked("work");
        world.answer("", std::slice::from_ref(&row));
        assert_eq!(refusal(&world, "set_plan"), "invalid_plan", "{}", row.1);
        assert!(world.asked_model().is_some(), "the model is told, and goes on");
    }
}

#[test]
fn a_revised_plan_keeps_what_is_finished() {
    let mut world = World::asked("work");
    world.answer("", &[plan(&[("a", &[]), ("b", &[])])]);
    world.answer("", &[("finish_step", json!({"step_id": "a", "conclusion": "ok"}))]);
    world.answer("", &[plan(&[("c", &["a"])])]);
    let steps: Vec<_> = task_shown(&world, active(&world)).steps.into_iter().map(|step| (step.step_id, step.status)).collect();
    assert_eq!(steps, [("a".to_owned(), baton_proto::StepStatus::Done), ("c".to_owned(), baton_proto::StepStatus::Pending)]);
}

#[test]
fn an_agent_that_rests_with_open_steps_waits_for_the_user() {
    let mut world = World::asked("work");
    world.answer("", &[plan(&[("a", &[])])]);
    world.answer("I stop here.", &[]);
    assert_eq!(world.phase(), Phase::WaitingUser);
    assert!(world.state.open_turn().is_none());
    world.say("phone", "go on").unwrap();
    assert_eq!(world.phase(), Phase::Planning);
    assert_eq!(world.count(|body| matches!(body, SessionEvent::TaskCreated { .. })), 1, "the same task goes on");
}

#[test]
fn an_agent_that_is_resumed_without_a_word_says_no_two_answers_in_a_row() {
    let mut world = World::asked("work");
    world.answer("", &[plan(&[("a", &[])])]);
    world.answer("I stop here.", &[]);
    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    assert!(matches!(world.request().messages.last(), Some(ModelMessage::User { text, .. }) if text.contains("Go on")));
    world.answer("I go on.", &[("read_file", json!({"path": "a"}))]);
    world.perform("read_file");
    let answers: Vec<_> = world
        .request()
        .messages
        .iter()
        .filter_map(|message| match message {
            ModelMessage::Agent { text, .. } if !text.is_empty() => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, ["I stop here.\n\nI go on."]);
}

#[test]
fn what_follows_the_end_of_a_task_in_one_answer_is_not_run() {
    let mut world = World::asked("work");
    world.answer("", &[("finish_task", json!({"summary": "done"})), ("ring_bell", json!({}))]);
    assert_eq!(world.call("ring_bell").state(), CallState::Failed);
    assert_eq!(refusal(&world, "ring_bell"), "too_late");
    assert!(world.pending().is_empty());
}

#[test]
fn a_task_is_not_finished_over_something_the_user_just_said() {
    let mut world = World::asked("work");
    world.say("phone", "and the footer too").unwrap();
    world.answer("", &[("finish_task", json!({"summary": "done"}))]);
    assert_eq!(refusal(&world, "finish_task"), "illegal_transition");
    assert!(world.state.open_turn().unwrap().unread.is_empty(), "it is read now");
    assert!(world.asked_model().is_some());
}

#[test]
fn steered_input_is_read_at_the_next_step_and_forks_nothing() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    let decided = world.say("cli", "use 8px").unwrap();
    assert_eq!(decided.turn_id, world.state.turn.as_ref().map(|turn| turn.id));
    assert_eq!(world.state.open_turn().unwrap().unread.len(), 1, "not read yet, and shown so");
    world.perform("read_file");
    assert!(world.state.open_turn().unwrap().unread.is_empty());
    let request = world.request();
    assert_eq!(request.messages.last(), Some(&ModelMessage::user("use 8px")));
    assert_eq!(world.count(|body| matches!(body, SessionEvent::TurnStarted { .. })), 1);
}

#[test]
fn a_question_is_answered_by_option_by_text_or_by_speaking() {
    let ask = || World::calling(&[("ask_user", json!({"question": "Which colour?", "options": ["blue", "red"]}))]);
    let told =
        |world: &mut World| match world.request().messages.iter().rev().find(|message| matches!(message, ModelMessage::Result { .. })) {
            Some(ModelMessage::Result { text, .. }) => text.clone(),
            _ => panic!("no result"),
        };
    let mut world = ask();
    assert_eq!(task_shown(&world, active(&world)).waiting_on, Some(WaitingOn::Question { id: world.question() }));
    let question_id = world.question();
    let wrong = Intent::Answer { question_id, text: None, option: Some("green".to_owned()) };
    assert_eq!(code(&world.op("phone", wrong)), Some(baton_proto::ErrorCode::Invalid));
    let empty = Intent::Answer { question_id, text: Some("  ".to_owned()), option: None };
    assert_eq!(code(&world.op("phone", empty)), Some(baton_proto::ErrorCode::Invalid));
    world.op("phone", Intent::Answer { question_id, text: None, option: Some("red".to_owned()) }).unwrap();
    assert_eq!(told(&mut world), "The user answers: red");

    let mut world = ask();
    world.op("tablet", Intent::Answer { question_id: world.question(), text: Some("a dark one".to_owned()), option: None }).unwrap();
    assert_eq!(told(&mut world), "The user answers: a dark one");
    assert_eq!(world.state.holder.device, Some(id("phone")), "an answer moves nothing");

    let mut world = ask();
    world.say("phone", "blue, please").unwrap();
    assert_eq!(told(&mut world), "The user answers: blue, please");
    assert_eq!(world.state.open_questions().count(), 0);
}

#[test]
fn another_goal_needs_the_users_yes_in_whatever_language_they_speak_since() {
    let propose = ("propose_intent_change", json!({"goal": "all buttons", "reason": "They share a style."}));
    let rows: [(&str, Option<&str>, bool); 5] = [
        ("Yes, change it", Some("option"), true),
        ("No, keep it", Some("option"), false),
        ("yes", None, true),
        ("好的。", None, true),
        ("yes but later", None, false),
    ];
    for (answer, option, changed) in rows {
        let mut world = World::calling(std::slice::from_ref(&propose));
        let question_id = world.question();
        let intent = match option {
            Some(_) => Intent::Answer { question_id, text: None, option: Some(answer.to_owned()) },
            None => say(answer),
        };
        world.op("phone", intent).unwrap();
        let intent = &world.state.tasks[&active(&world)].intent;
        assert_eq!((intent.goal == "all buttons", intent.version), (changed, if changed { 2 } else { 1 }), "{answer}");
    }
    // Two questions are open, so speaking answers neither; the language changes, and the shown option still counts.
    let mut world = World::calling(&[propose, ("ask_user", json!({"question": "Which?"}))]);
    world.say("phone", "请稍等,我先想一想这个问题").unwrap();
    assert_eq!(world.state.language, Language::Zh);
    let (question_id, yes) =
        world.state.open_questions().find_map(|question| question.options.first().map(|yes| (question.id, yes.clone()))).unwrap();
    world.op("phone", Intent::Answer { question_id, text: None, option: Some(yes) }).unwrap();
    assert_eq!(world.state.tasks[&active(&world)].intent.goal, "all buttons");
}

#[test]
fn a_model_that_fails_is_tried_again_at_growing_intervals_and_then_given_up() {
    let mut world = World::asked("work");
    let mut waits = Vec::new();
    for failure in 1..=5 {
        world.fail_model(ModelErrorKind::Unavailable, None);
        let ModelStage::Failed { retry_at } = world.state.open_turn().unwrap().model.as_ref().unwrap().stage else { panic!("a retry") };
        assert!(world.pending().contains(&Effect::Wake { at: retry_at }));
        assert_eq!(task_shown(&world, active(&world)).waiting_on, Some(WaitingOn::Model { retry_at }));
        let wait = retry_at.since(world.now);
        waits.push(wait);
        world.tick(wait - 1);
        assert_eq!(world.asked_model(), None, "not before its time");
        world.tick(1);
        assert_eq!(world.asked_model().unwrap().1, failure + 1);
    }
    assert!(waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
    world.fail_model(ModelErrorKind::Unavailable, None);
    assert_eq!(world.state.turn.as_ref().unwrap().end.as_ref().unwrap().state, TurnState::Failed);
    assert_eq!(world.phase(), Phase::Paused, "the task can be resumed");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::MessageAdded { role: Role::Hub, .. })), 1, "the user is told");
    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    world.answer("Here I am.", &[]);
    assert_eq!(world.phase(), Phase::Done);
}

#[test]
fn what_cannot_get_better_is_not_tried_again_and_a_provider_is_waited_for() {
    for kind in [ModelErrorKind::Unauthorized, ModelErrorKind::Refused, ModelErrorKind::Cancelled] {
        let mut world = World::asked("work");
        world.fail_model(kind, None);
        assert!(world.state.open_turn().is_none(), "{kind:?}");
    }
    let mut world = World::asked("work");
    world.fail_model(ModelErrorKind::RateLimited, Some(90_000));
    let ModelStage::Failed { retry_at } = world.state.open_turn().unwrap().model.as_ref().unwrap().stage else { panic!("a retry") };
    assert_eq!(retry_at.since(world.now), 90_000);
    // What is said meanwhile is read by the next try.
    world.say("phone", "hurry").unwrap();
    world.tick(90_000);
    assert!(world.state.open_turn().unwrap().unread.is_empty());
}

#[test]
fn a_stale_answer_of_the_model_changes_nothing() {
    let mut world = World::asked("work");
    let (model_call_id, attempt) = world.asked_model().unwrap();
    world.restart();
    let length = world.log.len();
    let answer = baton_proto::ModelAnswer { text: "from the dead hub".to_owned(), ..Default::default() };
    let outcome = baton_core::ModelOutcome::Answered { model: "m".to_owned(), answer, calls: Vec::new() };
    world.run(None, &baton_core::Command::Model { model_call_id, attempt, outcome }).unwrap();
    assert_eq!(world.log.len(), length);
}

#[test]
fn a_turn_ends_at_its_bound_and_can_be_given_as_much_again() {
    let mut world = World::asked("work");
    for n in 0..25 {
        world.answer("", &[("read_file", json!({"path": format!("{n}")}))]);
        world.perform("read_file");
    }
    assert_eq!(world.phase(), Phase::Paused);
    assert!(world.state.tasks[&active(&world)].last_error.as_ref().unwrap().contains("25"));
    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    assert!(world.asked_model().is_some());
}

#[test]
fn a_repeated_call_is_refused_and_then_the_task_is_paused() {
    let mut world = World::asked("work");
    for _ in 0..3 {
        world.answer("", &[("read_file", json!({"path": "a"}))]);
        world.perform("read_file");
    }
    for _ in 0..2 {
        world.answer("", &[("read_file", json!({"path": "a"}))]);
        assert_eq!(refusal(&world, "read_file"), "repeated_call");
    }
    // What the same answer asks for beside the call that breaks the loop isn't run either.
    world.answer("", &[("ring_bell", json!({})), ("read_file", json!({"path": "a"})), ("format_file", json!({}))]);
    assert_eq!(world.phase(), Phase::Paused);
    assert!(world.state.open_turn().is_none() && world.pending().is_empty());
    assert_eq!((world.call("ring_bell").state(), world.call("format_file").state()), (CallState::Cancelled, CallState::Failed));

    // A change in between makes the same reading worth while.
    let mut world = World::asked("work");
    for n in 0..6 {
        world.answer("", &[("read_file", json!({"path": "a"})), ("format_file", json!({"n": n}))]);
        world.perform("format_file");
        world.perform("read_file");
        assert_eq!(world.call("read_file").state(), CallState::Succeeded);
    }
}

#[test]
fn a_call_that_cannot_be_made_goes_back_in_words() {
    let mut world = World::asked("work");
    world.answer("", &[("frobnicate the <thing>", json!({}))]);
    let request = world.request();
    let Some(ModelMessage::Result { text, failed: true, .. }) = request.messages.last() else { panic!("{:?}", request.messages) };
    assert!(text.contains("unknown_tool") && text.contains("read_file") && text.contains("set_plan"), "{text}");

    let error = ToolError {
        code: "invalid_arguments".to_owned(),
        message: "'path' is missing.".to_owned(),
        hint: "Give a path.".to_owned(),
        state_modified: StateModified::No,
    };
    let call = ProposedCall { tool: "read_file".to_owned(), written: "{\"path: ".to_owned(), arguments: Err(error), fetched: None };
    world.answer_with("", vec![call]);
    let request = world.request();
    let Some(ModelMessage::Result { text, .. }) = request.messages.last() else { panic!("{:?}", request.messages) };
    assert!(text.contains("'path' is missing."), "{text}");
    assert!(world.pending().iter().all(|effect| matches!(effect, Effect::CallModel { .. })), "nothing was dispatched");
}

#[test]
fn of_many_calls_in_one_answer_sixteen_are_made_and_the_rest_answered_in_words() {
    let calls: Vec<_> = (0..20).map(|n| ("read_file", json!({"path": format!("{n}")}))).collect();
    let mut world = World::calling(&calls);
    assert_eq!(world.state.unsettled_calls().count(), 16);
    assert_eq!(refusal(&world, "read_file"), "too_many_calls");
    let ids: Vec<_> = world.state.unsettled_calls().map(|call| call.id).collect();
    for call_id in ids {
        let outcome = succeeded("text");
        world.run(None, &baton_core::Command::ToolResult { call_id, attempt: 1, device: id("laptop"), outcome }).unwrap();
    }
    let results = world.request().messages.iter().filter(|message| matches!(message, ModelMessage::Result { .. })).count();
    assert_eq!(results, 20);
}

#[test]
fn pausing_resuming_and_switching_keep_one_task_at_work() {
    let mut world = World::asked("the first piece");
    let first = active(&world);
    world.op("cli", Intent::Pause { task_id: None }).unwrap();
    assert_eq!(world.state.tasks[&first].phase, Phase::Paused);
    assert_eq!(baton_core::summary(&world.state).state, WorkState::Pending);
    let another = |title: &str| Intent::NewTask { title: title.to_owned(), description: String::new(), acceptance: Vec::new() };
    world.op("phone", another("the second piece")).unwrap();
    let second = active(&world);
    assert_eq!(code(&world.op("phone", another("a third"))), Some(IllegalTransition), "one at a time");
    assert_eq!(code(&world.op("phone", Intent::Resume { task_id: Some(first) })), Some(IllegalTransition));
    world.answer("", &[plan(&[("a", &[])])]);
    world.answer("I wait.", &[]);
    assert_eq!(world.phase(), Phase::WaitingUser);
    world.op("phone", Intent::Resume { task_id: Some(first) }).unwrap();
    assert_eq!((world.state.tasks[&second].phase, world.state.tasks[&first].phase), (Phase::Paused, Phase::Planning));
    assert_eq!(active(&world), first, "input goes to the task that is worked on");
    world.op("phone", Intent::Cancel { task_id: Some(second) }).unwrap();
    assert!(world.asked_model().is_some(), "cancelling another task stops no work");
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert_eq!(world.state.tasks[&first].phase, Phase::Cancelled);
    assert_eq!(code(&world.op("phone", Intent::Resume { task_id: Some(first) })), Some(IllegalTransition));
    assert_eq!(code(&world.op("phone", Intent::Cancel { task_id: None })), Some(IllegalTransition), "nothing is left to stop");
    assert_eq!(code(&world.op("phone", Intent::Cancel { task_id: Some(first) })), Some(IllegalTransition));
}

#[test]
fn a_session_keeps_a_bounded_number_of_open_tasks() {
    let mut world = World::new();
    for n in 0..41 {
        let outcome = world.op("phone", Intent::NewTask { title: format!("task {n}"), description: String::new(), acceptance: Vec::new() });
        assert_eq!(code(&outcome), (n == 40).then_some(TooLarge), "{n}");
        if outcome.is_ok() {
            world.op("phone", Intent::Pause { task_id: None }).unwrap();
        }
    }
}

#[test]
fn a_fact_is_replaced_by_its_key_and_ends_are_told() {
    let mut world = World::asked("work");
    world.answer("", &[("record_fact", json!({"key": "radius", "value": "4px", "source": "a.css"}))]);
    let old = world.state.facts.values().next().unwrap().id;
    world.answer("", &[("record_fact", json!({"key": "radius", "value": "8px", "source": "the user"}))]);
    assert_eq!(world.state.facts.values().map(|fact| fact.value.as_str()).collect::<Vec<_>>(), ["8px"]);
    let valid = |world: &World, id: baton_proto::FactId| match &world.shown[&("fact", id.to_string())] {
        EntityView::Fact(fact) => fact.valid,
        other => panic!("{other:?}"),
    };
    assert!(!valid(&world, old), "the replaced one is shown as such");
    let new = world.state.facts.values().next().unwrap().id;
    assert!(valid(&world, new));
    world.op("phone", Intent::Forget { key: "radius".to_owned() }).unwrap();
    assert!(!valid(&world, new), "the forgotten one too");
    assert!(!world.request().system.contains("8px"));
    assert_eq!(code(&world.op("phone", Intent::Forget { key: "radius".to_owned() })), Some(baton_proto::ErrorCode::NotFound));
}

#[test]
fn facts_of_the_session_go_along_to_the_next_task_and_a_tasks_own_do_not() {
    let mut world = World::asked("restyle the home page");
    world.answer(
        "",
        &[
            ("record_fact", json!({"key": "radius", "value": "8px", "scope": "session"})),
            ("record_fact", json!({"key": "draft", "value": "home-2.css", "scope": "task"})),
            ("note", json!({"key": "tone", "value": "dry"})),
        ],
    );
    assert!(world.request().system.contains("home-2.css"));
    assert_eq!(world.state.facts.values().filter(|fact| fact.scope == FactScope::Task).count(), 1);
    world.answer("", &[("finish_task", json!({"summary": "The home page is round."}))]);
    world.say("phone", "now the settings page, in the same style").unwrap();
    let system = world.request().system;
    assert!(system.contains("radius = 8px"), "{system}");
    assert!(system.contains("The home page is round."), "{system}");
    assert!(system.contains("tone: dry"), "{system}");
    assert!(!system.contains("home-2.css"), "another task's own facts stay with it: {system}");
}

#[test]
fn the_hub_speaks_the_language_the_user_speaks() {
    let mut world = World::asked("把首页按钮的圆角改成 8px");
    assert_eq!(world.state.language, Language::Zh);
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    assert_eq!(world.state.tasks[&active(&world)].last_error.as_deref(), Some("已在 phone 上暂停。"));
    world.say("phone", "please continue in English from here on").unwrap();
    assert_eq!(world.state.language, Language::En);
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    assert_eq!(world.state.tasks[&active(&world)].last_error.as_deref(), Some("Paused on phone."));
    world.say("phone", "42").unwrap();
    assert_eq!(world.state.language, Language::En, "what says nothing changes nothing");
}

#[test]
fn slash_commands_work_without_a_model() {
    let mut world = World::new();
    world.model = None;
    assert_eq!(code(&world.say("phone", "hello")), Some(ModelUnavailable));
    let rows = [("/show a.css", "read_file"), ("/find radius", "find_text"), ("/replace a.css 4px 8px", "edit_file"), ("/undo", "undo")];
    for (text, tool) in rows {
        world.say("phone", text).unwrap();
        assert_eq!(world.call(tool).state(), CallState::Planned, "{text}");
        world.perform(tool);
        assert_eq!(world.state.turn.as_ref().unwrap().end.as_ref().unwrap().state, TurnState::Finished, "{text}");
    }
    world.say("phone", "/run make").unwrap();
    world.prepare("run_command", Risk::Sensitive);
    assert_eq!(world.call("run_command").state(), CallState::Planned, "what is asked for literally needs no approval");
    assert_eq!(code(&world.say("phone", "/show b.css")), Some(IllegalTransition));
    world.perform("run_command");
    world.say("phone", "/run rm -rf build").unwrap();
    world.prepare("run_command", Risk::Dangerous);
    assert_eq!(world.call("run_command").state(), CallState::AwaitingApproval, "up to sensitive only");
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert_eq!(code(&world.say("phone", "/nonsense")), Some(baton_proto::ErrorCode::Invalid));
    world.lose("laptop");
    assert_eq!(code(&world.say("phone", "/show a.css")), Some(DeviceOffline));
    world.around.offers.clear();
    assert_eq!(code(&world.say("phone", "/show a.css")), Some(NoCapability));
}

#[test]
fn what_is_said_during_a_slash_command_is_read_right_after_it() {
    let mut world = World::new();
    world.say("phone", "/run make").unwrap();
    world.prepare("run_command", Risk::Sensitive);
    world.start("run_command");
    world.say("phone", "and then tell me what failed").unwrap();
    assert_eq!(world.asked_model(), None, "not before the command is done");
    world.say("cli", "in two sentences").unwrap();
    world.end("run_command", succeeded("error: no rule"));
    assert!(world.asked_model().is_some());
    let request = world.request();
    let Some(ModelMessage::User { text, .. }) = request.messages.last() else { panic!("{:?}", request.messages) };
    for part in ["/run make", "error: no rule", "and then tell me what failed", "in two sentences"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    world.answer("There is no rule.", &[]);
    assert_eq!(world.phase(), Phase::Done);
}

#[test]
fn cancelling_a_slash_command_leaves_the_task_beneath_alone() {
    let mut world = World::asked("work");
    let task = active(&world);
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    world.say("phone", "/run make").unwrap();
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert!(world.state.open_turn().is_none());
    assert_eq!(world.state.tasks[&task].phase, Phase::Paused);
    // What was said during the command, and not begun, is meant by the stop as well.
    let mut world = World::new();
    world.say("phone", "/run make").unwrap();
    world.say("phone", "then explain it").unwrap();
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert!(world.state.open_turn().is_none() && world.state.stack.is_empty());
}

#[test]
fn a_workspace_another_session_works_in_is_waited_for_in_words() {
    let other = (SessionId(uuid::Uuid::from_u128(7)), "the other one".to_owned());
    let mut world = World::new();
    world.held_by = Some(other.clone());
    let literal = world.op("phone", say("/show a.css"));
    assert_eq!(code(&literal), Some(WorkspaceBusy), "a literal request is told at once");
    assert!(literal.unwrap_err().message.contains("the other one"));
    world.say("phone", "work").unwrap();
    assert!(world.asked_model().is_none(), "nothing is done yet");
    assert_eq!(world.phase(), Phase::WaitingDevice);
    assert!(world.pending().iter().any(|effect| matches!(effect, baton_core::Effect::HoldWorkspace { .. })));
    let task = world.shown.values().find_map(|entity| match entity {
        baton_proto::EntityView::Task(task) => Some(task.waiting_on.clone()),
        _ => None,
    });
    let behind = baton_proto::WaitingOn::Workspace { behind: other.0, title: other.1.clone() };
    assert_eq!(task.unwrap(), Some(behind), "who waits says for what");
    world.held_by = None;
    world.run(None, &baton_core::Command::WorkspaceGranted { baseline: Some(crate::world::baseline("another commit")) }).unwrap();
    assert!(world.asked_model().is_some(), "it goes on by itself");
    assert!(world.request().system.contains("another commit"), "and is told what changed meanwhile");
    // Stopping is possible while waiting, too.
    let mut world = World::new();
    world.held_by = Some(other.clone());
    world.say("phone", "work").unwrap();
    world.op("cli", Intent::Cancel { task_id: None }).unwrap();
    assert!(world.state.open_turn().is_none() && world.pending().is_empty());
}

#[test]
fn a_workspace_is_given_up_while_a_human_is_asked_and_waited_for_afterwards() {
    let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
    assert!(baton_core::needs_workspace(&world.state));
    world.prepare("run_command", baton_proto::Risk::Sensitive);
    assert!(!baton_core::needs_workspace(&world.state), "nobody waits for a human in front of a closed workshop");
    world.held_by = Some((SessionId(uuid::Uuid::from_u128(7)), "the other one".to_owned()));
    let approval = world.approval();
    world.confirm("phone", approval, baton_proto::Decision::Approve).unwrap();
    assert!(!world.pending().iter().any(|effect| matches!(effect, baton_core::Effect::Dispatch { .. })), "another one works there now");
    world.held_by = None;
    world.run(None, &baton_core::Command::WorkspaceGranted { baseline: None }).unwrap();
    assert!(world.pending().iter().any(|effect| matches!(effect, baton_core::Effect::Dispatch { .. })));
}

#[test]
fn limits_are_named_and_nothing_is_cut() {
    let mut world = World::new();
    let long = "x".repeat(32 * 1024 + 1);
    let outcome = world.say("phone", &long);
    assert_eq!(code(&outcome), Some(TooLarge));
    assert!(outcome.unwrap_err().message.contains("32768"));
    let note = Intent::SetNote { key: "k".to_owned(), value: "x".repeat(5000) };
    assert_eq!(code(&world.op("phone", note)), Some(TooLarge));
    assert_eq!(code(&world.say("phone", " \n ")), Some(baton_proto::ErrorCode::Invalid));
    let mut world = World::calling(&[("send_payment", json!({"memo": "x".repeat(33 * 1024)}))]);
    assert_eq!(refusal(&world, "send_payment"), "too_large_to_show", "what can't be shown whole isn't asked");
    assert!(world.asked_model().is_some());
    world.say("phone", &"字".repeat(10_000)).unwrap();
}

#[test]
fn a_card_always_shows_what_it_is_for() {
    let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
    let call_id = world.call("run_command").id;
    let prepared = baton_proto::Prepared {
        risk: Risk::Sensitive,
        risk_reason: String::new(),
        risk_said: Vec::new(),
        digests: std::collections::BTreeMap::new(),
        preview: " ".to_owned(),
        directory: None,
        refusal: None,
    };
    world.run(None, &baton_core::Command::Prepared { call_id, device: id("laptop"), prepared }).unwrap();
    let binding = &world.state.approvals[&world.approval()].binding;
    assert!(binding.preview.contains("make") && !binding.risk_reason.is_empty());
}

#[test]
fn a_devices_tool_cannot_stand_in_for_one_of_the_hubs() {
    let mut world = World::asked("work");
    let spec = baton_proto::ToolSpec { name: "finish_task".to_owned(), ..tools()["read_file"].clone() };
    world.around.offers.insert("finish_task".to_owned(), vec![OfferedTool { device_id: id("laptop"), spec }]);
    world.answer("", &[("finish_task", json!({"summary": "done"}))]);
    assert_eq!(world.phase(), Phase::Done);
}
