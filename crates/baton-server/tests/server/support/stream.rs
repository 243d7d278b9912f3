use super::PATIENCE;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A stream of server-sent events, read byte by byte, so that it can be cut anywhere.
#[derive(Debug)]
pub(crate) struct Stream {
    line: TcpStream,
    bytes: Vec<u8>,
    pub(crate) head: String,
}

/// One event; a comment has no name.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(address: SocketAddr, token: &str, path: &str, last: Option<u64>) -> Self {
        Self::begin(TcpStream::connect(address).await.unwrap(), token, path, last).await
    }

    /// With hardly any room for what isn't read.
    pub(crate) async fn open_narrow(address: SocketAddr, token: &str, path: &str, last: Option<u64>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self::begin(socket.connect(address).await.unwrap(), token, path, last).await
    }

    async fn begin(mut line: TcpStream, token: &str, path: &str, last: Option<u64>) -> Self {
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        // In the older version an answer comes as it is, without frames around its pieces.
        let request =
            format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n{last}\r\n");
        line.write_all(request.as_bytes()).await.unwrap();
        let mut stream = Self { line, bytes: Vec::new(), head: String::new() };
        let end = loop {
            if let Some(end) = stream.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            assert!(stream.read(1024).await, "the head of an answer");
        };
        stream.head = String::from_utf8(stream.bytes.drain(..end + 4).collect()).unwrap();
        stream
    }

    /// Reads at most so many bytes more; `false` at the end.
    pub(crate) async fn read(&mut self, most: usize) -> bool {
        let mut piece = vec![0; most.max(1)];
        let count = tokio::time::timeout(PATIENCE, self.line.read(&mut piece)).await.expect("more of the stream").unwrap_or(0);
        self.bytes.extend_from_slice(&piece[..count]);
        count > 0
    }

    /// The events that have come whole.
    pub(crate) fn whole(&mut self) -> Vec<Told> {
        let mut events = Vec::new();
        while let Some(end) = self.bytes.windows(2).position(|two| two == b"\n\n") {
            let text = String::from_utf8(self.bytes.drain(..end + 2).collect()).unwrap();
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
            events.push(Told {
                name: field("event:").unwrap_or_default().to_owned(),
                id: field("id:").map(|id| id.parse().unwrap()),
                data: field("data:").map_or(Value::Null, |data| serde_json::from_str(data).unwrap()),
            });
        }
        events
    }

    /// The events until the first of that name, itself the last.
    pub(crate) async fn until(&mut self, name: &str) -> Vec<Told> {
        let mut seen = Vec::new();
        loop {
            let whole = self.whole();
            let found = whole.iter().position(|told| told.name == name);
            seen.extend(whole);
            if found.is_some() {
                return seen;
            }
            assert!(self.read(64 * 1024).await, "the stream ended before '{name}': {seen:?}");
        }
    }

    /// Everything until the hub ends the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Told> {
        while self.read(64 * 1024).await {}
        self.whole()
    }
}
