use crate::support::{PATIENCE, Server, Socket, hello, raw};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Reads until the server closes; what came is returned.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn slow_headers_idle_connections_and_slow_bodies_are_ended() {
    let server = Server::start_with(|config| {
        config.limits.headers = Duration::from_millis(300);
        config.limits.body = Duration::from_millis(300);
    })
    .await;
    let token = server.phone().await.token;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    until_closed(&mut slow).await;

    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");

    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(until_closed(&mut idle).await.starts_with("HTTP/1.1 200"));

    let head = format!(
        "POST /v1/ops HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    let answer = raw(server.address, &head).await;
    assert_eq!(answer.status, 408, "{answer:?}");
}

#[tokio::test]
async fn headers_without_end_are_refused() {
    let server = Server::start().await;
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\nConnection: close\r\n\r\n", "x".repeat(200 * 1024));
    let answer = raw(server.address, &long).await;
    assert!(matches!(answer.status, 431 | 0), "{}", answer.status);
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}Connection: close\r\n\r\n", "X-Many: x\r\n".repeat(1000));
    assert_eq!(raw(server.address, &many).await.status, 431);
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_a_place() {
    let server = Server::start_with(|config| config.limits.connections = 2).await;
    let phone = server.phone().await;
    // One place is the client's that paired the phone; it keeps its connection for later requests. An upgraded connection keeps its place.
    let socket = server.connect(&phone).await;
    let mut waiting = TcpStream::connect(server.address).await.unwrap();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut first = [0; 1];
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting.read(&mut first)).await.is_err(), "it has no place yet");
    drop(socket);
    assert!(until_closed(&mut waiting).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_of_no_declared_length_is_bounded_too() {
    let server = Server::start().await;
    let token = server.phone().await.token;
    let piece = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    let request = format!(
        "POST /v1/ops HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{}0\r\n\r\n",
        piece.repeat(100)
    );
    let answer = raw(server.address, &request).await;
    assert_eq!(answer.status, 413, "{answer:?}");
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_given_up() {
    let server = Server::start_with(|config| {
        config.limits.connections = 2;
        config.limits.headers = PATIENCE;
        config.limits.stalled = Duration::from_millis(500);
    })
    .await;
    let phone = server.phone().await;
    let mut deaf = Socket::dial_narrow(server.address, &phone.token).await;
    deaf.send(&hello(&phone, &json!({}))).await;
    deaf.stuff().await;
    let answer = raw(server.address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(answer.status, 200);
    assert_eq!(server.get(&phone, "/v1/devices").await["devices"][0]["online"], false);
}
