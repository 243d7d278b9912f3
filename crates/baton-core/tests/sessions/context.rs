//! What the agent's context holds: a reset is confirmed, for everybody, and undone (D7); what was read of a broken answer stays (ux 22).

use crate::world::{World, code};
use baton_core::{Session, SoFar, entities};
use baton_proto::{EntityView, ErrorCode, Intent, Role, SessionEvent};

fn asked(world: &mut World) -> String {
    serde_json::to_string(&world.request()).unwrap()
}

fn reset(world: &mut World) {
    world.op_with("phone", Intent::ResetContext {}, |operation| operation.confirmed = true).unwrap();
}

fn shown(state: &Session) -> Option<u64> {
    entities(state).into_iter().find_map(|entity| match entity {
        EntityView::Session(session) => session.context_from,
        _ => None,
    })
}

#[test]
fn d7_a_reset_is_confirmed_hides_what_was_said_and_is_undone() {
    let mut world = World::asked("the walrus is blue");
    world.answer("So it is, this walrus.", &[]);
    world.op("phone", Intent::SetNote { key: "tone".to_owned(), value: "dry".to_owned() }).unwrap();
    let before = world.state.seq;
    assert_eq!(code(&world.op("phone", Intent::ResetContext {})), Some(ErrorCode::NeedsConfirmation));
    assert_eq!(code(&world.op("phone", Intent::UndoReset {})), Some(ErrorCode::IllegalTransition), "there is nothing to take back");
    assert_eq!((world.state.seq, shown(&world.state)), (before, None), "and nothing was changed");

    reset(&mut world);
    assert_eq!(shown(&world.state), Some(world.state.seq));
    world.say("phone", "which colour").unwrap();
    let request = asked(&mut world);
    assert!(!request.contains("walrus"), "what was said, done and concluded before isn't seen: {request}");
    assert!(request.contains("which colour") && request.contains("dry"), "what is said now and the notes are");
    world.restart();
    assert!(!asked(&mut world).contains("walrus"), "a restart changes nothing about it");

    assert_eq!(code(&world.op("phone", Intent::UndoReset {})), Some(ErrorCode::IllegalTransition), "not in the middle of a turn");
    world.answer("I don't know.", &[]);
    world.op("phone", Intent::UndoReset {}).unwrap();
    assert_eq!(shown(&world.state), None);
    world.say("phone", "and now").unwrap();
    let request = asked(&mut world);
    assert!(request.contains("the walrus is blue") && request.contains("which colour"), "all of it is back: {request}");
}

#[test]
fn d7_resets_are_undone_one_by_one() {
    let mut world = World::asked("the otter");
    world.answer("Done.", &[]);
    reset(&mut world);
    let first = shown(&world.state);
    world.say("phone", "the heron").unwrap();
    world.answer("Done.", &[]);
    reset(&mut world);
    world.op("phone", Intent::UndoReset {}).unwrap();
    assert_eq!(shown(&world.state), first);
    world.say("phone", "third").unwrap();
    let request = asked(&mut world);
    assert!(request.contains("the heron") && !request.contains("otter"), "{request}");
}

#[test]
fn d7_what_many_resets_hide_stays_hidden_however_many_are_undone() {
    let mut world = World::asked("the otter");
    world.answer("Done.", &[]);
    for _ in 0..20 {
        reset(&mut world);
    }
    while world.op("phone", Intent::UndoReset {}).is_ok() {}
    world.say("phone", "and now").unwrap();
    let request = asked(&mut world);
    assert!(!request.contains("otter"), "the first reset was never taken back: {request}");
}

#[test]
fn what_was_read_of_an_answer_that_is_stopped_stays_for_its_reader_and_for_the_model() {
    let mut world = World::asked("tell a story");
    let call = world.state.open_turn().and_then(|turn| turn.model.clone()).unwrap();
    world.so_far = Some(SoFar { message_id: call.message_id, attempt: call.attempt, text: "Once upon a".to_owned() });
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    world.so_far = None;
    let kept: Vec<_> = world
        .log
        .iter()
        .filter_map(|event| match &event.body {
            SessionEvent::MessageAdded { role: Role::Agent, message_id, text, .. } => Some((*message_id, text.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [(call.message_id, "Once upon a\n\n(Stopped here.)".to_owned())]);
    world.say("phone", "go on").unwrap();
    assert!(asked(&mut world).contains("Once upon a"), "the model knows what it had said");

    // Words of another try, or none, leave nothing behind.
    let call = world.state.open_turn().and_then(|turn| turn.model.clone()).unwrap();
    let before = world.count(|event| matches!(event, SessionEvent::MessageAdded { role: Role::Agent, .. }));
    world.so_far = Some(SoFar { message_id: call.message_id, attempt: call.attempt + 1, text: "Never".to_owned() });
    world.op("phone", Intent::Cancel { task_id: None }).unwrap();
    assert_eq!(world.count(|event| matches!(event, SessionEvent::MessageAdded { role: Role::Agent, .. })), before);
}

#[test]
fn what_is_kept_of_a_stopped_answer_fits_an_event_whatever_it_is_made_of() {
    for text in ["\u{1}".repeat(100_000), "圆".repeat(60_000), "\"\\".repeat(60_000)] {
        let mut world = World::asked("tell a story");
        let call = world.state.open_turn().and_then(|turn| turn.model.clone()).unwrap();
        world.so_far = Some(SoFar { message_id: call.message_id, attempt: call.attempt, text });
        world.op("phone", Intent::Cancel { task_id: None }).unwrap();
        let kept = world.log.iter().find(|event| matches!(&event.body, SessionEvent::MessageAdded { role: Role::Agent, .. })).unwrap();
        assert!(serde_json::to_vec(kept).unwrap().len() <= baton_proto::MAX_EVENT_BYTES);
    }
}
