//! A scripted hub: real sockets, the wire's own frames, and nothing of the hub's inside.

use baton_client::{ConnectionConfig, Hello, HubUrl, Incoming, Timing, Token};
use baton_proto::{ClientFrame, ClientType, SessionId};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

pub(crate) const TOKEN: &str = "canary-token";

/// Generous: only a broken test waits this long.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it happens within 20 s")
}

pub(crate) fn session() -> SessionId {
    "01990000-0000-7000-8000-00000000000a".parse().unwrap()
}

pub(crate) struct Hub {
    listener: TcpListener,
}

pub(crate) struct Peer {
    pub(crate) socket: WebSocketStream<TcpStream>,
}

impl Hub {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> HubUrl {
        format!("http://{}", self.listener.local_addr().unwrap()).parse().unwrap()
    }

    /// Takes the next connection, checking that its token came in the header alone.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        #[allow(clippy::result_large_err, reason = "the library's own signature")]
        let check = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            assert_eq!(request.uri().to_string(), "/v1/ws");
            assert_eq!(request.headers()["authorization"], format!("Bearer {TOKEN}"));
            Ok(response)
        };
        Peer { socket: soon(tokio_tungstenite::accept_hdr_async(stream, check)).await.unwrap() }
    }

    /// Takes the next connection, reads its hello and welcomes it.
    pub(crate) async fn welcome(&self) -> (Peer, BTreeMap<SessionId, u64>) {
        let mut peer = self.accept().await;
        let ClientFrame::Hello { protocol: 1, cursors, .. } = peer.read().await else { panic!("hello comes first") };
        peer.send(&welcome()).await;
        (peer, cursors)
    }

    /// Takes the next connection and answers its handshake with these bytes.
    pub(crate) async fn answer(&self, response: String) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(soon(stream.read_u8()).await.unwrap());
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}

impl Peer {
    pub(crate) async fn send(&mut self, frame: &Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame that isn't a heartbeat.
    pub(crate) async fn read(&mut self) -> ClientFrame {
        soon(self.next_frame()).await
    }

    async fn next_frame(&mut self) -> ClientFrame {
        loop {
            match self.socket.next().await.expect("open").unwrap() {
                Message::Text(text) => {
                    let frame = serde_json::from_str(&text).unwrap();
                    if !matches!(frame, ClientFrame::Heartbeat { .. }) {
                        return frame;
                    }
                }
                Message::Close(_) => panic!("closed by the client"),
                _ => {}
            }
        }
    }
}

pub(crate) fn welcome() -> Value {
    json!({
        "type": "welcome", "device_id": session(), "user_id": session(), "name": "desk", "trust": "trusted", "heartbeat_s": 10,
        "limits": {"max_frame_bytes": 262_144, "max_text_bytes": 32768},
        "hub": {"version": "0.1.0", "incarnation": 1, "model": null, "commands": []},
    })
}

pub(crate) fn change(seq: u64) -> Value {
    json!({
        "type": "change", "session_id": session(), "seq": seq, "upserts": [],
        "event": {
            "type": "note_set", "v": 1, "at": "2026-11-30T10:00:00Z", "actor": {"kind": "agent"},
            "data": {"key": "n", "value": seq.to_string()},
        },
    })
}

pub(crate) fn odd_change(seq: u64) -> Value {
    let mut change = change(seq);
    change["event"]["type"] = json!("hologram_shown");
    change
}

pub(crate) fn view(seq: u64) -> Value {
    json!({"type": "view", "session_id": session(), "seq": seq, "entities": [{"kind": "hologram"}]})
}

pub(crate) fn config(hub: &Hub, cursors: &[(SessionId, u64)]) -> ConnectionConfig {
    let url = hub.url();
    ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: Token::new(TOKEN).unwrap(),
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: cursors.iter().copied().collect(),
        timing: Timing { backoff: (Duration::from_millis(1), Duration::from_millis(2)), ..Timing::default() },
    }
}

pub(crate) async fn next(incoming: &mut mpsc::Receiver<Incoming>) -> Incoming {
    soon(incoming.recv()).await.expect("the connection goes on")
}
