#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on fails")]

mod support;

use baton_client::{Connection, Incoming, SendError, Timing};
use baton_proto::{ClientFrame, ErrorCode, HubFrame, MAX_FRAME_BYTES};
use futures::StreamExt;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{Hub, change, config, next, odd_change, session, soon, view, welcome};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// A small generator, so that a failing seed replays.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The sequence number of a view, change or unknown change, in the form `(replaces, seq)`.
fn place(incoming: &Incoming) -> Option<(bool, u64)> {
    match incoming {
        Incoming::UnknownChange(change) => Some((false, change.seq)),
        Incoming::Frame(frame) => match &**frame {
            HubFrame::Change(change) => Some((false, change.seq)),
            HubFrame::View(view) => Some((true, view.seq)),
            _ => None,
        },
        _ => None,
    }
}

async fn next_place(incoming: &mut mpsc::Receiver<Incoming>) -> (bool, u64) {
    loop {
        if let Some(place) = place(&next(incoming).await) {
            return place;
        }
    }
}

async fn connected(incoming: &mut mpsc::Receiver<Incoming>) {
    while !matches!(next(incoming).await, Incoming::Connected(_)) {}
}

/// Streams a log of `length` changes over connections that repeat, leave out, tear and end at random places.
async fn stream_badly(hub: Hub, length: u64, mut random: Random, cuts: mpsc::UnboundedSender<()>) {
    'connection: loop {
        let (mut peer, cursors) = hub.welcome().await;
        let mut seq = cursors[&session()];
        // What the client has without a gap.
        let mut whole = seq;
        let mut asked = false;
        loop {
            match random.below(24) {
                0 | 1 => {
                    if random.below(2) == 0 {
                        // The beginning of a frame that never ends.
                        peer.socket.get_mut().write_all(&[0x81, 0x7e, 0x01, 0x00, b'{']).await.unwrap();
                    }
                    cuts.send(()).unwrap();
                    continue 'connection;
                }
                2 => seq = seq.saturating_sub(random.below(4)),
                3 if !asked && whole + 2 < length => {
                    asked = true;
                    peer.send(&change(whole + 2)).await;
                    let ClientFrame::Subscribe { after: Some(after), .. } = peer.read().await else { panic!("it asks for the gap") };
                    seq = after;
                }
                4 => peer.send(&json!({"type": "hologram", "x": 1})).await,
                _ if seq < length => {
                    seq += 1;
                    asked &= seq <= whole;
                    whole = whole.max(seq);
                    peer.send(&if seq.is_multiple_of(5) { odd_change(seq) } else { change(seq) }).await;
                }
                _ => {
                    cuts.send(()).unwrap();
                    continue 'connection;
                }
            }
        }
    }
}

#[tokio::test]
async fn c17_over_any_number_of_cuts_the_stream_equals_the_log() {
    for seed in 1..=4 {
        let length = 300;
        let hub = Hub::start().await;
        let (_handle, mut incoming) = Connection::spawn(config(&hub, &[(session(), 0)]));
        let (cuts, mut counted) = mpsc::unbounded_channel();
        let hub = tokio::spawn(stream_badly(hub, length, Random(seed), cuts));
        let mut seen = Vec::new();
        soon(async {
            while seen.last() != Some(&length) {
                let (replaces, seq) = next_place(&mut incoming).await;
                assert!(!replaces);
                seen.push(seq);
            }
        })
        .await;
        assert_eq!(seen, (1..=length).collect::<Vec<_>>(), "seed {seed}");
        hub.abort();
        counted.close();
        let mut cut = 0;
        while counted.recv().await.is_some() {
            cut += 1;
        }
        assert!(cut > 5, "seed {seed} cut {cut} times only");
    }
}

#[tokio::test]
async fn c19_what_is_unknown_is_told_in_its_place_and_the_cursor_moves() {
    let hub = Hub::start().await;
    let (_handle, mut incoming) = Connection::spawn(config(&hub, &[(session(), 4)]));
    let (mut peer, cursors) = hub.welcome().await;
    assert_eq!(cursors[&session()], 4);
    peer.send(&odd_change(5)).await;
    peer.send(&json!({"type": "welcome"})).await;
    peer.socket.send_raw("not json").await;
    peer.send(&change(6)).await;
    connected(&mut incoming).await;
    assert!(matches!(next(&mut incoming).await, Incoming::UnknownChange(it) if it.seq == 5 && it.event_type == "hologram_shown"));
    assert_eq!(next_place(&mut incoming).await, (false, 6));
    drop(peer);
    assert_eq!(hub.welcome().await.1[&session()], 6);
}

