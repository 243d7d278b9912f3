//! A request in the words of Messages. Roles alternate, results come first in the message after their calls, and no block is empty. Pure.

use crate::config::ModelConfig;
use crate::phrase::{Shown, Sight, plain_name, readable_arguments, result_text, shown};
use baton_proto::{ModelImage, ModelMessage, ModelRequest};
use serde_json::{Value, json};

/// Tokens of an answer where nobody set a limit. The interface wants one, and every current model takes this one.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// The body of a streaming request.
pub(crate) fn body(config: &ModelConfig, request: &ModelRequest, sight: Sight) -> Value {
    let mut body = json!({
        "model": config.model,
        "max_tokens": request.max_tokens.or(config.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS).max(1),
        "messages": messages(&request.messages, sight),
        "stream": true,
    });
    if !request.system.trim().is_empty() {
        body["system"] = json!([text_block(&request.system)]);
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Value> = request
            .tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters}))
            .collect();
        // The tools come first in what the provider reads, and stay the same from call to call; the system text has state in it.
        if let Some(last) = tools.last_mut() {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
        body["tools"] = tools.into();
    }
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    body
}

fn messages(said: &[ModelMessage], sight: Sight) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in said {
        let (role, blocks) = blocks(message, sight);
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_some_and(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![text_block("[Earlier dialogue is left out.]")]));
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

fn blocks(message: &ModelMessage, sight: Sight) -> (&'static str, Vec<Value>) {
    match message {
        ModelMessage::User { text, images } => ("user", user_blocks(text, images, sight)),
        ModelMessage::Agent { text, calls } => {
            let words = Some(text).filter(|text| !text.trim().is_empty()).map(|text| text_block(text));
            let calls = calls.iter().map(|call| {
                json!({
                    "type": "tool_use", "id": plain_id(&call.id),
                    "name": plain_name(&call.name), "input": readable_arguments(&call.arguments),
                })
            });
            ("assistant", words.into_iter().chain(calls).collect())
        }
        ModelMessage::Result { call_id, text, failed, .. } => {
            let mut block = json!({"type": "tool_result", "tool_use_id": plain_id(call_id), "content": result_text(text, *failed)});
            if *failed {
                block["is_error"] = json!(true);
            }
            ("user", vec![block])
        }
    }
}

/// Images come before the words about them, which is how the provider wants them.
fn user_blocks(text: &str, images: &[ModelImage], sight: Sight) -> Vec<Value> {
    let mut blocks: Vec<Value> = images
        .iter()
        .map(|image| match shown(image, sight) {
            Shown::Image { media_type, base64 } => {
                json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": base64}})
            }
            Shown::Words(told) => text_block(&told),
        })
        .collect();
    if !text.trim().is_empty() {
        blocks.push(text_block(text));
    }
    blocks
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The hub's own ids pass as they are.
fn plain_id(id: &str) -> String {
    id.chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::{Digest, ModelTool, ModelToolCall};

    fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        ModelRequest { system: "rules".to_owned(), messages, tools: Vec::new(), max_tokens: None }
    }

    fn config() -> ModelConfig {
        ModelConfig::new("https://api.anthropic.com", "m")
    }

    fn agent(text: &str, calls: &[(&str, &str, &str)]) -> ModelMessage {
        let calls = calls
            .iter()
            .map(|(id, name, arguments)| ModelToolCall { id: (*id).into(), name: (*name).into(), arguments: (*arguments).into() })
            .collect();
        ModelMessage::Agent { text: text.into(), calls }
    }

    fn result(id: &str, text: &str, failed: bool) -> ModelMessage {
        ModelMessage::Result { call_id: id.into(), tool: "read_file".into(), text: text.into(), failed }
    }

    #[test]
    fn a_dialogue_with_calls() {
        let calls = [("1", "read_file", r#"{"path":"a"}"#), ("2", "no such tool!", ""), ("3.x", "", "{path")];
        let body = body(
            &config(),
            &request(vec![
                ModelMessage::user("go"),
                agent(" ", &[]),
                ModelMessage::user("on"),
                agent("", &calls),
                result("1", "milk", false),
                result("2", "no such tool", true),
                result("3.x", " ", false),
                ModelMessage::user("And then?"),
                ModelMessage::user("  "),
            ]),
            Sight::Sees,
        );
        assert_eq!(
            body["messages"],
            json!([
                {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "on"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "1", "name": "read_file", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "2", "name": "no_such_tool_", "input": {}},
                    {"type": "tool_use", "id": "3_x", "name": "unnamed", "input": {"unreadable_arguments": "{path"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "milk"},
                    {"type": "tool_result", "tool_use_id": "2", "content": "no such tool", "is_error": true},
                    {"type": "tool_result", "tool_use_id": "3_x", "content": "(no output)"},
                    {"type": "text", "text": "And then?"},
                ]},
            ])
        );
        assert_eq!((&body["system"], &body["stream"]), (&json!([{"type": "text", "text": "rules"}]), &json!(true)));
        assert_eq!((&body["tools"], &body["temperature"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn the_user_begins_and_answers_in_a_row_are_one() {
        let asked = request(vec![agent("one", &[]), agent("two", &[("1", "read_file", "{}")]), result("1", "", true)]);
        assert_eq!(
            body(&config(), &asked, Sight::Sees)["messages"],
            json!([
                {"role": "user", "content": [{"type": "text", "text": "[Earlier dialogue is left out.]"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "one"}, {"type": "text", "text": "two"},
                    {"type": "tool_use", "id": "1", "name": "read_file", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "Error: the call failed without output.", "is_error": true},
                ]},
            ])
        );
    }

    #[test]
    fn limits_tools_and_what_is_kept_by_the_provider() {
        let tool = |name: &str| ModelTool { name: name.into(), description: "d".into(), parameters: json!({"type": "object"}) };
        let mut asked = request(vec![ModelMessage::user("go")]);
        asked.tools = vec![tool("a"), tool("b")];
        asked.max_tokens = Some(5);
        let config = ModelConfig { max_tokens: Some(9), temperature: Some(0.5), ..config() };
        let first = body(&config, &asked, Sight::Sees);
        assert_eq!(
            first["tools"],
            json!([
                {"name": "a", "description": "d", "input_schema": {"type": "object"}},
                {"name": "b", "description": "d", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
            ])
        );
        assert_eq!((&first["max_tokens"], &first["temperature"]), (&json!(5), &json!(0.5)));
        asked.max_tokens = None;
        assert_eq!(body(&config, &asked, Sight::Sees)["max_tokens"], json!(9));
        assert_eq!(body(&ModelConfig { max_tokens: None, ..config }, &asked, Sight::Sees)["max_tokens"], json!(8192));
        asked.system = " ".to_owned();
        assert_eq!(body(&self::config(), &asked, Sight::Sees)["system"], Value::Null);
    }

    #[test]
    fn images_are_blocks_before_the_words() {
        let image = ModelImage { digest: Digest::of_bytes(&[1, 2, 3]), media_type: "image/png".into(), bytes: [1, 2, 3][..].into() };
        let asked = request(vec![ModelMessage::User { text: "What is it?".into(), images: vec![image] }]);
        assert_eq!(
            body(&config(), &asked, Sight::Sees)["messages"][0]["content"],
            json!([
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
                {"type": "text", "text": "What is it?"},
            ])
        );
        let told = body(&config(), &asked, Sight::Blind)["messages"][0]["content"][0]["text"].clone();
        assert!(told.as_str().is_some_and(|told| told.contains("you can't see images")), "{told}");
    }
}
