//! Sizes that hold whatever the length of the history and of what is in it (H2, H4, C36). That an event's payload stays within 64 KiB is the
//! runtime's to see to, since results and answers come in through it.

use crate::strict;
use crate::world::{World, baseline, id, succeeded};
use baton_core::dialogue::Spoken;
use baton_core::{brief, prompt, snapshot};
use baton_proto::{
    Capabilities, EntityView, Intent, MAX_BRIEF_BYTES, MAX_SNAPSHOT_BYTES, MessageEntity, MessageId, ModelRequest, Role, Selection,
    Snapshot, WaitingOn,
};
use serde_json::json;

/// Texts that are large in different ways: in bytes, in characters of three bytes, and in what JSON makes of them.
const FILLERS: [(&str, &str); 3] = [("en", "word "), ("zh", "圆角对比度"), ("control", "\u{1}\u{2}\"\\")];

fn long(filler: &str, bytes: usize) -> String {
    let mut text = filler.repeat(bytes / filler.len());
    text.insert(0, 'x');
    text
}

/// A session with everything in it that grows.
fn crowded(filler: &str) -> World {
    let mut world = World::empty();
    world.checks = false;
    world.around.workspaces[0].baseline.path = format!("/{}", "very-long/".repeat(300));
    world.op("phone", Intent::NewSession { title: None, workspace: None }).unwrap();
    for n in 0..3 {
        let description = long(filler, 8000);
        let acceptance = (0..20).map(|_| long(filler, 900)).collect();
        world.op("phone", Intent::NewTask { title: format!("task {n}"), description, acceptance }).unwrap();
        if n < 2 {
            world.op("phone", Intent::Pause { task_id: None }).unwrap();
        }
    }
    let steps: Vec<_> = (0..30).map(|n| json!({"id": format!("s{n}"), "title": long(filler, 180)})).collect();
    world.answer("", &[("set_plan", json!({"steps": steps}))]);
    for n in 0..15 {
        let finished = json!({
            "step_id": format!("s{n}"), "conclusion": long(filler, 2900), "evidence": long(filler, 2900), "product": long(filler, 1100),
        });
        let fact = json!({"key": format!("fact.{n}"), "value": long(filler, 2900), "source": long(filler, 190)});
        world.answer(&long(filler, 3000), &[("finish_step", finished), ("record_fact", fact)]);
    }
    for n in 0..12 {
        world.op("phone", Intent::SetNote { key: format!("note {n}"), value: long(filler, 4000) }).unwrap();
    }
    let huge = |n: usize| json!({"n": n, "old_text": long(filler, 7_000), "new_text": long(filler, 7_000)});
    let mut calls = vec![
        ("ask_user", json!({"question": long(filler, 2900), "options": (0..8).map(|_| long(filler, 350)).collect::<Vec<_>>()})),
        ("send_payment", json!({"memo": long(filler, 3000)})),
    ];
    calls.extend((1..6).map(|n| ("format_file", huge(n))));
    world.checks = true;
    world.answer(&long(filler, 3000), &calls);
    world
}

fn message(n: u64, text: String) -> EntityView {
    EntityView::Message(MessageEntity {
        id: MessageId(uuid::Uuid::from_u128(u128::from(n))),
        version: n,
        created_seq: n,
        role: Role::User,
        text: text.clone(),
        thinking: Some(text.clone()),
        turn_id: None,
        task_id: None,
        sender: None,
        selection: Some(Selection { path: "a.css".to_owned(), range: (1, 2), text }),
        attachments: Vec::new(),
        at: baton_proto::Timestamp(0),
    })
}

fn bytes<T: serde::Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).unwrap().len()
}

