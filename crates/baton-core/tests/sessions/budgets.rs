//! Budgets of tokens (R4): where the work pauses, and how its user lets it go on.

use crate::world::{World, code, say};
use baton_core::{Budgets, ModelOutcome, entities, summary};
use baton_proto::{EntityView, ErrorCode, Intent, ModelAnswer, ModelToolCall, Phase, SessionEvent, Usage};
use serde_json::json;

/// The model answers with a call to go on with, having used that many tokens.
fn spend(world: &mut World, tokens: u64) {
    let call = ModelToolCall { id: String::new(), name: "note".to_owned(), arguments: String::new() };
    let answer = ModelAnswer {
        text: "On.".to_owned(),
        usage: Usage { input_tokens: tokens - 1, output_tokens: 1, cached_input_tokens: 0 },
        calls: vec![call],
        ..ModelAnswer::default()
    };
    let arguments = json!({"key": "n", "value": world.state.seq.to_string()});
    let calls =
        vec![baton_core::ProposedCall { tool: "note".to_owned(), written: arguments.to_string(), arguments: Ok(arguments), fetched: None }];
    world.model_ended(ModelOutcome::Answered { model: "test-model".to_owned(), answer, calls });
}

#[test]
fn r4_a_task_pauses_at_its_budget_and_is_given_as_much_again() {
    let mut world = World::asked("work");
    world.budgets = Budgets { task: Some(1000), ..Budgets::default() };
    spend(&mut world, 600);
    assert!(world.asked_model().is_some(), "there is something left");
    spend(&mut world, 500);
    assert!(world.asked_model().is_none() && world.phase() == Phase::Paused, "it is used up");
    let told = summary(&world.state);
    assert!(told.line.contains("budget of 1000 tokens"), "{}", told.line);
    let counted = entities(&world.state).into_iter().find_map(|entity| match entity {
        EntityView::Task(task) => Some(task.usage.total()),
        _ => None,
    });
    assert_eq!((counted, told.usage.iter().map(|day| day.usage.total()).sum()), (Some(1100), 1100));

    world.op("phone", Intent::Resume { task_id: None }).unwrap();
    assert!(world.asked_model().is_some(), "it goes on");
    spend(&mut world, 900);
    assert!(world.asked_model().is_some(), "with as much again");
    spend(&mut world, 100);
    assert_eq!(world.phase(), Phase::Paused);
    world.say("phone", "go on").unwrap();
    assert!(world.asked_model().is_some(), "a word does as well");
    assert_eq!(world.count(|event| matches!(event, SessionEvent::BudgetExtended { task_id: Some(_), day: None })), 2);
}

#[test]
fn r4_beyond_the_days_budget_nothing_begins_or_goes_on_unconfirmed() {
    let mut world = World::asked("work");
    world.budgets = Budgets { day: Some(5000), spent_today: 4999, task: None };
    spend(&mut world, 10);
    world.budgets.spent_today = 5009;
    assert!(world.asked_model().is_some(), "what was begun within the budget is answered");
    spend(&mut world, 10);
    assert_eq!((world.asked_model(), world.phase()), (None, Phase::Paused));

    let before = world.state.seq;
    for intent in [
        say("more"),
        Intent::Resume { task_id: None },
        Intent::NewTask { title: "t".into(), description: String::new(), acceptance: Vec::new() },
    ] {
        assert_eq!(code(&world.op("phone", intent)), Some(ErrorCode::NeedsConfirmation));
    }
    assert_eq!(world.state.seq, before, "and nothing was changed");
    assert_eq!(code(&world.op("phone", say("/show a.css"))), None, "a slash command costs nothing");
    world.perform("read_file");

    world.op_with("phone", say("more"), |operation| operation.confirmed = true).unwrap();
    spend(&mut world, 10);
    assert!(world.asked_model().is_some(), "confirmed once, it holds for the day");
    world.answer("Done.", &[]);
    assert_eq!(code(&world.op("phone", say("and more"))), None);
    world.answer("Done.", &[]);
    world.tick(24 * 60 * 60 * 1000);
    assert_eq!(code(&world.op("phone", say("tomorrow"))), Some(ErrorCode::NeedsConfirmation), "and for that day only");
}
