//! The client against the scripted model over real HTTP, and against servers that are worse than any script.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking; the lint knows only unit tests")]

use baton_model::{DeltaSink, Model, ModelConfig, Provider, Secret};
use baton_proto::{ModelAnswer, ModelError, ModelErrorKind, ModelMessage, ModelRequest, ModelTool};
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const KEY: &str = "sk-canary-0123456789";
/// Far longer than any of this takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Seen {
    text: Vec<String>,
    thinking: Vec<String>,
}

impl DeltaSink for Seen {
    fn text(&mut self, delta: &str) {
        self.text.push(delta.to_owned());
    }
    fn thinking(&mut self, delta: &str) {
        self.thinking.push(delta.to_owned());
    }
}

fn config(base_url: impl Into<String>) -> ModelConfig {
    ModelConfig { api_key: Some(Secret::new(KEY)), ..ModelConfig::new(base_url, "scripted") }
}

/// Waits that a test can afford.
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
    assert_eq!(answer.text, "The answer is 42, 答案是四十二。");
    assert_eq!(answer.thinking, "First I think a while.");
    assert!(seen.text.len() > 2 && seen.thinking.len() > 1, "{:?} {:?}", seen.text, seen.thinking);
    assert_eq!((seen.text.concat(), seen.thinking.concat()), (answer.text, answer.thinking));
    assert!(answer.usage.input_tokens > 0 && answer.usage.output_tokens > 0 && !answer.truncated);
    let recorded = server.requests();
    assert_eq!(recorded[0].bearer.as_deref(), Some(KEY));
    assert_eq!(recorded[0].body["messages"][0], json!({"role": "system", "content": "You are Baton."}));
}

#[tokio::test]
async fn tags_of_thinking_are_taken_out_of_the_text() {
    let server = scripted(json!([{"reply": {"text": "<think>Let me see.</think>\n\nHere it is."}}])).await;
    let (answer, seen) = ask(config(server.url())).await.unwrap();
    assert_eq!((answer.thinking.as_str(), answer.text.as_str()), ("Let me see.", "Here it is."));
    assert_eq!((seen.thinking.concat(), seen.text.concat()), (answer.thinking, answer.text));
}

