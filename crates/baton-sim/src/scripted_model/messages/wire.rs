//! A reply in the words of Messages, whole or in the events that it is streamed in. Pure.

use super::super::script::Reply;
use super::super::wire::{Frame, arguments, split};
use serde_json::{Value, json};

/// The answer in events: the beginning with what was read, each block, and the end with what was written. Pings come in between.
pub(crate) fn pieces(frame: &Frame, reply: &Reply) -> Vec<Value> {
    let mut message = whole(frame, &Reply::default());
    message["stop_reason"] = Value::Null;
    message["usage"] = usage(frame, reply, 1);
    let mut pieces = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    let mut index = 0;
    let mut block = |empty: Value, deltas: Vec<Value>| {
        pieces.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        pieces.extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        pieces.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !reply.thinking.is_empty() {
        let mut deltas: Vec<Value> = split(&reply.thinking, 12).map(|part| json!({"type": "thinking_delta", "thinking": part})).collect();
        deltas.push(json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
    }
    if !reply.text.is_empty() {
        let deltas = split(&reply.text, 8).map(|part| json!({"type": "text_delta", "text": part})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for (place, call) in reply.calls.iter().enumerate() {
        let mut deltas = vec![json!({"type": "input_json_delta", "partial_json": ""})];
        deltas.extend(split(&arguments(call), 7).map(|part| json!({"type": "input_json_delta", "partial_json": part})));
        block(json!({"type": "tool_use", "id": call_id(frame, place), "name": call.name, "input": {}}), deltas);
    }
    let end = json!({"stop_reason": stop_reason(reply), "stop_sequence": null});
    pieces.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": frame.tokens(reply).1}}));
    pieces.push(json!({"type": "message_stop"}));
    pieces
}

/// The answer to a request that doesn't stream.
pub(crate) fn whole(frame: &Frame, reply: &Reply) -> Value {
    let mut content = Vec::new();
    if !reply.thinking.is_empty() {
        content.push(json!({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"}));
    }
    if !reply.text.is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    content.extend(reply.calls.iter().enumerate().map(|(place, call)| {
        let input = serde_json::from_str::<Value>(&arguments(call)).unwrap_or_else(|_| json!({}));
        json!({"type": "tool_use", "id": call_id(frame, place), "name": call.name, "input": input})
    }));
    json!({
        "id": format!("msg_{}", frame.length), "type": "message", "role": "assistant", "model": frame.model, "content": content,
        "stop_reason": stop_reason(reply), "stop_sequence": null, "usage": usage(frame, reply, frame.tokens(reply).1),
    })
}

fn call_id(frame: &Frame, place: usize) -> String {
    format!("toolu_{}_{place}", frame.length)
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.calls.is_empty() { "end_turn" } else { "tool_use" }
}

/// What was kept from before is counted apart from what was read anew.
fn usage(frame: &Frame, reply: &Reply, output: usize) -> Value {
    let (all, _) = frame.tokens(reply);
    let kept = (frame.kept_bytes / 4).min(all);
    json!({
        "input_tokens": all - kept, "cache_read_input_tokens": kept, "cache_creation_input_tokens": 0, "output_tokens": output,
    })
}
