//! The Messages dialect against the scripted model over real HTTP, and against servers that are worse than any script.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking; the lint knows only unit tests")]

use baton_model::{DeltaSink, Dialect, Model, ModelConfig, Provider, Secret};
use baton_proto::{Digest, ModelAnswer, ModelError, ModelErrorKind, ModelImage, ModelMessage, ModelRequest, ModelTool, ModelToolCall};
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const KEY: &str = "sk-ant-canary-0123456789";
/// Far longer than any of this takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Seen {
    text: String,
    thinking: String,
}

impl DeltaSink for Seen {
    fn text(&mut self, delta: &str) {
        self.text.push_str(delta);
    }
    fn thinking(&mut self, delta: &str) {
        self.thinking.push_str(delta);
    }
}

fn config(base_url: impl Into<String>) -> ModelConfig {
    ModelConfig { dialect: Dialect::Anthropic, api_key: Some(Secret::new(KEY)), ..ModelConfig::new(base_url, "scripted") }
}

fn impatient(base_url: impl Into<String>) -> ModelConfig {
    let short = Duration::from_millis(200);
    ModelConfig { first_token_timeout: short, idle_timeout: short, ..config(base_url) }
}

fn request(text: &str) -> ModelRequest {
    ModelRequest {
        system: "You are Baton.".to_owned(),
        messages: vec![ModelMessage::user(text)],
        tools: vec![ModelTool {
            name: "read_file".to_owned(),
            description: "Read a file.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_tokens: None,
    }
}

async fn scripted(rules: Value) -> ScriptedModel {
    ScriptedModel::start(Script::parse(&rules.to_string()).unwrap()).await.unwrap()
}

/// Asks once, and looks for the key in whatever comes of it.
async fn ask(config: ModelConfig) -> Result<(ModelAnswer, Seen), ModelError> {
    let model = Provider::new(config).unwrap();
    let mut seen = Seen::default();
    let outcome = timeout(DEADLINE, model.complete(&request("hello"), &mut seen)).await.expect("an outcome in time");
    assert!(!format!("{model:?} {outcome:?}").contains("canary"), "{outcome:?}");
    outcome.map(|answer| (answer, seen))
}

async fn failure(config: ModelConfig) -> ModelError {
    let error = ask(config).await.map(|(answer, _)| answer).expect_err("a failure");
    assert!(!error.message.is_empty() && !error.hint.is_empty(), "{error:?}");
    error
}

#[tokio::test]
async fn text_and_thinking_stream_in_pieces() {
    let server = scripted(json!([{"reply": {"thinking": "First I think a while.", "text": "The answer is 42, 答案是四十二。"}}])).await;
    let (answer, seen) = ask(config(server.url())).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.thinking.as_str()), ("The answer is 42, 答案是四十二。", "First I think a while."));
    assert_eq!((seen.text, seen.thinking), (answer.text, answer.thinking));
    assert!(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 1 && !answer.truncated, "{:?}", answer.usage);
    let recorded = &server.requests()[0];
    assert_eq!((recorded.bearer.as_deref(), &recorded.refused), (Some(KEY), &None));
    assert_eq!(recorded.body["system"], json!([{"type": "text", "text": "You are Baton."}]));
    assert_eq!(recorded.body["max_tokens"], 8192);
}

