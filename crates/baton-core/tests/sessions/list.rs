//! Where a session stands in its user's list (ux 27): its title, pinned, put away and brought back.

use crate::world::{World, code};
use baton_core::{ModelOutcome, entities, summary};
use baton_proto::{EntityView, ErrorCode, Intent, MAX_TITLE_CHARS, ModelAnswer, SessionEntity, SessionEvent, Usage};

fn shown(world: &World) -> Box<SessionEntity> {
    let session = entities(&world.state).into_iter().find_map(|entity| match entity {
        EntityView::Session(session) => Some(session),
        _ => None,
    });
    session.unwrap()
}

fn rename(world: &mut World, title: &str) -> Option<ErrorCode> {
    code(&world.op("ide", Intent::Rename { title: title.to_owned() }))
}

#[test]
fn a_title_of_the_users_stays() {
    let mut world = World::new();
    assert_eq!(rename(&mut world, "  Round buttons  "), None, "also on a device that doesn't hold it");
    world.say("phone", "make the buttons round").unwrap();
    world.answer("Done.", &[]);
    world.say("phone", "现在检查深色模式下的对比度").unwrap();
    assert_eq!(world.count(|body| matches!(body, SessionEvent::SessionTitled { .. })), 1, "the language was followed");
    assert_eq!((shown(&world).title.as_str(), summary(&world.state).title.as_str()), ("Round buttons", "Round buttons"));
}

#[test]
fn a_title_that_deceives_or_is_too_long_is_refused() {
    let mut world = World::new();
    let long = "长".repeat(MAX_TITLE_CHARS + 1);
    let rows = [
        ("", ErrorCode::Invalid),
        ("  ", ErrorCode::Invalid),
        ("two\nlines", ErrorCode::Invalid),
        ("esc\u{1b}[2J", ErrorCode::Invalid),
        ("abc\u{202e}gpj.exe", ErrorCode::Invalid),
        ("zero\u{200b}width", ErrorCode::Invalid),
        (&long, ErrorCode::TooLarge),
    ];
    for (title, expected) in rows {
        assert_eq!(rename(&mut world, title), Some(expected), "{title:?}");
        assert_eq!(
            code(&World::empty().op("phone", Intent::NewSession { title: Some(title.to_owned()), workspace: None })).is_some(),
            !title.trim().is_empty()
        );
    }
    assert_eq!(rename(&mut world, &"长".repeat(MAX_TITLE_CHARS)), None);
}

#[test]
fn pinning_and_archiving_change_the_list_and_not_the_order_of_work() {
    let mut world = World::asked("make the buttons round");
    world.answer("Done.", &[]);
    let worked = world.state.updated_at;
    world.now = world.now.plus(60_000);
    world.op("cli", Intent::Pin { pinned: true }).unwrap();
    world.op("cli", Intent::Archive { archived: true }).unwrap();
    world.op("cli", Intent::Archive { archived: true }).unwrap();
    let line = summary(&world.state);
    assert_eq!((line.pinned, line.archived, shown(&world).pinned, shown(&world).archived), (true, true, true, true));
    assert_eq!((line.updated_at, world.state.updated_at), (worked, worked), "nothing was worked on");
    assert_eq!(world.count(|body| matches!(body, SessionEvent::SessionArchived { .. })), 1, "saying it again says nothing");
    world.restart();
    assert!(summary(&world.state).archived);

    world.say("phone", "and now the links").unwrap();
    assert!(!summary(&world.state).archived, "speaking in it brings it back");
    assert!(summary(&world.state).pinned);
}

#[test]
fn what_works_or_waits_is_not_put_out_of_sight() {
    let mut world = World::asked("make the buttons round");
    assert_eq!(code(&world.op("phone", Intent::Archive { archived: true })), Some(ErrorCode::IllegalTransition));
    assert!(!world.state.archived);
    world.answer("Done.", &[]);
    world.op("phone", Intent::Archive { archived: true }).unwrap();
    assert!(world.state.archived);
}

#[test]
fn how_full_the_context_is_is_that_of_the_last_request() {
    let mut world = World::asked("make the buttons round");
    assert_eq!(shown(&world).context_tokens, 0);
    let usage = Usage { input_tokens: 900, cached_input_tokens: 500, output_tokens: 30 };
    let answer = ModelAnswer { text: "Done.".to_owned(), usage, ..ModelAnswer::default() };
    world.model_ended(ModelOutcome::Answered { model: "test-model".to_owned(), answer, calls: Vec::new() });
    assert_eq!(shown(&world).context_tokens, 930);
    world.op_with("phone", Intent::ResetContext {}, |operation| operation.confirmed = true).unwrap();
    assert_eq!(shown(&world).context_tokens, 0, "a reset empties it");
}
