//! Baton's own client and device as the other ends of uploads.

use crate::support::{PATIENCE, Server, fresh, operation};
use baton_client::{ClientError, Http, HubUrl, Timing, Token};
use baton_device::device::{Device, DeviceConfig};
use baton_device::sandbox::{Limits, SandboxMode};
use baton_device::tool::{CancelSignal, Toolbox};
use baton_device::workspace::{WorkspaceOptions, WorkspaceRoot};
use baton_proto::{Capabilities, ClientType, Digest, ErrorCode, Trust, WorkspaceId};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Passes connections on to the hub, and cuts the first of them after so many bytes of the client's.
async fn cutting(hub: SocketAddr, mut cuts: Vec<usize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    cuts.reverse();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(hub).await.unwrap();
            let cut = cuts.pop();
            tokio::spawn(async move {
                let Some(mut left) = cut else {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    return;
                };
                let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
                while left > 0 {
                    tokio::select! {
                        count = client.read(&mut up) => {
                            let count = count.unwrap_or(0).min(left);
                            if count == 0 || server.write_all(&up[..count]).await.is_err() {
                                return;
                            }
                            left -= count;
                        }
                        count = server.read(&mut down) => {
                            let count = count.unwrap_or(0);
                            if count == 0 || client.write_all(&down[..count]).await.is_err() {
                                return;
                            }
                        }
                    }
                }
            });
        }
    });
    address
}

fn http(address: SocketAddr, token: &str) -> Http {
    Http::new(format!("http://{address}").parse::<HubUrl>().unwrap(), Some(Token::new(token).unwrap())).unwrap()
}

#[tokio::test]
async fn an_upload_by_the_client_survives_cut_connections() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let whole: Vec<u8> = (0..3_500_000_u32).map(|index| u8::try_from(index * 31 % 253).unwrap()).collect();
    let address = cutting(server.address, vec![100, 700_000, 20_000, 1_500_000]).await;
    let http = http(address, &phone.token);
    let digest = http.upload(&whole).await.unwrap();
    assert_eq!(digest, Digest::of_bytes(&whole));
    assert!(http.blob(&digest).await.unwrap() == whole);
    assert_eq!(http.upload(b"").await.unwrap(), Digest::of_bytes(b""));
    let absent = http.blob(&Digest::of_bytes(b"absent")).await.unwrap_err();
    assert!(matches!(absent, ClientError::Hub(error) if error.code == ErrorCode::NotFound));
    let too_large = http.upload(&vec![0; 64 * 1024 * 1024 + 1]).await.unwrap_err();
    assert!(matches!(too_large, ClientError::Hub(error) if error.code == ErrorCode::TooLarge));
}

/// E9, C43: what is too long for a result is read by its digest, on any end, and holds no secret that the result doesn't show.
#[tokio::test]
async fn e9_the_whole_of_a_long_output_is_read_by_the_digest_in_its_result() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let place = tempfile::tempdir().unwrap();
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let lines: String = (0..20_000).flat_map(|number| [format!("line {number}"), "\n".to_owned()]).collect();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    std::fs::write(work.join("long.txt"), format!("{lines}token {secret}\n{lines}")).unwrap();
    let data = place.path().join("data");
    let options = WorkspaceOptions { data: data.clone(), sandbox: SandboxMode::None, limits: Limits::default() };
    let root = WorkspaceRoot::open(&work, &options).unwrap();
    let id = WorkspaceId(fresh().parse().unwrap());
    let workspace = root.describe(id).await;
    let hub: HubUrl = server.origin().parse().unwrap();
    let (stop, shutdown) = CancelSignal::pair();
    let config = DeviceConfig {
        hub: Arc::new(move || Ok(hub.clone())),
        token: Token::new(machine.token.as_str()).unwrap(),
        data_dir: data,
        toolbox: Arc::new(Toolbox::for_workspace(root).unwrap()),
        workspaces: Arc::new(vec![workspace]),
        capabilities: Capabilities::default(),
        name: "hands".to_owned(),
        timing: Timing::default(),
        shutdown,
    };
    let mut watching = server.connect(&phone).await;
    let device = tokio::spawn(Device::run(config));
    while server.get(&phone, "/v1/workspaces").await["workspaces"].as_array().unwrap().is_empty() {
        watching.until("changed").await;
    }
    let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": id}});
    let session = server.operate(&phone, &new).await["session_id"].as_str().unwrap().parse().unwrap();
    watching.send(&json!({"type": "subscribe", "session_id": session})).await;
    let reply = server.operate(&phone, &operation(session, "say", json!({"text": "/run cat long.txt"}))).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
    let result: Value = loop {
        let change = watching.until("change").await;
        match change["event"]["type"].as_str().unwrap() {
            "tool_succeeded" => break change["event"]["data"]["result"].clone(),
            "tool_failed" => panic!("{change}"),
            _ => {}
        }
    };
    assert!(result["omitted"].as_u64().unwrap() > 200_000, "{result}");
    let digest = Digest(result["digest"].as_str().unwrap().to_owned());
    let whole = String::from_utf8(http(server.address, &phone.token).blob(&digest).await.unwrap()).unwrap();
    assert_eq!(whole, format!("{lines}token [token not shown]\n{lines}"));
    stop.cancel();
    tokio::time::timeout(PATIENCE, device).await.expect("the device stops").unwrap().unwrap();
}
