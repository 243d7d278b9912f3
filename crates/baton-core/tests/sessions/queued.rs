//! Input that waits (T10), approvals that nobody decides on (E5), and sessions that stop the hub.

use crate::world::{World, code, id, succeeded};
use baton_core::{Command, Effect};
use baton_proto::{ApprovalState, Delivery, ErrorCode, Intent, MAX_DEADLY_RESUMES, Phase, Risk, SessionEvent, TurnState};
use serde_json::json;

fn say(world: &mut World, from: &str, text: &str, delivery: Delivery) {
    world.op(from, Intent::Say { text: text.to_owned(), selection: None, attachments: Vec::new(), delivery }).unwrap();
}

/// What users said, as the model is asked it, newest last.
fn heard(world: &mut World) -> String {
    let request = world.request();
    let last = request.messages.into_iter().rev().find_map(|message| match message {
        baton_proto::ModelMessage::User { text, .. } => Some(text),
        _ => None,
    });
    last.unwrap_or_default()
}

/// A world in which an approved command runs.
fn running() -> World {
    let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    let approval = world.approval();
    world.confirm("phone", approval, baton_proto::Decision::Approve).unwrap();
    world.start("run_command");
    world
}

#[test]
fn queued_input_waits_for_the_end_of_the_turn_and_begins_its_own() {
    let mut world = World::asked("first");
    say(&mut world, "phone", "second", Delivery::Queue);
    say(&mut world, "phone", "third", Delivery::Queue);
    assert_eq!(world.state.queue.len(), 2);
    let first_turn = world.state.turn.as_ref().unwrap().id;
    world.answer("done with the first", &[]);
    let turn = world.state.turn.clone().unwrap();
    assert_ne!(turn.id, first_turn, "the next turn began by itself");
    assert!(turn.end.is_none() && turn.model.is_some());
    assert_eq!(world.state.queue.len(), 1, "each has a turn of its own");
    world.answer("done with the second", &[]);
    world.answer("done with the third", &[]);
    assert!(world.state.queue.is_empty() && world.state.open_turn().is_none());
    assert_eq!(world.count(|event| matches!(event, SessionEvent::TurnStarted { .. })), 3);
}

#[test]
fn an_interruption_stops_what_runs_and_is_heard_next() {
    let mut world = running();
    say(&mut world, "phone", "rather do it differently", Delivery::Interrupt);
    assert!(world.pending().iter().any(|effect| matches!(effect, Effect::Cancel { .. })), "the call is asked to stop");
    assert!(world.state.open_turn().unwrap().stop.is_some());
    world.end("run_command", baton_proto::Outcome::Cancelled { result: None });
    let turn = world.state.open_turn().unwrap().clone();
    assert!(turn.stop.is_none() && turn.model.is_some(), "a new turn works on it");
    assert!(heard(&mut world).contains("rather do it differently"));
    assert_eq!(world.count(|event| matches!(event, SessionEvent::TurnInterrupted { .. })), 1);
}

#[test]
fn what_is_said_while_the_agent_is_being_stopped_is_not_lost() {
    let mut world = running();
    world.op("cli", Intent::Cancel { task_id: None }).unwrap();
    say(&mut world, "phone", "and now this", Delivery::Steer);
    world.end("run_command", baton_proto::Outcome::Cancelled { result: None });
    assert!(world.state.open_turn().is_none(), "stopped means stopped");
    assert_eq!(world.state.queue.len(), 1, "it waits for the user's next word");
    say(&mut world, "phone", "go on", Delivery::Steer);
    let heard = heard(&mut world);
    assert!(heard.contains("and now this") && heard.contains("go on"), "{heard}");
    assert!(world.state.queue.is_empty());
}

#[test]
fn too_much_input_is_refused_in_words_and_may_be_sent_again() {
    let mut world = World::asked("first");
    for n in 0..20 {
        say(&mut world, "phone", &format!("more {n}"), Delivery::Queue);
    }
    let refused = world
        .op("phone", Intent::Say { text: "one too many".to_owned(), selection: None, attachments: Vec::new(), delivery: Delivery::Queue });
    assert_eq!(code(&refused), Some(ErrorCode::RateLimited));
}

