//! What a step writes, early and late in a stream's history. Bytes are counted and no clock is looked at.
#![allow(clippy::unwrap_used, reason = "a test may")]

use baton_store::contract::{Pen, operation};
use baton_store::{Append, SqliteStore, Store, StreamKind};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a message.
const MESSAGE: usize = 400;
/// Steps over which an average is taken.
const STEPS: u64 = 100;

/// Lets a stream grow to that many events, many in one append, since only what is measured has to go step by step.
async fn grow(store: &Arc<dyn Store>, pen: &Pen, to: u64) -> u64 {
    let text = "x".repeat(MESSAGE);
    let mut seq = pen.log(store).await.len() as u64;
    while seq < to {
        let texts = vec![text.as_str(); usize::try_from((to - seq).min(1000)).unwrap()];
        seq = store.append(pen.append(seq, &texts)).await.unwrap().seq;
    }
    seq
}

/// Bytes that each of the next steps adds to the write-ahead log.
async fn bytes_a_step(store: &Arc<SqliteStore>, pen: &Pen, mut seq: u64) -> u64 {
    let before = store.figures();
    for _ in 0..STEPS {
        let append = Append { operation: Some(operation("accepted")), ..pen.append(seq, &[&"x".repeat(MESSAGE)]) };
        seq = store.append(append).await.unwrap().seq;
    }
    let done = store.figures().since(before);
    assert_eq!((done.commits, done.writes), (STEPS, STEPS), "each step was a commit of its own");
    done.log_bytes / STEPS
}

fn size(directory: &Path) -> u64 {
    std::fs::metadata(directory.join("baton.db")).unwrap().len()
}

#[tokio::test]
async fn c40_what_a_step_writes_does_not_grow_with_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path()).unwrap();
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let pen = Pen::new(&shared, StreamKind::Session);
    let mut measured = Vec::new();
    for history in [10, 1_000, 10_000] {
        let seq = grow(&shared, &pen, history).await;
        measured.push(bytes_a_step(&store, &pen, seq).await);
    }
    let first = measured[0];
    assert!(measured.iter().all(|bytes| bytes * 4 <= first * 5), "bytes a step after 10, 1,000 and 10,000 events: {measured:?}");
    // Five tables and indexes with a page each, the pages that are new, and some room.
    assert!(first < 20 * 1024, "a lone step of {MESSAGE} bytes writes {first}");
}

#[tokio::test]
async fn c40_a_store_grows_by_about_what_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let (mut sizes, mut first) = (Vec::new(), None);
    for messages in [1, 1_000, 2_000] {
        let store: Arc<dyn Store> = SqliteStore::open(directory.path()).unwrap();
        let shared = Arc::clone(&store);
        let pen = *first.get_or_insert_with(|| Pen::new(&shared, StreamKind::Session));
        let pen = Pen { fence: store.incarnation(), ..pen };
        grow(&shared, &pen, messages).await;
        store.close().await.unwrap();
        sizes.push(size(directory.path()));
    }
    let said = (1_000 * MESSAGE) as u64;
    for pair in sizes.windows(2) {
        let grown = pair[1] - pair[0];
        assert!(grown < said * 2, "1,000 messages of {MESSAGE} bytes made the store grow by {grown}");
    }
}

/// Hubs from before have larger pages. Their files are opened, counted and written to as they are.
#[tokio::test]
async fn a_file_with_larger_pages_is_opened_and_keeps_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.db");
    let store = SqliteStore::open(directory.path()).unwrap();
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let pen = Pen::new(&shared, StreamKind::Session);
    shared.append(pen.append(0, &["old"])).await.unwrap();
    store.close().await.unwrap();
    drop((store, shared));
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM; PRAGMA journal_mode = WAL;").unwrap();
    drop(connection);

    let store = SqliteStore::open(directory.path()).unwrap();
    let shared = Arc::clone(&store) as Arc<dyn Store>;
    let pen = Pen { fence: store.incarnation(), ..pen };
    let before = store.figures();
    shared.append(pen.append(1, &["new"])).await.unwrap();
    let logged = store.figures().since(before).log_bytes;
    assert!(logged > 0 && logged.is_multiple_of(4096 + 24), "{logged} bytes are whole pages of the file's size");
    assert_eq!(pen.texts(&shared).await, ["old", "new"]);
    store.close().await.unwrap();
    let page: u32 = Connection::open(&path).unwrap().query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    assert_eq!(page, 4096);
}
