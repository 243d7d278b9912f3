//! Calls whose outcome nobody knows (E3), and calls that are stopped (F3): by effect, by what the device says, by stage.

use crate::world::{World, code, failed, id, interrupted, result, succeeded};
use baton_core::{CallStage, Command, Effect, Waiting};
use baton_proto::ErrorCode::{NeedsConfirmation, QuestionClosed, TrustTooLow};
use baton_proto::{
    CallState, Decision, Finding, Intent, Outcome, Phase, QuestionKind, Risk, RunningState, SessionEvent, ToolResult, TurnState,
    UnknownCause,
};
use serde_json::json;

/// A world in which a call of that tool runs on the laptop.
fn running(tool: &str) -> World {
    let mut world = World::calling(&[(tool, json!({"path": "a.css"}))]);
    match tool {
        "run_command" | "delete_file" => {
            world.prepare(tool, Risk::Sensitive);
            approve(&mut world);
        }
        "send_payment" => approve(&mut world),
        _ => {}
    }
    world.start(tool);
    world
}

fn approve(world: &mut World) {
    let approve = Intent::confirm(world.approval(), Decision::Approve);
    world.op_with("phone", approve, |operation| operation.confirmed = true).unwrap();
}

fn waiting(world: &World, tool: &str) -> Option<Waiting> {
    match &world.call(tool).stage {
        CallStage::Unknown { waiting, .. } => Some(waiting.clone()),
        _ => None,
    }
}

fn dispatched(world: &World, tool: &str) -> Option<u32> {
    let call_id = world.call(tool).id;
    world.pending().into_iter().find_map(|effect| match effect {
        Effect::Dispatch { call_id: id, attempt, .. } if id == call_id => Some(attempt),
        _ => None,
    })
}

/// What becomes of an interrupted call, by the tool's effect class and lookup.
#[derive(Debug, PartialEq)]
enum After {
    Repeated,
    LookedUp,
    Asked,
}

#[test]
fn c08_an_interrupted_call_is_repeated_looked_up_or_asked_about() {
    let rows = [
        ("read_file", After::Repeated),
        ("format_file", After::Repeated),
        ("edit_file", After::LookedUp),
        ("delete_file", After::LookedUp),
        ("run_command", After::Asked),
        ("ring_bell", After::Asked),
        ("send_payment", After::Asked),
    ];
    for (tool, after) in rows {
        for told in ["the device says so", "its journal lost it", "the hub restarted, and its journal lost it"] {
            let mut world = running(tool);
            match told {
                "the device says so" => world.end(tool, interrupted()),
                "its journal lost it" => world.report("laptop", Vec::new()),
                _ => {
                    world.restart();
                    assert_eq!(waiting(&world, tool), Some(Waiting::Device), "not shown as running before its device reported");
                    assert_eq!(dispatched(&world, tool), None, "not run again before its device reported");
                    world.report("laptop", Vec::new());
                }
            }
            let found = match waiting(&world, tool) {
                None if world.call(tool).stage == (CallStage::Planned { attempt: 2 }) => After::Repeated,
                Some(Waiting::Lookup) => After::LookedUp,
                Some(Waiting::Human { .. }) => After::Asked,
                _ => panic!("{tool}, {told}: {:?}", world.call(tool).stage),
            };
            assert_eq!(found, after, "{tool}, {told}");
            assert_eq!(dispatched(&world, tool), (after == After::Repeated).then_some(2), "{tool}, {told}");
        }
    }
}

/// A world in which a call of that tool was handed to the laptop, and nobody has heard that it began.
fn planned(tool: &str, journal: Option<u128>) -> World {
    let mut world = World::asked("do the work");
    world.comes_with("laptop", journal);
    world.answer("", &[(tool, json!({"path": "a.css"}))]);
    match tool {
        "run_command" | "delete_file" => {
            world.prepare(tool, Risk::Sensitive);
            approve(&mut world);
        }
        "send_payment" => approve(&mut world),
        _ => {}
    }
    assert_eq!(world.call(tool).stage, CallStage::Planned { attempt: 1 }, "{tool}");
    world
}

