//! A reply in the words of the chat-completions dialect, whole or in pieces as providers stream it. Pure.

use super::script::{Reply, ScriptedCall};
use serde_json::{Value, json};

/// What the pieces of one answer have in common.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) model: String,
    /// How many messages the request had: answer and call ids are made from it.
    pub(super) length: usize,
    /// The size of the request in bytes, from which its tokens are guessed.
    pub(super) request_bytes: usize,
    /// How much of it the provider is said to have kept from an earlier request.
    pub(super) kept_bytes: usize,
    pub(super) include_usage: bool,
}

impl Frame {
    /// The answer in pieces: the role, thinking, text, calls with split arguments, the reason of the end, usage.
    pub(super) fn pieces(&self, reply: &Reply) -> Vec<Value> {
        let mut pieces = vec![self.piece(json!({"role": "assistant", "content": ""}), None)];
        pieces.extend(split(&reply.thinking, 12).map(|part| self.piece(json!({"reasoning_content": part}), None)));
        pieces.extend(split(&reply.text, 8).map(|part| self.piece(json!({"content": part}), None)));
        for (index, call) in reply.calls.iter().enumerate() {
            let first =
                json!({"index": index, "id": self.call_id(index), "type": "function", "function": {"name": call.name, "arguments": ""}});
            pieces.push(self.piece(json!({"tool_calls": [first]}), None));
            pieces.extend(split(&arguments(call), 7).map(|part| {
                let delta = json!({"index": index, "function": {"arguments": part}});
                self.piece(json!({"tool_calls": [delta]}), None)
            }));
        }
        pieces.push(self.piece(json!({}), Some(finish_reason(reply))));
        if self.include_usage {
            let mut last = self.piece(json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = self.usage(reply);
            pieces.push(last);
        }
        pieces
    }

    /// The answer to a request that doesn't stream.
    pub(super) fn whole(&self, reply: &Reply) -> Value {
        let mut message = json!({"role": "assistant", "content": reply.text});
        if !reply.thinking.is_empty() {
            message["reasoning_content"] = json!(reply.thinking);
        }
        if !reply.calls.is_empty() {
            message["tool_calls"] = reply
                .calls
                .iter()
                .enumerate()
                .map(|(index, call)| {
                    json!({"id": self.call_id(index), "type": "function", "function": {"name": call.name, "arguments": arguments(call)}})
                })
                .collect();
        }
        json!({
            "id": self.answer_id(), "object": "chat.completion", "created": 0, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
            "usage": self.usage(reply),
        })
    }

    fn piece(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": self.answer_id(), "object": "chat.completion.chunk", "created": 0, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        })
    }

    fn answer_id(&self) -> String {
        format!("chatcmpl-{}", self.length)
    }

    fn call_id(&self, index: usize) -> String {
        format!("call_{}_{index}", self.length)
    }

    /// Tokens of the request and of the answer.
    pub(super) fn tokens(&self, reply: &Reply) -> (usize, usize) {
        let answer = reply.text.len() + reply.thinking.len() + reply.calls.iter().map(|call| arguments(call).len()).sum::<usize>();
        (self.request_bytes.div_ceil(4), answer.div_ceil(4))
    }

    fn usage(&self, reply: &Reply) -> Value {
        let (input, output) = self.tokens(reply);
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
    }
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

pub(super) fn arguments(call: &ScriptedCall) -> String {
    match &call.arguments {
        Value::String(raw) => raw.clone(),
        value => value.to_string(),
    }
}

/// Pieces of so many characters, never parting one.
pub(super) fn split(text: &str, size: usize) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(size).map(|part| part.iter().collect()).collect::<Vec<_>>().into_iter()
}
