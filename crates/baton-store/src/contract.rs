//! The story that every [`Store`] is told, whatever lies beneath it. It panics where a store breaks its word.
//!
//! It belongs to tests: `story(|| open the same place)` in the tests of each implementation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, reason = "a contract is told by assertions")]

use crate::{Append, Decision, EventRow, Head, HeadWrite, OperationRow, StateCache, Store, StoreError, StoredEvent, StreamId, StreamKind};
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use std::future::Future;
use std::sync::Arc;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Tells the whole story. `open` opens the same place each time; the story closes what it opened before.
pub async fn story<O, F>(open: O)
where
    O: Fn() -> F,
    F: Future<Output = Arc<dyn Store>>,
{
    let store = open().await;
    numbers_have_no_gaps(&store).await;
    two_writers_of_twenty_each_lose_nothing(&store).await;
    one_writer_never_overtakes_itself(&store).await;
    an_append_is_whole_or_absent(&store).await;
    an_operation_is_answered_once_for_each_user(&store).await;
    what_belongs_to_another_user_is_absent(&store).await;
    a_newer_hub_fences_the_older(&store).await;
    heads_are_paged_newest_first(&store).await;
    what_owes_something_is_found_at_start(&store).await;
    events_are_read_forwards_and_backwards(&store).await;
    texts_are_found_by_their_words(&store).await;
    a_state_is_a_cache(&store).await;
    blobs_are_kept_by_digest(&store).await;
    too_large_is_refused(&store).await;
    store.close().await.unwrap();
    closed_says_so(&store).await;
    drop(store);
    what_was_acknowledged_is_there_after_reopening(&open).await;
}

/// A stream with its user, and short ways to write to it. Also of use to other tests of stores.
#[derive(Debug, Clone, Copy)]
pub struct Pen {
    pub user: UserId,
    pub stream: StreamId,
    pub fence: u64,
}

impl Pen {
    /// A new stream of a new user, driven by this opening of the store.
    pub fn new(store: &Arc<dyn Store>, kind: StreamKind) -> Self {
        Self { user: UserId(Uuid::now_v7()), stream: StreamId { kind, id: Uuid::now_v7() }, fence: store.incarnation() }
    }

    /// An append of events with these texts after `expected_seq`.
    pub fn append(&self, expected_seq: u64, texts: &[&str]) -> Append {
        let rows = texts.iter().map(|text| event("message_added", text)).collect();
        Append { stream: self.stream, user: self.user, expected_seq, fence: self.fence, rows, head: head_write(1), operation: None }
    }

    /// All events of the stream, after checking that their numbers are 1, 2, 3, ….
    pub async fn log(&self, store: &Arc<dyn Store>) -> Vec<StoredEvent> {
        let events = store.read(self.user, self.stream, 0, u32::MAX).await.unwrap();
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "the numbers of a stream have no gaps");
        events
    }

    /// The texts of the stream's events, in order.
    pub async fn texts(&self, store: &Arc<dyn Store>) -> Vec<String> {
        self.log(store).await.into_iter().map(|event| String::from_utf8(event.event).unwrap()).collect()
    }
}

/// An event row with this text.
pub fn event(kind: &str, text: &str) -> EventRow {
    EventRow { kind: kind.into(), event: text.into(), upserts: b"[]".into() }
}

/// A head row, idle, last changed at this millisecond.
pub fn head_write(updated_at: i64) -> HeadWrite {
    HeadWrite { epoch: 1, active: false, wake_at: None, updated_at: Timestamp(updated_at), summary: b"{}".into() }
}

/// A new operation with this reply.
pub fn operation(reply: &str) -> OperationRow {
    OperationRow { operation_id: OperationId(Uuid::now_v7()), digest: Digest::of_bytes(reply.as_bytes()), reply: reply.into() }
}

async fn numbers_have_no_gaps(store: &Arc<dyn Store>) {
    for kind in [StreamKind::Session, StreamKind::Workspace, StreamKind::User] {
        let pen = Pen::new(store, kind);
        assert_eq!(store.head(pen.user, pen.stream).await.unwrap(), None);
        assert_eq!(store.append(pen.append(0, &["a"])).await.unwrap().seq, 1);
        assert_eq!(store.append(pen.append(1, &["b", "c", "d"])).await.unwrap().seq, 4);
        assert_eq!(store.append(pen.append(4, &[])).await.unwrap().seq, 4, "a head row alone can be written");
        assert_eq!(pen.texts(store).await, ["a", "b", "c", "d"]);
        let head = store.head(pen.user, pen.stream).await.unwrap().unwrap();
        assert_eq!((head.seq, head.user, head.stream, head.fence), (4, pen.user, pen.stream, store.incarnation()));
    }
}

