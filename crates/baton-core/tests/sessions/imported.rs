//! What an import makes of a log: a record, and nothing that acts or asks (S23).

use crate::world::*;
use baton_core::{Command, Session, decide, pending};
use baton_proto::{ApprovalState, CallState, Decision, Delivery, Intent, Phase, Risk, SessionEvent, TurnState};
use serde_json::json;

/// Imports what `world` has written so far, and checks what holds of every imported session.
fn imported(world: &mut World, events: usize) -> Session {
    let mut state = Session::empty(world.state.id);
    for event in &world.log[..events] {
        state.apply(event);
    }
    let (before, known) = (state.clone(), world.log[..events].last().map(|event| event.body.clone()));
    let at = world.context(None);
    let decided = decide(&state, &Command::Imported { device: id("phone") }, &at).unwrap();
    for event in &decided.events {
        state.apply(event);
    }
    assert_eq!(state, decided.next);
    assert_eq!(pending(&state), [], "nothing is owed after {known:?}");
    assert!(state.open_turn().is_none() && state.queue.is_empty(), "after {known:?}");
    assert_eq!(state.open_approvals().count() + state.open_questions().count() + state.unsettled_calls().count(), 0, "after {known:?}");
    assert_eq!((state.holder.device, state.holder.transfer.clone()), (None, None), "after {known:?}");
    assert!(state.holder.epoch > before.holder.epoch, "after {known:?}");
    let working = state.tasks.values().filter(|task| !task.phase.is_ended() && task.phase != Phase::Paused).count();
    assert_eq!(working, 0, "after {known:?}");
    // What happened stays as it is told: only what was open is closed.
    for approval in before.approvals.values().filter(|approval| approval.state != ApprovalState::Open) {
        assert_eq!(state.approvals[&approval.id], *approval);
    }
    for command in
        [Command::Resumed { incarnation: 7 }, Command::Tick, Command::DeviceReported { device: id("laptop"), running: Vec::new() }]
    {
        let events = decide(&state, &command, &at).unwrap().events;
        assert!(events.is_empty(), "{command:?} begins something after {known:?}: {events:?}");
    }
    state
}

#[test]
fn s23_an_imported_log_does_nothing_wherever_it_ends() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    world.perform("read_file");
    world.answer("", &[("run_command", json!({"argv": ["make"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    let queued =
        Intent::Say { text: "then the next thing".to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Queue };
    world.op("phone", queued).unwrap();
    world.confirm("phone", world.approval(), Decision::Approve).unwrap();
    world.start("run_command");
    world.op("phone", Intent::Handoff { to_device: id("cli") }).unwrap();
    world.restart();
    assert!(world.state.holder.transfer.is_some() && !world.state.queue.is_empty());
    for events in 1..=world.log.len() {
        imported(&mut world, events);
    }
}

#[test]
fn s23_an_approval_that_was_open_or_given_elsewhere_lets_nothing_run() {
    for decision in [None, Some(Decision::Approve)] {
        let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
        world.prepare("run_command", Risk::Sensitive);
        let approval = world.approval();
        if let Some(decision) = decision {
            world.confirm("phone", approval, decision).unwrap();
        }
        let events = world.log.len();
        let state = imported(&mut world, events);
        let call = state.calls.values().find(|call| call.tool == "run_command").unwrap();
        assert_eq!(call.state(), CallState::Cancelled);
        assert_eq!(state.turn.as_ref().unwrap().end.as_ref().unwrap().state, TurnState::Interrupted);
        if decision.is_none() {
            assert_eq!(state.approvals[&approval].state, ApprovalState::Voided);
        }
        let late = Command::Operation(world.operation(Intent::confirm(approval, Decision::Approve), |_| {}));
        let outcome = decide(&state, &late, &world.context(Some("phone")));
        let planned =
            outcome.into_iter().flat_map(|decided| decided.events).any(|event| matches!(event.body, SessionEvent::ToolPlanned { .. }));
        assert!(!planned, "a late answer revives nothing");
    }
}
