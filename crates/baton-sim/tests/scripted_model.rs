//! The scripted model as a program in a process of its own, driven over HTTP only.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking; the lint knows only unit tests")]

use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

async fn exchange(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer key\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(Duration::from_secs(20), socket.read_to_string(&mut response)).await.unwrap().unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test]
async fn rules_are_posted_and_requests_are_read() {
    let mut program =
        Command::new(env!("CARGO_BIN_EXE_scripted-model")).kill_on_drop(true).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let url = timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap().unwrap();
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/v1")).unwrap();
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).to_string();

    let (status, body) = exchange(address, "POST", "/v1/chat/completions", &chat).await;
    assert!(status == 200 && body.contains("SCRIPT: no rule fits"), "{body}");

    assert_eq!(exchange(address, "POST", "/script/rules", r#"[{"when": {"typo": 1}, "reply": {}}]"#).await.0, 400);
    assert_eq!(exchange(address, "POST", "/script/rules", r#"[{"reply": {"text": "hi"}}]"#).await.0, 204);
    let (_, body) = exchange(address, "POST", "/v1/chat/completions", &chat).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "hi");

    let bad = json!({"model": "m", "messages": []}).to_string();
    assert_eq!(exchange(address, "POST", "/v1/chat/completions", &bad).await.0, 400);
    assert_eq!(exchange(address, "POST", "/v1/chat/completions", "no JSON").await.0, 400);

    let (_, body) = exchange(address, "GET", "/script/requests", "").await;
    let recorded: Vec<Value> = serde_json::from_str(&body).unwrap();
    let rules: Vec<_> = recorded.iter().map(|request| (request["rule"].clone(), request["refused"].is_string())).collect();
    assert_eq!(rules, [(Value::Null, false), (json!(0), false), (Value::Null, true), (Value::Null, true)]);
    assert_eq!(recorded[0]["bearer"], "key");
    assert!(exchange(address, "GET", "/v1/models", "").await.1.contains("scripted"));
}
