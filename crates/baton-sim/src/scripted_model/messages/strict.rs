//! The rules of a Messages request, as the provider enforces them, and stricter where it forgives. Pure.

use super::super::script::content_text;
use super::super::strict::is_tool_name;
use serde_json::Value;
use std::collections::HashSet;

const FIELDS: [&str; 13] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
];
/// Marks of what the provider should keep in one request.
const MOST_MARKS: usize = 4;

/// Says what is wrong with a Messages request, naming the message by its place.
///
/// Roles alternate, beginning and ending with the user. Each call has exactly one result, in order, at the head of the very next message.
pub fn check_messages(body: &Value) -> Result<(), String> {
    let fields = body.as_object().ok_or("the request is no object")?;
    if let Some(unknown) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return Err(format!("{unknown}: extra inputs are not permitted"));
    }
    if !body["model"].is_string() {
        return Err("'model' is missing".to_owned());
    }
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("'max_tokens' is missing or no number from 1".to_owned());
    }
    if body.to_string().matches("\"cache_control\"").count() > MOST_MARKS {
        return Err(format!("more than {MOST_MARKS} blocks with 'cache_control'"));
    }
    check_system(&body["system"])?;
    let has_tools = check_tools(&body["tools"])?;

    let messages = body["messages"].as_array().ok_or("'messages' is not a list")?;
    let last = messages.last().ok_or("'messages' is empty")?;
    if last["role"] != "user" {
        return Err("the last message is the assistant's: there is nothing to answer".to_owned());
    }
    let mut dialogue = Dialogue { has_tools, ..Dialogue::default() };
    for (place, message) in messages.iter().enumerate() {
        dialogue.take(message).map_err(|reason| format!("messages.{place}: {reason}"))?;
    }
    Ok(())
}

#[derive(Default)]
struct Dialogue {
    has_tools: bool,
    last_role: Option<String>,
    /// Calls of the message before.
    owed: Vec<String>,
    ids: HashSet<String>,
}

impl Dialogue {
    fn take(&mut self, message: &Value) -> Result<(), String> {
        let role = message["role"].as_str().ok_or("'role' is missing")?;
        if !matches!(role, "user" | "assistant") {
            return Err(format!("unknown role '{role}'; what is to be known stands in 'system'"));
        }
        match self.last_role.as_deref() {
            None if role != "user" => return Err("the first message is not the user's".to_owned()),
            Some(last) if last == role => return Err(format!("two messages of '{role}' in a row: roles must alternate")),
            _ => {}
        }
        self.last_role = Some(role.to_owned());
        let blocks = match &message["content"] {
            Value::String(text) if text.trim().is_empty() => return Err("the message is empty".to_owned()),
            Value::String(_) => &[][..],
            Value::Array(blocks) if blocks.is_empty() => return Err("the message is empty".to_owned()),
            Value::Array(blocks) => blocks,
            _ => return Err("'content' is neither a text nor a list of blocks".to_owned()),
        };
        let mut results_are_over = false;
        for block in blocks {
            let kind = block["type"].as_str().ok_or("a block without 'type'")?;
            check_mark(block)?;
            match (role, kind) {
                (_, "text") => check_text(block)?,
                ("user", "image") => check_image(block)?,
                ("user", "tool_result") if results_are_over => return Err("a result behind other blocks".to_owned()),
                ("user", "tool_result") => self.take_result(block)?,
                ("assistant", "tool_use") => self.take_call(block)?,
                ("assistant", "thinking") if block["signature"].as_str().is_none_or(str::is_empty) => {
                    return Err("a thought without its signature".to_owned());
                }
                ("assistant", "thinking") => {}
                _ => return Err(format!("a block of type '{kind}' in a message of '{role}'")),
            }
            results_are_over |= kind != "tool_result";
        }
        match self.owed.first() {
            Some(id) if role == "user" => Err(format!("the call '{id}' has no result in the message after it")),
            _ => Ok(()),
        }
    }

    fn take_call(&mut self, block: &Value) -> Result<(), String> {
        let id = id(&block["id"])?;
        let name = block["name"].as_str().unwrap_or_default();
        if !self.has_tools {
            return Err(format!("the call '{id}' in a request without 'tools'"));
        }
        if !is_tool_name(name) {
            return Err(format!("the call '{id}' names no tool: '{name}'"));
        }
        if !block["input"].is_object() {
            return Err(format!("the input of '{id}' is not an object"));
        }
        if !self.ids.insert(id.to_owned()) {
            return Err(format!("the call id '{id}' is used twice"));
        }
        self.owed.push(id.to_owned());
        Ok(())
    }