#[tokio::test]
async fn parallel_calls_come_whole_and_their_results_go_back() {
    let server = scripted(json!([
        {"when": {"results": 0}, "reply": {"text": "I look.", "calls": [
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
    assert_eq!(first.text, "I look.");
    assert!(first.calls.iter().all(|call| !call.id.is_empty()) && first.calls[0].id != first.calls[1].id);

    // The hub's own ids, and a result without a word: the strict server takes both.
    let mut calls = first.calls;
    for (call, id) in calls.iter_mut().zip(["own-1", "own-2"]) {
        id.clone_into(&mut call.id);
    }
    asked.messages.push(ModelMessage::Agent { text: first.text, calls });
    let result =
        |id: &str, text: &str| ModelMessage::Result { call_id: id.into(), tool: "read_file".into(), text: text.into(), failed: false };
    asked.messages.extend([result("own-1", ""), result("own-2", "milk")]);
    let second = model.complete(&asked, &mut ()).await.unwrap();
    assert_eq!(second.text, "It says milk.");
    assert!(server.unanswered().is_empty(), "{:?}", server.unanswered());
}

#[tokio::test]
async fn the_same_request_gets_the_same_answer() {
    let server = scripted(json!([{"reply": {"calls": [{"name": "read_file"}]}}])).await;
    let (first, _) = ask(config(server.url())).await.unwrap();
    let (second, _) = ask(config(server.url())).await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn statuses_become_kinds() {
    for (status, kind) in [
        (401, ModelErrorKind::Unauthorized),
        (404, ModelErrorKind::Refused),
        (429, ModelErrorKind::RateLimited),
        (500, ModelErrorKind::Unavailable),
    ] {
        let server = scripted(json!([{"reply": {"fault": {"status": status}}}])).await;
        let error = failure(config(server.url())).await;
        assert_eq!((error.kind, error.retry_after_ms), (kind, None), "{status}");
        assert!(error.message.contains("the script says so"), "{error:?}");
    }
}

#[tokio::test]
async fn a_rate_limit_says_when_and_passes() {
    let server = scripted(json!([{"reply": {"text": "now", "fault": {"status": 429, "retry_after": 7, "times": 1}}}])).await;
    let error = failure(config(server.url())).await;
    assert_eq!((error.kind, error.retry_after_ms), (ModelErrorKind::RateLimited, Some(7_000)));
    assert_eq!(ask(config(server.url())).await.unwrap().0.text, "now");
}

#[tokio::test]
async fn a_dialogue_that_breaks_the_rules_is_refused() {
    let server = scripted(json!([{"reply": {"text": "never"}}])).await;
    let mut asked = request("hello");
    asked.messages.push(ModelMessage::Result { call_id: "x".into(), tool: "read_file".into(), text: "milk".into(), failed: false });
    let error = Provider::new(config(server.url())).unwrap().complete(&asked, &mut ()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert!(error.message.contains("no preceding call"), "{error:?}");
    assert_eq!(server.unanswered().len(), 1);
}

#[tokio::test]
async fn faults_become_kinds() {
    for (fault, kind, words) in [
        ("hang", ModelErrorKind::TimedOut, "said nothing for 0.2 s"),
        ("cut", ModelErrorKind::Unavailable, ""),
        ("garbage", ModelErrorKind::Malformed, "broken JSON"),
    ] {
        let server = scripted(json!([{"reply": {"text": "a text of some length, so that it has a middle", "fault": fault}}])).await;
        let error = failure(impatient(server.url())).await;
        assert_eq!(error.kind, kind, "{fault}: {error:?}");
        assert!(error.message.contains(words), "{error:?}");
    }
}

#[tokio::test]
async fn an_answer_without_a_word_is_an_answer() {
    let server = scripted(json!([{"reply": {"text": "x", "fault": "empty"}}])).await;
    let (answer, seen) = ask(config(server.url())).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.calls.len(), seen.text.len()), ("", 0, 0));
}

#[tokio::test]
async fn a_slow_start_is_not_a_slow_middle() {
    let server = scripted(json!([{"reply": {"text": "one two three four", "delay_ms": 60}}])).await;
    let patient_first = ModelConfig { idle_timeout: Duration::from_millis(20), ..config(server.url()) };
    let error = failure(patient_first).await;
    assert_eq!(error.kind, ModelErrorKind::TimedOut);
    assert!(error.message.contains("in the middle"), "{error:?}");
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

#[tokio::test]
async fn nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = failure(config(format!("http://{address}/v1"))).await;
    assert_eq!(error.kind, ModelErrorKind::Unreachable);
    assert!(error.message.contains(&address.to_string()), "{error:?}");
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
    format!("http://{address}/v1")
}

fn http(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n{body}")
}

const STREAM: &str = "200 OK\r\ncontent-type: text/event-stream";

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({"choices": [{"message": {"role": "assistant", "content": "whole"}, "finish_reason": "stop"}]}).to_string();
    let url = saying(http("200 OK\r\ncontent-type: application/json; charset=utf-8", &body)).await;
    let (answer, seen) = ask(config(url)).await.unwrap();
    assert_eq!((answer.text.as_str(), seen.text.concat().as_str()), ("whole", "whole"));
}

#[tokio::test]
async fn streams_that_end_in_their_own_way() {
    let word = r#"data: {"choices":[{"delta":{"content":"hi"}}]}"#;
    let end = r#"data: {"choices":[{"delta":{},"finish_reason":"length"}]}"#;
    for (body, expected) in [
        (format!("{word}\n\n{end}\n\ndata: [DONE]\n\n"), Ok(true)),
        (format!(": waiting\n\n{word}\r\n\r\n{end}\r\n\r\n"), Ok(true)),
        (format!("{word}\n\ndata: [DONE]\n\n"), Ok(false)),
        (format!("{word}\n\n{end}\n\ndata: {{\"broken"), Ok(true)),
        (format!("{word}\n\n"), Err(ModelErrorKind::Unavailable)),
        (String::new(), Err(ModelErrorKind::Unavailable)),
        (format!("{word}\n\ndata: {{\"error\":{{\"message\":\"{KEY} overloaded\",\"code\":503}}}}\n\n"), Err(ModelErrorKind::Unavailable)),
        (format!("{word}\n\ndata: 5\n\n"), Err(ModelErrorKind::Malformed)),
    ] {
        match ask(config(saying(http(STREAM, &body)).await)).await {
            Ok((answer, _)) => assert_eq!((answer.text.as_str(), Ok(answer.truncated)), ("hi", expected), "{body}"),
            Err(error) => assert_eq!(Err(error.kind), expected, "{body}"),
        }
    }
}

#[tokio::test]
async fn the_key_is_struck_out_of_what_providers_echo() {
    let bodies = [format!("{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}"), format!("<p>{KEY}</p>"), KEY.repeat(4_000)];
    for body in bodies {
        let error = failure(config(saying(http("401 Unauthorized", &body)).await)).await;
        assert_eq!(error.kind, ModelErrorKind::Unauthorized);
        assert!(error.message.contains("***") && error.message.len() < 500, "{error:?}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = scripted(json!([{"reply": {"text": "stolen"}}])).await;
    let url = saying(http(&format!("307 Temporary Redirect\r\nlocation: {}/chat/completions", server.url()), "")).await;
    let error = failure(config(url)).await;
    assert_eq!(error.kind, ModelErrorKind::Refused);
    assert!(error.hint.contains("Redirects"), "{error:?}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn pages_and_floods_are_refused() {
    let endless_event = format!("data: {}", "x".repeat(3 * 1024 * 1024));
    let endless_answer = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(200 * 1024)).repeat(6);
    for (head, body, kind) in [
        ("200 OK\r\ncontent-type: text/html", "<html>", ModelErrorKind::Malformed),
        ("200 OK\r\ncontent-type: application/json", "{}", ModelErrorKind::Malformed),
        ("200 OK\r\ncontent-type: application/json", "{", ModelErrorKind::Malformed),
        (STREAM, endless_event.as_str(), ModelErrorKind::Refused),
        (STREAM, endless_answer.as_str(), ModelErrorKind::Refused),
    ] {
        let error = failure(config(saying(http(head, body)).await)).await;
        assert_eq!(error.kind, kind, "{head}: {error:?}");
    }
}

/// Signs of life that bring nothing don't count: a stream of them ends like silence.
#[tokio::test]
async fn empty_pieces_do_not_keep_a_model_alive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut vec![0; 64 * 1024]).await;
        socket.write_all(http(STREAM, "").as_bytes()).await.unwrap();
        let piece = b": still here\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n";
        while socket.write_all(piece).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let error = failure(impatient(url)).await;
    assert_eq!(error.kind, ModelErrorKind::TimedOut, "{error:?}");
}
