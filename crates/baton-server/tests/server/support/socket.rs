use super::PATIENCE;
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async, connect_async};

/// A WebSocket driven by hand.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// What a frame is.
pub(crate) fn kind(frame: &Value) -> &str {
    frame["type"].as_str().unwrap_or_default()
}

impl Socket {
    pub(crate) async fn dial(address: SocketAddr, token: &str) -> Self {
        Self::try_dial(address, &[("authorization", &format!("Bearer {token}"))]).await.expect("a socket")
    }

    /// Opens a socket, or says with which status it was refused.
    pub(crate) async fn try_dial(address: SocketAddr, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/v1/ws").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio::time::timeout(PATIENCE, connect_async(request)).await.expect("an answer to the handshake") {
            Ok((stream, _)) => Ok(Self { stream }),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a socket that has hardly any room for what it doesn't read.
    pub(crate) async fn dial_narrow(address: SocketAddr, token: &str) -> Self {
        let mut request = format!("ws://{address}/v1/ws").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        let tcp = socket.connect(address).await.unwrap();
        let (stream, _) = client_async(request, MaybeTlsStream::Plain(tcp)).await.unwrap();
        Self { stream }
    }

    /// Asks for answers and takes none, until the hub can't write to it and so takes nothing more either.
    pub(crate) async fn stuff(&mut self) {
        // The answer to the first is long; the second shows that the connection means something.
        let frames = [format!("{{\"type\":\"{}\"}}", "x".repeat(1000)), "{\"type\":\"heartbeat\"}".to_owned()];
        for frame in frames.iter().cycle() {
            match tokio::time::timeout(Duration::from_millis(300), self.stream.send(Message::text(frame.as_str()))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Reads what is left on the line, without answering, until it ends.
    pub(crate) async fn until_ended(self) {
        let MaybeTlsStream::Plain(mut tcp) = self.stream.into_inner() else { unreachable!() };
        let mut buffer = vec![0; 64 * 1024];
        let ended = async { while tcp.read(&mut buffer).await.is_ok_and(|count| count > 0) {} };
        tokio::time::timeout(PATIENCE, ended).await.expect("the end of the connection");
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    pub(crate) async fn send_message(&mut self, message: Message) {
        self.stream.send(message).await.unwrap();
    }

    /// The next frame of the hub's.
    pub(crate) async fn next(&mut self) -> Value {
        self.try_next().await.expect("a frame, not the end")
    }

    /// The next frame, or `None` at the end of the connection.
    pub(crate) async fn try_next(&mut self) -> Option<Value> {
        // Pings don't prolong the wait.
        let text = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => return Some(text),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                    Some(Ok(other)) => panic!("{other:?}"),
                }
            }
        };
        let text = tokio::time::timeout(PATIENCE, text).await.expect("a frame in time")?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The next frame of a kind; others are skipped.
    pub(crate) async fn until(&mut self, wanted: &str) -> Value {
        loop {
            let frame = self.next().await;
            if kind(&frame) == wanted {
                return frame;
            }
        }
    }

    /// The frames until the connection ends.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        while let Some(frame) = self.try_next().await {
            frames.push(frame);
        }
        frames
    }

    /// The connection itself, for what isn't done with frames.
    pub(crate) fn into_inner(self) -> WebSocketStream<MaybeTlsStream<TcpStream>> {
        self.stream
    }
}
