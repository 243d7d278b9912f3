//! Puts an answer together from its pieces, as differently as providers cut them. Pure: no IO, no clock.

use super::text_calls;
use super::thinking::{Piece, ThinkingSplit};
use crate::assembly::{Assembly, MAX_CALLS, PieceError, Progress, Size, filled};
use crate::model::DeltaSink;
use baton_proto::{ModelAnswer, ModelToolCall, Usage};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Completion {
    /// Names of the tools that were offered.
    offered: Vec<String>,
    split: ThinkingSplit,
    answer: ModelAnswer,
    calls: Vec<OpenCall>,
    size: Size,
    /// How much of the text has been passed on. Text that may turn out to be a call is held back.
    shown: usize,
    finished: bool,
}

#[derive(Debug, Default)]
struct OpenCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl OpenCall {
    fn is_whole(&self) -> bool {
        !self.name.is_empty() && serde_json::from_str::<Value>(&self.arguments).is_ok_and(|value| value.is_object())
    }
}

impl Completion {
    pub(crate) fn new(offered: Vec<String>) -> Self {
        Self {
            offered,
            split: ThinkingSplit::default(),
            answer: ModelAnswer::default(),
            calls: Vec::new(),
            size: Size::default(),
            shown: 0,
            finished: false,
        }
    }
}

impl Assembly for Completion {
    fn is_finished(&self) -> bool {
        self.finished
    }

    fn is_whole(&self, answer: &Value) -> bool {
        answer["choices"][0]["message"].is_object()
    }

    fn take(&mut self, piece: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<Progress, PieceError> {
        if !piece.is_object() {
            return Err(PieceError::Shapeless);
        }
        if !piece["error"].is_null() {
            return Err(PieceError::Failed(piece["error"].clone()));
        }
        self.take_usage(&piece["usage"]);
        let choice = &piece["choices"][0];
        let delta = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let before = self.size.bytes();

        if let Some(thinking) = ["reasoning_content", "reasoning"].iter().find_map(|name| filled(&delta[*name])) {
            self.think(thinking, sink)?;
        }
        self.take_content(&delta["content"], sink)?;
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.take_call(call)?;
        }
        if let Some(reason) = filled(&choice["finish_reason"]) {
            if reason == "error" {
                return Err(PieceError::Failed(Value::from("the provider stopped with an error")));
            }
            self.finished = true;
            self.answer.truncated |= matches!(reason, "length" | "content_filter");
        }
        Ok(if self.size.bytes() > before || self.finished { Progress::Words } else { Progress::Nothing })
    }

    /// The whole answer. Text that is nothing but a call of an offered tool becomes that call.
    fn finish(mut self: Box<Self>, sink: &mut (dyn DeltaSink + Send)) -> ModelAnswer {
        match self.split.finish() {
            Some(Piece::Text(text)) => self.answer.text.push_str(&text),
            Some(Piece::Thinking(thinking)) => {
                sink.thinking(&thinking);
                self.answer.thinking.push_str(&thinking);
            }
            None => {}
        }
        if self.calls.is_empty()
            && let Some(found) = text_calls::find(&self.answer.text, &self.offered)
        {
            self.answer.text = found.prose;
            self.calls = found
                .calls
                .into_iter()
                .map(|call| OpenCall { name: call.name, arguments: call.arguments, ..OpenCall::default() })
                .collect();
        }
        if let Some(rest) = self.answer.text.get(self.shown..).filter(|rest| !rest.is_empty()) {
            sink.text(rest);
        }
        self.answer.calls = self
            .calls
            .into_iter()
            .enumerate()
            .map(|(place, call)| {
                let id = if call.id.is_empty() { format!("call_{place}") } else { call.id };
                ModelToolCall { id, name: call.name, arguments: call.arguments }
            })
            .collect();
        self.answer
    }
}

