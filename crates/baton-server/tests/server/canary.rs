use crate::support::{Server, Socket, hello, operation};
use baton_server::routes;
use serde_json::json;
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A token is given once and appears nowhere else: in no answer, no frame and no line of the log, wherever it was put.
#[tokio::test]
async fn a_token_is_in_no_answer_and_no_log() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::TRACE).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let canary = phone.token.clone();
    let mut said = String::new();

    for route in routes() {
        let filled = route.path.replace("{session}", &session.to_string()).replace("{device}", &uuid::Uuid::nil().to_string());
        for path in [
            filled.clone(),
            filled.replace("{pairing}", &canary).replace("{*name}", &canary),
            format!("{filled}?token={canary}&before={canary}"),
        ] {
            // Signing out would end the test's own device.
            if path.contains('{') || path.starts_with("/v1/signout") {
                continue;
            }
            for (name, value) in [
                ("authorization", format!("Bearer {canary}")),
                ("cookie", format!("{}={canary}", server.cookie)),
                ("authorization", canary.clone()),
            ] {
                let response =
                    server.request(route.method, &path).header(name, value).header("origin", server.origin()).send().await.unwrap();
                write!(said, "{:?}", response.headers()).unwrap();
                said.push_str(&response.text().await.unwrap());
            }
        }
    }
    let mut socket = Socket::dial(server.address, &canary).await;
    socket.send(&hello(&phone, &json!({"cursors": {session.to_string(): 0}}))).await;
    said.push_str(&socket.until("welcome").await.to_string());
    socket.send_text("?").await;
    let mut note = operation(session, "set_note", json!({"key": "k", "value": "v"}));
    note["type"] = json!("op");
    socket.send(&note).await;
    server.hub.revoke(server.hub.authenticate(&canary).unwrap(), phone.id).await.unwrap();
    for frame in socket.rest().await {
        said.push_str(&frame.to_string());
    }
    let dead = server.request("GET", "/v1/hub").bearer_auth(&canary).send().await.unwrap();
    said.push_str(&dead.text().await.unwrap());

    assert!(said.contains("\"type\":\"welcome\"") && said.contains("unauthenticated"), "the test looked at something");
    assert!(!said.contains(&canary), "a token was in an answer");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("baton_server") && log.contains("answered"), "the log was written");
    let lines: Vec<_> = log.lines().filter(|line| line.contains(&canary)).collect();
    assert!(lines.is_empty(), "a token was in the log: {lines:?}");
}
