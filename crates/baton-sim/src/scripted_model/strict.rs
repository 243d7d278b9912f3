//! The rules of a dialogue, as the strictest providers enforce them. Pure.

use super::script::content_text;
use serde_json::Value;
use std::collections::HashSet;

/// Says what is wrong with a chat-completions request, naming the message by its place.
///
/// A call and its result are never parted, and each call has exactly one result, in order (E4).
pub fn check_dialogue(body: &Value) -> Result<(), String> {
    if !body["model"].is_string() {
        return Err("'model' is missing".to_owned());
    }
    let messages = body["messages"].as_array().ok_or("'messages' is not a list")?;
    let last = messages.last().ok_or("'messages' is empty")?;
    if last["role"] == "assistant" {
        return Err("the last message is the assistant's: there is nothing to answer".to_owned());
    }
    check_tools(&body["tools"])?;

    let mut owed: Vec<String> = Vec::new();
    let mut ids = HashSet::new();
    let mut dialogue_begun = false;
    for (place, message) in messages.iter().enumerate() {
        check_message(message, &mut owed, &mut ids, dialogue_begun).map_err(|reason| format!("messages[{place}]: {reason}"))?;
        dialogue_begun |= !matches!(message["role"].as_str(), Some("system" | "developer"));
    }
    match owed.first() {
        Some(id) => Err(format!("the call '{id}' has no result")),
        None => Ok(()),
    }
}

fn check_message(message: &Value, owed: &mut Vec<String>, ids: &mut HashSet<String>, dialogue_begun: bool) -> Result<(), String> {
    let role = message["role"].as_str().ok_or("'role' is missing")?;
    let says_nothing = content_text(&message["content"]).trim().is_empty();
    if role != "tool"
        && let Some(id) = owed.first()
    {
        return Err(format!("a message of '{role}' before the result of the call '{id}'"));
    }
    match role {
        "system" | "developer" if dialogue_begun => Err("a system message after the dialogue began".to_owned()),
        "system" | "developer" | "user" if says_nothing => Err(format!("the message of '{role}' is empty")),
        "system" | "developer" | "user" => Ok(()),
        "assistant" => {
            let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
            if says_nothing && calls.is_empty() {
                return Err("the assistant's message is empty".to_owned());
            }
            calls.iter().try_for_each(|call| check_call(call, owed, ids))
        }
        "tool" => {
            let id = message["tool_call_id"].as_str().ok_or("'tool_call_id' is missing")?;
            match owed.first() {
                None => return Err(format!("a result for '{id}', which no preceding call awaits")),
                Some(next) if next != id => return Err(format!("the result of '{id}' where that of '{next}' comes next")),
                Some(_) => owed.remove(0),
            };
            if says_nothing { Err(format!("the result of '{id}' is empty")) } else { Ok(()) }
        }
        other => Err(format!("unknown role '{other}'")),
    }
}

fn check_call(call: &Value, owed: &mut Vec<String>, ids: &mut HashSet<String>) -> Result<(), String> {
    let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or("a call without 'id'")?;
    if call["type"] != "function" {
        return Err(format!("the call '{id}' is not of type 'function'"));
    }
    let name = call["function"]["name"].as_str().unwrap_or_default();
    if !is_tool_name(name) {
        return Err(format!("the call '{id}' names no tool: '{name}'"));
    }
    let arguments = call["function"]["arguments"].as_str().ok_or_else(|| format!("the arguments of '{id}' are not a string"))?;
    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
        return Err(format!("the arguments of '{id}' are not a JSON object"));
    }
    if !ids.insert(id.to_owned()) {
        return Err(format!("the call id '{id}' is used twice"));
    }
    owed.push(id.to_owned());
    Ok(())
}

