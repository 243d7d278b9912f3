//! A request in the words of chat completions. Pure.

use crate::config::ModelConfig;
use crate::phrase::{Shown, Sight, plain_name, readable_arguments, result_text, shown};
use baton_proto::{ModelImage, ModelMessage, ModelRequest, ModelToolCall};
use serde_json::{Value, json};

/// The body of a streaming request.
pub(crate) fn body(config: &ModelConfig, request: &ModelRequest, sight: Sight) -> Value {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    messages.extend(request.messages.iter().filter_map(|said| message(said, sight)));

    let mut body = json!({
        "model": config.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // An empty list of tools is an error with most providers.
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
            })
            .collect();
    }
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(max_tokens) = request.max_tokens.or(config.max_tokens) {
        body[max_tokens_name(&config.base_url)] = json!(max_tokens);
    }
    body
}

/// OpenAI's own newer models refuse the name that everybody else knows.
fn max_tokens_name(base_url: &str) -> &'static str {
    if base_url.starts_with("https://api.openai.com/") { "max_completion_tokens" } else { "max_tokens" }
}

fn message(message: &ModelMessage, sight: Sight) -> Option<Value> {
    match message {
        ModelMessage::User { text, images } => Some(json!({"role": "user", "content": user_content(text, images, sight)})),
        // An answer that said nothing and did nothing has nothing to tell, and providers refuse it.
        ModelMessage::Agent { text, calls } if text.trim().is_empty() && calls.is_empty() => None,
        ModelMessage::Agent { text, calls } => {
            let content = if text.trim().is_empty() { Value::Null } else { json!(text) };
            let mut message = json!({"role": "assistant", "content": content});
            if !calls.is_empty() {
                message["tool_calls"] = calls.iter().map(call).collect();
            }
            Some(message)
        }
        ModelMessage::Result { call_id, text, failed, .. } => {
            Some(json!({"role": "tool", "tool_call_id": call_id, "content": marked_result(text, *failed)}))
        }
    }
}

/// Words alone are one string, which every server reads; with images they become parts.
fn user_content(text: &str, images: &[ModelImage], sight: Sight) -> Value {
    let mut words = text.to_owned();
    let mut parts = Vec::new();
    for image in images {
        match shown(image, sight) {
            Shown::Image { media_type, base64 } => {
                parts.push(json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{base64}")}}));
            }
            Shown::Words(told) if words.trim().is_empty() => words = told,
            Shown::Words(told) => words = format!("{words}\n\n{told}"),
        }
    }
    if parts.is_empty() {
        return json!(words);
    }
    if !words.trim().is_empty() {
        parts.insert(0, json!({"type": "text", "text": words}));
    }
    json!(parts)
}

/// The dialect has no mark for a failed call: it is said in words.
fn marked_result(text: &str, failed: bool) -> String {
    let text = result_text(text, failed);
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    if failed && !says_so { format!("Error: {text}") } else { text.to_owned() }
}

fn call(call: &ModelToolCall) -> Value {
    json!({
        "id": call.id, "type": "function",
        "function": {"name": plain_name(&call.name), "arguments": readable_arguments(&call.arguments).to_string()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::ModelTool;

    fn request(messages: Vec<ModelMessage>) -> ModelRequest {
        ModelRequest { system: "rules".to_owned(), messages, tools: Vec::new(), max_tokens: None }
    }

    fn config() -> ModelConfig {
        ModelConfig::new("http://127.0.0.1/v1", "m")
    }

    #[test]
    fn a_dialogue_with_calls() {
        let call = |id: &str, name: &str, arguments: &str| ModelToolCall { id: id.into(), name: name.into(), arguments: arguments.into() };
        let result =
            |id: &str, text: &str, failed| ModelMessage::Result { call_id: id.into(), tool: "read_file".into(), text: text.into(), failed };
        let calls = vec![
            call("1", "read_file", r#"{"path":"a"}"#),
            call("2", "no such tool!", ""),
            call("3", "read_file", "{path"),
            call("4", "", "[1]"),
        ];
        let body = body(
            &config(),
            &request(vec![
                ModelMessage::user("go"),
                ModelMessage::Agent { text: " ".into(), calls: Vec::new() },
                ModelMessage::Agent { text: String::new(), calls },
                result("1", "milk", false),
                result("2", "no such tool", true),
                result("3", "", false),
                result("4", "error: not an object", true),
            ]),
            Sight::Sees,
        );
        assert_eq!(
            body["messages"],
            json!([
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": "{\"path\":\"a\"}"}},
                    {"id": "2", "type": "function", "function": {"name": "no_such_tool_", "arguments": "{}"}},
                    {"id": "3", "type": "function", "function": {"name": "read_file", "arguments": "{\"unreadable_arguments\":\"{path\"}"}},
                    {"id": "4", "type": "function", "function": {"name": "unnamed", "arguments": "{\"unreadable_arguments\":\"[1]\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "1", "content": "milk"},
                {"role": "tool", "tool_call_id": "2", "content": "Error: no such tool"},
                {"role": "tool", "tool_call_id": "3", "content": "(no output)"},
                {"role": "tool", "tool_call_id": "4", "content": "error: not an object"},
            ])
        );
        assert_eq!(body["tools"], Value::Null);
        assert_eq!(body["max_tokens"], Value::Null);
    }

    #[test]
    fn limits_and_tools() {
        let mut asked = request(vec![ModelMessage::user("go")]);
        asked.tools.push(ModelTool { name: "a".into(), description: "d".into(), parameters: json!({"type": "object"}) });
        asked.max_tokens = Some(5);
        let config = ModelConfig { max_tokens: Some(9), temperature: Some(0.5), ..config() };
        let first = body(&config, &asked, Sight::Sees);
        assert_eq!(
            first["tools"],
            json!([{"type": "function", "function": {"name": "a", "description": "d", "parameters": {"type": "object"}}}])
        );
        assert_eq!((&first["max_tokens"], &first["temperature"]), (&json!(5), &json!(0.5)));
        asked.max_tokens = None;
        assert_eq!(body(&config, &asked, Sight::Sees)["max_tokens"], json!(9));
        let config = ModelConfig { base_url: "https://api.openai.com/v1".into(), ..config };
        assert_eq!(body(&config, &asked, Sight::Sees)["max_completion_tokens"], json!(9));
    }

    #[test]
    fn images_are_parts_beside_the_words() {
        let image =
            |bytes: &[u8]| ModelImage { digest: baton_proto::Digest::of_bytes(bytes), media_type: "image/png".into(), bytes: bytes.into() };
        let asked = request(vec![
            ModelMessage::User { text: "What is it?".into(), images: vec![image(&[1, 2, 3]), image(&[])] },
            ModelMessage::User { text: " ".into(), images: vec![image(&[1, 2, 3])] },
        ]);
        let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AQID"}});
        let words = "What is it?\n\n[An image was here that can't be read any more.]";
        assert_eq!(
            (
                &body(&config(), &asked, Sight::Sees)["messages"][1]["content"],
                &body(&config(), &asked, Sight::Sees)["messages"][2]["content"]
            ),
            (&json!([{"type": "text", "text": words}, picture]), &json!([picture]))
        );
        let told = body(&config(), &asked, Sight::Blind)["messages"][1]["content"].clone();
        assert!(told.as_str().is_some_and(|told| told.contains("you can't see images")), "{told}");
    }
}
