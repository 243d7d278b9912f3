use crate::support::{Server, Socket, kind};
use serde_json::json;

#[tokio::test]
async fn on_shutdown_every_socket_is_told_when_to_come_back_and_requests_end() {
    let mut server = Server::start().await;
    let phone = server.phone().await;
    let mut sockets = [server.connect(&phone).await, server.connect(&phone).await, Socket::dial(server.address, &phone.token).await];
    server.begin_stop();
    for socket in &mut sockets {
        let last = socket.rest().await.pop().unwrap();
        assert_eq!((kind(&last), &last["retry_after_s"]), ("bye", &json!(1)), "{last}");
        assert!(!last["reason"].as_str().unwrap().is_empty());
    }
    let address = server.address;
    server.stopped().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