#[tokio::test]
async fn parallel_calls_come_whole_and_their_results_go_back_in_one_message() {
    let server = scripted(json!([
        {"when": {"last_user_contains": "and now?"}, "reply": {"text": "Now this."}},
        {"when": {"results": 0}, "reply": {"thinking": "Both.", "text": "I look.", "calls": [
            {"name": "read_file", "arguments": {"path": "a/rather/long/path.txt"}},
            {"name": "read_file", "arguments": "{\"path\": not json"},
        ]}},
        {"when": {"results": 2, "last_tool": "read_file"}, "reply": {"text": "It says {{last_result}}."}},
    ]))
    .await;
    let model = Provider::new(config(server.url())).unwrap();
    let mut asked = request("hello");
    let first = model.complete(&asked, &mut ()).await.unwrap();
    let calls: Vec<_> = first.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("read_file", r#"{"path":"a/rather/long/path.txt"}"#), ("read_file", "{\"path\": not json")]);
    assert!(first.calls.iter().all(|call| !call.id.is_empty()) && first.calls[0].id != first.calls[1].id);
    assert_eq!(first.usage.cached_input_tokens, 0);

    // The hub's own ids, arguments that never were JSON, and a result without a word: the strict server takes all of them.
    let mut calls = first.calls;
    for (call, id) in calls.iter_mut().zip(["own-1", "own-2"]) {
        id.clone_into(&mut call.id);
    }
    asked.messages.push(ModelMessage::Agent { text: first.text, calls });
    let result =
        |id: &str, text: &str, failed| ModelMessage::Result { call_id: id.into(), tool: "read_file".into(), text: text.into(), failed };
    asked.messages.extend([result("own-1", "", false), result("own-2", "milk", true)]);
    let second = model.complete(&asked, &mut ()).await.unwrap();
    assert_eq!(second.text, "It says milk.");
    // The tools are kept by the provider from call to call, and counted with what is read.
    let usage = second.usage;
    assert!(usage.cached_input_tokens > 0 && usage.cached_input_tokens < usage.input_tokens, "{usage:?}");

    asked.messages.extend([ModelMessage::Agent { text: second.text, calls: Vec::new() }, ModelMessage::user("and now?")]);
    assert_eq!(model.complete(&asked, &mut ()).await.unwrap().text, "Now this.");
    assert!(server.unanswered().is_empty(), "{:?}", server.unanswered());
}

#[tokio::test]
async fn a_dialogue_that_breaks_the_rules_is_refused() {
    let server = scripted(json!([{"reply": {"text": "never"}}])).await;
    let model = Provider::new(config(server.url())).unwrap();
    let call = |id: &str| ModelToolCall { id: id.into(), name: "read_file".into(), arguments: "{}".into() };
    let result = |id: &str| ModelMessage::Result { call_id: id.into(), tool: "read_file".into(), text: "milk".into(), failed: false };
    for (messages, words) in [
        (vec![result("x")], "a result behind other blocks"),
        (vec![ModelMessage::Agent { text: String::new(), calls: vec![call("a")] }, ModelMessage::user("?")], "has no result"),
        (vec![ModelMessage::Agent { text: String::new(), calls: vec![call("a"), call("b")] }, result("b"), result("a")], "comes next"),
        (vec![ModelMessage::Agent { text: "bye".into(), calls: Vec::new() }], "there is nothing to answer"),
    ] {
        let mut asked = request("hello");
        asked.messages.extend(messages);
        let error = model.complete(&asked, &mut ()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Refused);
        assert!(error.message.contains(words), "{words}: {error:?}");
    }
    assert_eq!(server.unanswered().len(), 4);
}

#[tokio::test]
async fn statuses_become_kinds_and_waits_are_passed_on() {
    for (fault, kind, wait) in [
        (json!({"status": 400}), ModelErrorKind::Refused, None),
        (json!({"status": 401}), ModelErrorKind::Unauthorized, None),
        (json!({"status": 404}), ModelErrorKind::Refused, None),
        (json!({"status": 413}), ModelErrorKind::Refused, None),
        (json!({"status": 429, "retry_after": 7}), ModelErrorKind::RateLimited, Some(7_000)),
        (json!({"status": 500}), ModelErrorKind::Unavailable, None),
        (json!({"status": 529, "retry_after": 3}), ModelErrorKind::Unavailable, Some(3_000)),
    ] {
        let server = scripted(json!([{"reply": {"fault": fault}}])).await;
        let error = failure(config(server.url())).await;
        assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{fault}");
        assert!(error.message.contains("the script says so"), "{error:?}");
    }
}

#[tokio::test]
async fn faults_become_kinds() {
    for (fault, kind, words) in [
        ("hang", ModelErrorKind::TimedOut, "said nothing for 0.2 s"),
        ("stall", ModelErrorKind::TimedOut, "in the middle"),
        ("cut", ModelErrorKind::Unavailable, ""),
        ("error", ModelErrorKind::Unavailable, "the script says so"),
        ("garbage", ModelErrorKind::Malformed, "broken JSON"),
    ] {
        let server = scripted(json!([{"reply": {"text": "a text of some length, so that it has a middle", "fault": fault}}])).await;
        let error = failure(impatient(server.url())).await;
        assert_eq!(error.kind, kind, "{fault}: {error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
    let server = scripted(json!([{"reply": {"text": "x", "fault": "empty"}}])).await;
    let (answer, seen) = ask(config(server.url())).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.calls.len(), seen.text.as_str()), ("", 0, ""));
}

/// However far an answer came, it is whole once its end has been told, and nothing before.
#[tokio::test]
async fn a_stream_that_breaks_at_any_point() {
    let reply = json!({"thinking": "Hm, a file.", "text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]});
    let whole = {
        let server = scripted(json!([{"reply": reply}])).await;
        ask(config(server.url())).await.unwrap().0
    };
    let mut ended_well = 0;
    for pieces in 0..40 {
        let mut reply = reply.clone();
        reply["fault"] = json!({"cut_after": pieces});
        let server = scripted(json!([{"reply": reply}])).await;
        match ask(config(server.url())).await {
            Ok((answer, _)) => {
                assert_eq!((&answer.text, &answer.calls, answer.truncated), (&whole.text, &whole.calls, false), "after {pieces}");
                ended_well += 1;
            }
            Err(error) => {
                assert_eq!((error.kind, ended_well), (ModelErrorKind::Unavailable, 0), "after {pieces}: {error:?}");
            }
        }
    }
    assert!((1..30).contains(&ended_well), "{ended_well} of 40 ended well");
}

#[tokio::test]
async fn dropping_the_call_closes_its_connection() {
    let server = scripted(json!([{"reply": {"fault": "hang"}}])).await;
    let model = Provider::new(config(server.url())).unwrap();
    let call = tokio::spawn(async move { model.complete(&request("hello"), &mut ()).await });
    timeout(DEADLINE, server.wait_for_requests(1)).await.expect("the request");
    assert_eq!(server.abandoned(), 0);
    call.abort();
    timeout(DEADLINE, server.wait_for_abandoned(1)).await.expect("the connection is closed");
}

/// A server that says exactly these bytes to whoever asks, and closes.
async fn saying(bytes: impl Into<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bytes = bytes.into();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 64 * 1024];
            let _ = socket.read(&mut request).await;
            let _ = socket.write_all(&bytes).await;
            let _ = socket.shutdown().await;
            // Reads what is left, so that closing doesn't destroy what was sent.
            while matches!(socket.read(&mut request).await, Ok(count) if count > 0) {}
        }
    });
    format!("http://{address}")
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn streams_that_end_in_their_own_way() {
    let word = r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
    let end = |reason: &str| format!(r#"data: {{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
    let stop = r#"data: {"type":"message_stop"}"#;
    let failed = |kind: &str| {
        format!(
            r#"event: error
data: {{"type":"error","error":{{"type":"{kind}","message":"{KEY} failed"}}}}"#
        )
    };
    for (events, expected) in [
        (vec![word.to_owned(), end("end_turn"), stop.to_owned()], Ok(false)),
        (vec![word.to_owned(), end("max_tokens"), stop.to_owned()], Ok(true)),
        (vec![word.to_owned(), end("end_turn")], Ok(false)),
        (vec![word.to_owned(), end("end_turn"), "data: {\"broken".to_owned()], Ok(false)),
        (vec![word.to_owned(), stop.to_owned()], Err(ModelErrorKind::Unavailable)),
        (vec![word.to_owned(), "data: [DONE]".to_owned()], Err(ModelErrorKind::Unavailable)),
        (vec![word.to_owned(), failed("overloaded_error")], Err(ModelErrorKind::Unavailable)),
        (vec![failed("rate_limit_error")], Err(ModelErrorKind::RateLimited)),
        (vec![failed("authentication_error")], Err(ModelErrorKind::Unauthorized)),
        (vec![word.to_owned(), failed("invalid_request_error")], Err(ModelErrorKind::Refused)),
        (vec![end("refusal"), stop.to_owned()], Err(ModelErrorKind::Refused)),
        (vec![word.to_owned(), "data: {}".to_owned()], Err(ModelErrorKind::Malformed)),
        (vec![word.to_owned(), "data: {\"type\":\"content_block_delta\"}".to_owned()], Err(ModelErrorKind::Malformed)),
    ] {
        let body = events.join("\n\n") + "\n\n";
        match ask(config(saying(format!("{STREAM}{body}")).await)).await {
            Ok((answer, _)) => assert_eq!((answer.text.as_str(), Ok(answer.truncated)), ("hi", expected), "{body}"),
            Err(error) => assert_eq!(Err(error.kind), expected, "{body}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body =
        json!({"type": "message", "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn", "usage": {"input_tokens": 3}});
    let url = saying(format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{body}")).await;
    let (answer, seen) = ask(config(url)).await.unwrap();
    assert_eq!((answer.text.as_str(), seen.text.as_str(), answer.usage.input_tokens), ("whole", "whole", 3));
    let other = json!({"choices": [{"message": {"content": "another dialect"}}]});
    let url = saying(format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{other}")).await;
    let error = failure(config(url)).await;
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.hint.contains("Anthropic"), "{error:?}");
}

/// While arguments are held back until they are whole, pings say that the model is at work. At any other time they say nothing.
#[tokio::test]
async fn pings_keep_a_call_alive_and_nothing_else() {
    let begun = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"read_file","input":{}}}"#;
    let said = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}"#;
    let end = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    for (begun, survives) in [(begun, true), (said, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut vec![0; 64 * 1024]).await;
            let _ = socket.write_all(format!("{STREAM}data: {begun}\n\n").as_bytes()).await;
            // Twice as long as the client waits for a word.
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if socket.write_all(b"event: ping\ndata: {\"type\":\"ping\"}\n\n").await.is_err() {
                    return;
                }
            }
            let _ = socket.write_all(end.as_bytes()).await;
        });
        let outcome = ask(impatient(url)).await;
        match outcome {
            Ok((answer, _)) => assert!(survives && answer.calls.len() == 1, "{answer:?}"),
            Err(error) => assert!(!survives && error.kind == ModelErrorKind::TimedOut, "{error:?}"),
        }
    }
}

