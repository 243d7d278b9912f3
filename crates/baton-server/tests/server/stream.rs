//! Sessions followed by server-sent events, and over cut connections of both kinds.

use crate::support::{Device, PATIENCE, Server, Socket, Stream, Told, assert_refused, hello, operation};
use baton_proto::{ErrorCode, SessionId};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Cuts of each kind of connection.
const CUTS: usize = 1000;
/// How long the hub waits for a reader that takes nothing.
const STALLED: Duration = Duration::from_millis(300);
/// Changes that are more than what lies between a writer and a reader that doesn't read.
const SLOW: usize = 110;

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn path(session: SessionId) -> String {
    format!("/v1/sessions/{session}/events")
}

async fn note(server: &Server, by: &Device, session: SessionId, number: usize, bytes: usize) {
    let payload = json!({"key": format!("k{}", number % 10), "value": format!("{number} {}", "\u{1}".repeat(bytes))});
    let reply = server.operate(by, &operation(session, "set_note", payload)).await;
    assert_eq!(reply["status"], "accepted", "{reply}");
}

async fn log(server: &Server, by: &Device, session: SessionId) -> Vec<Value> {
    let mut log: Vec<Value> = Vec::new();
    loop {
        let after = log.last().map_or(0, |change| change["seq"].as_u64().unwrap());
        let page = server.get(by, &format!("{}?after={after}&limit=1000", path(session))).await;
        log.extend(page["changes"].as_array().unwrap().iter().cloned());
        if log.last().map_or(0, |change| change["seq"].as_u64().unwrap()) == page["head"].as_u64().unwrap() {
            return log;
        }
    }
}

/// The changes that came, each as the log has it.
fn assert_is_log(seen: &[Value], log: &[Value]) {
    let bare = |changes: &[Value]| -> Vec<_> {
        changes.iter().map(|change| (change["seq"].clone(), change["event"].clone(), change["upserts"].clone())).collect()
    };
    assert_eq!(bare(seen), bare(&log[..seen.len()]));
}

/// Writes for as long as somebody is being cut off, then says how long the log became.
async fn write_while(going_on: &AtomicBool, server: &Server, by: &Device, session: SessionId) -> u64 {
    let mut number = 0;
    while going_on.load(Ordering::Relaxed) {
        note(server, by, session, number, 10).await;
        number += 1;
    }
    server.get(by, &path(session)).await["head"].as_u64().unwrap()
}

#[tokio::test]
async fn c17_a_stream_of_events_over_1000_cuts_is_the_log_without_gap_or_repeat() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let going_on = AtomicBool::new(true);
    let reader = async {
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
        let mut seen: Vec<Value> = Vec::new();
        for _ in 0..CUTS {
            let last = seen.last().map_or(0, |change| change["seq"].as_u64().unwrap());
            let mut stream = Stream::open(server.address, &phone.token, &path(session), Some(last)).await;
            let mut left = chance.below(1500);
            while left > 0 {
                let most = left.min(1 + chance.below(300));
                assert!(stream.read(usize::try_from(most).unwrap()).await);
                left = left.saturating_sub(most);
            }
            seen.extend(stream.whole().into_iter().filter(|told| told.name == "change").map(|told| told.data));
        }
        going_on.store(false, Ordering::Relaxed);
        seen
    };
    let (mut seen, head) = tokio::join!(reader, write_while(&going_on, &server, &phone, session));
    let last = seen.last().map(|change| change["seq"].as_u64().unwrap());
    let mut stream = Stream::open(server.address, &phone.token, &path(session), last).await;
    while seen.last().unwrap()["seq"].as_u64().unwrap() < head {
        seen.extend(stream.until("change").await.into_iter().filter(|told| told.name == "change").map(|told| told.data));
    }
    let log = log(&server, &phone, session).await;
    assert_eq!(seen.len(), log.len());
    assert_is_log(&seen, &log);
}

#[tokio::test]
async fn c17_a_socket_over_1000_cuts_brings_the_log_without_gap_or_repeat() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let going_on = AtomicBool::new(true);
    let reader = async {
        let mut chance = Chance(0xD1B5_4A32_D192_ED03);
        let mut seen: Vec<Value> = Vec::new();
        for _ in 0..CUTS {
            let last = seen.last().map_or(0, |change| change["seq"].as_u64().unwrap());
            let mut socket = Socket::dial(server.address, &phone.token).await;
            socket.send(&hello(&phone, &json!({"cursors": {session.to_string(): last}}))).await;
            for _ in 0..chance.below(4) {
                let frame = socket.next().await;
                if frame["type"] == "change" {
                    seen.push(frame);
                }
            }
        }
        going_on.store(false, Ordering::Relaxed);
        seen
    };
    let (mut seen, head) = tokio::join!(reader, write_while(&going_on, &server, &phone, session));
    let last = seen.last().map_or(0, |change| change["seq"].as_u64().unwrap());
    let mut socket = server.connect_with(&phone, json!({"cursors": {session.to_string(): last}})).await;
    while seen.last().is_none_or(|change| change["seq"].as_u64().unwrap() < head) {
        seen.push(socket.until("change").await);
    }
    let log = log(&server, &phone, session).await;
    assert_eq!(seen.len(), log.len());
    assert_is_log(&seen, &log);
}

