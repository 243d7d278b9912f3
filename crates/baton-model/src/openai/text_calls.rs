//! Calls that a model writes as text because it, or its server, knows no better: fenced JSON, `<tool_call>` tags, or bare
//! JSON. Conservative: an answer counts as a call only if it is nothing else and names a tool that was offered. Pure.

use crate::arguments;
use serde_json::{Map, Value};

/// Longer texts are answers, not calls.
const MAX_HELD_BYTES: usize = baton_proto::MAX_ARGUMENTS_BYTES + 1024;
const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const FENCE: &str = "```";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextCalls {
    /// What the model said before a `<tool_call>`.
    pub(crate) prose: String,
    pub(crate) calls: Vec<TextCall>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextCall {
    pub(crate) name: String,
    /// As written, which may not be JSON.
    pub(crate) arguments: String,
}

/// Whether a text that is still being written may turn out to be a call, so that it isn't shown yet.
pub(crate) fn may_become_call(text: &str) -> bool {
    let begun = text.trim_start();
    if begun.len() > MAX_HELD_BYTES {
        return false;
    }
    let opens_json = |rest: &str| {
        let rest = rest.trim_start();
        let behind = rest.strip_prefix('[').map_or(rest, str::trim_start);
        behind.is_empty() || behind.starts_with('{')
    };
    if OPEN.starts_with(begun) || begun.starts_with(OPEN) || FENCE.starts_with(begun) {
        return true;
    }
    match begun.strip_prefix(FENCE) {
        Some(fenced) => {
            let (language, rest) = after_language(fenced);
            let may_be_json = if rest.is_empty() { LANGUAGES.iter().any(|known| known.starts_with(language)) } else { is_json(language) };
            may_be_json && opens_json(rest)
        }
        None => opens_json(begun),
    }
}

/// The calls that a finished text consists of.
pub(crate) fn find(text: &str, offered: &[String]) -> Option<TextCalls> {
    let text = text.trim();
    if offered.is_empty() || text.is_empty() {
        return None;
    }
    let (prose, bodies) = if let Some(place) = text.find(OPEN) {
        (&text[..place], tagged(&text[place..])?)
    } else if text.starts_with(FENCE) {
        ("", fenced(text)?)
    } else {
        ("", vec![text])
    };
    let calls = bodies.into_iter().map(|body| read(body, offered)).collect::<Option<Vec<_>>>()?.concat();
    (!calls.is_empty()).then(|| TextCalls { prose: prose.trim_end().to_owned(), calls })
}

const LANGUAGES: [&str; 3] = ["json", "tool_call", "tool_code"];

fn is_json(language: &str) -> bool {
    language.is_empty() || LANGUAGES.contains(&language)
}

fn after_language(fenced: &str) -> (&str, &str) {
    let end = fenced.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(fenced.len());
    fenced.split_at(end)
}

/// Bodies of consecutive `<tool_call>` tags. The last may be unclosed: some servers swallow the closing tag.
fn tagged(mut rest: &str) -> Option<Vec<&str>> {
    let mut bodies = Vec::new();
    while !rest.is_empty() {
        let body = rest.strip_prefix(OPEN)?;
        let (body, behind) = body.split_once(CLOSE).unwrap_or((body, ""));
        bodies.push(body.trim());
        rest = behind.trim_start();
    }
    Some(bodies)
}

/// Bodies of consecutive fences of JSON. A fence closes at a line's start, since JSON has no line breaks in strings.
fn fenced(mut rest: &str) -> Option<Vec<&str>> {
    let mut bodies = Vec::new();
    while !rest.is_empty() {
        let (language, body) = after_language(rest.strip_prefix(FENCE)?);
        if !is_json(language) {
            return None;
        }
        let (body, behind) = match body.split_once("\n```") {
            Some(parts) => parts,
            None => (body.trim_end().trim_end_matches('`'), ""),
        };
        bodies.push(body.trim());
        rest = behind.trim_start();
    }
    Some(bodies)
}

/// The calls of one body: one object, several in a row, or a list of them.
fn read(body: &str, offered: &[String]) -> Option<Vec<TextCall>> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(body).into_iter().collect();
    let Ok(values) = values else {
        return read_broken(body, offered).map(|call| vec![call]);
    };
    let listed = values.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        other => vec![other],
    });
    listed.map(|value| call(value, offered)).collect()
}