#[test]
fn a_snapshot_stays_within_its_bound_and_counts_what_it_leaves_out() {
    for (name, filler) in FILLERS {
        let world = crowded(filler);
        let mut timeline: Vec<_> = (0..10_000).map(|n| message(n, long(filler, 600))).collect();
        if let Some(EntityView::Message(last)) = timeline.last_mut() {
            last.selection = Some(Selection { path: "a.css".to_owned(), range: (1, 900), text: long(filler, 30_000) });
        }
        let features = (0..10_000).map(|n| format!("feature {n}")).collect();
        let capabilities = Capabilities { features, ..Capabilities::default() };
        let taken = snapshot::snapshot(&world.state, &timeline, capabilities, world.now);
        let size = bytes(&taken);
        assert!(size <= MAX_SNAPSHOT_BYTES, "{name}: {size} bytes");
        let back: Snapshot = serde_json::from_slice(&serde_json::to_vec(&taken).unwrap()).unwrap();
        assert_eq!(back, taken, "{name}");
        // What waits for the user, the task that is worked on and some dialogue are there whatever else is.
        assert_eq!((taken.state.approvals.len(), taken.state.questions.len()), (1, 1), "{name}");
        assert!(!taken.state.dialogue_history.is_empty(), "{name}");
        assert!(taken.state.tasks.contains_key(&world.state.active_task().unwrap().id), "{name}");
        assert!(!taken.state.facts.is_empty() && !taken.state.short_term_memory.is_empty() && !taken.state.tool_state.is_empty(), "{name}");
        let left = taken.omitted["dialogue_history"].count;
        assert_eq!(left + taken.state.dialogue_history.len() as u64, 10_000, "{name}: what is left out is counted");
        let EntityView::Message(last) = taken.state.dialogue_history.last().unwrap() else { panic!("a message") };
        assert_eq!(last.version, 9_999, "{name}: the latest is kept, whatever was selected with it");
    }
}

#[test]
fn a_call_in_flight_is_in_the_snapshot_however_long_the_dialogue_went_on() {
    let mut world = World::calling(&[("ring_bell", json!({}))]);
    world.start("ring_bell");
    let timeline: Vec<_> = (0..100).map(|n| message(n, "hello".to_owned())).collect();
    let taken = snapshot::snapshot(&world.state, &timeline, Capabilities::default(), world.now);
    assert_eq!(taken.state.tool_state.len(), 1);
    assert_eq!(taken.state.tool_state[0].id(), world.call("ring_bell").id.to_string());
}

#[test]
fn a_brief_stays_within_its_bound_and_keeps_its_end() {
    for (name, filler) in FILLERS {
        let world = crowded(filler);
        let made = brief::brief(&world.state);
        let size = bytes(&made);
        assert!(size <= MAX_BRIEF_BYTES, "{name}: {size} bytes");
        assert!(!made.goal.is_empty() && made.next_step.is_some() && !made.completed_steps.is_empty(), "{name}");
        assert!(matches!(made.waiting_on, Some(WaitingOn::Approval { .. })), "{name}");
        assert!(made.text.contains("Waiting for") || made.text.contains("等待"), "{name}: {}", made.text);
        assert!(made.text.lines().count() >= 4, "{name}: {}", made.text);
    }
}

fn prompt_bytes(request: &ModelRequest) -> (usize, usize) {
    (request.system.len(), bytes(&request.messages))
}

#[test]
fn c36_a_request_is_as_large_after_ten_thousand_messages_as_after_a_hundred() {
    let long_dialogue = |count: usize| -> Vec<Spoken> {
        let all = (0..count).map(|n| Spoken::User {
            message_id: MessageId(uuid::Uuid::from_u128(n as u128)),
            text: format!("message {n:05} {}", "word ".repeat(60)),
            selection: None,
            attachments: Vec::new(),
            at: baton_proto::Timestamp(0),
        });
        let answers = (0..count).map(|n| Spoken::Agent { text: format!("answer {n:05} {}", "word ".repeat(60)), calls: Vec::new() });
        all.zip(answers).flat_map(|(one, other)| [one, other]).collect()
    };
    let mut world = World::asked("work");
    let at = world.context(None);
    let short = prompt::assemble(&world.state, &long_dialogue(100), &at);
    let long = prompt::assemble(&world.state, &long_dialogue(10_000), &at);
    assert_eq!(prompt_bytes(&short), prompt_bytes(&long));
    strict::check(&long).unwrap();
    assert!(prompt_bytes(&long).1 < 40 * 1024, "{:?}", prompt_bytes(&long));
}