/// And what goes around it.
#[tokio::test]
async fn c18_a_stream_begins_with_the_view_or_goes_on_after_the_last_event() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    for number in 0..5 {
        note(&server, &phone, session, number, 10).await;
    }
    let head = server.get(&phone, &path(session)).await["head"].as_u64().unwrap();
    let first = |stream: Vec<Told>| stream.into_iter().find(|told| !told.name.is_empty()).unwrap();

    let mut stream = Stream::open(server.address, &phone.token, &path(session), None).await;
    let lower = stream.head.to_ascii_lowercase();
    assert!(lower.contains("content-type: text/event-stream\r\n") && lower.contains("cache-control: no-store\r\n"), "{lower}");
    let view = first(stream.until("view").await);
    assert_eq!((view.id, &view.data["seq"]), (Some(head), &json!(head)));
    note(&server, &phone, session, 5, 10).await;
    let change = first(stream.until("change").await);
    assert_eq!((change.id, &change.data["type"], &change.data["seq"]), (Some(head + 1), &json!("change"), &json!(head + 1)));

    // By the query, by the header, and by the header where both are there: browsers repeat the address.
    for (query, last, expected) in [("?after=2", None, 3), ("", Some(3), 4), ("?after=1", Some(4), 5)] {
        let mut stream = Stream::open(server.address, &phone.token, &format!("{}{query}", path(session)), last).await;
        assert_eq!(first(stream.until("change").await).id, Some(expected), "{query} {last:?}");
    }
    // A cursor that can't be: one event that replaces everything, then changes.
    let mut stream = Stream::open(server.address, &phone.token, &path(session), Some(1_000_000)).await;
    let reset = first(stream.until("reset").await);
    assert_eq!((reset.id, &reset.data["view"]["seq"]), (Some(head + 1), &json!(head + 1)));
    assert!(!reset.data["reason"].as_str().unwrap().is_empty());
    note(&server, &phone, session, 6, 10).await;
    assert_eq!(first(stream.until("change").await).id, Some(head + 2));

    // Whoever doesn't ask for a stream gets a page.
    let page = server.request("GET", &path(session)).bearer_auth(&phone.token).header("accept", "application/json").send().await.unwrap();
    assert_eq!(page.json::<Value>().await.unwrap()["head"], json!(head + 2));
    let events = |session: SessionId| server.request("GET", &path(session)).bearer_auth(&phone.token).header("accept", "text/event-stream");
    let bad = events(session).header("last-event-id", "yesterday").send().await.unwrap();
    assert_refused(bad, 400, ErrorCode::Invalid, "an id that isn't one").await;
    assert_refused(events(SessionId(uuid::Uuid::nil())).send().await.unwrap(), 404, ErrorCode::NotFound, "no session").await;
}

#[tokio::test]
async fn a_quiet_stream_is_kept_alive_by_comments() {
    let server = Server::start_with(|config| config.limits.comment = Duration::from_millis(50)).await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let mut stream = Stream::open(server.address, &phone.token, &path(session), None).await;
    let mut quiet = 0;
    while quiet < 4 {
        assert!(stream.read(1024).await);
        quiet += stream.whole().iter().filter(|told| told.name.is_empty()).count();
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_device_and_with_the_hub() {
    let mut server = Server::start().await;
    let (phone, other) = (server.phone().await, server.phone().await);
    let session = server.session(&phone).await;
    let mut revoked = Stream::open(server.address, &other.token, &path(session), None).await;
    revoked.until("view").await;
    let mut stays = Stream::open(server.address, &phone.token, &path(session), None).await;
    stays.until("view").await;
    let response = server.request("DELETE", &format!("/v1/devices/{}", other.id)).bearer_auth(&phone.token).send().await.unwrap();
    assert_eq!(response.status(), 204);
    let last = tokio::time::timeout(Duration::from_secs(2), revoked.rest()).await.expect("within two seconds");
    assert_eq!(last.last().unwrap().name, "bye");
    note(&server, &phone, session, 0, 10).await;
    stays.until("change").await;
    server.begin_stop();
    assert_eq!(stays.rest().await.last().unwrap().name, "bye");
    server.stopped().await;
}

/// D4: whoever doesn't read is given up, holds nobody back, and goes on where it was.
#[tokio::test]
async fn a_slow_reader_slows_nobody_and_resumes_without_gap_or_repeat() {
    let server = Server::start_with(|config| config.limits.stalled = STALLED).await;
    let (phone, other) = (server.phone().await, server.phone().await);
    let session = server.session(&phone).await;
    let mut slow = Stream::open_narrow(server.address, &other.token, &path(session), Some(0)).await;
    let mut quick = server.connect_with(&phone, json!({"cursors": {session.to_string(): 0}})).await;
    let writer = async {
        for number in 0..SLOW {
            note(&server, &phone, session, number, 4000).await;
        }
    };
    let reader = async {
        let mut last = 0;
        while last < SLOW as u64 {
            let change = quick.until("change").await;
            assert_eq!(change["seq"], json!(last + 1));
            last += 1;
        }
    };
    // The quick one has everything while the slow one has taken nothing.
    tokio::join!(writer, reader);
    // The hub's patience has to run out before the slow one begins to read, and nothing tells when it has.
    tokio::time::sleep(4 * STALLED).await;
    let came: Vec<Value> = tokio::time::timeout(PATIENCE, slow.rest())
        .await
        .expect("its end")
        .into_iter()
        .filter(|told| told.name == "change")
        .map(|told| told.data)
        .collect();
    let log = log(&server, &phone, session).await;
    assert!(came.len() < log.len(), "it was given up");
    let mut seen = came;
    let last = seen.last().map_or(0, |change| change["seq"].as_u64().unwrap());
    let mut again = Stream::open(server.address, &other.token, &path(session), Some(last)).await;
    while seen.len() < log.len() {
        seen.extend(again.until("change").await.into_iter().filter(|told| told.name == "change").map(|told| told.data));
    }
    assert_is_log(&seen, &log);
}