#[test]
fn f7_a_call_handed_to_a_device_that_lost_its_journal_is_repeated_looked_up_or_asked_about() {
    let rows = [
        ("read_file", After::Repeated),
        ("format_file", After::Repeated),
        ("edit_file", After::LookedUp),
        ("delete_file", After::LookedUp),
        ("run_command", After::Asked),
        ("ring_bell", After::Asked),
        ("send_payment", After::Asked),
    ];
    for (tool, after) in rows {
        for heard in ["by the session", "while nobody drove the session"] {
            let mut world = planned(tool, Some(1));
            world.lose("laptop");
            world.comes_with("laptop", Some(2));
            match heard {
                "by the session" => world.report("laptop", Vec::new()),
                _ => world.restart(),
            }
            let found = match &world.call(tool).stage {
                CallStage::Planned { attempt: 2 } => After::Repeated,
                CallStage::Unknown { cause: UnknownCause::JournalLost, waiting: Waiting::Lookup, .. } => After::LookedUp,
                CallStage::Unknown { cause: UnknownCause::JournalLost, waiting: Waiting::Human { .. }, .. } => After::Asked,
                other => panic!("{tool}, heard {heard}: {other:?}"),
            };
            assert_eq!(found, after, "{tool}, heard {heard}");
            assert_eq!(dispatched(&world, tool), (after == After::Repeated).then_some(2), "{tool}, heard {heard}");
            // What was said once isn't said again.
            let stage = world.call(tool).stage.clone();
            world.report("laptop", Vec::new());
            assert_eq!(world.call(tool).stage, stage, "{tool}, heard {heard}");
            let said = world.count(|body| matches!(body, SessionEvent::ToolUnknown { known, .. } if known.contains("lost its journal")));
            assert_eq!(said, 1, "{tool}, heard {heard}");
        }
    }
}

#[test]
fn f7_a_call_that_no_lost_journal_can_have_known_is_dispatched_again() {
    for (then, now) in [(Some(1), Some(1)), (None, Some(1)), (None, None), (Some(1), None)] {
        let mut world = planned("run_command", then);
        world.lose("laptop");
        world.comes_with("laptop", now);
        world.report("laptop", Vec::new());
        assert_eq!(dispatched(&world, "run_command"), Some(1), "planned for {then:?}, back with {now:?}");
        world.restart();
        assert_eq!(dispatched(&world, "run_command"), Some(1), "planned for {then:?}, back with {now:?}, after a restart");
    }
    // The new journal took it in already.
    let mut world = planned("run_command", Some(1));
    world.comes_with("laptop", Some(2));
    let told = vec![(world.call("run_command").id, 1, RunningState::Running)];
    world.report("laptop", told);
    assert_eq!(world.call("run_command").stage, CallStage::Started { attempt: 1 });
}

#[test]
fn a_lookup_settles_what_happened_and_repeats_what_did_not() {
    let rows = [
        (Finding::Happened { result: result("written") }, CallState::Succeeded, 1),
        (Finding::NotHappened, CallState::Planned, 2),
        // It is idempotent, so repeating it does no harm.
        (Finding::Unclear { known: "The file is gone.".to_owned() }, CallState::Planned, 2),
    ];
    for (finding, state, attempt) in rows {
        let mut world = running("edit_file");
        world.end("edit_file", interrupted());
        let call_id = world.call("edit_file").id;
        assert!(world.pending().contains(&Effect::Probe { call_id, attempt: 1, device: id("laptop") }));
        world.probe("edit_file", finding.clone());
        assert_eq!((world.call("edit_file").state(), world.call("edit_file").attempt), (state, attempt), "{finding:?}");
        let length = world.log.len();
        world.run(None, &Command::Probed { call_id, attempt: 1, device: id("laptop"), finding }).unwrap();
        assert_eq!(world.log.len(), length, "the same word again changes nothing");
    }
}

#[test]
fn a_human_decides_on_a_call_that_can_be_neither_repeated_nor_looked_up() {
    let rows = [("happened", CallState::Succeeded, None), ("do_it", CallState::Planned, Some(2)), ("skip", CallState::Failed, None)];
    for (option, state, again) in rows {
        let mut world = running("run_command");
        world.end("run_command", interrupted());
        assert_eq!(world.phase(), Phase::WaitingUser);
        let question_id = world.question();
        assert_eq!(world.state.questions[&question_id].kind, QuestionKind::Outcome);
        let nonsense = Intent::Answer { question_id, text: Some("perhaps".to_owned()), option: None };
        assert_eq!(code(&world.op("phone", nonsense)), Some(baton_proto::ErrorCode::Invalid));
        let answer = Intent::Answer { question_id, text: None, option: Some(option.to_owned()) };
        world.op("phone", answer.clone()).unwrap();
        assert_eq!(world.call("run_command").state(), state, "{option}");
        assert_eq!(dispatched(&world, "run_command"), again, "{option}");
        assert_eq!(code(&world.op("cli", answer)), Some(QuestionClosed), "the first answer wins");
    }
}

