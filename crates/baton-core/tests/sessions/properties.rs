//! Random histories: commands that make sense and commands that don't, stale ids, repeats and reorderings, clocks that step back. Nothing panics;
//! the laws that `World` checks after each step hold; and from wherever it got to, a world that behaves well brings the work to an end.

use crate::world::{World, baseline, failed, id, interrupted, result, say, succeeded};
use baton_core::{CallStage, Command, Effect, ModelOutcome, ModelStage, ProposedCall};
use baton_proto::{
    ApprovalId, CallId, Decision, Finding, HandoffId, Intent, ModelAnswer, ModelCallId, ModelError, ModelErrorKind, Outcome, Prepared,
    QuestionId, QuestionKind, Risk, RunningState, StateModified, ToolError,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ENDS: [&str; 5] = ["phone", "cli", "tablet", "visitor", "laptop"];

/// One step: what kind, and three numbers that choose among what is there.
type Step = (u8, u8, u8, u8);

fn pick<T: Clone>(among: &[T], at: u8) -> Option<T> {
    (!among.is_empty()).then(|| among[usize::from(at) % among.len()].clone())
}

fn intent(world: &World, a: u8, b: u8) -> Intent {
    let tasks: Vec<_> = world.state.tasks.keys().copied().collect();
    let task_id = if b.is_multiple_of(3) { pick(&tasks, b / 3) } else { None };
    let approvals: Vec<_> = world.state.approvals.keys().copied().collect();
    let approval_id = pick(&approvals, b).unwrap_or(ApprovalId(uuid::Uuid::nil()));
    let questions: Vec<_> = world.state.questions.values().cloned().collect();
    let question = pick(&questions, b);
    let question_id = question.as_ref().map_or(QuestionId(uuid::Uuid::nil()), |question| question.id);
    match a % 20 {
        0..=3 => say(["work on it", "把圆角改成 8px", "yes", "stop that and use blue"][usize::from(b) % 4]),
        4 => say(["/show a.css", "/run make", "/undo", "/nonsense"][usize::from(b) % 4]),
        5 => Intent::NewTask { title: format!("task {b}"), description: String::new(), acceptance: Vec::new() },
        6 | 7 => Intent::confirm(approval_id, if b.is_multiple_of(4) { Decision::Reject } else { Decision::Approve }),
        8 => Intent::Answer { question_id, text: Some("the blue one".to_owned()), option: None },
        9 | 10 => Intent::Answer { question_id, text: None, option: question.and_then(|question| pick(&question.options, b)) },
        11 => Intent::Cancel { task_id },
        12 => Intent::Pause { task_id },
        13 => Intent::Resume { task_id },
        14 => Intent::Handoff { to_device: id(ENDS[usize::from(b) % ENDS.len()]) },
        15 => {
            let open = world.state.holder.transfer.as_ref().map(|transfer| transfer.handoff_id);
            Intent::AcceptHandoff { handoff_id: open.unwrap_or(HandoffId(uuid::Uuid::nil())) }
        }
        16 => {
            let open = world.state.holder.transfer.as_ref().map(|transfer| transfer.handoff_id);
            Intent::DeclineHandoff { handoff_id: open.unwrap_or(HandoffId(uuid::Uuid::nil())) }
        }
        17 => Intent::TakeOver { force: b.is_multiple_of(2) },
        18 => Intent::SetNote { key: format!("n{}", b % 4), value: "v".to_owned() },
        19 => match b % 3 {
            0 => Intent::Rename { title: format!("t{b}") },
            1 => Intent::Pin { pinned: b.is_multiple_of(2) },
            _ => Intent::Archive { archived: b.is_multiple_of(2) },
        },
        _ => match b % 4 {
            0 => Intent::Release {},
            1 => Intent::ResetContext {},
            2 => Intent::UndoReset {},
            _ => Intent::Forget { key: format!("n{}", b % 4) },
        },
    }
}

fn proposed(n: u8) -> ProposedCall {
    let rows: [(&str, Value); 19] = [
        ("read_file", json!({"path": "a"})),
        ("read_file", json!({"path": n})),
        ("edit_file", json!({"path": "a", "new_text": "x"})),
        ("format_file", json!({"path": n})),
        ("run_command", json!({"argv": ["make"]})),
        ("delete_file", json!({"path": "b"})),
        ("send_payment", json!({"amount": 5})),
        ("ring_bell", json!({})),
        ("frobnicate", json!({})),
        ("set_plan", json!({"steps": [{"id": "a", "title": "A"}, {"id": "b", "title": "B", "depends_on": ["a"]}]})),
        ("start_step", json!({"step_id": "a"})),
        ("finish_step", json!({"step_id": "a", "conclusion": "ok"})),
        ("finish_step", json!({"step_id": "b", "conclusion": "ok"})),
        ("record_fact", json!({"key": "k", "value": "v", "scope": if n.is_multiple_of(2) { "task" } else { "session" }})),
        ("note", json!({"key": "n1", "value": if n.is_multiple_of(2) { "" } else { "v" }})),
        ("ask_user", json!({"question": "Which?", "options": ["blue", "red"]})),
        ("propose_intent_change", json!({"goal": "more", "reason": "why not"})),
        ("finish_task", json!({"summary": "done"})),
        ("set_plan", json!({"steps": "nonsense"})),
    ];
    let (tool, arguments) = rows[usize::from(n) % rows.len()].clone();
    let error = ToolError {
        code: "invalid_arguments".to_owned(),
        message: "Not JSON.".to_owned(),
        hint: "Write JSON.".to_owned(),
        state_modified: StateModified::No,
    };
    let broken = n > 240;
    ProposedCall {
        tool: tool.to_owned(),
        written: if broken { "{\"broken".to_owned() } else { arguments.to_string() },
        arguments: if broken { Err(error) } else { Ok(arguments) },
        fetched: None,
    }
}

fn model(world: &World, a: u8, b: u8, c: u8) -> Command {
    let (model_call_id, attempt) = world.asked_model().unwrap_or((ModelCallId(uuid::Uuid::nil()), 1));
    let attempt = if a.is_multiple_of(11) { attempt + 1 } else { attempt };
    let kinds = [ModelErrorKind::Unavailable, ModelErrorKind::RateLimited, ModelErrorKind::TimedOut, ModelErrorKind::Unauthorized];
    let outcome = if a.is_multiple_of(7) {
        let kind = kinds[usize::from(b) % kinds.len()];
        ModelOutcome::Failed(ModelError { kind, message: "It failed.".to_owned(), hint: "Look.".to_owned(), retry_after_ms: None })
    } else {
        let count = [0, 1, 1, 2, 3, 5][usize::from(b) % 6];
        let calls = (0..count).map(|n: u8| proposed(c.wrapping_add(n.wrapping_mul(37)))).collect();
        let text = ["", "I look.", " "][usize::from(c) % 3].to_owned();
        ModelOutcome::Answered { model: "m".to_owned(), answer: ModelAnswer { text, ..ModelAnswer::default() }, calls }
    };
    Command::Model { model_call_id, attempt, outcome }
}

fn about_call(world: &World, kind: u8, a: u8, b: u8) -> Command {
    let calls: Vec<_> = world.state.calls.values().map(|call| (call.id, call.attempt, call.is_settled())).collect();
    // Mostly those that are open, now and then one that is settled.
    let open: Vec<_> = calls.iter().copied().filter(|call| !call.2).collect();
    let (call_id, attempt, _) =
        pick(if a.is_multiple_of(8) { &calls } else { &open }, a / 8).unwrap_or((CallId(uuid::Uuid::nil()), 1, true));
    let attempt = if b.is_multiple_of(13) { attempt.saturating_sub(1) } else { attempt };
    let device = id(if b.is_multiple_of(17) { "desk" } else { "laptop" });
    match kind {
        0 => {
            let risk = [Risk::Safe, Risk::Sensitive, Risk::Dangerous][usize::from(b) % 3];
            let refused = ToolError {
                code: "outside_workspace".to_owned(),
                message: "Outside.".to_owned(),
                hint: "Inside, please.".to_owned(),
                state_modified: StateModified::No,
            };
            let prepared = Prepared {
                risk,
                risk_reason: "so".to_owned(),
                risk_said: Vec::new(),
                digests: BTreeMap::new(),
                preview: "what".to_owned(),
                directory: None,
                refusal: b.is_multiple_of(5).then_some(refused),
            };
            Command::Prepared { call_id, device, prepared }
        }
        1 => Command::ToolStarted { call_id, attempt, device },
        2 => {
            let outcome = match b % 6 {
                0 | 1 => succeeded("done"),
                2 => failed("no_match"),
                3 => failed("device_busy"),
                4 => Outcome::Cancelled { result: None },
                _ => interrupted(),
            };
            Command::ToolResult { call_id, attempt, device, outcome }
        }
        _ => {
            let finding = match b % 3 {
                0 => Finding::Happened { result: result("it did") },
                1 => Finding::NotHappened,
                _ => Finding::Unclear { known: "nothing".to_owned() },
            };
            Command::Probed { call_id, attempt, device, finding }
        }
    }
}

fn report(world: &World, a: u8, b: u8) -> Command {
    let states = [RunningState::Accepted, RunningState::Running, RunningState::Finished, RunningState::Interrupted];
    let running = world
        .state
        .calls
        .values()
        .enumerate()
        .filter(|(place, _)| (a >> (place % 8)) & 1 == 1)
        .map(|(place, call)| (call.id, call.attempt, states[(usize::from(b) + place) % states.len()]))
        .collect();
    Command::DeviceReported { device: id("laptop"), running }
}

/// Runs one step; what it asked is kept, since it may be asked again later.
fn take(world: &mut World, step: Step, asked: &mut Vec<(Option<&'static str>, Command)>) {
    let (kind, a, b, c) = step;
    let (sender, command) = match kind % 16 {
        0..=3 => {
            let intent = intent(world, a, b);
            let operation = world.operation(intent, |operation| {
                operation.confirmed = c.is_multiple_of(2);
                if c.is_multiple_of(9) {
                    operation.epoch = operation.epoch.map(|epoch| epoch.saturating_sub(1));
                }
            });
            (Some(ENDS[usize::from(c / 2) % ENDS.len()]), Command::Operation(operation))
        }
        4..=6 => (None, model(world, a, b, c)),
        7 => (None, about_call(world, 0, a, b)),
        8 => (None, about_call(world, 1, a, b)),
        9 | 10 => (None, about_call(world, 2, a, b)),
        11 => (None, about_call(world, 3, a, b)),
        12 => {
            world.around.online.insert(id("laptop"));
            (None, report(world, a, b))
        }
        13 => match a % 4 {
            0 => {
                world.around.online.remove(&id("laptop"));
                (None, Command::DeviceLost { device: id("laptop") })
            }
            1 => (None, Command::Resumed { incarnation: u64::from(b) }),
            2 => (None, Command::WorkspaceSeen { baseline: baseline(&format!("{b:016}")), files: Vec::new(), files_left_out: 0 }),
            _ => (None, Command::DeviceLost { device: id("phone") }),
        },
        14 => {
            world.now = world.now.plus(i64::from(a) * 500 - 10_000);
            (None, Command::Tick)
        }
        _ => match pick(asked, a) {
            Some(before) => before,
            None => (None, Command::Tick),
        },
    };
    asked.push((sender, command.clone()));
    let _ = world.run(sender, &command);
}

/// A world that behaves: devices answer, the model has nothing more to do, the user says yes.
fn bring_to_an_end(world: &mut World) {
    for _ in 0..200 {
        if world.state.open_turn().is_none() {
            return;
        }
        world.around.online.insert(id("laptop"));
        if let Some(transfer) = world.state.holder.transfer.clone() {
            world.now = transfer.deadline;
            world.run(None, &Command::Tick).unwrap();
        }
        let approvals: Vec<_> = world.state.open_approvals().map(|approval| approval.id).collect();
        for approval_id in approvals {
            let confirm = Intent::confirm(approval_id, Decision::Approve);
            world.op_with("phone", confirm, |operation| operation.confirmed = true).unwrap();
        }
        let questions: Vec<_> = world.state.open_questions().cloned().collect();
        for question in questions {
            let option = (question.kind == QuestionKind::Outcome).then(|| "skip".to_owned());
            let text = option.is_none().then(|| "as you like".to_owned());
            world.op("phone", Intent::Answer { question_id: question.id, text, option }).unwrap();
        }
        if world.state.unsettled_calls().any(|call| matches!(call.stage, CallStage::Unknown { .. })) {
            world.run(None, &Command::DeviceReported { device: id("laptop"), running: Vec::new() }).unwrap();
        }
        if let Some(call) = world.state.open_turn().and_then(|turn| turn.model.clone())
            && let ModelStage::Failed { retry_at } = call.stage
        {
            world.now = world.now.max(retry_at);
            world.run(None, &Command::Tick).unwrap();
        }
        for effect in world.pending() {
            let command = match effect {
                Effect::CallModel { model_call_id, attempt } => Command::Model {
                    model_call_id,
                    attempt,
                    outcome: ModelOutcome::Answered {
                        model: "m".to_owned(),
                        answer: ModelAnswer { text: "That is all.".to_owned(), ..ModelAnswer::default() },
                        calls: Vec::new(),
                    },
                },
                Effect::Prepare { call_id, device } => Command::Prepared {
                    call_id,
                    device,
                    prepared: Prepared {
                        risk: Risk::Safe,
                        risk_reason: String::new(),
                        risk_said: Vec::new(),
                        digests: BTreeMap::new(),
                        preview: String::new(),
                        directory: None,
                        refusal: None,
                    },
                },
                Effect::Dispatch { call_id, attempt, device } => {
                    Command::ToolResult { call_id, attempt, device, outcome: succeeded("done") }
                }
                Effect::Cancel { call_id, attempt, device } => {
                    Command::ToolResult { call_id, attempt, device, outcome: Outcome::Cancelled { result: None } }
                }
                Effect::Probe { call_id, attempt, device } => Command::Probed { call_id, attempt, device, finding: Finding::NotHappened },
                Effect::HoldWorkspace { .. } => Command::WorkspaceGranted { baseline: None },
                Effect::Offer { .. } | Effect::Wake { .. } => continue,
            };
            world.run(None, &command).unwrap();
        }
    }
    panic!("the work never ends: {:#?}", world.state);
}

proptest! {
    #![proptest_config(Config { cases: 256, rng_seed: RngSeed::Fixed(20_261_130), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_history_keeps_the_laws_and_can_be_brought_to_an_end(steps in prop::collection::vec(any::<Step>(), 1..40)) {
        let mut world = World::new();
        let mut asked = Vec::new();
        world.say("phone", "begin").unwrap();
        for step in steps {
            take(&mut world, step, &mut asked);
        }
        world.check_log();
        bring_to_an_end(&mut world);
        world.check_log();
    }
}
