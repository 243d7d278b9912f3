//! What people and models read of one conversation, in two languages, kept as it is said.

use crate::world::{World, result};
use baton_core::brief::brief;
use baton_proto::{Decision, Event, FileChange, Outcome, Risk, SessionEvent, ToolResult};
use serde_json::json;

/// The conversation: a value is set, a contrast is checked, a command is approved.
fn conversation(said: &str, titles: [&str; 2], conclusion: &str) -> World {
    let mut world = World::asked(said);
    world.answer(
        "",
        &[(
            "set_plan",
            json!({"steps": [{"id": "radius", "title": titles[0]}, {"id": "contrast", "title": titles[1], "depends_on": ["radius"]}]}),
        )],
    );
    world.answer("", &[("start_step", json!({"step_id": "radius"})), ("read_file", json!({"path": "home.css"}))]);
    world.start("read_file");
    world.end("read_file", Outcome::Succeeded(result(".btn { border-radius: 4px }")));
    world.answer("", &[("edit_file", json!({"path": "home.css", "old_text": "4px", "new_text": "8px"}))]);
    world.start("edit_file");
    let change = FileChange { path: "home.css".to_owned(), before: None, after: None, added: 1, removed: 1 };
    world.end("edit_file", Outcome::Succeeded(ToolResult { changes: vec![change], ..result("1 place changed") }));
    world.answer(
        "",
        &[
            ("record_fact", json!({"key": "button.radius", "value": "8px", "source": "the user"})),
            ("finish_step", json!({"step_id": "radius", "conclusion": conclusion, "product": "home.css"})),
            ("start_step", json!({"step_id": "contrast"})),
        ],
    );
    world.answer("", &[("run_command", json!({"argv": ["node", "contrast.js", "--dark"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    world
}

fn english() -> World {
    conversation(
        "set the home page button's corner radius to 8px, and check whether the contrast is good enough in dark mode",
        ["Set the radius to 8px", "Check the contrast in dark mode"],
        "The radius is 8px.",
    )
}

fn chinese() -> World {
    conversation("把首页按钮的圆角改成 8px,并检查深色模式下的对比度是否足够", ["把圆角改成 8px", "检查深色模式的对比度"], "圆角已是 8px。")
}

/// One line an event, with the words that matter.
fn lines(log: &[Event]) -> String {
    let line = |event: &Event| {
        let name = baton_proto::EventBody::name(&event.body);
        match &event.body {
            SessionEvent::MessageAdded { role, text, .. } => format!("{name} {role:?}: {text}"),
            SessionEvent::SessionTitled { title, .. } => format!("{name}: {title}"),
            SessionEvent::TaskPhaseChanged { from, to, .. } => format!("{name}: {from:?} → {to:?}"),
            SessionEvent::TaskProgressed { progress, line, .. } => format!("{name}: {progress} % {line}"),
            SessionEvent::ModelStarted { attempt, iteration, cause, .. } => format!("{name}: {iteration}.{attempt} {cause:?}"),
            SessionEvent::ToolProposed { tool, arguments, .. } => format!("{name}: {tool} {arguments}"),
            SessionEvent::ToolSucceeded { result, .. } => format!("{name}: {}", result.content),
            SessionEvent::ToolFailed { error, .. } => format!("{name}: {}", error.code),
            SessionEvent::ApprovalDecided { decision, by, .. } => format!("{name}: {decision:?} on {}", by.name),
            SessionEvent::StepFinished { step_id, conclusion, .. } => format!("{name}: {step_id}: {conclusion}"),
            SessionEvent::FactRecorded { key, value, .. } => format!("{name}: {key} = {value}"),
            _ => name.to_owned(),
        }
    };
    log.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_brief_in_two_languages() {
    insta::assert_snapshot!("brief_en", brief(&english().state).text);
    insta::assert_snapshot!("brief_zh", brief(&chinese().state).text);
}

#[test]
fn a_system_prompt_in_two_languages() {
    insta::assert_snapshot!("system_en", english().request().system);
    insta::assert_snapshot!("system_zh", chinese().request().system);
}

#[test]
fn an_event_stream_in_two_languages() {
    for (name, mut world, answer) in
        [("events_en", english(), "The contrast is 4.6 to 1, which is enough."), ("events_zh", chinese(), "对比度为 4.6:1,足够。")]
    {
        world.confirm("phone", world.approval(), Decision::Approve).unwrap();
        world.perform("run_command");
        world.answer("", &[("finish_step", json!({"step_id": "contrast", "conclusion": "4.6:1"}))]);
        world.answer("", &[("finish_task", json!({"summary": answer}))]);
        insta::assert_snapshot!(name, lines(&world.log));
    }
}
