//! What the model of a world does: pieces of work of several kinds, in both languages, and tools that act on the world outside.
//! An answer is a pure function of the request, so that asking again leads to the same work.

use super::plan::ModelTrouble;
use baton_proto::{Effect, ModelAnswer, ModelMessage, ModelRequest, ModelToolCall, Risk, ToolSpec};
use serde_json::{Value, json};

/// Kinds of work there are.
pub(crate) const KINDS: usize = 7;
/// The kind that needs no device.
pub(crate) const TALK: usize = 6;

/// What the user says to begin a piece of work; `#kind-tag` tells the model which.
pub(crate) fn request(kind: usize, tag: &str) -> String {
    let words = match kind {
        0 => "Round the corners of the buttons and check it.",
        1 => "给妈妈和老师各发一条消息，说我晚点到。",
        2 => "Pay the electricity bill; ask me from which account.",
        3 => "把三个文件写好，然后读一遍。",
        4 => "Write two entries into the log and ring the bell.",
        5 => "订一张去上海的票，按步骤来。",
        _ => "What do you think of it?",
    };
    format!("{words} #{kind}-{tag}")
}

/// The steps of a piece of work: the calls of one answer each.
fn steps(kind: usize, tag: &str) -> Vec<Vec<(&'static str, Value)>> {
    let t = |part: &str| format!("{tag}.{part}");
    let finish = || vec![("finish_task", json!({"summary": "It is done."}))];
    match kind {
        0 => vec![
            vec![("read_file", json!({"path": t("css")}))],
            vec![("edit_file", json!({"path": t("css"), "text": "8px"}))],
            vec![("read_file", json!({"path": t("css"), "part": "again"})), ("ring_bell", json!({"tag": t("checked")}))],
            finish(),
        ],
        1 => vec![
            vec![
                ("send_message", json!({"tag": t("mother"), "text": "我晚点到"})),
                ("send_message", json!({"tag": t("teacher"), "text": "我晚点到"})),
            ],
            finish(),
        ],
        2 => vec![
            vec![("ask_user", json!({"question": "From which account?", "options": ["main", "savings"]}))],
            vec![("pay", json!({"tag": t("bill"), "amount": 42}))],
            finish(),
        ],
        3 => vec![
            ["a", "b", "c"].iter().map(|name| ("write_file", json!({"path": t(name), "text": format!("{name} 好")}))).collect(),
            vec![("read_file", json!({"path": t("a")}))],
            finish(),
        ],
        4 => vec![
            vec![
                ("log_entry", json!({"tag": t("one")})),
                ("log_entry", json!({"tag": t("two")})),
                ("ring_bell", json!({"tag": t("bell")})),
            ],
            finish(),
        ],
        5 => vec![
            vec![(
                "set_plan",
                json!({"steps": [{"id": "book", "title": "订票"}, {"id": "tell", "title": "通知", "depends_on": ["book"]}]}),
            )],
            vec![("start_step", json!({"step_id": "book"})), ("log_entry", json!({"tag": t("ticket")}))],
            vec![("finish_step", json!({"step_id": "book", "conclusion": "订好了"})), ("start_step", json!({"step_id": "tell"}))],
            vec![("send_message", json!({"tag": t("told"), "text": "票订好了"}))],
            vec![
                ("finish_step", json!({"step_id": "tell", "conclusion": "说了"})),
                ("record_fact", json!({"key": t("seat"), "value": "12A", "scope": "task"})),
            ],
            finish(),
        ],
        _ => Vec::new(),
    }
}

/// The tags and paths that a piece of work leaves in the world outside.
pub(crate) fn marks(kind: usize, tag: &str) -> Vec<String> {
    let acting = |tool: &str| ["edit_file", "write_file", "send_message", "pay", "log_entry", "ring_bell"].contains(&tool);
    let mark = |arguments: &Value| arguments.get("tag").or_else(|| arguments.get("path")).and_then(Value::as_str).map(str::to_owned);
    steps(kind, tag).into_iter().flatten().filter(|(tool, _)| acting(tool)).filter_map(|(_, arguments)| mark(&arguments)).collect()
}

