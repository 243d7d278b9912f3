//! The embedded store: the common contract, and what only a directory of files can be tested for.
#![allow(clippy::unwrap_used, reason = "a test may")]

use baton_proto::Digest;
use baton_store::contract::{self, Pen};
use baton_store::{Decision, SqliteStore, Store, StoreError, StreamKind};
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
