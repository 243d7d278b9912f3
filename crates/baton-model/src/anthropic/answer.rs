//! Puts an answer together from the events of a Messages stream. Pure: no IO, no clock.

use crate::assembly::{Assembly, MAX_CALLS, PieceError, Progress, Size, filled};
use crate::model::DeltaSink;
use baton_proto::{ModelAnswer, ModelToolCall, Usage};
use serde_json::{Value, json};

/// Blocks of one answer, far more than any model writes.
const MAX_BLOCKS: usize = 4 * MAX_CALLS;

#[derive(Debug, Default)]
pub(crate) struct Message {
    answer: ModelAnswer,
    blocks: Vec<Block>,
    size: Size,
    tokens: Tokens,
    finished: bool,
}

#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    /// The place among the calls.
    Call(usize),
    /// What this client doesn't know, or nobody may read.
    Other,
}

/// The provider counts what it kept from earlier requests apart from what it read anew.
#[derive(Debug, Default)]
struct Tokens {
    read: u64,
    kept: u64,
    written: u64,
    answered: u64,
}

impl Assembly for Message {
    fn take(&mut self, piece: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<Progress, PieceError> {
        let kind = piece["type"].as_str().unwrap_or_default();
        if kind == "error" || !piece["error"].is_null() {
            return Err(PieceError::Failed(if piece["error"].is_null() { piece.clone() } else { piece["error"].clone() }));
        }
        let before = self.size.bytes();
        match kind {
            "" => return Err(PieceError::Shapeless),
            "message_start" => self.tokens.take(&piece["message"]["usage"]),
            "content_block_start" => self.begin(index(piece)?, &piece["content_block"], sink)?,
            "content_block_delta" => self.go_on(index(piece)?, &piece["delta"], sink)?,
            "content_block_stop" => {
                let index = index(piece)?;
                self.blocks.iter_mut().filter(|block| block.index == index).for_each(|block| block.open = false);
            }
            "message_delta" => {
                self.tokens.take(&piece["usage"]);
                self.end(&piece["delta"]["stop_reason"])?;
            }
            "message_stop" => return Ok(Progress::Over),
            "message" => {
                for (index, block) in (0..).zip(piece["content"].as_array().into_iter().flatten()) {
                    self.begin(index, block, sink)?;
                }
                self.tokens.take(&piece["usage"]);
                self.end(&piece["stop_reason"])?;
            }
            // Arguments are held back by the provider until a value is whole, which takes as long as a file is long.
            "ping" if self.is_calling() => return Ok(Progress::Words),
            // A ping, or what a later version has added.
            _ => {}
        }
        Ok(if self.size.bytes() > before || self.finished { Progress::Words } else { Progress::Nothing })
    }

    fn is_whole(&self, answer: &Value) -> bool {
        answer["type"] == "message" && answer["content"].is_array()
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn finish(self: Box<Self>, _sink: &mut (dyn DeltaSink + Send)) -> ModelAnswer {
        let mut answer = self.answer;
        answer.usage = self.tokens.usage();
        for (place, call) in answer.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
            call.id = format!("call_{place}");
        }
        answer
    }
}

impl Message {
    fn begin(&mut self, index: u64, block: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        if self.blocks.len() == MAX_BLOCKS {
            return Err(PieceError::TooLarge);
        }
        let kind = match block["type"].as_str().ok_or(PieceError::Shapeless)? {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "tool_use" => Kind::Call(self.answer.calls.len()),
            _ => Kind::Other,
        };
        self.blocks.push(Block { index, kind, open: true });
        match kind {
            Kind::Text => self.say(filled(&block["text"]), sink),
            Kind::Thinking => self.think(filled(&block["thinking"]), sink),
            Kind::Call(place) if place == MAX_CALLS => Err(PieceError::TooLarge),
            Kind::Call(_) => {
                let name = block["name"].as_str().unwrap_or_default();
                // A stream begins with an empty object, and sends the arguments as text; a whole answer has them here.
                let input = &block["input"];
                let arguments = if input.as_object().is_none_or(serde_json::Map::is_empty) { String::new() } else { input.to_string() };
                self.size.add(name)?;
                self.size.add(&arguments)?;
                let id = block["id"].as_str().unwrap_or_default().to_owned();
                self.answer.calls.push(ModelToolCall { id, name: name.to_owned(), arguments });
                Ok(())
            }
            Kind::Other => Ok(()),
        }
    }

