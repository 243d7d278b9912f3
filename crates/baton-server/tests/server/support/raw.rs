use super::PATIENCE;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer as it came over the line.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// Sends a request byte for byte, for what a well-behaved client would not send, and reads until the head is there or the end.
pub(crate) async fn raw(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let read = async {
        let mut piece = [0; 4096];
        loop {
            // A reset after the answer is an end like any other.
            let count = stream.read(&mut piece).await.unwrap_or(0);
            bytes.extend_from_slice(&piece[..count]);
            if count == 0 || is_whole(&bytes) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, text }
}

/// Whether the head and as much of a body as it promises are there. A switch of protocols promises none.
fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let promised = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    body.len() >= promised.unwrap_or(0)
}