trait SendRaw {
    async fn send_raw(&mut self, text: &str);
}

impl SendRaw for tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
    async fn send_raw(&mut self, text: &str) {
        futures::SinkExt::send(self, Message::text(text)).await.unwrap();
    }
}

#[tokio::test]
async fn a_reset_replaces_what_was_kept_and_a_wish_outlives_connections() {
    let hub = Hub::start().await;
    let (handle, mut incoming) = Connection::spawn(config(&hub, &[]));
    handle.subscribe(session(), None).await;
    let (mut peer, cursors) = hub.welcome().await;
    assert!(cursors.is_empty());
    assert!(matches!(peer.read().await, ClientFrame::Subscribe { after: None, .. }));
    drop(peer);
    let (mut peer, _) = hub.welcome().await;
    assert!(matches!(peer.read().await, ClientFrame::Subscribe { after: None, .. }), "it waits for its view still");
    peer.send(&view(7)).await;
    peer.send(&change(8)).await;
    peer.send(&json!({"type": "reset", "session_id": session(), "reason": "cursor too old"})).await;
    peer.send(&change(9)).await;
    peer.send(&view(20)).await;
    peer.send(&change(21)).await;
    for expected in [(true, 7), (false, 8), (true, 20), (false, 21)] {
        assert_eq!(next_place(&mut incoming).await, expected);
    }
    handle.unsubscribe(session()).await;
    assert!(matches!(peer.read().await, ClientFrame::Unsubscribe { .. }));
    drop(peer);
    assert!(hub.welcome().await.1.is_empty());
}

#[tokio::test]
async fn c20_a_hub_that_falls_silent_is_left() {
    let hub = Hub::start().await;
    let timing = Timing { heartbeat: Duration::from_millis(20), pong: Duration::from_millis(60), ..config(&hub, &[]).timing };
    let (_handle, mut incoming) = Connection::spawn(baton_client::ConnectionConfig { timing, ..config(&hub, &[]) });
    // The peer is kept and never read, so that the link is open and nobody answers.
    let (_silent, _) = hub.welcome().await;
    connected(&mut incoming).await;
    let Incoming::Disconnected { reason } = next(&mut incoming).await else { panic!("disconnected") };
    assert!(reason.contains("doesn't answer"), "{reason}");
    let _again = hub.welcome().await;
    connected(&mut incoming).await;
}

#[tokio::test]
async fn a_slow_reader_keeps_its_connection_and_loses_nothing() {
    let hub = Hub::start().await;
    let timing = Timing { heartbeat: Duration::from_millis(10), pong: Duration::from_millis(500), ..config(&hub, &[]).timing };
    let (_handle, mut incoming) = Connection::spawn(baton_client::ConnectionConfig { timing, ..config(&hub, &[(session(), 0)]) });
    let (peer, _) = hub.welcome().await;
    let (mut sink, mut source) = peer.socket.split();
    let flood = tokio::spawn(async move {
        for seq in 1..=2000 {
            futures::SinkExt::send(&mut sink, Message::text(change(seq).to_string())).await.unwrap();
        }
        sink
    });
    // More time than the hub is given for an answer passes, by the client's own clock, while nobody takes anything.
    let mut heartbeats = 0;
    while heartbeats < 100 {
        let Message::Text(_) = soon(source.next()).await.unwrap().unwrap() else { continue };
        heartbeats += 1;
    }
    tokio::spawn(async move { while source.next().await.is_some() {} });
    assert!(matches!(next(&mut incoming).await, Incoming::Connected(_)));
    for seq in 1..=2000 {
        assert_eq!(place(&next(&mut incoming).await), Some((false, seq)));
    }
    drop(flood.await.unwrap());
}

