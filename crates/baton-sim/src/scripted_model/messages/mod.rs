//! Anthropic's Messages: what a request says, what it must not say, and how an answer is written. Pure.

mod strict;
mod wire;

pub use strict::check_messages;
pub(super) use wire::{pieces, whole};

use super::script::{Dialogue, ToolResult, content_text};
use axum::http::StatusCode;
use serde_json::Value;
use std::collections::HashMap;

/// What the script's failures in the middle of an answer stand for.
pub(super) const OVERLOADED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// The provider's name for a status.
pub(super) fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// What the rules look at. Results stand inside a user's message here; a message that has only these is nothing that a user said.
pub(super) fn dialogue(body: &Value) -> Dialogue {
    let mut dialogue = Dialogue { system: content_text(&body["system"]), ..Dialogue::default() };
    let mut names = HashMap::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        dialogue.length += 1;
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => {
                    names.insert(block["id"].as_str(), block["name"].as_str().unwrap_or_default().to_owned());
                }
                Some("tool_result") => {
                    let tool = names.get(&block["tool_use_id"].as_str()).cloned().unwrap_or_default();
                    dialogue.results.push(ToolResult { tool, text: content_text(&block["content"]) });
                }
                _ => {}
            }
        }
        let said = content_text(&message["content"]);
        if message["role"] == "user" && !said.is_empty() {
            dialogue.users.push(said);
            dialogue.results.clear();
        }
    }
    dialogue
}

/// How much of a request comes before the last mark of what the provider should keep. Tools come first, then the system text.
pub(super) fn marked_bytes(request: &Value) -> usize {
    let marked = |part: &Value| part.to_string().contains("\"cache_control\"");
    let parts = [&request["tools"], &request["system"], &request["messages"]];
    let last = parts.iter().rposition(|part| marked(part));
    last.map_or(0, |last| parts[..=last].iter().map(|part| part.to_string().len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_rules_look_at() {
        let body = json!({
            "system": [{"type": "text", "text": "You are Baton."}],
            "tools": [{"name": "read_file", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "First we paint."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "paint", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "painted"}, {"type": "text", "text": "Now read."},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "Yes."}, {"type": "tool_use", "id": "b", "name": "read_file", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "milk"}]}]},
            ],
        });
        let found = dialogue(&body);
        assert_eq!((found.system.as_str(), found.length), ("You are Baton.", 5));
        assert_eq!(found.users, ["First we paint.", "Now read."]);
        let results: Vec<_> = found.results.iter().map(|result| (result.tool.as_str(), result.text.as_str())).collect();
        assert_eq!(results, [("read_file", "milk")]);
        assert_eq!(marked_bytes(&body), body["tools"].to_string().len());
        assert_eq!(marked_bytes(&json!({"messages": []})), 0);
    }
}
