//! The script: rules as they are written in a file, and which of them answers a request. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The rules in order; the first that fits answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Script {
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Every condition has to hold. A rule without any fits every request.
    #[serde(default)]
    pub when: When,
    pub reply: Reply,
}

/// What a request must look like. Unknown names are refused, since a condition with a typing error would always hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The last user message contains all of these.
    pub last_user_contains: Words,
    /// Each of these stands in some user message.
    pub user_contains: Words,
    /// The system text contains all of these.
    pub system_contains: Words,
    /// The system text contains none of these.
    pub not_system_contains: Words,
    /// How many tool results follow the last user message.
    pub results: Option<usize>,
    /// The last tool result after the last user message contains all of these.
    pub last_result_contains: Words,
    /// The tool whose result came last after the last user message.
    pub last_tool: Option<String>,
}

/// One text or several, as is handier in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Words {
    One(String),
    All(Vec<String>),
}

impl Default for Words {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Words {
    fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::All(words) => words.as_slice(),
        }
        .iter()
        .map(String::as_str)
    }

    fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// What the model says. `{{last_result}}` in a text, and in a string of arguments, stands for the last tool result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reply {
    pub thinking: String,
    pub text: String,
    pub calls: Vec<ScriptedCall>,
    pub fault: Option<Fault>,
    /// A pause before each piece of a streamed answer, in milliseconds.
    pub delay_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub name: String,
    /// An object, or a string that is sent as it stands, for arguments that aren't JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// What goes wrong instead of an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The headers arrive, and then nothing more.
    Hang,
    /// Half of the answer arrives, and then nothing more.
    Stall,
    /// The connection breaks in the middle of the answer.
    Cut,
    /// The answer isn't JSON.
    Garbage,
    /// The answer is well formed and says nothing.
    Empty,
    /// Half of the answer arrives, and then word that the provider failed.
    Error,
    /// So many pieces of the answer arrive, and then the connection breaks.
    CutAfter(usize),
    #[serde(untagged)]
    Status {
        status: u16,
        /// In seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
        /// After this many faults the rule gives its normal reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<u32>,
    },
}

impl Script {
    /// Reads the rules of a script file.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The first rule that fits, with its place in the script.
    pub(super) fn answer(&self, dialogue: &Dialogue) -> Option<(usize, Reply)> {
        let (place, rule) = self.rules.iter().enumerate().find(|(_, rule)| rule.when.fits(dialogue))?;
        let mut reply = rule.reply.clone();
        let last = dialogue.results.last().map_or("", |result| result.text.as_str());
        reply.text = reply.text.replace(LAST_RESULT, last);
        for call in &mut reply.calls {
            fill(&mut call.arguments, last);
        }
        Some((place, reply))
    }
}

const LAST_RESULT: &str = "{{last_result}}";

fn fill(value: &mut Value, last_result: &str) {
    match value {
        Value::String(text) => *text = text.replace(LAST_RESULT, last_result),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, last_result)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, last_result)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl When {
    fn fits(&self, dialogue: &Dialogue) -> bool {
        let last_user = dialogue.users.last().map_or("", String::as_str);
        let last_result = dialogue.results.last();
        self.last_user_contains.iter().all(|word| last_user.contains(word))
            && self.user_contains.iter().all(|word| dialogue.users.iter().any(|text| text.contains(word)))
            && self.system_contains.iter().all(|word| dialogue.system.contains(word))
            && !self.not_system_contains.iter().any(|word| dialogue.system.contains(word))
            && self.results.is_none_or(|count| dialogue.results.len() == count)
            && (self.last_result_contains.is_empty()
                || last_result.is_some_and(|result| self.last_result_contains.iter().all(|word| result.text.contains(word))))
            && self.last_tool.as_ref().is_none_or(|tool| last_result.is_some_and(|result| result.tool == *tool))
    }
}

/// What the rules look at, taken from a request's messages.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    pub(super) system: String,
    pub(super) users: Vec<String>,
    /// Only those after the last user message.
    pub(super) results: Vec<ToolResult>,
    /// How many messages there are; call ids are made from it, so that they are the same for the same request.
    pub(super) length: usize,
}

#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) tool: String,
    pub(super) text: String,
}