#[test]
fn doing_it_again_is_covered_by_trust_like_an_approval() {
    for (device, plainly, confirmed) in [
        ("phone", Some(NeedsConfirmation), None),
        ("tablet", Some(TrustTooLow), Some(TrustTooLow)),
        ("visitor", Some(TrustTooLow), Some(TrustTooLow)),
    ] {
        let mut world = running("send_payment");
        world.end("send_payment", interrupted());
        let answer = Intent::Answer { question_id: world.question(), text: None, option: Some("do_it".to_owned()) };
        assert_eq!(code(&world.op(device, answer.clone())), plainly, "{device}");
        assert_eq!(code(&world.op_with(device, answer, |operation| operation.confirmed = true)), confirmed, "{device}");
    }
}

#[test]
fn a_question_about_an_outcome_is_withdrawn_when_the_device_knows_better() {
    let mut world = running("run_command");
    world.report("laptop", Vec::new());
    let question_id = world.question();
    let call_id = world.call("run_command").id;
    world.report("laptop", vec![(call_id, 1, RunningState::Running)]);
    assert_eq!(world.call("run_command").state(), CallState::Started);
    let answer = Intent::Answer { question_id, text: None, option: Some("do_it".to_owned()) };
    assert_eq!(code(&world.op("phone", answer)), Some(QuestionClosed), "it isn't run twice");
    world.end("run_command", succeeded("built"));
    assert_eq!(world.call("run_command").state(), CallState::Succeeded);

    let mut world = running("run_command");
    world.end("run_command", interrupted());
    world.end("run_command", succeeded("built after all"));
    assert_eq!(world.state.open_questions().count(), 0);
    assert_eq!(world.call("run_command").state(), CallState::Succeeded);
}

#[test]
fn a_lost_device_leaves_its_calls_unknown_and_takes_them_up_again() {
    let mut world = running("run_command");
    world.lose("laptop");
    assert!(matches!(world.call("run_command").stage, CallStage::Unknown { cause: UnknownCause::DeviceDisconnected, .. }));
    assert_eq!(world.phase(), Phase::WaitingDevice);
    let call_id = world.call("run_command").id;
    world.report("laptop", vec![(call_id, 1, RunningState::Running)]);
    assert_eq!((world.call("run_command").state(), world.phase()), (CallState::Started, Phase::Executing));
    world.end("run_command", succeeded("built"));
    assert!(world.asked_model().is_some());
}

#[test]
fn a_planned_call_is_dispatched_until_its_device_wrote_it_down() {
    let mut world = World::calling(&[("ring_bell", json!({}))]);
    world.lose("laptop");
    assert_eq!((world.call("ring_bell").state(), world.phase()), (CallState::Planned, Phase::WaitingDevice));
    world.report("laptop", Vec::new());
    assert_eq!(dispatched(&world, "ring_bell"), Some(1), "it never reached the device");
    // The device began, and its word of that was lost with the connection.
    let call_id = world.call("ring_bell").id;
    world.report("laptop", vec![(call_id, 1, RunningState::Running)]);
    assert_eq!(world.call("ring_bell").state(), CallState::Started);
    world.report("laptop", Vec::new());
    assert!(matches!(waiting(&world, "ring_bell"), Some(Waiting::Human { .. })), "it may have rung");
}

#[test]
fn c11_a_call_that_kills_its_device_each_time_is_given_up() {
    let mut world = running("read_file");
    for _ in 1..5 {
        world.end("read_file", interrupted());
        world.start("read_file");
    }
    world.end("read_file", interrupted());
    assert_eq!(world.call("read_file").state(), CallState::Failed);
    assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolStarted { .. })), 5);
    assert!(world.asked_model().is_some(), "the agent finds another way");
}

#[test]
fn c44_restarts_of_the_hub_use_up_nothing() {
    let mut world = running("read_file");
    let call_id = world.call("read_file").id;
    for _ in 0..20 {
        world.restart();
        world.report("laptop", vec![(call_id, 1, RunningState::Running)]);
    }
    assert_eq!((world.call("read_file").state(), world.call("read_file").attempt), (CallState::Started, 1));
    world.end("read_file", succeeded("text"));
    for _ in 0..20 {
        world.restart();
        world.run(None, &baton_core::Command::Released { incarnation: 9 }).unwrap();
    }
    world.fail_model(baton_proto::ModelErrorKind::Unavailable, None);
    let call = world.state.turn.as_ref().unwrap().model.as_ref().unwrap();
    assert_eq!((call.failures, call.attempt), (1, 21), "only the failure counts towards giving up");
}

