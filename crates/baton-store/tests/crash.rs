//! What happens when the process is killed, or the disk fails or is full. Each story runs in a child process: this very
//! test binary, told by `--ignored` to play the part that its parent names.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may")]

use baton_store::contract::{Pen, operation};
use baton_store::{Append, Decision, SqliteStore, Store, StoreError, StreamId, StreamKind};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const DIRECTORY: &str = "STORE_TEST_DIRECTORY";
const FAULT: &str = "STORE_TEST_FAULT";

/// The child that plays `part` on a directory.
fn child(part: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", part, "--nocapture"]).env(DIRECTORY, directory).stdout(Stdio::piped());
    command
}

fn directory_of_child() -> PathBuf {
    std::env::var_os(DIRECTORY).expect("a test of this file starts this one as its child").into()
}

fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap)
}

/// What a child said that it was acknowledged: for each stream the last number, and all operations.
#[derive(Default)]
struct Acknowledged {
    streams: BTreeMap<(String, String), u64>,
    operations: Vec<(String, String)>,
}

impl Acknowledged {
    fn hear(&mut self, line: &str) {
        // The killed child may leave half a line behind, and the test harness says things of its own.
        let words: Vec<&str> = line.split(' ').collect();
        if let ["acknowledged", user, stream, seq, operation, "."] = words[..] {
            self.streams.insert((user.into(), stream.into()), seq.parse().unwrap());
            self.operations.push((user.into(), operation.into()));
        }
    }
}

#[tokio::test]
async fn a_kill_in_mid_append_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut incarnation = 0;
    for round in 1..=6_u64 {
        let mut child = child("appends_until_killed", directory.path()).spawn().unwrap();
        let pid = child.id();
        let mut lines = lines(&mut child);
        // Another moment in each round.
        for line in lines.by_ref().take(60 + usize::try_from(round).unwrap() * 37) {
            acknowledged.hear(&line);
        }
        if round == 1 {
            let error = SqliteStore::open(directory.path()).unwrap_err();
            assert!(matches!(&error, StoreError::InUse { pid: Some(found), .. } if *found == pid), "{error}");
        }
        child.kill().unwrap();
        for line in lines {
            acknowledged.hear(&line);
        }
        child.wait().unwrap();

        let store: Arc<dyn Store> = SqliteStore::open(directory.path()).unwrap();
        assert!(store.incarnation() > incarnation, "round {round}");
        incarnation = store.incarnation();
        for ((user, stream), last) in &acknowledged.streams {
            let stream = StreamId { kind: StreamKind::Session, id: stream.parse().unwrap() };
            let pen = Pen { user: user.parse().unwrap(), stream, fence: store.incarnation() };
            let texts = pen.texts(&store).await;
            let head = store.head(pen.user, stream).await.unwrap().unwrap();
            assert!(texts.len() as u64 >= *last, "round {round}: {last} acknowledged, {} there", texts.len());
            assert_eq!(head.seq, texts.len() as u64, "round {round}: head and log agree");
            assert!(texts.len().is_multiple_of(2), "round {round}: an append of two events is there as a whole");
        }
        for (user, id) in &acknowledged.operations {
            let kept = store.operation(user.parse().unwrap(), id.parse().unwrap()).await.unwrap();
            assert!(kept.is_some(), "round {round}: operation {id} was acknowledged");
        }
        store.close().await.unwrap();
    }
    assert!(acknowledged.operations.len() > 600, "the children wrote something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of a_kill_in_mid_append_loses_nothing_acknowledged"]
async fn appends_until_killed() {
    let store: Arc<dyn Store> = SqliteStore::open(&directory_of_child()).unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let pen = Pen::new(&store, StreamKind::Session);
            let mut seq = 0;
            loop {
                let row = operation("done");
                let append = Append { operation: Some(row.clone()), ..pen.append(seq, &["first half", "second half"]) };
                seq = store.append(append).await.unwrap().seq;
                let line = format!("acknowledged {} {} {seq} {} .\n", pen.user, pen.stream.id, row.operation_id);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        });
    }
    writers.join_next().await.unwrap().unwrap();
}

/// Runs a part with a disk that can be told to fail.
fn with_failing_disk(part: &str) {
    let directory = tempfile::tempdir().unwrap();
    let shim = directory.path().join("fault.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fault.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(source).arg("-ldl").status().unwrap();
    assert!(built.success());
    let data = directory.path().join("data");
    let output = child(part, &data).env("LD_PRELOAD", &shim).env(FAULT, directory.path().join("fault")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the part was played");
}

fn break_disk(how: &str) {
    std::fs::write(std::env::var_os(FAULT).unwrap(), how).unwrap();
}

fn mend_disk() {
    std::fs::remove_file(std::env::var_os(FAULT).unwrap()).unwrap();
}

#[test]
fn a_failed_sync_poisons_the_store() {
    with_failing_disk("is_poisoned_by_a_failed_sync");
}

#[tokio::test]
#[ignore = "the child of a_failed_sync_poisons_the_store"]
async fn is_poisoned_by_a_failed_sync() {
    let directory = directory_of_child();
    let store: Arc<dyn Store> = SqliteStore::open(&directory).unwrap();
    let pen = Pen::new(&store, StreamKind::Session);
    store.append(pen.append(0, &["safe"])).await.unwrap();
    break_disk("f");
    let error = store.append(pen.append(1, &["unknown"])).await.unwrap_err();
    assert!(matches!(error, StoreError::Poisoned(_)), "{error}");
    assert_eq!(error.decision(), Decision::Stop);
    // A disk that works again does not make what was lost on its way to it come back (the system forgot it).
    mend_disk();
    assert_eq!(store.append(pen.append(1, &["late"])).await.unwrap_err(), error);
    assert_eq!(store.head(pen.user, pen.stream).await.unwrap_err(), error);
    assert_eq!(store.close().await.unwrap_err(), error);

    let store: Arc<dyn Store> = SqliteStore::open(&directory).unwrap();
    let texts = pen.texts(&store).await;
    assert!(texts == ["safe"] || texts == ["safe", "unknown"], "{texts:?}");
}

#[test]
fn a_full_disk_undoes_the_write_and_says_so() {
    with_failing_disk("goes_on_after_a_full_disk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of a_full_disk_undoes_the_write_and_says_so"]
async fn goes_on_after_a_full_disk() {
    let directory = directory_of_child();
    let store: Arc<dyn Store> = SqliteStore::open(&directory).unwrap();
    let pen = Pen::new(&store, StreamKind::Session);
    store.append(pen.append(0, &["before"])).await.unwrap();
    let before = store.head(pen.user, pen.stream).await.unwrap();
    let large = "x".repeat(50_000);
    // Full at once, and full in the midst of a transaction.
    for how in ["w0", "w1", "w5"] {
        break_disk(how);
        let row = operation("lost");
        let append = Append { operation: Some(row.clone()), ..pen.append(1, &[&large, &large]) };
        let error = store.append(append).await.unwrap_err();
        assert_eq!(error, StoreError::Full, "{how}");
        assert_eq!(error.decision(), Decision::Retry);
        mend_disk();
        assert_eq!(store.head(pen.user, pen.stream).await.unwrap(), before, "{how}");
        assert_eq!(store.operation(pen.user, row.operation_id).await.unwrap(), None, "{how}");
    }
    store.append(pen.append(1, &["after"])).await.unwrap();
    assert_eq!(pen.texts(&store).await, ["before", "after"]);
    store.close().await.unwrap();
    let store: Arc<dyn Store> = SqliteStore::open(&directory).unwrap();
    assert_eq!(pen.texts(&store).await, ["before", "after"]);
}