impl Dialogue {
    pub(super) fn of(body: &Value) -> Self {
        let mut dialogue = Self::default();
        let mut names = std::collections::HashMap::new();
        for message in body["messages"].as_array().into_iter().flatten() {
            dialogue.length += 1;
            let text = content_text(&message["content"]);
            match message["role"].as_str() {
                Some("system" | "developer") => dialogue.system.push_str(&text),
                Some("user") => {
                    dialogue.users.push(text);
                    dialogue.results.clear();
                }
                Some("assistant") => {
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        if let (Some(id), Some(name)) = (call["id"].as_str(), call["function"]["name"].as_str()) {
                            names.insert(id.to_owned(), name.to_owned());
                        }
                    }
                }
                Some("tool") => {
                    let tool = message["tool_call_id"].as_str().and_then(|id| names.get(id)).cloned().unwrap_or_default();
                    dialogue.results.push(ToolResult { tool, text });
                }
                _ => {}
            }
        }
        dialogue
    }

    /// What is said when no rule fits: enough to see why, in the answer itself.
    pub(super) fn unmatched_text(&self) -> String {
        format!(
            "SCRIPT: no rule fits this request. Last user message: {:?}. Results since: {}. Last tool: {:?}. Last result: {:?}. System text: {} bytes.",
            self.users.last().map_or("", String::as_str),
            self.results.len(),
            self.results.last().map_or("", |result| result.tool.as_str()),
            self.results.last().map_or("", |result| result.text.as_str()),
            self.system.len(),
        )
    }
}

/// The text of a message's content, which is a string or a list of parts.
pub(super) fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dialogue() -> Dialogue {
        Dialogue::of(&json!({"messages": [
            {"role": "system", "content": "You are Baton. Step two."},
            {"role": "user", "content": "First we paint."},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": [{"type": "text", "text": "Now read notes.txt"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "milk and bread"},
        ]}))
    }

    #[test]
    fn conditions() {
        for (when, fits) in [
            (json!({}), true),
            (json!({"last_user_contains": "notes"}), true),
            (json!({"last_user_contains": "paint"}), false),
            (json!({"user_contains": ["paint", "notes"]}), true),
            (json!({"user_contains": ["paint", "absent"]}), false),
            (json!({"system_contains": ["Baton", "two"]}), true),
            (json!({"system_contains": ["three"]}), false),
            (json!({"not_system_contains": "three"}), true),
            (json!({"not_system_contains": ["three", "two"]}), false),
            (json!({"results": 1}), true),
            (json!({"results": 0}), false),
            (json!({"last_result_contains": "bread"}), true),
            (json!({"last_result_contains": "wine"}), false),
            (json!({"last_tool": "read_file"}), true),
            (json!({"last_tool": "write_file"}), false),
            (json!({"last_tool": "read_file", "results": 2}), false),
        ] {
            let parsed: When = serde_json::from_value(when.clone()).unwrap();
            assert_eq!(parsed.fits(&dialogue()), fits, "{when}");
        }
    }

    #[test]
    fn the_first_fitting_rule_answers_with_the_last_result() {
        let script = Script::parse(
            r#"[{"when": {"results": 0}, "reply": {"text": "none"}},
                {"reply": {"text": "It says: {{last_result}}.", "calls": [{"name": "write_file", "arguments": {"text": "{{last_result}}"}}]}},
                {"reply": {"text": "never"}}]"#,
        )
        .unwrap();
        let (place, reply) = script.answer(&dialogue()).unwrap();
        assert_eq!((place, reply.text.as_str()), (1, "It says: milk and bread."));
        assert_eq!(reply.calls[0].arguments, json!({"text": "milk and bread"}));
    }

    #[test]
    fn faults_as_written() {
        for text in [
            "\"hang\"",
            "\"stall\"",
            "\"cut\"",
            "\"garbage\"",
            "\"empty\"",
            "\"error\"",
            r#"{"cut_after":3}"#,
            r#"{"status":429,"retry_after":2,"times":1}"#,
            r#"{"status":500}"#,
        ] {
            let fault: Fault = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&fault).unwrap(), text);
        }
    }

    #[test]
    fn typing_errors_are_refused() {
        for script in
            [r#"[{"when": {"last_user_contain": "x"}, "reply": {}}]"#, r#"[{"reply": {"txt": "x"}}]"#, r#"[{"reply": {"fault": "hangs"}}]"#]
        {
            assert!(Script::parse(script).is_err(), "{script}");
        }
    }
}