fn picture() -> ModelImage {
    ModelImage { digest: Digest::of_bytes(&[1, 2, 3]), media_type: "image/png".to_owned(), bytes: [1, 2, 3][..].into() }
}

fn asking_about_a_picture() -> ModelRequest {
    ModelRequest { messages: vec![ModelMessage::User { text: "What is it?".into(), images: vec![picture()] }], ..request("") }
}

#[tokio::test]
async fn images_reach_a_model_that_sees_in_either_dialect() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAi] {
        let server = scripted(json!([{"when": {"last_user_contains": "What is it?"}, "reply": {"text": "A cat."}}])).await;
        let model = Provider::new(ModelConfig { dialect, ..config(server.url()) }).unwrap();
        assert_eq!(model.complete(&asking_about_a_picture(), &mut ()).await.unwrap().text, "A cat.");
        let content = server.requests()[0].body["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        assert!(content.contains("AQID") && content.contains("image/png"), "{content}");
    }
}

/// A server whose model sees nothing refuses once; from then on it is asked in words.
#[tokio::test]
async fn a_model_that_cannot_see_is_asked_in_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 64 * 1024];
            let mut text = String::new();
            // Head and body may come apart.
            while !text.ends_with('}') {
                let count = socket.read(&mut request).await.unwrap();
                text.push_str(&String::from_utf8_lossy(&request[..count]));
            }
            let (status, body) = if text.contains("image_url") {
                ("400 Bad Request", json!({"error": {"message": "this model does not support image input"}}))
            } else {
                ("200 OK", json!({"choices": [{"message": {"content": "No eyes."}, "finish_reason": "stop"}]}))
            };
            sender.send(text).unwrap();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{body}");
            let _ = socket.write_all(head.as_bytes()).await;
        }
    });
    let config = ModelConfig { dialect: Dialect::OpenAi, ..config(url.clone()) };
    let model = Provider::new(config.clone()).unwrap();
    for _ in 0..2 {
        let answer = timeout(DEADLINE, model.complete(&asking_about_a_picture(), &mut ())).await.unwrap().unwrap();
        assert_eq!(answer.text, "No eyes.");
    }
    let asked: Vec<String> = std::iter::from_fn(|| received.try_recv().ok()).collect();
    let with_image: Vec<_> = asked.iter().map(|text| text.contains("image_url")).collect();
    assert_eq!(with_image, [true, false, false]);
    assert!(asked[1].contains("you can't see images"), "{}", asked[1]);

    // Where it was said that it sees, the refusal is told.
    let sure = Provider::new(ModelConfig { images: Some(true), ..config }).unwrap();
    let error = timeout(DEADLINE, sure.complete(&asking_about_a_picture(), &mut ())).await.unwrap().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused);
}