fn check_tools(tools: &Value) -> Result<(), String> {
    if tools.is_null() {
        return Ok(());
    }
    let tools = tools.as_array().ok_or("'tools' is not a list")?;
    if tools.is_empty() {
        return Err("'tools' is empty: leave it out".to_owned());
    }
    let mut names = HashSet::new();
    for tool in tools {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        if tool["type"] != "function" || !is_tool_name(name) {
            return Err(format!("'{name}' is not the name of a function"));
        }
        if !names.insert(name) {
            return Err(format!("the tool '{name}' is offered twice"));
        }
        if tool["function"]["parameters"]["type"] != "object" {
            return Err(format!("the parameters of '{name}' are not the schema of an object"));
        }
    }
    Ok(())
}

pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": "{}"}})
    }

    fn calls(ids: &[&str]) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "ok"})
    }

    #[test]
    fn dialogues() {
        let user = json!({"role": "user", "content": "hello"});
        let system = json!({"role": "system", "content": "rules"});
        let agent = json!({"role": "assistant", "content": "hi"});
        let mut bad_call = calls(&["a"]);
        bad_call["tool_calls"][0]["function"]["arguments"] = json!("{not json");
        let rows = [
            (vec![system.clone(), user.clone()], ""),
            (vec![user.clone(), agent.clone(), user.clone()], ""),
            (vec![user.clone(), calls(&["a"]), result("a")], ""),
            (vec![user.clone(), calls(&["a", "b"]), result("a"), result("b"), user.clone()], ""),
            (vec![user.clone(), user.clone()], ""),
            (vec![], "'messages' is empty"),
            (vec![user.clone(), agent.clone()], "the last message is the assistant's"),
            (vec![user.clone(), calls(&["a"])], "the last message is the assistant's"),
            (vec![user.clone(), result("a")], "no preceding call"),
            (vec![user.clone(), calls(&["a"]), user.clone()], "before the result"),
            (vec![user.clone(), calls(&["a", "b"]), result("a"), user.clone()], "before the result of the call 'b'"),
            (vec![user.clone(), calls(&["a", "b"]), result("a")], "the call 'b' has no result"),
            (vec![user.clone(), calls(&["a", "b"]), result("b"), result("a")], "where that of 'a' comes next"),
            (vec![user.clone(), calls(&["a"]), result("a"), result("a")], "no preceding call"),
            (vec![user.clone(), calls(&["a"]), result("a"), calls(&["a"]), result("a")], "used twice"),
            (vec![user.clone(), bad_call, result("a")], "not a JSON object"),
            (vec![json!({"role": "user", "content": " "})], "is empty"),
            (vec![user.clone(), json!({"role": "assistant", "content": ""}), user.clone()], "is empty"),
            (vec![user.clone(), calls(&["a"]), json!({"role": "tool", "tool_call_id": "a", "content": ""})], "is empty"),
            (vec![json!({"role": "robot", "content": "x"})], "unknown role"),
            (vec![json!({"content": "x"})], "'role' is missing"),
            (vec![user.clone(), system.clone()], "after the dialogue began"),
        ];
        for (messages, expected) in rows {
            let body = json!({"model": "m", "messages": messages});
            match check_dialogue(&body) {
                Ok(()) => assert_eq!(expected, "", "{body}"),
                Err(reason) => assert!(!expected.is_empty() && reason.contains(expected), "{reason} for {body}"),
            }
        }
    }

    #[test]
    fn tools() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
        for (tools, expected) in [
            (json!([tool("read_file")]), ""),
            (json!([]), "'tools' is empty"),
            (json!([tool("read.file")]), "not the name of a function"),
            (json!([tool("a"), tool("a")]), "offered twice"),
            (json!([{"type": "function", "function": {"name": "a", "parameters": {}}}]), "not the schema of an object"),
        ] {
            let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools});
            match check_dialogue(&body) {
                Ok(()) => assert_eq!(expected, "", "{body}"),
                Err(reason) => assert!(!expected.is_empty() && reason.contains(expected), "{reason} for {body}"),
            }
        }
        assert!(check_dialogue(&json!({"messages": [{"role": "user", "content": "x"}]})).is_err());
    }
}