#[test]
fn a_busy_device_is_tried_again_for_reading_only() {
    for (tool, state) in [("read_file", CallState::Planned), ("ring_bell", CallState::Failed)] {
        let mut world = running(tool);
        world.end(tool, failed("device_busy"));
        assert_eq!(world.call(tool).state(), state, "{tool}");
    }
    let mut world = running("read_file");
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    world.end("read_file", failed("device_busy"));
    assert_eq!(world.call("read_file").state(), CallState::Failed, "nothing starts anew after a stop");
    assert!(world.state.open_turn().is_none());
}

/// The stage in which a call is when the user stops it.
const STAGES: [&str; 7] = ["proposed", "awaiting approval", "planned", "started", "unknown", "looked up", "asked about"];

fn at_stage(stage: &str) -> (World, &'static str) {
    let tool = match stage {
        "proposed" | "awaiting approval" | "asked about" => "run_command",
        "looked up" => "edit_file",
        _ => "ring_bell",
    };
    let mut world = World::calling(&[(tool, json!({"path": "a"}))]);
    match stage {
        "awaiting approval" => world.prepare(tool, Risk::Sensitive),
        "started" => world.start(tool),
        "unknown" => {
            world.start(tool);
            world.restart();
        }
        "looked up" => {
            world.start(tool);
            world.end(tool, interrupted());
        }
        "asked about" => {
            world.prepare(tool, Risk::Sensitive);
            approve(&mut world);
            world.start(tool);
            world.end(tool, interrupted());
        }
        _ => {}
    }
    (world, tool)
}

#[test]
fn c24_a_stop_reaches_a_call_at_every_stage() {
    for stage in STAGES {
        for online in [true, false] {
            for (intent, phase) in [(Intent::Cancel { task_id: None }, Phase::Cancelled), (Intent::Pause { task_id: None }, Phase::Paused)]
            {
                let (mut world, tool) = at_stage(stage);
                if !online {
                    world.around.online.remove(&id("laptop"));
                }
                world.op("tablet", intent).unwrap();
                let name = format!("{stage}, online {online}");
                assert_eq!(world.phase(), phase, "{name}");
                let on_its_way = matches!(stage, "planned" | "started" | "unknown" | "looked up");
                if online && on_its_way {
                    assert_eq!(world.call(tool).state(), CallState::Cancelling, "{name}");
                    assert!(world.pending().iter().any(|effect| matches!(effect, Effect::Cancel { .. })), "{name}");
                    assert_eq!(code(&world.say("phone", "and now?")), None, "{name}: it waits");
                    world.end(tool, Outcome::Cancelled { result: None });
                }
                assert_eq!(world.call(tool).state(), CallState::Cancelled, "{name}");
                let end = world.state.turn.as_ref().unwrap().end.clone().unwrap();
                assert_eq!(end.state, TurnState::Interrupted, "{name}");
                assert!(world.pending().is_empty(), "{name}: nothing is owed any more");
                if on_its_way && !online || stage == "asked about" {
                    let unsure = world.log.iter().any(|event| {
                        matches!(&event.body, SessionEvent::ToolCancelled { reason, .. } if reason.contains("unknown") && reason.contains("took effect") || reason.contains("took effect before"))
                    });
                    assert!(unsure, "{name}: it says that the outcome is unknown");
                }
            }
        }
    }
}

#[test]
fn a_device_that_vanishes_while_stopping_holds_nothing_up() {
    let (mut world, tool) = at_stage("started");
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert!(world.state.open_turn().is_some());
    world.lose("laptop");
    assert_eq!(world.call(tool).state(), CallState::Cancelled);
    assert!(world.state.open_turn().is_none());
    world.end(tool, succeeded("too late"));
    assert_eq!(world.call(tool).state(), CallState::Cancelled, "a late result makes no second ending");
}

#[test]
fn a_call_that_finishes_while_it_is_stopped_is_told_as_it_was() {
    let (mut world, tool) = at_stage("started");
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    world.end(tool, succeeded("rang"));
    assert_eq!(world.call(tool).state(), CallState::Succeeded);
    assert_eq!(world.state.turn.as_ref().unwrap().end.as_ref().unwrap().state, TurnState::Interrupted);
    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    let request = world.request();
    let told = request.messages.iter().any(|message| matches!(message, baton_proto::ModelMessage::Result { text, .. } if text == "rang"));
    assert!(told, "the resumed agent knows the result");
}