/// Results that mean that nothing was even tried, so that the step is still to be taken.
const NOT_TAKEN: [&str; 4] = ["error unknown_tool", "error invalid_arguments", "error repeated_call", "error too_late"];

pub(crate) fn answer(request: &ModelRequest, trouble: Option<ModelTrouble>) -> ModelAnswer {
    let mut calls = match trouble {
        Some(ModelTrouble::BadArguments) => vec![("edit_file".to_owned(), "{\"path\": \"x\", \"text\": nonsense".to_owned())],
        Some(ModelTrouble::UnknownTool) => vec![("make_coffee".to_owned(), "{}".to_owned())],
        Some(ModelTrouble::Repeats) => vec![("read_file".to_owned(), json!({"path": "same", "noise": true}).to_string()); 2],
        _ => Vec::new(),
    };
    if calls.is_empty() {
        calls = next_step(&request.messages).into_iter().map(|(tool, arguments)| (tool.to_owned(), arguments.to_string())).collect();
    }
    let text = if calls.is_empty() { "That is all. 就这些。" } else { "I go on." };
    let calls = calls
        .into_iter()
        .enumerate()
        .map(|(place, (name, arguments))| ModelToolCall { id: format!("c{place}"), name, arguments })
        .collect();
    ModelAnswer { text: text.to_owned(), calls, ..ModelAnswer::default() }
}

/// The calls of the first step that hasn't been taken since the work was asked for.
fn next_step(messages: &[ModelMessage]) -> Vec<(&'static str, Value)> {
    let named = messages.iter().enumerate().rev().find_map(|(place, message)| match message {
        ModelMessage::User { text, .. } => mark_in(text).map(|mark| (place, mark)),
        _ => None,
    });
    let Some((place, (kind, tag))) = named else { return Vec::new() };
    let mut taken = 0;
    let mut counted = true;
    for message in &messages[place + 1..] {
        match message {
            ModelMessage::Agent { calls, .. } => counted = calls.is_empty(),
            ModelMessage::Result { text, tool, .. } => {
                let noise = tool == "make_coffee" || NOT_TAKEN.iter().any(|start| text.starts_with(start)) || text.starts_with("noise");
                if !counted && !noise {
                    counted = true;
                    taken += 1;
                }
            }
            ModelMessage::User { .. } => {}
        }
    }
    steps(kind, &tag).into_iter().nth(taken).unwrap_or_default()
}

fn mark_in(text: &str) -> Option<(usize, String)> {
    let mark = text.rsplit('#').next().filter(|_| text.contains('#'))?;
    let (kind, rest) = mark.split_once('-')?;
    let tag: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    Some((kind.parse().ok()?, tag))
}

/// Tools of each kind of effect.
pub(crate) fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, properties: Value, effect, risk, prepare, lookup| ToolSpec {
        name: name.to_owned(),
        description: format!("Simulated: {name}."),
        parameters: json!({"type": "object", "properties": properties}),
        effect,
        risk,
        prepare,
        lookup,
        lasting: effect == Effect::Once && !lookup,
        timeout_s: 30,
    };
    let tag = || json!({"tag": {"type": "string"}, "text": {"type": "string"}, "amount": {"type": "integer"}});
    let path = || json!({"path": {"type": "string"}, "text": {"type": "string"}, "part": {"type": "string"}, "noise": {"type": "boolean"}});
    vec![
        tool("read_file", path(), Effect::Read, Risk::Safe, false, false),
        tool("write_file", path(), Effect::Idempotent, Risk::Safe, false, false),
        tool("edit_file", path(), Effect::Idempotent, Risk::Sensitive, true, false),
        tool("log_entry", tag(), Effect::Once, Risk::Safe, false, true),
        tool("ring_bell", tag(), Effect::Once, Risk::Safe, false, false),
        tool("send_message", tag(), Effect::Once, Risk::Sensitive, false, false),
        tool("pay", tag(), Effect::Once, Risk::Dangerous, true, true),
    ]
}