    fn go_on(&mut self, index: u64, delta: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        // The latest one, since some servers number every block 0.
        let kind = self.blocks.iter().rfind(|block| block.index == index).map(|block| block.kind);
        match (delta["type"].as_str().ok_or(PieceError::Shapeless)?, kind) {
            ("text_delta", _) => self.say(filled(&delta["text"]), sink),
            ("thinking_delta", _) => self.think(filled(&delta["thinking"]), sink),
            ("input_json_delta", Some(Kind::Call(place))) => {
                let part = delta["partial_json"].as_str().unwrap_or_default();
                self.size.add(part)?;
                self.answer.calls[place].arguments.push_str(part);
                Ok(())
            }
            // Input of what isn't ours to run.
            ("input_json_delta", Some(Kind::Other)) => Ok(()),
            ("input_json_delta", _) => Err(PieceError::Shapeless),
            // A sign that the model is at work, and nothing that is kept.
            ("signature_delta", _) => self.size.add(delta["signature"].as_str().unwrap_or_default()),
            _ => Ok(()),
        }
    }

    fn say(&mut self, text: Option<&str>, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        let Some(text) = text else { return Ok(()) };
        self.size.add(text)?;
        sink.text(text);
        self.answer.text.push_str(text);
        Ok(())
    }

    fn think(&mut self, thinking: Option<&str>, sink: &mut (dyn DeltaSink + Send)) -> Result<(), PieceError> {
        let Some(thinking) = thinking else { return Ok(()) };
        self.size.add(thinking)?;
        sink.thinking(thinking);
        self.answer.thinking.push_str(thinking);
        Ok(())
    }

    fn end(&mut self, reason: &Value) -> Result<(), PieceError> {
        let Some(reason) = filled(reason) else { return Ok(()) };
        let said_nothing = self.answer.text.trim().is_empty() && self.answer.calls.is_empty();
        if reason == "refusal" && said_nothing {
            return Err(PieceError::Failed(json!({"type": "refusal", "message": "the model declined to answer"})));
        }
        self.finished = true;
        self.answer.truncated |= matches!(reason, "max_tokens" | "model_context_window_exceeded" | "refusal");
        Ok(())
    }

    fn is_calling(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.open && matches!(block.kind, Kind::Call(_)))
    }
}

impl Tokens {
    /// Counts only grow, and what one event doesn't mention another has said.
    fn take(&mut self, usage: &Value) {
        let Self { read, kept, written, answered } = self;
        for (count, name) in [
            (read, "input_tokens"),
            (kept, "cache_read_input_tokens"),
            (written, "cache_creation_input_tokens"),
            (answered, "output_tokens"),
        ] {
            *count = usage[name].as_u64().unwrap_or(0).max(*count);
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.read.saturating_add(self.kept).saturating_add(self.written),
            cached_input_tokens: self.kept,
            output_tokens: self.answered,
        }
    }
}