#[test]
fn c43_whatever_size_a_device_sends_is_settled_at_once_and_fits_the_log() {
    let large = |text: &str| ToolResult { content: text.repeat(200_000), bytes: 200_000, ..ToolResult::default() };
    let changes =
        (0..5000).map(|number| baton_proto::FileChange { path: format!("file{number}"), before: None, after: None, added: 1, removed: 0 });
    let error = baton_proto::ToolError {
        code: "odd".to_owned(),
        message: "m".repeat(100_000),
        hint: "h".repeat(100_000),
        state_modified: baton_proto::StateModified::Yes,
    };
    let rows = [
        ("a long text", Outcome::Succeeded(large("x")), CallState::Succeeded),
        (
            "one that grows in JSON",
            Outcome::Succeeded(ToolResult { content: "\u{1}".repeat(16_000), ..ToolResult::default() }),
            CallState::Succeeded,
        ),
        ("many files", Outcome::Succeeded(ToolResult { changes: changes.collect(), ..ToolResult::default() }), CallState::Succeeded),
        ("a failure without end", Outcome::Failed { error, result: Some(large("\"")) }, CallState::Failed),
        ("interrupted in many words", Outcome::Interrupted { known: "k".repeat(200_000) }, CallState::Planned),
    ];
    for (name, outcome, state) in rows {
        let mut world = running("read_file");
        world.end("read_file", outcome);
        assert_eq!(world.call("read_file").state(), state, "{name}");
        for event in &world.log {
            let size = serde_json::to_string(event).unwrap().len();
            assert!(size <= baton_proto::MAX_EVENT_BYTES, "{name}: {} takes {size} bytes", baton_proto::EventBody::name(&event.body));
        }
        let said = world.log.iter().find_map(|event| match &event.body {
            SessionEvent::ToolSucceeded { result, .. } => Some(result.content.clone()),
            _ => None,
        });
        assert!(said.is_none_or(|said| said.contains("left out") || said.contains("aren't listed")), "{name}: what is missing is said");
    }
    // A card that would be larger than a card may be is refused in words, and the agent goes on.
    for preview in ["\"".repeat(32_000), "\u{1}".repeat(20_000), "x".repeat(40_000)] {
        let mut world = World::calling(&[("run_command", json!({"argv": ["sh"]}))]);
        let call_id = world.call("run_command").id;
        let prepared = baton_proto::Prepared {
            risk: Risk::Sensitive,
            risk_reason: "It asks.".to_owned(),
            risk_said: Vec::new(),
            digests: std::collections::BTreeMap::new(),
            preview,
            directory: None,
            refusal: None,
        };
        world.run(None, &Command::Prepared { call_id, device: id("laptop"), prepared }).unwrap();
        let call = world.call("run_command");
        let fits = world.log.iter().all(|event| serde_json::to_string(event).unwrap().len() <= baton_proto::MAX_EVENT_BYTES);
        assert!(fits && call.state() == CallState::Failed, "{:?}", call.state());
        assert!(world.asked_model().is_some());
    }
}

#[test]
fn c12_a_late_success_of_a_call_that_was_given_up_is_told_once_and_runs_nothing() {
    for another_turn in [false, true] {
        let mut world = running("ring_bell");
        let (call_id, attempt) = (world.call("ring_bell").id, world.call("ring_bell").attempt);
        world.lose("laptop");
        world.op("phone", Intent::Cancel { task_id: None }).unwrap();
        if another_turn {
            world.say("phone", "then knock at the door").unwrap();
        }
        let late = |world: &mut World, outcome: Outcome| {
            let length = world.log.len();
            world.run(None, &Command::ToolResult { call_id, attempt, device: id("laptop"), outcome }).unwrap();
            world.log.len() - length
        };
        assert_eq!(late(&mut world, interrupted()), 0, "that it was interrupted is no news");
        assert_eq!(late(&mut world, failed("no_bell")), 0, "nor that it came to nothing");
        assert!(late(&mut world, succeeded("it rang")) > 0);
        assert_eq!(late(&mut world, succeeded("it rang")), 0, "told once");
        let told = world.count(|body| matches!(body, SessionEvent::MessageAdded { role: baton_proto::Role::Hub, text, .. } if text.contains("after all") && text.contains("it rang")));
        assert_eq!(told, 1);
        assert_eq!(world.count(|body| matches!(body, SessionEvent::ToolSucceeded { .. })), 0, "a call has one result");
        assert!(dispatched_anything(&world).is_none());
        if !another_turn {
            world.say("phone", "and now?").unwrap();
        }
        assert!(format!("{:?}", world.request()).contains("after all"), "the agent reads it at its next step");
    }
}

fn dispatched_anything(world: &World) -> Option<Effect> {
    world.pending().into_iter().find(|effect| matches!(effect, Effect::Dispatch { .. } | Effect::Probe { .. }))
}
