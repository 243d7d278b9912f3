//! Since when a device is away (ux 8): told to ends, and still known after a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on fails")]

use baton_proto::{Capabilities, ClientFrame, ClientType, DeviceView, InvitationClaim, PROTOCOL_VERSION, Timestamp, Trust};
use baton_runtime::{Clock, Hub, HubConfig, Identity};
use baton_store::SqliteStore;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[derive(Debug, Default)]
struct Hands {
    time: AtomicI64,
    drawn: AtomicU64,
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.time.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
    }
}

async fn hub(data: &Path, clock: &Arc<Hands>) -> Arc<Hub> {
    let mut config = HubConfig::new("0.0.0-test", None);
    config.clock = Arc::clone(clock) as Arc<dyn Clock>;
    Hub::open(SqliteStore::open(data).unwrap(), config).await.unwrap()
}

fn own(hub: &Hub, who: Identity) -> DeviceView {
    hub.devices(who).into_iter().find(|device| device.own).unwrap()
}

fn hello() -> ClientFrame {
    ClientFrame::Hello {
        protocol: PROTOCOL_VERSION,
        client_type: ClientType::Phone,
        capabilities: Capabilities::default(),
        tools: Vec::new(),
        workspaces: Vec::new(),
        cursors: BTreeMap::new(),
        running: Vec::new(),
        journal: None,
    }
}

#[tokio::test]
async fn a_device_that_left_is_said_to_be_away_since_then_also_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hands::default());
    let at = |seconds: i64| {
        clock.time.store(1_800_000_000_000 + seconds * 1000, Ordering::SeqCst);
        clock.now()
    };
    at(0);
    let first = hub(data.path(), &clock).await;
    let user = first.create_user("ada").await.unwrap();
    let secret = first.invite(user, None, Trust::Trusted).await.unwrap().secret;
    let claim = InvitationClaim {
        secret,
        name: "phone".to_owned(),
        client_type: ClientType::Phone,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let paired = first.claim_invitation(IpAddr::V4(Ipv4Addr::LOCALHOST), &claim).await.unwrap();
    let who = Identity { user_id: user, device_id: paired.device_id };
    assert_eq!(own(&first, who).last_seen_at, None);

    at(10);
    let (mut link, frames) = first.connect(who, hello()).await.unwrap();
    let beat = at(60);
    link.receive(ClientFrame::Heartbeat { capabilities: None, epochs: BTreeMap::new() }).await.unwrap();
    assert_eq!((own(&first, who).online, own(&first, who).last_seen_at), (true, Some(beat)));
    // What is asked without a connection counts as well.
    let asked = at(70);
    assert_eq!(first.authenticate(&paired.token), Some(who));
    assert_eq!(own(&first, who).last_seen_at, Some(asked));
    let left = at(75);
    drop((link, frames));
    assert_eq!((own(&first, who).online, own(&first, who).last_seen_at), (false, Some(left)));

    at(500);
    first.shut_down("a test").await;
    drop(first);
    let second = hub(data.path(), &clock).await;
    assert_eq!((own(&second, who).online, own(&second, who).last_seen_at), (false, Some(left)));
    second.shut_down("a test").await;
}