fn index(piece: &Value) -> Result<u64, PieceError> {
    piece["index"].as_u64().ok_or(PieceError::Shapeless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        text: String,
        thinking: String,
    }

    impl DeltaSink for Seen {
        fn text(&mut self, delta: &str) {
            assert!(!delta.is_empty());
            self.text.push_str(delta);
        }
        fn thinking(&mut self, delta: &str) {
            assert!(!delta.is_empty());
            self.thinking.push_str(delta);
        }
    }

    fn begin(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, kind: &str, name: &str, part: &str) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, name: part}})
    }

    fn stop(index: u64) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    fn end(reason: &str) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}})
    }

    fn call(index: u64, id: &str) -> Value {
        begin(index, json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}}))
    }

    fn put_together(pieces: &[Value]) -> Result<(ModelAnswer, Seen, Vec<Progress>), PieceError> {
        let (mut seen, mut message) = (Seen::default(), Message::default());
        let progress = pieces.iter().map(|piece| message.take(piece, &mut seen)).collect::<Result<_, _>>()?;
        let answer = Box::new(message).finish(&mut seen);
        assert_eq!((&seen.text, &seen.thinking), (&answer.text, &answer.thinking));
        Ok((answer, seen, progress))
    }

    #[test]
    fn a_whole_stream() {
        let (answer, _, progress) = put_together(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}}}),
            json!({"type": "ping"}),
            begin(0, json!({"type": "thinking", "thinking": ""})),
            delta(0, "thinking_delta", "thinking", "Hm"),
            delta(0, "signature_delta", "signature", "c2ln"),
            stop(0),
            begin(1, json!({"type": "redacted_thinking", "data": "x"})),
            stop(1),
            begin(2, json!({"type": "text", "text": ""})),
            delta(2, "text_delta", "text", "I "),
            delta(2, "text_delta", "text", "look."),
            stop(2),
            call(3, "toolu_1"),
            delta(3, "input_json_delta", "partial_json", ""),
            json!({"type": "ping"}),
            delta(3, "input_json_delta", "partial_json", "{\"path\":"),
            delta(3, "input_json_delta", "partial_json", "\"a\"}"),
            stop(3),
            json!({"type": "ping"}),
            json!({"type": "something_new"}),
            end("tool_use"),
            json!({"type": "message_stop"}),
        ])
        .unwrap();
        assert_eq!((answer.text.as_str(), answer.thinking.as_str(), answer.truncated), ("I look.", "Hm", false));
        assert_eq!(answer.calls, [ModelToolCall { id: "toolu_1".into(), name: "read_file".into(), arguments: r#"{"path":"a"}"#.into() }]);
        assert_eq!(answer.usage, Usage { input_tokens: 115, cached_input_tokens: 100, output_tokens: 7 });
        // A ping counts only in the middle of a call, where the provider holds back what it has.
        let pings = [progress[1], progress[14], progress[18]];
        assert_eq!(pings, [Progress::Nothing, Progress::Words, Progress::Nothing]);
        assert_eq!(progress.last(), Some(&Progress::Over));
    }

    #[test]
    fn ends() {
        let said = [begin(0, json!({"type": "text", "text": "yes"}))];
        for (reason, truncated) in [
            ("end_turn", false),
            ("stop_sequence", false),
            ("max_tokens", true),
            ("model_context_window_exceeded", true),
            ("refusal", true),
            ("pause_turn", false),
        ] {
            let (answer, ..) = put_together(&[said[0].clone(), end(reason)]).unwrap();
            assert_eq!(answer.truncated, truncated, "{reason}");
        }
        let Err(PieceError::Failed(said)) = put_together(&[end("refusal")]) else { panic!("an empty refusal is a failure") };
        assert_eq!(said["type"], "refusal");
    }

    #[test]
    fn a_whole_answer_and_servers_that_do_as_they_like() {
        let whole = json!({"type": "message", "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "a", "name": "read_file", "input": {"path": "a"}},
            {"type": "tool_use", "name": "list_files"},
        ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}});
        assert!(Message::default().is_whole(&whole));
        let (answer, ..) = put_together(&[whole]).unwrap();
        let calls: Vec<_> = answer.calls.iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!((answer.text.as_str(), calls), ("hi", vec![("a", r#"{"path":"a"}"#), ("call_1", "")]));

        // Every block is number 0, text comes without a beginning, and counts come at the end alone.
        let (answer, ..) = put_together(&[
            delta(0, "text_delta", "text", "hi"),
            call(0, "a"),
            delta(0, "input_json_delta", "partial_json", "{}"),
            call(0, "b"),
            delta(0, "input_json_delta", "partial_json", "{\"b\":1}"),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"input_tokens": 4, "output_tokens": 2}}),
        ])
        .unwrap();
        let calls: Vec<_> = answer.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!((answer.text.as_str(), calls, answer.usage.input_tokens), ("hi", vec!["{}", "{\"b\":1}"], 4));
    }

    #[test]
    fn what_is_no_answer() {
        for pieces in [
            vec![json!(5)],
            vec![json!({"choices": []})],
            vec![json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}})],
            vec![json!({"type": "content_block_delta", "index": 0})],
            vec![begin(0, json!({}))],
            vec![delta(0, "input_json_delta", "partial_json", "{}")],
        ] {
            assert_eq!(put_together(&pieces).map(|_| ()), Err(PieceError::Shapeless), "{pieces:?}");
        }
        let failed = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(put_together(std::slice::from_ref(&failed)).map(|_| ()), Err(PieceError::Failed(failed["error"].clone())));
        let many: Vec<_> = (0..=MAX_CALLS as u64).map(|index| call(index, "x")).collect();
        assert_eq!(put_together(&many).map(|_| ()), Err(PieceError::TooLarge));
        let long = vec![delta(0, "text_delta", "text", &"x".repeat(400_000)); 3];
        assert_eq!(put_together(&long).map(|_| ()), Err(PieceError::TooLarge));
        let blocks: Vec<_> = (0..=MAX_BLOCKS as u64).map(|index| begin(index, json!({"type": "text"}))).collect();
        assert_eq!(put_together(&blocks).map(|_| ()), Err(PieceError::TooLarge));
    }
}