impl Completion {
    fn take_usage(&mut self, usage: &Value) {
        let count = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_u64());
        if let Some(input_tokens) = count(["prompt_tokens", "input_tokens"]) {
            let details = ["prompt_tokens_details", "input_tokens_details"].iter().find_map(|name| usage[*name]["cached_tokens"].as_u64());
            self.answer.usage = Usage {
                input_tokens,
                cached_input_tokens: details.or_else(|| usage["prompt_cache_hit_tokens"].as_u64()).unwrap_or(0).min(input_tokens),
                output_tokens: count(["completion_tokens", "output_tokens"]).unwrap_or(0),
            };
        }
    }

    fn take_content(&mut self, content: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        match content {
            Value::String(text) => {
                self.size.add(text)?;
                for piece in self.split.push(text) {
                    match piece {
                        Piece::Text(text) => self.say(&text, sink),
                        Piece::Thinking(thinking) => {
                            sink.thinking(&thinking);
                            self.answer.thinking.push_str(&thinking);
                        }
                    }
                }
            }
            Value::Array(parts) => {
                for part in parts {
                    if let Some(text) = filled(&part["text"]) {
                        self.size.add(text)?;
                        self.say(text, sink);
                    }
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        if let Some(thinking) = filled(&thought["text"]) {
                            self.think(thinking, sink)?;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, text: &str, sink: &mut (dyn DeltaSink + Send)) {
        self.answer.text.push_str(text);
        let held = self.shown == 0 && !self.offered.is_empty() && text_calls::may_become_call(&self.answer.text);
        if !held {
            sink.text(&self.answer.text[self.shown..]);
            self.shown = self.answer.text.len();
        }
    }

    fn think(&mut self, thinking: &str, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        self.size.add(thinking)?;
        sink.thinking(thinking);
        self.answer.thinking.push_str(thinking);
        Ok(())
    }

    fn take_call(&mut self, delta: &Value) -> Result<(), PieceError> {
        let index = delta["index"].as_u64();
        let id = filled(&delta["id"]).unwrap_or_default();
        let name = filled(&delta["function"]["name"]).unwrap_or_default();
        let arguments = match &delta["function"]["arguments"] {
            Value::Null => String::new(),
            Value::String(part) => part.clone(),
            whole => whole.to_string(),
        };
        self.size.add(&arguments)?;
        self.size.add(name)?;
        let place = match self.continued(index, id, name) {
            Some(place) => place,
            None if self.calls.len() == MAX_CALLS => return Err(PieceError::TooLarge),
            None => {
                self.calls.push(OpenCall { index, ..OpenCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&arguments);
        Ok(())
    }

    /// The call that a piece continues. Some providers number every call 0, some leave out numbers or ids, and some send
    /// each call whole, so a piece that names a tool under another id, or after a whole call, begins a new one.
    fn continued(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let place = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None if !id.is_empty() => {
                self.calls.iter().rposition(|call| call.id == id).or_else(|| self.calls.len().checked_sub(1).filter(|_| name.is_empty()))
            }
            None => self.calls.len().checked_sub(1),
        }?;
        let call = &self.calls[place];
        let other_id = !id.is_empty() && !call.id.is_empty() && id != call.id;
        let same_id = !id.is_empty() && id == call.id;
        let begins_anew = !name.is_empty() && (other_id || (!same_id && call.is_whole()));
        (!begins_anew).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::MAX_ANSWER_BYTES;
    use serde_json::json;

    #[derive(Default)]
    struct Seen {
        text: Vec<String>,
        thinking: String,
    }

    impl DeltaSink for Seen {
        fn text(&mut self, delta: &str) {
            assert!(!delta.is_empty());
            self.text.push(delta.to_owned());
        }
        fn thinking(&mut self, delta: &str) {
            assert!(!delta.is_empty());
            self.thinking.push_str(delta);
        }
    }

    fn put_together(pieces: &[Value]) -> (ModelAnswer, Seen) {
        let mut seen = Seen::default();
        let mut assembly = Completion::new(vec!["read_file".to_owned()]);
        for piece in pieces {
            assembly.take(piece, &mut seen).unwrap();
        }
        (Box::new(assembly).finish(&mut seen), seen)
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn call_delta(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &Value) -> Value {
        let mut call = json!({"function": {"arguments": arguments}});
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        if let Some(id) = id {
            call["id"] = json!(id);
        }
        if let Some(name) = name {
            call["function"]["name"] = json!(name);
        }
        delta(json!({"tool_calls": [call]}))
    }

    /// One row for each way of cutting calls into pieces that has been met.
    #[test]
    fn calls_in_pieces() {
        let one = |index, id, name, arguments: &str| call_delta(index, id, name, &json!(arguments));
        let rows = [
            (
                "by index",
                vec![one(Some(0), Some("x"), Some("a"), ""), one(Some(0), None, None, "{\"k\""), one(Some(0), None, None, ":1}")],
                "x a {\"k\":1}",
            ),
            (
                "parallel and interleaved",
                vec![
                    one(Some(0), Some("x"), Some("a"), ""),
                    one(Some(1), Some("y"), Some("b"), "{"),
                    one(Some(0), None, None, "{}"),
                    one(Some(1), None, None, "}"),
                ],
                "x a {}; y b {}",
            ),
            (
                "without index",
                vec![one(None, Some("x"), Some("a"), "{"), one(None, None, None, "}"), one(None, Some("y"), Some("b"), "{}")],
                "x a {}; y b {}",
            ),
            ("index always 0", vec![one(Some(0), Some("x"), Some("a"), "{}"), one(Some(0), Some("y"), Some("a"), "{}")], "x a {}; y a {}"),
            (
                "whole calls without id or index",
                vec![one(None, None, Some("a"), "{}"), one(None, None, Some("b"), "{\"k\":2}")],
                "call_0 a {}; call_1 b {\"k\":2}",
            ),
            (
                "id and name repeated in each piece",
                vec![
                    one(Some(0), Some("x"), Some("a"), "{}"),
                    one(Some(0), Some("x"), Some("a"), " "),
                    one(Some(0), Some("x"), Some("a"), "\n"),
                ],
                "x a {} \n",
            ),
            ("arguments as an object", vec![call_delta(Some(0), Some("x"), Some("a"), &json!({"k": [1]}))], "x a {\"k\":[1]}"),
            ("arguments null", vec![call_delta(Some(0), Some("x"), Some("a"), &Value::Null)], "x a "),
            ("empty ids", vec![one(Some(0), Some(""), Some("a"), "{"), one(Some(0), Some(""), Some(""), "}")], "call_0 a {}"),
            ("new id in each piece, no name", vec![one(None, Some("x"), Some("a"), "{"), one(None, Some("z"), None, "}")], "x a {}"),
        ];
        for (what, pieces, expected) in rows {
            let (answer, _) = put_together(&pieces);
            let calls: Vec<_> = answer.calls.iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect();
            assert_eq!(calls.join("; "), expected, "{what}");
        }
    }

    #[test]
    fn a_whole_answer() {
        let (answer, seen) = put_together(&[json!({
            "choices": [{"message": {"role": "assistant", "content": "hi", "reasoning": "hm", "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": "read_file", "arguments": "{}"}},
                {"id": "y", "type": "function", "function": {"name": "read_file", "arguments": "{}"}},
            ]}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}},
        })]);
        assert_eq!((answer.text.as_str(), answer.thinking.as_str(), answer.calls.len(), answer.truncated), ("hi", "hm", 2, true));
        assert_eq!(answer.usage, Usage { input_tokens: 3, cached_input_tokens: 2, output_tokens: 4 });
        assert_eq!((seen.text.concat(), seen.thinking), ("hi".to_owned(), "hm".to_owned()));
    }

    #[test]
    fn content_in_parts() {
        let (answer, _) = put_together(&[delta(json!({"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "hi"},
        ]}))]);
        assert_eq!((answer.text.as_str(), answer.thinking.as_str()), ("hi", "hm"));
    }

    #[test]
    fn a_call_written_as_text_is_not_shown() {
        let pieces: Vec<_> = ["``", "`js", "on\n{\"name\": \"read_file\", ", "\"arguments\": {\"path\": \"a\"}}\n```"]
            .iter()
            .map(|text| delta(json!({"content": text})))
            .collect();
        let (answer, seen) = put_together(&pieces);
        assert_eq!(answer.calls[0].name, "read_file");
        assert_eq!(answer.calls[0].arguments, "{\"path\":\"a\"}");
        assert_eq!((answer.text.as_str(), seen.text.concat().as_str()), ("", ""));
    }

    #[test]
    fn code_is_shown_as_soon_as_it_is_no_call() {
        let pieces: Vec<_> = ["```", "rust\n", "fn main", "() {}\n```"].iter().map(|text| delta(json!({"content": text}))).collect();
        let (answer, seen) = put_together(&pieces);
        assert_eq!(answer.text, "```rust\nfn main() {}\n```");
        assert_eq!(seen.text, ["```rust\n", "fn main", "() {}\n```"]);
    }

    #[test]
    fn held_text_that_is_no_call_is_shown_at_the_end() {
        let (answer, seen) = put_together(&[delta(json!({"content": "{\"name\": "})), delta(json!({"content": "\"Anna\"}"}))]);
        assert_eq!(answer.text, "{\"name\": \"Anna\"}");
        assert_eq!(seen.text.concat(), answer.text);
    }

    #[test]
    fn bounds_and_failures() {
        let mut assembly = Completion::new(Vec::new());
        let big = delta(json!({"content": "x".repeat(MAX_ANSWER_BYTES / 2)}));
        assert_eq!(assembly.take(&big, &mut ()), Ok(Progress::Words));
        assert_eq!(assembly.take(&big, &mut ()), Ok(Progress::Words));
        assert_eq!(assembly.take(&delta(json!({"content": "x"})), &mut ()), Err(PieceError::TooLarge));

        let mut assembly = Completion::new(Vec::new());
        for index in 0..MAX_CALLS as u64 {
            assembly.take(&call_delta(Some(index), None, None, &Value::Null), &mut ()).unwrap();
        }
        assert_eq!(assembly.take(&call_delta(Some(u64::MAX), None, None, &Value::Null), &mut ()), Err(PieceError::TooLarge));

        let mut assembly = Completion::new(Vec::new());
        assert_eq!(assembly.take(&json!([1]), &mut ()), Err(PieceError::Shapeless));
        assert_eq!(assembly.take(&json!({"error": "x"}), &mut ()), Err(PieceError::Failed(json!("x"))));
        assert_eq!(assembly.take(&json!({"choices": []}), &mut ()), Ok(Progress::Nothing));
        assert_eq!(assembly.take(&delta(json!({"role": "assistant", "content": ""})), &mut ()), Ok(Progress::Nothing));
        assert!(!assembly.is_finished());
        let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
        assert_eq!(assembly.take(&end, &mut ()), Ok(Progress::Words));
        assert!(assembly.is_finished());
    }
}