/// C38: both are ordered or refused, and nobody's entries vanish.
async fn two_writers_of_twenty_each_lose_nothing(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    let mut writers = JoinSet::new();
    for writer in ["left", "right"] {
        let store = Arc::clone(store);
        writers.spawn(async move {
            let mut known = 0;
            for entry in 0..20 {
                let text = format!("{writer} {entry}");
                loop {
                    match store.append(pen.append(known, &[&text])).await {
                        Ok(appended) => {
                            assert_eq!(appended.seq, known + 1);
                            known = appended.seq;
                            break;
                        }
                        Err(StoreError::Conflict { expected, found }) => {
                            assert_eq!(expected, known);
                            assert_ne!(found, known, "a conflict names the number to go on from");
                            known = found;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let texts = pen.texts(store).await;
    assert_eq!(texts.len(), 40);
    for writer in ["left", "right"] {
        let own: Vec<&String> = texts.iter().filter(|text| text.starts_with(writer)).collect();
        let expected: Vec<String> = (0..20).map(|entry| format!("{writer} {entry}")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>(), "each writer's entries are all there, in its order");
    }
}

/// Many streams share a group; each acknowledgement holds at once for whoever reads, while others are still waiting.
async fn one_writer_never_overtakes_itself(store: &Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for _ in 0..16 {
        let store = Arc::clone(store);
        writers.spawn(async move {
            let pen = Pen::new(&store, StreamKind::Session);
            for seq in 0..10 {
                let text = seq.to_string();
                // Two with the same expectation: exactly one of them wins, and the loser doesn't spoil the group.
                let (one, other) = tokio::join!(store.append(pen.append(seq, &[&text])), store.append(pen.append(seq, &[&text])));
                let (won, lost) = if one.is_ok() { (one, other) } else { (other, one) };
                assert_eq!(won.unwrap().seq, seq + 1);
                assert_eq!(lost.unwrap_err(), StoreError::Conflict { expected: seq, found: seq + 1 });
                let head = store.head(pen.user, pen.stream).await.unwrap().unwrap();
                assert_eq!(head.seq, seq + 1, "what was acknowledged can be read");
            }
            assert_eq!(pen.texts(&store).await, (0..10).map(|seq| seq.to_string()).collect::<Vec<_>>());
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
}

async fn an_append_is_whole_or_absent(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    store.append(pen.append(0, &["first"])).await.unwrap();
    let before = store.head(pen.user, pen.stream).await.unwrap();
    let row = operation("done");
    for (expected, found) in [(0, 1), (2, 1)] {
        let mut append = Append { operation: Some(row.clone()), ..pen.append(expected, &["lost", "lost"]) };
        append.head.updated_at = Timestamp(99);
        append.head.active = true;
        let error = store.append(append).await.unwrap_err();
        assert_eq!(error, StoreError::Conflict { expected, found });
        assert_eq!(error.decision(), Decision::Reload);
    }
    let elsewhere = Pen::new(store, StreamKind::Session);
    let error = store.append(elsewhere.append(3, &["lost"])).await.unwrap_err();
    assert_eq!(error, StoreError::Conflict { expected: 3, found: 0 }, "a stream that doesn't exist is at 0");
    assert_eq!(store.head(elsewhere.user, elsewhere.stream).await.unwrap(), None);
    assert_eq!(store.head(pen.user, pen.stream).await.unwrap(), before);
    assert_eq!(store.operation(pen.user, row.operation_id).await.unwrap(), None);
    assert_eq!(pen.texts(store).await, ["first"]);
}

async fn an_operation_is_answered_once_for_each_user(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    let first = operation("first answer");
    let append = Append { operation: Some(first.clone()), ..pen.append(0, &["once"]) };
    store.append(append.clone()).await.unwrap();
    let again = OperationRow { reply: b"another answer".into(), ..first.clone() };
    // The repetition as it was sent, with the newest number, and as a rejection: the first answer each time.
    for expected_seq in [0, 1] {
        let error = store.append(Append { expected_seq, operation: Some(again.clone()), ..append.clone() }).await.unwrap_err();
        assert_eq!(error, StoreError::OperationExists(first.clone()));
        assert_eq!(error.decision(), Decision::Reload);
    }
    assert_eq!(store.remember(pen.user, again.clone()).await.unwrap_err(), StoreError::OperationExists(first.clone()));
    assert_eq!(store.operation(pen.user, first.operation_id).await.unwrap(), Some(first.clone()));
    assert_eq!(pen.texts(store).await, ["once"]);

    let rejected = operation("rejected");
    store.remember(pen.user, rejected.clone()).await.unwrap();
    assert_eq!(store.operation(pen.user, rejected.operation_id).await.unwrap(), Some(rejected.clone()));
    let late = Append { operation: Some(rejected.clone()), ..pen.append(1, &["twice"]) };
    assert_eq!(store.append(late).await.unwrap_err(), StoreError::OperationExists(rejected));

    // Another user may use the same id, and many repetitions at once have one winner.
    let other = Pen::new(store, StreamKind::Session);
    let mut attempts = JoinSet::new();
    for attempt in 0..10 {
        let store = Arc::clone(store);
        let row = OperationRow { reply: format!("attempt {attempt}").into_bytes(), ..first.clone() };
        attempts.spawn(async move { (row.clone(), store.remember(other.user, row).await) });
    }
    let outcomes = attempts.join_all().await;
    let kept = store.operation(other.user, first.operation_id).await.unwrap().unwrap();
    for (row, outcome) in outcomes {
        assert_eq!(outcome, if row == kept { Ok(()) } else { Err(StoreError::OperationExists(kept.clone())) });
    }
}

/// O3 and S5: on every way in, another user's things look as if they were not there.
async fn what_belongs_to_another_user_is_absent(store: &Arc<dyn Store>) {
    let owner = Pen::new(store, StreamKind::Session);
    let row = operation("private");
    let mut append = Append { operation: Some(row.clone()), ..owner.append(0, &["private"]) };
    append.head.active = true;
    store.append(append).await.unwrap();
    let state = StateCache { seq: 1, format: 1, bytes: b"private".into() };
    store.put_state(owner.user, owner.stream, state.clone()).await.unwrap();
    let digest = store.put_blob(owner.user, b"private".into()).await.unwrap();

    let stranger = UserId(Uuid::now_v7());
    assert_eq!(store.head(stranger, owner.stream).await.unwrap(), None);
    assert_eq!(store.heads(stranger, StreamKind::Session, None, 100).await.unwrap(), []);
    assert_eq!(store.read(stranger, owner.stream, 0, 100).await.unwrap(), []);
    assert_eq!(store.read_back(stranger, owner.stream, u64::MAX, &["message_added"], 100).await.unwrap(), []);
    assert_eq!(store.state(stranger, owner.stream).await.unwrap(), None);
    assert_eq!(store.operation(stranger, row.operation_id).await.unwrap(), None);
    assert_eq!(store.blob(stranger, &digest).await.unwrap(), None);
    let foreign_state = store.put_state(stranger, owner.stream, state.clone()).await;
    assert_eq!(foreign_state, Err(StoreError::Conflict { expected: 1, found: 0 }));
    // A stranger who writes under the same name writes to a stream of its own.
    let foreign = Pen { user: stranger, ..owner };
    assert_eq!(store.append(foreign.append(1, &["intrusion"])).await, Err(StoreError::Conflict { expected: 1, found: 0 }));
    store.append(foreign.append(0, &["own"])).await.unwrap();
    assert_eq!(foreign.texts(store).await, ["own"]);
    assert_eq!(owner.texts(store).await, ["private"]);
    assert_eq!(store.state(owner.user, owner.stream).await.unwrap(), Some(state));
}

async fn a_newer_hub_fences_the_older(store: &Arc<dyn Store>) {
    let newer = Pen::new(store, StreamKind::Session);
    let older = Pen { fence: newer.fence - 1, ..newer };
    store.append(older.append(0, &["old"])).await.unwrap();
    store.append(newer.append(1, &["new"])).await.unwrap();
    // Even with the right number: being up to date is not being entitled.
    let error = store.append(older.append(2, &["stale"])).await.unwrap_err();
    assert_eq!(error, StoreError::Fenced { own: older.fence, found: newer.fence });
    assert_eq!(error.decision(), Decision::Stop);
    assert_eq!(newer.texts(store).await, ["old", "new"]);
    assert_eq!(store.head(newer.user, newer.stream).await.unwrap().unwrap().fence, newer.fence);
}

async fn heads_are_paged_newest_first(store: &Arc<dyn Store>) {
    let user = UserId(Uuid::now_v7());
    let mut expected = Vec::new();
    for number in 0..23_i64 {
        let pen = Pen { user, ..Pen::new(store, StreamKind::Session) };
        // Some share a time, so that a page may end between equals.
        let mut append = pen.append(0, &["a"]);
        append.head.updated_at = Timestamp(1_000 + number / 3);
        append.head.summary = number.to_string().into_bytes();
        expected.push((append.head.updated_at, pen.stream.id));
        store.append(append).await.unwrap();
    }
    let workspace = Pen { user, ..Pen::new(store, StreamKind::Workspace) };
    store.append(workspace.append(0, &["a"])).await.unwrap();
    // The oldest is written to again and becomes the newest.
    let (_, id) = expected[0];
    let pen = Pen { user, stream: StreamId { kind: StreamKind::Session, id }, fence: store.incarnation() };
    let mut append = pen.append(1, &["b"]);
    append.head.updated_at = Timestamp(5_000);
    store.append(append).await.unwrap();
    expected[0].0 = Timestamp(5_000);
    expected.sort_unstable_by(|one, other| other.cmp(one));

    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = store.heads(user, StreamKind::Session, before, 5).await.unwrap();
        assert!(page.len() <= 5);
        let Some(last) = page.last() else { break };
        before = Some((last.updated_at, last.stream.id));
        seen.extend(page.iter().map(|head| (head.updated_at, head.stream.id)));
    }
    assert_eq!(seen, expected);
    let workspaces = store.heads(user, StreamKind::Workspace, None, 5).await.unwrap();
    assert_eq!(workspaces.iter().map(|head| head.stream).collect::<Vec<_>>(), [workspace.stream]);
}

async fn what_owes_something_is_found_at_start(store: &Arc<dyn Store>) {
    let [busy, sleeping, idle] = [(); 3].map(|()| Pen::new(store, StreamKind::Session));
    for (pen, active, wake_at) in [(busy, true, None), (sleeping, false, Some(Timestamp(-5))), (idle, false, None)] {
        let mut append = pen.append(0, &["a"]);
        append.head = HeadWrite { epoch: 7, active, wake_at, updated_at: Timestamp(3), summary: vec![0, 255] };
        store.append(append.clone()).await.unwrap();
        let expected = Head {
            stream: pen.stream,
            user: pen.user,
            seq: 1,
            epoch: 7,
            fence: pen.fence,
            active,
            wake_at,
            updated_at: Timestamp(3),
            summary: vec![0, 255],
        };
        assert_eq!(store.head(pen.user, pen.stream).await.unwrap(), Some(expected), "a head row comes back as it was written");
    }
    let owing = |heads: Vec<Head>| [busy, sleeping, idle].map(|pen| heads.iter().any(|head| head.stream == pen.stream));
    assert_eq!(owing(store.active(StreamKind::Session).await.unwrap()), [true, true, false]);
    assert_eq!(owing(store.active(StreamKind::Workspace).await.unwrap()), [false; 3]);
    assert_eq!(owing(store.all(StreamKind::Session).await.unwrap()), [true; 3]);

    // The debts change hands; writing without a change leaves them.
    for (pen, active) in [(busy, false), (sleeping, false), (idle, true)] {
        for seq in 1..3 {
            let mut append = pen.append(seq, &["b"]);
            append.head.active = active;
            store.append(append).await.unwrap();
        }
    }
    assert_eq!(owing(store.active(StreamKind::Session).await.unwrap()), [false, false, true]);
}

async fn events_are_read_forwards_and_backwards(store: &Arc<dyn Store>) {
    const NONE: [u64; 0] = [];
    let pen = Pen::new(store, StreamKind::Session);
    let kinds = ["message_added", "tool_called", "model_called"];
    let rows: Vec<EventRow> = (1..=30_u8)
        .map(|seq| EventRow {
            kind: kinds[usize::from(seq % 3)].into(),
            event: vec![seq; usize::from(seq) * 100],
            upserts: vec![seq; 3_000],
        })
        .collect();
    store.append(Append { rows: rows.clone(), ..pen.append(0, &[]) }).await.unwrap();
    for (event, row) in pen.log(store).await.into_iter().zip(&rows) {
        assert_eq!((&event.kind, &event.event, &event.upserts), (&row.kind, &row.event, &row.upserts));
    }
    let forwards = async |after, limit| numbers(store.read(pen.user, pen.stream, after, limit).await.unwrap());
    assert_eq!(forwards(0, 3).await, [1, 2, 3]);
    assert_eq!(forwards(28, 10).await, [29, 30]);
    assert_eq!(forwards(30, 10).await, NONE);
    assert_eq!(forwards(u64::MAX, 10).await, NONE);
    assert_eq!(forwards(0, 0).await, NONE);

    let backwards = async |before, kinds: &[&str], limit| {
        let events = store.read_back(pen.user, pen.stream, before, kinds, limit).await.unwrap();
        for event in &events {
            assert_eq!(event.event.first().copied().map(u64::from), Some(event.seq), "an event comes with its own payload");
            assert!(kinds.contains(&event.kind.as_str()));
        }
        numbers(events)
    };
    assert_eq!(backwards(u64::MAX, &["message_added"], 3).await, [30, 27, 24]);
    assert_eq!(backwards(24, &["message_added"], 2).await, [21, 18]);
    assert_eq!(backwards(30, &["message_added", "tool_called"], 3).await, [28, 27, 25]);
    assert_eq!(backwards(4, &kinds, 10).await, [3, 2, 1]);
    assert_eq!(backwards(1, &kinds, 10).await, NONE);
    assert_eq!(backwards(u64::MAX, &[], 10).await, NONE);
    assert_eq!(backwards(u64::MAX, &["nothing of this kind"], 10).await, NONE);
}

fn numbers(events: Vec<StoredEvent>) -> Vec<u64> {
    events.into_iter().map(|event| event.seq).collect()
}

/// A message with this text, as the protocol writes it.
pub fn message(text: &str) -> EventRow {
    let event = format!("{{\"type\": \"message_added\", \"data\": {{\"text\": {text:?}}}}}");
    EventRow { kind: "message_added".into(), event: event.into(), upserts: b"[]".into() }
}

async fn texts_are_found_by_their_words(store: &Arc<dyn Store>) {
    let (pen, later) = (Pen::new(store, StreamKind::Session), Pen::new(store, StreamKind::Session));
    let later = Pen { user: pen.user, ..later };
    let stranger = Pen::new(store, StreamKind::Session);
    let said = ["Round the buttons of start.html", "把首页按钮的圆角改成 8px", "检查天气", "no words: …"];
    store.append(Append { rows: said.map(message).to_vec(), ..pen.append(0, &[]) }).await.unwrap();
    store.append(Append { rows: vec![message("Another BUTTON, 按钮")], ..later.append(0, &["button, but no message"]) }).await.unwrap();
    store.append(Append { rows: vec![message("a stranger's button 按钮")], ..stranger.append(0, &[]) }).await.unwrap();
    let found = async |user, words: &str, limit| {
        let found = store.search(user, words, limit).await.unwrap();
        assert!(!found.incomplete, "a new store has read everything");
        let place = |it: &crate::FoundText| (it.stream, it.seq);
        found.texts.iter().map(place).collect::<Vec<_>>()
    };
    let (first, second, other) = ((pen.stream, 1), (pen.stream, 2), (later.stream, 1));
    let rows: [(&str, &[(StreamId, u64)]); 14] = [
        ("button", &[other, first]),
        ("buttons", &[first]),
        ("html", &[first]),
        ("round start", &[first]),
        ("round 按钮", &[]),
        ("按钮", &[other, second]),
        ("圆角", &[second]),
        ("首页按钮", &[second]),
        ("页角", &[]),
        ("气", &[(pen.stream, 3)]),
        ("8px", &[second]),
        ("utton", &[]),
        ("\"*)", &[]),
        ("stranger", &[]),
    ];
    for (words, expected) in rows {
        assert_eq!(found(pen.user, words, 10).await, expected, "{words}");
    }
    assert_eq!(found(pen.user, "button", 1).await, [other], "the newest");
    assert_eq!(found(stranger.user, "按钮", 10).await, [(stranger.stream, 1)], "another's are as if they were not there");
    let refused = Append { rows: vec![message("never said")], ..pen.append(2, &[]) };
    assert!(store.append(refused).await.is_err());
    assert_eq!(found(pen.user, "never", 10).await, [], "what wasn't appended isn't found");
}

async fn a_state_is_a_cache(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    let state = |seq, format| StateCache { seq, format, bytes: format!("state {seq}").into_bytes() };
    assert_eq!(store.put_state(pen.user, pen.stream, state(1, 1)).await, Err(StoreError::Conflict { expected: 1, found: 0 }));
    store.append(pen.append(0, &["a", "b"])).await.unwrap();
    assert_eq!(store.state(pen.user, pen.stream).await.unwrap(), None);
    assert_eq!(store.put_state(pen.user, pen.stream, state(3, 1)).await, Err(StoreError::Conflict { expected: 3, found: 2 }));
    store.put_state(pen.user, pen.stream, state(1, 1)).await.unwrap();
    store.put_state(pen.user, pen.stream, state(2, 2)).await.unwrap();
    assert_eq!(store.state(pen.user, pen.stream).await.unwrap(), Some(state(2, 2)));
    // A cache that has fallen behind is kept as it is, and the log goes on without it.
    store.append(pen.append(2, &["c"])).await.unwrap();
    assert_eq!(store.state(pen.user, pen.stream).await.unwrap(), Some(state(2, 2)));
    assert_eq!(pen.texts(store).await, ["a", "b", "c"]);
}

async fn blobs_are_kept_by_digest(store: &Arc<dyn Store>) {
    let user = UserId(Uuid::now_v7());
    for bytes in [Vec::new(), b"small".to_vec(), vec![7; 3 * 1024 * 1024]] {
        let digest = store.put_blob(user, bytes.clone()).await.unwrap();
        assert_eq!(digest, Digest::of_bytes(&bytes));
        assert_eq!(store.put_blob(user, bytes.clone()).await.unwrap(), digest);
        assert_eq!(store.blob(user, &digest).await.unwrap(), Some(bytes));
    }
    assert_eq!(store.blob(user, &Digest::of_bytes(b"never kept")).await.unwrap(), None);
}

async fn too_large_is_refused(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    let largest = "x".repeat(crate::limits::EVENT_BYTES);
    store.append(pen.append(0, &[&largest])).await.unwrap();
    let error = store.append(pen.append(1, &["fits", &format!("{largest}x")])).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { limit, size, .. } if size == limit + 1), "{error}");
    assert_eq!(error.decision(), Decision::Refuse);
    assert_eq!(store.head(pen.user, pen.stream).await.unwrap().unwrap().seq, 1);
}

async fn closed_says_so(store: &Arc<dyn Store>) {
    let pen = Pen::new(store, StreamKind::Session);
    store.close().await.unwrap();
    let error = store.append(pen.append(0, &["late"])).await.unwrap_err();
    assert_eq!(error, StoreError::Closed);
    assert_eq!(error.decision(), Decision::Stop);
    assert_eq!(store.head(pen.user, pen.stream).await, Err(StoreError::Closed));
}

async fn what_was_acknowledged_is_there_after_reopening<O, F>(open: &O)
where
    O: Fn() -> F,
    F: Future<Output = Arc<dyn Store>>,
{
    let store = open().await;
    let incarnation = store.incarnation();
    let pen = Pen::new(&store, StreamKind::Session);
    let row = operation("kept");
    store.append(Append { operation: Some(row.clone()), ..pen.append(0, &["a"]) }).await.unwrap();
    let digest = store.put_blob(pen.user, b"kept".into()).await.unwrap();
    store.append(pen.append(1, &["b"])).await.unwrap();
    let head = store.head(pen.user, pen.stream).await.unwrap();
    // Dropped without being closed, as by a hub that stops in haste.
    drop(store);

    let store = open().await;
    assert!(store.incarnation() > incarnation, "each opening has a larger number");
    assert_eq!(pen.texts(&store).await, ["a", "b"]);
    assert_eq!(store.head(pen.user, pen.stream).await.unwrap(), head);
    assert_eq!(store.operation(pen.user, row.operation_id).await.unwrap(), Some(row));
    assert_eq!(store.blob(pen.user, &digest).await.unwrap(), Some(b"kept".into()));
    // The new opening takes the stream over, and the old one may not write to it any more.
    let new = Pen { fence: store.incarnation(), ..pen };
    store.append(new.append(2, &["c"])).await.unwrap();
    assert!(matches!(store.append(pen.append(3, &["d"])).await, Err(StoreError::Fenced { .. })));
    store.close().await.unwrap();
}