#[test]
fn a_request_stays_bounded_whatever_is_in_the_session() {
    for (name, filler) in FILLERS {
        let mut world = crowded(filler);
        let request = world.request();
        strict::check(&request).unwrap();
        assert!(request.system.len() < 48 * 1024, "{name}: {} bytes of system prompt", request.system.len());
        // Sixteen results of full size in one answer, and many long messages in a row.
        let mut world = World::calling(&(0..16).map(|n| ("read_file", json!({"path": n.to_string()}))).collect::<Vec<_>>());
        let ids: Vec<_> = world.state.calls.keys().copied().collect();
        for call_id in ids {
            let outcome = succeeded(&long(filler, 16_000));
            world.run(None, &baton_core::Command::ToolResult { call_id, attempt: 1, device: id("laptop"), outcome }).unwrap();
        }
        let full = world.request();
        let sum: usize = full
            .messages
            .iter()
            .map(|message| match message {
                baton_proto::ModelMessage::Result { text, .. } => text.len(),
                _ => 0,
            })
            .sum();
        assert!(sum < 32 * 1024, "{name}: {sum} bytes of results");
        for n in 0..26 {
            world.say("phone", &format!("{n} {}", long(filler, 7_000))).unwrap();
        }
        let request = world.request();
        strict::check(&request).unwrap();
        let last = request.messages.iter().rev().find_map(|message| match message {
            baton_proto::ModelMessage::User { text, .. } => Some(text),
            _ => None,
        });
        let last = last.unwrap();
        assert!(last.len() < 64 * 1024 && last.contains("\n25 ") | last.starts_with("25 "), "{name}: {} bytes", last.len());
        assert!(last.contains("earlier messages are left out"), "{name}: it says so");
    }
}

#[test]
fn one_result_of_full_size_is_given_whole() {
    let mut world = World::calling(&[("read_file", json!({"path": "a"}))]);
    let whole = long("word ", 16 * 1024 - 10);
    world.start("read_file");
    world.end("read_file", succeeded(&whole));
    let given =
        world.request().messages.iter().any(|message| matches!(message, baton_proto::ModelMessage::Result { text, .. } if *text == whole));
    assert!(given);
}

#[test]
fn the_state_does_not_grow_with_the_history() {
    let mut sizes = Vec::new();
    let mut world = World::new();
    for n in 0..60 {
        world.say("phone", &format!("request {n}")).unwrap();
        world.answer("", &[("record_fact", json!({"key": "latest", "value": n.to_string()})), ("read_file", json!({"path": "a"}))]);
        world.perform("read_file");
        world
            .run(
                None,
                &baton_core::Command::WorkspaceSeen { baseline: baseline(&format!("{n:040}")), files: Vec::new(), files_left_out: 0 },
            )
            .unwrap();
        world.answer("done", &[]);
        sizes.push(bytes(&world.state));
    }
    assert!(sizes[59] < sizes[30] + 400, "from {} to {} bytes", sizes[30], sizes[59]);
}

#[test]
fn e9_a_secret_that_was_said_stays_out_of_snapshot_brief_and_title() {
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let mut world = World::asked(&format!("push with {secret}"));
    world.answer("", &[("record_fact", json!({"key": "token", "value": secret})), ("note", json!({"key": "n", "value": secret}))]);
    world.answer(&format!("I use {secret}."), &[("send_payment", json!({"amount": 5, "with": secret}))]);
    let shown: Vec<_> = world.log.iter().flat_map(|event| baton_core::upserts(&world.state, event)).collect();
    let snapshot = snapshot::snapshot(&world.state, &shown, Capabilities::default(), world.now);
    let text = serde_json::to_string(&snapshot).unwrap();
    assert!(!text.contains(secret) && text.matches("[token not shown]").count() >= 4, "{text}");
    assert_eq!(world.state.title, "push with [token not shown]");
    assert!(world.request().messages.iter().any(|message| format!("{message:?}").contains(secret)), "the model is told what the user said");
}