fn call(value: Value, offered: &[String]) -> Option<TextCall> {
    let Value::Object(mut fields) = value else { return None };
    if let Some(Value::Object(inner)) = fields.remove("function") {
        only(&fields, &["id", "type"])?;
        fields = inner;
    }
    let arguments = fields.remove("arguments").or_else(|| fields.remove("parameters"))?;
    let name = fields.remove("name")?;
    only(&fields, &["id", "type"])?;
    let name = name.as_str().filter(|name| offered.iter().any(|tool| tool == name))?.to_owned();
    let arguments = match arguments {
        Value::Object(_) => arguments.to_string(),
        Value::String(raw) => raw,
        Value::Null => "{}".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    Some(TextCall { name, arguments })
}

fn only(fields: &Map<String, Value>, allowed: &[&str]) -> Option<()> {
    fields.keys().all(|name| allowed.contains(&name.as_str())).then_some(())
}

/// A call that isn't quite JSON. The name is taken from the repaired text, the arguments as they were written, so that
/// what the repair changes in them is judged where all arguments are.
fn read_broken(body: &str, offered: &[String]) -> Option<TextCall> {
    let (value, _) = arguments::repair(body)?;
    let name = call(value, offered)?.name;
    let raw = ["\"arguments\"", "\"parameters\""].iter().find_map(|key| body.split_once(key))?.1;
    let raw = raw.trim_start().strip_prefix(':')?.trim();
    if !raw.starts_with('{') {
        return None;
    }
    let is_object = serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_object());
    // The last brace closes the call itself, unless the model forgot it.
    let raw = if is_object { raw } else { raw.rfind('}').map_or(raw, |end| raw[..end].trim_end()) };
    Some(TextCall { name, arguments: raw.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let offered = ["read_file".to_owned(), "run_command".to_owned()];
        match find(text, &offered) {
            None => "text".to_owned(),
            Some(found) => {
                let calls: Vec<_> = found.calls.iter().map(|call| format!("{}{}", call.name, call.arguments)).collect();
                format!("{}|{}", found.prose, calls.join(";"))
            }
        }
    }

    #[test]
    fn calls() {
        for (text, expected) in [
            ("```json\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}}\n```", "|read_file{\"path\":\"a\"}"),
            ("\n```\n{\"name\":\"read_file\",\"parameters\":{}}\n```\n", "|read_file{}"),
            ("```json {\"name\":\"read_file\",\"arguments\":{}}```", "|read_file{}"),
            ("```json\n{\"name\":\"read_file\",\"arguments\":{}}", "|read_file{}"),
            ("{\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"a\\\"}\"}", "|read_file{\"path\":\"a\"}"),
            ("{\"type\":\"function\",\"function\":{\"name\":\"read_file\",\"arguments\":{}}}", "|read_file{}"),
            ("[{\"name\":\"read_file\",\"arguments\":{}},{\"name\":\"run_command\",\"arguments\":null}]", "|read_file{};run_command{}"),
            (
                "```json\n{\"name\":\"read_file\",\"arguments\":{}}\n{\"name\":\"run_command\",\"arguments\":{}}\n```",
                "|read_file{};run_command{}",
            ),
            (
                "```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```\n```json\n{\"name\":\"run_command\",\"arguments\":{}}\n```",
                "|read_file{};run_command{}",
            ),
            ("<tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call>", "|read_file{}"),
            (
                "I look.\n<tool_call>\n{\"name\":\"read_file\",\"arguments\":{}}\n</tool_call>\n<tool_call>{\"name\":\"run_command\",\"arguments\":{}}",
                "I look.|read_file{};run_command{}",
            ),
            // Not quite JSON: the arguments stay as they were written.
            (
                "```json\n{\"name\": \"run_command\", \"arguments\": {\"command\": \"grep \\d+\"}}\n```",
                "|run_command{\"command\": \"grep \\d+\"}",
            ),
            ("{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\"}", "|read_file{\"path\": \"a\"}"),
            ("{\"name\": \"read_file\", \"arguments\": {\"path\": \"a\",}}", "|read_file{\"path\": \"a\",}"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_that_stay_texts() {
        for text in [
            "",
            "hello",
            "{\"name\":\"read_file\"}",
            "{\"name\":\"other_tool\",\"arguments\":{}}",
            "{\"name\":\"read_file\",\"arguments\":{},\"age\":3}",
            "{\"name\":\"read_file\",\"arguments\":[1]}",
            "{\"name\":\"Anna\",\"age\":3}",
            "[1, 2]",
            "[]",
            "```rust\nfn main() {}\n```",
            "```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```\nThis is how one would call it.",
            "One calls it so:\n```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```",
            "```python\n{\"name\":\"read_file\",\"arguments\":{}}\n```",
            "<tool_call>{\"name\":\"read_file\",\"arguments\":{}}</tool_call> is the format.",
            "Tags such as <tool_call> begin a call.",
            "```json\n{\"name\":\"read_file\",\"arguments\":{}}\n```\n```json\n{\"a\":1}\n```",
        ] {
            assert_eq!(found(text), "text", "{text}");
        }
        assert_eq!(find("{\"name\":\"read_file\",\"arguments\":{}}", &[]), None);
    }

    #[test]
    fn what_is_held_back() {
        for (text, held) in [
            ("", true),
            (" \n", true),
            ("`", true),
            ("```", true),
            ("```js", true),
            ("```json\n", true),
            ("```json\n{\"na", true),
            ("```\n[ {", true),
            ("<tool", true),
            ("<tool_call>{", true),
            ("{\"name\"", true),
            ("[", true),
            ("[link](", false),
            ("`code`", false),
            ("```rust", false),
            ("```js\n", false),
            ("```json\nfoo", false),
            ("<table>", false),
            ("Hello", false),
        ] {
            assert_eq!(may_become_call(text), held, "{text:?}");
        }
        assert!(!may_become_call(&format!("{{{}", "x".repeat(MAX_HELD_BYTES))));
    }
}