#[test]
fn two_devices_at_once_end_in_one_order_whatever_the_delivery() {
    let mut world = World::asked("first");
    say(&mut world, "phone", "from the phone", Delivery::Queue);
    say(&mut world, "cli", "from the terminal", Delivery::Steer);
    assert_eq!(world.state.holder.device, Some(id("cli")));
    world.answer("done", &[]);
    let steered = world.state.open_turn().expect("what was steered is read before the turn ends").clone();
    assert!(steered.unread.is_empty());
    world.answer("done with that too", &[]);
    assert!(heard(&mut world).contains("from the phone"), "then the queued one has its turn");
}

#[test]
fn c06_an_approval_that_nobody_decides_on_is_asked_anew_and_never_answers_itself() {
    let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    let first = world.approval();
    assert!(world.pending().iter().any(|effect| matches!(effect, Effect::Wake { .. })), "the time is owed");
    world.tick(24 * 60 * 60 * 1000 - 1);
    assert_eq!(world.approval(), first, "still open");
    world.tick(1);
    assert_eq!(world.state.approvals[&first].state, ApprovalState::Voided);
    assert!(world.pending().iter().any(|effect| matches!(effect, Effect::Prepare { .. })), "its device looks again");
    let late = world.confirm("phone", first, baton_proto::Decision::Approve);
    assert_eq!(code(&late), Some(ErrorCode::ApprovalClosed), "a late answer authorises nothing");
    world.prepare("run_command", Risk::Sensitive);
    let second = world.approval();
    assert_ne!(second, first);
    world.confirm("phone", second, baton_proto::Decision::Approve).unwrap();
    world.start("run_command");
    world.end("run_command", succeeded("made"));
    world.answer("done", &[]);
    assert_eq!(world.count(|event| matches!(event, SessionEvent::ToolSucceeded { .. })), 1);
}

#[test]
fn a_dangerous_approval_is_asked_anew_when_the_workspace_changed() {
    let mut world = World::calling(&[("delete_file", json!({"path": "a"})), ("run_command", json!({"argv": ["make"]}))]);
    world.prepare("delete_file", Risk::Dangerous);
    world.prepare("run_command", Risk::Sensitive);
    world
        .run(None, &Command::WorkspaceSeen { baseline: crate::world::baseline("another commit"), files: Vec::new(), files_left_out: 0 })
        .unwrap();
    let open: Vec<_> = world.state.open_approvals().map(|approval| (approval.binding.tool.clone(), approval.workspace_changed)).collect();
    assert_eq!(open, [("run_command".to_owned(), true)], "the sensitive one says so, the dangerous one is asked anew");
    assert!(
        world.pending().iter().any(|effect| matches!(effect, Effect::Prepare { call_id, .. } if *call_id == world.call("delete_file").id))
    );
}

#[test]
fn a_session_that_stops_the_hub_whenever_it_is_taken_up_is_left_alone_until_it_is_resumed() {
    let mut world = World::asked("something that kills the hub");
    for _ in 0..MAX_DEADLY_RESUMES {
        world.restart();
        assert!(world.asked_model().is_some(), "it is tried again");
    }
    world.restart();
    assert!(world.asked_model().is_none() && world.pending().is_empty(), "nothing is done for it any more");
    assert_eq!(world.phase(), Phase::Paused);
    assert_eq!(world.state.turn.as_ref().unwrap().end.as_ref().unwrap().state, TurnState::Interrupted);
    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    assert!(world.asked_model().is_some(), "a user takes it up again");
}

#[test]
fn c44_restarts_in_good_order_or_with_something_in_between_are_no_deaths() {
    let mut world = World::asked("something slow");
    for _ in 0..10 {
        world.restart();
        let incarnation = 99;
        world.run(None, &Command::Released { incarnation }).unwrap();
    }
    assert!(world.asked_model().is_some(), "restarts in good order count for nothing");
    let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    for _ in 0..10 {
        world.restart();
    }
    let approval = world.approval();
    world.confirm("phone", approval, baton_proto::Decision::Approve).unwrap();
    assert_eq!(world.phase(), Phase::Executing, "waiting for a human is no danger, however often the hub dies meanwhile");
}
