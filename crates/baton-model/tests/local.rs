//! Servers of models on this machine, each on a port of the test's own choosing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking; the lint knows only unit tests")]

use baton_model::{FoundServer, LocalKind, LocalServer, Model, Provider, choose_local_model, find_local_servers};
use baton_proto::{ModelMessage, ModelRequest};
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Far longer than any of this takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server that gives these answers to these paths, and 404 to others.
async fn serving(answers: Vec<(&'static str, Value)>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 16 * 1024];
            let count = socket.read(&mut request).await.unwrap_or(0);
            let text = String::from_utf8_lossy(&request[..count]).into_owned();
            let path = text.split(' ').nth(1).unwrap_or_default();
            let (status, body) = match answers.iter().find(|(known, _)| *known == path) {
                Some((_, answer)) => ("200 OK", answer.to_string()),
                None => ("404 Not Found", "{\"error\":\"no such path\"}".to_owned()),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    address
}

async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

async fn look(places: &[(LocalKind, SocketAddr)]) -> Vec<FoundServer> {
    let places: Vec<_> = places.iter().map(|&(kind, address)| LocalServer { kind, address }).collect();
    timeout(DEADLINE, find_local_servers(&places)).await.expect("it is quick")
}

fn chosen(found: &[FoundServer]) -> Option<(LocalKind, &str)> {
    choose_local_model(found).map(|(server, model)| (server.server.kind, model.name.as_str()))
}

#[tokio::test]
async fn ollama_is_found_and_its_model_with_tools_answers() {
    let script = Script::parse(&json!([{"reply": {"text": "Here I am."}}]).to_string()).unwrap();
    let server = ScriptedModel::start(script).await.unwrap();
    let found = look(&[(LocalKind::LmStudio, nobody().await), (LocalKind::Ollama, server.address())]).await;
    // The one that only embeds is none to talk with.
    let names: Vec<_> = found[0].models.iter().map(|model| (model.name.as_str(), model.tools)).collect();
    assert_eq!((found.len(), names), (1, vec![("talker", Some(false)), ("scripted", Some(true))]));
    let (place, model) = choose_local_model(&found).unwrap();
    assert_eq!((model.name.as_str(), model.images), ("scripted", Some(true)));
    let request = ModelRequest { system: "rules".into(), messages: vec![ModelMessage::user("hello")], tools: Vec::new(), max_tokens: None };
    let answer = Provider::new(model.config(place.server)).unwrap().complete(&request, &mut ()).await.unwrap();
    assert_eq!(answer.text, "Here I am.");
    assert_eq!(server.requests()[0].bearer, None, "no key goes to whoever listens there");
}

#[tokio::test]
async fn the_others_are_found_too() {
    let llama = serving(vec![
        ("/v1/models", json!({"data": [{"id": "qwen"}]})),
        ("/props", json!({"chat_template_caps": {"supports_tool_calls": true}, "modalities": {"vision": false}})),
    ])
    .await;
    let older_llama = serving(vec![("/v1/models", json!({"data": [{"id": "old"}]}))]).await;
    let studio = serving(vec![("/api/v0/models", json!({"data": [{"id": "gemma", "type": "llm", "capabilities": ["tool_use"]}]}))]).await;
    let bare_studio = serving(vec![("/v1/models", json!({"data": [{"id": "bare"}]}))]).await;

    let found = look(&[(LocalKind::LlamaCpp, older_llama), (LocalKind::LmStudio, studio), (LocalKind::LlamaCpp, llama)]).await;
    assert_eq!(found.len(), 3);
    // What is in memory and known to call tools goes before what comes first.
    assert_eq!(chosen(&found), Some((LocalKind::LlamaCpp, "qwen")));
    assert_eq!(chosen(&found[..2]), Some((LocalKind::LmStudio, "gemma")));
    assert_eq!(chosen(&found[..1]), Some((LocalKind::LlamaCpp, "old")));
    assert_eq!(chosen(&look(&[(LocalKind::LmStudio, bare_studio)]).await), Some((LocalKind::LmStudio, "bare")));
}

#[tokio::test]
async fn whoever_is_something_else_or_silent_is_not_found() {
    let other = serving(vec![("/v1/models", json!({"status": "ok"})), ("/api/tags", json!([1, 2]))]).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap();
    let flood = serving(vec![("/api/tags", json!({"models": [], "x": "x".repeat(2 * 1024 * 1024)}))]).await;
    let places = [
        (LocalKind::Ollama, other),
        (LocalKind::LlamaCpp, other),
        (LocalKind::LmStudio, other),
        (LocalKind::Ollama, silent_address),
        (LocalKind::Ollama, flood),
        (LocalKind::Ollama, nobody().await),
    ];
    assert_eq!(look(&places).await, []);
    let empty = serving(vec![("/api/tags", json!({"models": []}))]).await;
    let found = look(&[(LocalKind::Ollama, empty)]).await;
    assert_eq!((found.len(), chosen(&found)), (1, None));
}