    fn take_result(&mut self, block: &Value) -> Result<(), String> {
        let id = id(&block["tool_use_id"])?;
        match self.owed.first() {
            None => return Err(format!("a result for '{id}', which no call of the message before awaits")),
            Some(next) if next != id => return Err(format!("the result of '{id}' where that of '{next}' comes next")),
            Some(_) => self.owed.remove(0),
        };
        if content_text(&block["content"]).trim().is_empty() {
            return Err(format!("the result of '{id}' is empty"));
        }
        if !block["is_error"].is_null() && !block["is_error"].is_boolean() {
            return Err(format!("'is_error' of '{id}' is neither true nor false"));
        }
        Ok(())
    }
}

fn id(value: &Value) -> Result<&str, String> {
    let id = value.as_str().unwrap_or_default();
    let is_plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_plain { Ok(id) } else { Err(format!("'{id}' is no id of a call")) }
}

fn check_text(block: &Value) -> Result<(), String> {
    match block["text"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(()),
        _ => Err("a text block that says nothing".to_owned()),
    }
}

fn check_image(block: &Value) -> Result<(), String> {
    let source = &block["source"];
    let media_type = source["media_type"].as_str().unwrap_or_default();
    let data = source["data"].as_str().unwrap_or_default();
    if source["type"] != "base64" || !matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return Err(format!("an image of type '{media_type}'"));
    }
    let is_base64 = !data.is_empty()
        && data.len().is_multiple_of(4)
        && data.trim_end_matches('=').chars().all(|c| c.is_ascii_alphanumeric() || "+/".contains(c));
    if is_base64 { Ok(()) } else { Err("an image whose data is not base64".to_owned()) }
}

fn check_mark(block: &Value) -> Result<(), String> {
    let mark = &block["cache_control"];
    if mark.is_null() || mark["type"] == "ephemeral" { Ok(()) } else { Err("'cache_control' of no known type".to_owned()) }
}

fn check_system(system: &Value) -> Result<(), String> {
    match system {
        Value::Null => Ok(()),
        Value::String(text) if !text.trim().is_empty() => Ok(()),
        Value::Array(blocks) if !blocks.is_empty() => blocks.iter().try_for_each(|block| {
            check_mark(block)?;
            if block["type"] == "text" { check_text(block) } else { Err("'system' has a block that is no text".to_owned()) }
        }),
        _ => Err("'system' is empty: leave it out".to_owned()),
    }
}

