//! Devices that lose their journal and keep their token (F7): what one was handed before isn't taken for something that never came, so an
//! effect whose beginning nobody heard of is looked up or asked about, and never repeated by itself.

use crate::support::house::{House, call, is, open_question};
use crate::support::hub::confirm;
use crate::support::{hub, until};
use crate::{calling, rule};
use baton_proto::{CallState, Trust};
use baton_sim::ledger::Ledger;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A wire to the hub on which what the device says can get lost while what it is told arrives.
struct Wire {
    url: String,
    deaf: Arc<AtomicBool>,
}

impl Wire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let deaf = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&deaf);
        tokio::spawn(async move {
            while let Ok((device, _)) = listener.accept().await {
                let Ok(hub) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let ((from_device, to_device), (from_hub, to_hub)) = (device.into_split(), hub.into_split());
                tokio::spawn(carry(from_hub, to_device, Arc::default()));
                tokio::spawn(carry(from_device, to_hub, Arc::clone(&heard)));
            }
        });
        Self { url, deaf }
    }
}

/// Carries bytes one way until either side ends; those that come while it is to lose them get lost.
async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, loses: Arc<AtomicBool>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !loses.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f7_a_device_that_lost_its_journal_between_dispatch_and_start_doubles_nothing() {
    let mut rules = Vec::new();
    for tool in ["record_entry", "append_entry"] {
        rules.push(rule(tool, 0, calling(tool, json!({"text": "once"}))));
        rules.push(rule(tool, 1, json!({"text": "I know: {{last_result}}"})));
    }
    let house = House::with_model(json!(rules)).await;
    let ledger = Ledger::start(Duration::ZERO).await.expect("the ledger starts");
    let wire = Wire::to(house.hub.port).await;
    let invitation = house.phone.invite(Trust::Trusted).await.expect("an invitation");
    let start = |invite: Option<&str>| hub::ledger_device_at(&wire.url, house.directory.path(), ledger.url(), invite);
    let mut device = start(Some(&invitation.secret));
    confirm(&house.phone).await;
    house.online("ledger").await;
    let mut begun = 0;
    let mut sessions = Vec::new();
    for tool in ["record_entry", "append_entry"] {
        wire.deaf.store(true, Ordering::SeqCst);
        let session = house.tell(&format!("{tool} it")).await;
        begun += 1;
        sessions.push((tool, session));
        until("the effect", || async { (ledger.entries().len() == begun).then_some(()) }).await;
        let seen = house.view(session).await;
        assert_eq!(call(&seen, tool).state, CallState::Planned, "nobody heard that it began");
        device.kill().await.expect("it can be killed");
        std::fs::remove_file(house.directory.path().join("ledger-device/journal")).expect("a journal");
        until("its connection is gone", || async {
            let devices = house.phone.devices().await.ok()?;
            devices.iter().any(|device| device.name == "ledger" && !device.online).then_some(())
        })
        .await;
        wire.deaf.store(false, Ordering::SeqCst);
        device = start(None);
        if tool == "record_entry" {
            let view =
                house.until(session, "what the lookup found", |view| is(view, tool, CallState::Succeeded).map(|_| view.clone())).await;
            assert!(call(&view, tool).attempt == 1, "it wasn't run again");
        } else {
            let question = house.until(session, "the question", open_question).await;
            assert!(question.known.as_deref().is_some_and(|known| known.contains("lost its journal")), "{question:?}");
        }
        assert_eq!(ledger.entries().len(), begun, "{tool} was doubled");
    }
    let (_, session) = sessions[1];
    let question = open_question(&house.view(session).await).expect("it is still open");
    house.terminal.ok(&["answer", &question.id.to_string(), "happened"]).await;
    house.until(session, "the end", |view| is(view, "append_entry", CallState::Succeeded).map(|_| ())).await;
    let keys: std::collections::BTreeSet<_> = ledger.entries().into_iter().map(|entry| entry.key).collect();
    assert_eq!((keys.len(), ledger.entries().len()), (2, 2));
}
