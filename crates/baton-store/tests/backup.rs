//! Backups: taken while others write, whole, and restored by opening them (O7).
#![allow(clippy::unwrap_used, reason = "a test may")]

use baton_proto::Timestamp;
use baton_store::contract::{Pen, operation};
use baton_store::{Append, Decision, SqliteStore, Store, StoreError, StreamKind, back_up};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::task::JoinSet;

fn open(directory: &Path) -> Arc<dyn Store> {
    SqliteStore::open(directory).unwrap()
}

/// A store on a backup, as whoever restores it makes one.
fn restored(backup: &Path, directory: &Path) -> Arc<dyn Store> {
    std::fs::create_dir(directory).unwrap();
    std::fs::copy(backup, directory.join("baton.db")).unwrap();
    open(directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_is_a_prefix_with_all_that_was_acknowledged_before() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let store = open(&data);
    let pens: Vec<Pen> = (0..6).map(|_| Pen::new(&store, StreamKind::Session)).collect();
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new(pens.iter().map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for (index, pen) in pens.iter().copied().enumerate() {
        let (store, acknowledged, stop) = (Arc::clone(&store), Arc::clone(&acknowledged), Arc::clone(&stop));
        writers.spawn(async move {
            let mut seq = 0;
            while !stop.load(Ordering::SeqCst) {
                // Two events and an operation in each append: a copy by halves would show.
                let append = Append { operation: Some(operation("done")), ..pen.append(seq, &["first half", &"x".repeat(3_000)]) };
                seq = store.append(append).await.unwrap().seq;
                acknowledged[index].store(seq, Ordering::SeqCst);
            }
        });
    }

    let mut backups = Vec::new();
    for round in 0..4 {
        let before: Vec<u64> = acknowledged.iter().map(|seq| seq.load(Ordering::SeqCst)).collect();
        let file = directory.path().join(format!("backup{round}.db"));
        let (from, to) = (data.clone(), file.clone());
        let figures = tokio::task::spawn_blocking(move || back_up(&from, &to)).await.unwrap().unwrap();
        backups.push((file, before, figures));
    }
    stop.store(true, Ordering::SeqCst);
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    assert!(acknowledged.iter().all(|seq| seq.load(Ordering::SeqCst) > 0), "everybody wrote");

    let mut whole = Vec::new();
    for pen in &pens {
        whole.push(pen.log(&store).await);
    }
    for (round, (file, before, figures)) in backups.into_iter().enumerate() {
        let copy = restored(&file, &directory.path().join(format!("restored{round}")));
        let mut events = 0;
        for ((pen, whole), before) in pens.iter().zip(&whole).zip(before) {
            let log = pen.log(&copy).await;
            assert!(log.len() as u64 >= before, "round {round}: {before} were acknowledged before it, {} are there", log.len());
            assert_eq!(log, whole[..log.len()], "round {round}: it is a prefix of the log");
            assert!(log.len().is_multiple_of(2), "round {round}: an append is there as a whole");
            let head = copy.head(pen.user, pen.stream).await.unwrap().map_or(0, |head| head.seq);
            assert_eq!(head, log.len() as u64, "round {round}: head and log agree");
            events += head;
        }
        assert_eq!(events, figures.events, "round {round}");
        assert!(copy.incarnation() > store.incarnation());
    }
}

/// A device refuses a hub that is older than one it has seen, and a backup can't know which it has seen since.
#[tokio::test]
async fn a_restored_store_is_newer_than_any_opening_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let store = open(&data);
    let pen = Pen::new(&store, StreamKind::Session);
    store.append(pen.append(0, &["kept"])).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    // No hub runs.
    let file = directory.path().join("backup.db");
    let figures = back_up(&data, &file).unwrap();
    assert_eq!((figures.sessions, figures.users, figures.events), (1, 0, 1));
    assert_eq!(figures.bytes, std::fs::metadata(&file).unwrap().len());
    let mut newest = 0;
    for _ in 0..3 {
        let store = open(&data);
        newest = store.incarnation();
        store
            .append(Pen { fence: newest, ..pen }.append(store.head(pen.user, pen.stream).await.unwrap().unwrap().seq, &["lost"]))
            .await
            .unwrap();
        store.close().await.unwrap();
    }
    let restored = restored(&file, &directory.path().join("restored"));
    assert!(restored.incarnation() > newest, "{} after {newest}", restored.incarnation());
    let pen = Pen { fence: restored.incarnation(), ..pen };
    restored.append(pen.append(1, &["new"])).await.unwrap();
    assert_eq!(pen.texts(&restored).await, ["kept", "new"]);
    assert!(Timestamp(i64::try_from(restored.incarnation()).unwrap()).to_string().starts_with("20"), "it is a time");
}

/// As after a kill: what was acknowledged lies in the log, and nobody has moved it yet.
#[tokio::test]
async fn what_a_killed_hub_left_in_its_log_is_in_the_backup() {
    let directory = tempfile::tempdir().unwrap();
    let (data, killed) = (directory.path().join("data"), directory.path().join("killed"));
    let store = open(&data);
    let pen = Pen::new(&store, StreamKind::Session);
    for seq in 0..20 {
        store.append(pen.append(seq, &[&seq.to_string()])).await.unwrap();
    }
    std::fs::create_dir(&killed).unwrap();
    for name in ["baton.db", "baton.db-wal"] {
        std::fs::copy(data.join(name), killed.join(name)).unwrap();
    }
    assert!(std::fs::metadata(killed.join("baton.db-wal")).unwrap().len() > 0);
    let file = directory.path().join("backup.db");
    back_up(&killed, &file).unwrap();
    assert_eq!(pen.log(&restored(&file, &directory.path().join("restored"))).await.len(), 20);
}

#[tokio::test]
async fn what_cannot_be_backed_up_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let target = directory.path().join("backup.db");
    let absent = back_up(&data, &target).unwrap_err();
    assert!(matches!(absent, StoreError::Absent(_)), "{absent}");

    let store = open(&data);
    let pen = Pen::new(&store, StreamKind::Session);
    store.append(pen.append(0, &["kept"])).await.unwrap();
    std::fs::write(&target, b"precious").unwrap();
    let exists = back_up(&data, &target).unwrap_err();
    assert_eq!((exists.decision(), &exists), (Decision::Refuse, &StoreError::Exists(target.display().to_string())));
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");

    let nowhere = back_up(&data, &directory.path().join("no/such/backup.db")).unwrap_err();
    assert!(matches!(nowhere, StoreError::Io(_)), "{nowhere}");
    store.close().await.unwrap();
    drop(store);

    Connection::open(data.join("baton.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let newer = back_up(&data, &directory.path().join("newer.db")).unwrap_err();
    assert!(matches!(newer, StoreError::NewerVersion { found: 99, .. }), "{newer}");
    let mut bytes = std::fs::read(data.join("baton.db")).unwrap();
    bytes[..4096].fill(0xa5);
    std::fs::write(data.join("baton.db"), bytes).unwrap();
    let damaged = back_up(&data, &directory.path().join("damaged.db")).unwrap_err();
    assert!(matches!(damaged, StoreError::Corrupt(_)), "{damaged}");

    let mut left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup.db", "data"]);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_a_backup() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("data"));
    let file = directory.path().join("backup.db");
    back_up(&directory.path().join("data"), &file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    drop(store);
}