/// Whether there are any.
fn check_tools(tools: &Value) -> Result<bool, String> {
    if tools.is_null() {
        return Ok(false);
    }
    let tools = tools.as_array().ok_or("'tools' is not a list")?;
    let mut names = HashSet::new();
    for tool in tools {
        let name = tool["name"].as_str().unwrap_or_default();
        if !is_tool_name(name) {
            return Err(format!("'{name}' is not the name of a tool"));
        }
        if !names.insert(name) {
            return Err(format!("the tool '{name}' is offered twice"));
        }
        if tool["input_schema"]["type"] != "object" {
            return Err(format!("'input_schema' of '{name}' is not the schema of an object"));
        }
        check_mark(tool)?;
    }
    Ok(!tools.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(messages: Vec<Value>) -> Value {
        json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": [tool("read_file")]})
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "input_schema": {"type": "object"}})
    }

    fn user(blocks: Value) -> Value {
        json!({"role": "user", "content": blocks})
    }

    fn agent(blocks: Value) -> Value {
        json!({"role": "assistant", "content": blocks})
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}})
    }

    fn result(id: &str) -> Value {
        json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
    }

    fn image(media_type: &str, data: &str) -> Value {
        json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
    }

    fn expect(body: &Value, expected: &str) {
        match check_messages(body) {
            Ok(()) => assert_eq!(expected, "", "{body}"),
            Err(reason) => assert!(!expected.is_empty() && reason.contains(expected), "{reason} for {body}"),
        }
    }

    #[test]
    fn dialogues() {
        let hello = user(json!("hello"));
        let asks = agent(json!([call("a"), call("b")]));
        let rows = [
            (vec![hello.clone()], ""),
            (vec![hello.clone(), agent(json!("hi")), user(json!([text("and"), image("image/png", "AQID")]))], ""),
            (vec![hello.clone(), asks.clone(), user(json!([result("a"), result("b"), text("well?")]))], ""),
            (vec![hello.clone(), agent(json!([text("I look."), call("a")])), user(json!([result("a")]))], ""),
            (vec![hello.clone(), agent(json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, text("hi")])), hello.clone()], ""),
            (vec![], "'messages' is empty"),
            (vec![hello.clone(), agent(json!("hi"))], "the last message is the assistant's"),
            (vec![agent(json!("hi")), hello.clone()], "the first message is not the user's"),
            (vec![hello.clone(), hello.clone()], "roles must alternate"),
            (vec![hello.clone(), agent(json!("a")), agent(json!("b")), hello.clone()], "roles must alternate"),
            (vec![json!({"role": "system", "content": "x"}), hello.clone()], "unknown role"),
            (vec![hello.clone(), asks.clone(), hello.clone()], "the call 'a' has no result"),
            (vec![hello.clone(), asks.clone(), user(json!([result("a")]))], "the call 'b' has no result"),
            (vec![hello.clone(), asks.clone(), user(json!([result("b"), result("a")]))], "where that of 'a' comes next"),
            (vec![hello.clone(), asks.clone(), user(json!([result("a"), result("b"), result("b")]))], "which no call"),
            (vec![hello.clone(), asks.clone(), user(json!([text("x"), result("a"), result("b")]))], "a result behind other blocks"),
            (vec![user(json!([result("a")]))], "which no call"),
            (
                vec![
                    hello.clone(),
                    agent(json!([call("a")])),
                    user(json!([result("a")])),
                    agent(json!([call("a")])),
                    user(json!([result("a")])),
                ],
                "used twice",
            ),
            (vec![user(json!(" "))], "is empty"),
            (vec![user(json!([]))], "is empty"),
            (vec![user(json!([text(" ")]))], "says nothing"),
            (vec![hello.clone(), agent(json!([text("")])), hello.clone()], "says nothing"),
            (
                vec![hello.clone(), agent(json!([call("a")])), user(json!([{"type": "tool_result", "tool_use_id": "a", "content": ""}]))],
                "the result of 'a' is empty",
            ),
            (vec![user(json!([call("a")]))], "of type 'tool_use' in a message of 'user'"),
            (vec![hello.clone(), agent(json!([result("a")])), hello.clone()], "of type 'tool_result' in a message of 'assistant'"),
            (vec![hello.clone(), agent(json!([{"type": "thinking", "thinking": "hm"}])), hello.clone()], "without its signature"),
            (vec![hello.clone(), agent(json!([call("a.b")])), user(json!([result("a.b")]))], "no id of a call"),
            (
                vec![hello.clone(), agent(json!([{"type": "tool_use", "id": "a", "name": "read_file", "input": "{}"}])), hello.clone()],
                "not an object",
            ),
            (vec![user(json!([image("image/tiff", "AQID")]))], "an image of type"),
            (vec![user(json!([image("image/png", "not base64")]))], "not base64"),
        ];
        for (messages, expected) in rows {
            expect(&request(messages), expected);
        }
    }

    #[test]
    fn the_rest_of_a_request() {
        let with = |field: &str, value: Value| {
            let mut body = request(vec![user(json!("hello"))]);
            body[field] = value;
            body
        };
        for (body, expected) in [
            (with("system", json!("rules")), ""),
            (with("system", json!([text("rules")])), ""),
            (with("system", json!("")), "'system' is empty"),
            (with("max_tokens", Value::Null), "'max_tokens'"),
            (with("max_tokens", json!(0)), "'max_tokens'"),
            (with("stream_options", json!({})), "extra inputs"),
            (with("tools", json!([tool("a"), tool("a")])), "offered twice"),
            (with("tools", json!([tool("a.b")])), "not the name"),
            (with("tools", json!([{"name": "a", "parameters": {"type": "object"}}])), "'input_schema'"),
            (with("tools", json!([{"name": "a", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}])), ""),
            (with("tools", json!([{"name": "a", "input_schema": {"type": "object"}, "cache_control": {"type": "x"}}])), "of no known type"),
        ] {
            expect(&body, expected);
        }
        let mut without = request(vec![user(json!("x")), agent(json!([call("a")])), user(json!([result("a")]))]);
        without["tools"] = Value::Null;
        expect(&without, "in a request without 'tools'");
        let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        expect(&request(vec![user(json!([marked, marked, marked, marked]))]), "");
        expect(&request(vec![user(json!([marked, marked, marked, marked, marked]))]), "more than 4");
    }
}
