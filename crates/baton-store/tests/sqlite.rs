//! The embedded store: the common contract, and what only a directory of files can be tested for.
#![allow(clippy::unwrap_used, reason = "a test may")]

use baton_proto::Digest;
use baton_store::contract::{self, Pen};
use baton_store::{Append, Decision, SqliteStore, Store, StoreError, StreamKind};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn open(directory: &Path) -> Arc<dyn Store> {
    SqliteStore::open(directory).unwrap()
}

/// Every file of a directory with the digest of its bytes.
fn files(directory: &Path) -> BTreeMap<String, Digest> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), Digest::of_bytes(&std::fs::read(entry.path()).unwrap()))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_contract_holds() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/data");
    contract::story(|| async { open(&path) }).await;
}

#[tokio::test]
async fn a_second_opener_is_refused_and_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let before = files(directory.path());
    let incarnation = store.incarnation();
    let error = SqliteStore::open(directory.path()).unwrap_err();
    let expected = StoreError::InUse { directory: directory.path().display().to_string(), pid: Some(std::process::id()) };
    assert_eq!(error, expected);
    assert_eq!(error.decision(), Decision::Stop);
    assert_eq!(files(directory.path()), before);
    store.close().await.unwrap();
    assert!(open(directory.path()).incarnation() > incarnation);
}

#[tokio::test]
async fn a_newer_format_is_refused_untouched() {
    let parent = tempfile::tempdir().unwrap();
    // Characters that mean something in the name of a database.
    let directory = parent.path().join("100% sure? #1");
    open(&directory).close().await.unwrap();
    Connection::open(directory.join("baton.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = files(&directory);
    let error = SqliteStore::open(&directory).unwrap_err();
    assert!(matches!(error, StoreError::NewerVersion { found: 99, supported } if supported < 99), "{error}");
    assert_eq!(files(&directory), before);
}

/// Files from before texts were indexed are read up behind everybody's back, also when that is broken off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_from_before_the_index_are_found_in_the_end() {
    const MESSAGES: usize = 3000;
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let (pen, other) = (Pen::new(&store, StreamKind::Session), Pen::new(&store, StreamKind::Session));
    let rows = (0..MESSAGES).map(|number| contract::message(&format!("message {number} 按钮"))).collect();
    store.append(Append { rows, ..pen.append(0, &[]) }).await.unwrap();
    store.append(Append { rows: vec![contract::message("a stranger's 按钮")], ..other.append(0, &[]) }).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let connection = Connection::open(directory.path().join("baton.db")).unwrap();
    connection
        .execute_batch("DROP TABLE word; DROP TABLE text; DROP TABLE unread; PRAGMA user_version = 1; PRAGMA wal_checkpoint(TRUNCATE);")
        .unwrap();
    drop(connection);

    // Opened and closed at once, several times: each goes on where the one before was.
    for _ in 0..3 {
        open(directory.path()).close().await.unwrap();
    }
    let store = open(directory.path());
    let now = Pen { fence: store.incarnation(), ..pen };
    store.append(Append { rows: vec![contract::message("said meanwhile 按钮")], ..now.append(MESSAGES as u64, &[]) }).await.unwrap();
    assert_eq!(store.search(pen.user, "meanwhile", 10).await.unwrap().texts.len(), 1, "what is said now is found at once");
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while store.search(pen.user, "message", 1).await.unwrap().incomplete {
        assert!(std::time::Instant::now() < deadline, "reading up comes to an end");
        tokio::task::yield_now().await;
    }
    let found = store.search(pen.user, "按钮", u32::MAX).await.unwrap().texts;
    let mut seqs: Vec<u64> = found.iter().map(|text| text.seq).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=MESSAGES as u64 + 1).collect::<Vec<_>>(), "each once, and nobody else's");
    store.close().await.unwrap();
    assert!(!open(directory.path()).search(pen.user, "message", 1).await.unwrap().incomplete, "and never again");
}

#[tokio::test]
async fn garbage_is_called_damaged() {
    let healthy = tempfile::tempdir().unwrap();
    let store = open(healthy.path());
    let pen = Pen::new(&store, StreamKind::Session);
    for seq in 0..50 {
        store.append(pen.append(seq, &[&"x".repeat(2_000)])).await.unwrap();
    }
    store.close().await.unwrap();
    let bytes = std::fs::read(healthy.path().join("baton.db")).unwrap();
    let torn = bytes[..bytes.len() / 2].to_vec();
    let mut scratched = bytes.clone();
    scratched[..4096].fill(0xa5);
    for (what, bytes) in
        [("text", b"not a database".repeat(500)), ("torn", torn), ("scratched", scratched), ("short", bytes[..50].to_vec())]
    {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("baton.db"), &bytes).unwrap();
        let error = SqliteStore::open(directory.path()).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{what}: {error:?}");
        assert_eq!(std::fs::read(directory.path().join("baton.db")).unwrap(), bytes, "{what}: the file is left for whoever can mend it");
    }
}

#[tokio::test]
async fn the_database_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("baton.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = SqliteStore::open(directory.path()).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(reason) if reason.contains("another program")), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_blob_is_never_handed_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let pen = Pen::new(&store, StreamKind::User);
    let digest = store.put_blob(pen.user, b"precious".into()).await.unwrap();
    store.close().await.unwrap();
    Connection::open(directory.path().join("baton.db")).unwrap().execute("UPDATE blob SET bytes = x'00'", []).unwrap();
    let error = open(directory.path()).blob(pen.user, &digest).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let store = open(&path);
    let pen = Pen::new(&store, StreamKind::User);
    store.append(pen.append(0, &["private"])).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for name in ["baton.db", "baton.db-wal", "baton.db-shm"] {
        assert_eq!(mode(&path.join(name)), 0o600, "{name}");
    }
}

/// What is submitted first is committed first, also within one group: nobody has to wait for one acknowledgement to
/// send the next append.
#[tokio::test]
async fn a_group_keeps_the_order_of_arrival() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let pen = Pen::new(&store, StreamKind::Session);
    let texts: Vec<String> = (0..300).map(|seq| seq.to_string()).collect();
    let mut appends = tokio::task::JoinSet::new();
    // On one thread, tasks start in the order in which they were spawned.
    for (seq, text) in texts.iter().enumerate() {
        let append = pen.append(seq as u64, &[text]);
        let store = Arc::clone(&store);
        appends.spawn(async move { store.append(append).await });
    }
    for outcome in appends.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(pen.texts(&store).await, texts);
}

/// The log is moved and begun anew while writing goes on; otherwise it would grow for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_while_writing_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let text = "x".repeat(60_000);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, text) = (Arc::clone(&store), text.clone());
        writers.spawn(async move {
            let pen = Pen::new(&store, StreamKind::Session);
            for seq in 0..400 {
                store.append(pen.append(seq, &[&text])).await.unwrap();
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let written = 8 * 400 * 60_000;
    let log = std::fs::metadata(directory.path().join("baton.db-wal")).unwrap().len();
    assert!(log < written / 2, "the log has {log} bytes after {written} were written");
    store.close().await.unwrap();
    assert!(!directory.path().join("baton.db-wal").exists(), "a closed store leaves one file");
}