#[tokio::test]
async fn a_revoked_device_is_told_and_does_not_come_back() {
    let hub = Hub::start().await;
    let (handle, mut incoming) = Connection::spawn(config(&hub, &[]));
    let body = json!({
        "type": "about:blank", "title": "Not signed in", "status": 401, "code": "unauthenticated",
        "detail": "This device was revoked.", "hint": "Pair it again.", "instance": "/v1/ws",
    })
    .to_string();
    hub.answer(format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    let Incoming::Refused(error) = next(&mut incoming).await else { panic!("refused") };
    assert_eq!(error.code, ErrorCode::Unauthenticated);
    assert!(!error.message.is_empty());
    assert_eq!(soon(incoming.recv()).await, None);
    let heartbeat = ClientFrame::Heartbeat { capabilities: None, epochs: [].into() };
    assert_eq!(handle.send(&heartbeat).await, Err(SendError::Disconnected));
}

#[tokio::test]
async fn trouble_on_the_way_is_told_in_words_and_tried_again() {
    let hub = Hub::start().await;
    let (_handle, mut incoming) = Connection::spawn(config(&hub, &[]));
    hub.answer("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".into()).await;
    let Incoming::Disconnected { reason } = next(&mut incoming).await else { panic!("disconnected") };
    assert!(reason.contains("503") && !reason.contains(support::TOKEN), "{reason}");
    let mut peer = hub.accept().await;
    peer.read().await;
    peer.send(&json!({"type": "bye", "reason": "restarting", "retry_after_s": 0})).await;
    let Incoming::Disconnected { reason } = next(&mut incoming).await else { panic!("disconnected") };
    assert!(reason.contains("restarting"), "{reason}");
    let mut peer = hub.accept().await;
    peer.read().await;
    peer.send(&json!({"type": "error", "error": {"code": "unsupported_version", "message": "Old.", "hint": "Update."}})).await;
    assert!(matches!(next(&mut incoming).await, Incoming::Refused(error) if error.code == ErrorCode::UnsupportedVersion));
}

#[tokio::test]
async fn the_address_is_asked_anew_for_each_attempt() {
    let (first, second) = (Hub::start().await, Hub::start().await);
    let moved = Arc::new(AtomicBool::new(false));
    let (one, other, flag) = (first.url(), second.url(), Arc::clone(&moved));
    let url = Arc::new(move || Ok(if flag.load(Ordering::SeqCst) { other.clone() } else { one.clone() }));
    let (_handle, mut incoming) = Connection::spawn(baton_client::ConnectionConfig { url, ..config(&first, &[]) });
    let peer = first.welcome().await;
    moved.store(true, Ordering::SeqCst);
    drop((peer, first));
    let _peer = second.welcome().await;
    connected(&mut incoming).await;
    connected(&mut incoming).await;
}

#[tokio::test]
async fn what_was_accepted_before_a_stop_is_written() {
    let hub = Hub::start().await;
    let (handle, mut incoming) = Connection::spawn(config(&hub, &[]));
    let (mut peer, _) = hub.welcome().await;
    connected(&mut incoming).await;
    for seq in 0..100 {
        let frame = ClientFrame::Subscribe { session_id: session(), after: Some(seq) };
        handle.send(&frame).await.unwrap();
    }
    let huge = ClientFrame::Op { operation: json!({"text": "x".repeat(MAX_FRAME_BYTES)}) };
    assert!(matches!(handle.send(&huge).await, Err(SendError::TooLarge(_))));
    handle.stop().await;
    for seq in 0..100 {
        assert!(matches!(peer.read().await, ClientFrame::Subscribe { after: Some(after), .. } if after == seq));
    }
    assert!(matches!(soon(peer.socket.next()).await, Some(Ok(Message::Close(_)))));
    assert_eq!(soon(incoming.recv()).await, None);
}

#[tokio::test]
async fn a_dropped_receiver_ends_the_connection() {
    let hub = Hub::start().await;
    let (_handle, incoming) = Connection::spawn(config(&hub, &[]));
    let mut peer = hub.accept().await;
    peer.read().await;
    peer.send(&welcome()).await;
    drop(incoming);
    while let Some(Ok(message)) = soon(peer.socket.next()).await {
        if matches!(message, Message::Close(_)) {
            return;
        }
    }
}
