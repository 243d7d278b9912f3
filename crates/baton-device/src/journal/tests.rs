use super::*;
use baton_client::record_file::RecordFileError;
use baton_proto::{RunningState, ToolResult};
use serde_json::json;
use uuid::Uuid;

fn call(number: u128, attempt: u32, fence: u64) -> DispatchedCall {
    DispatchedCall {
        session_id: SessionId(Uuid::from_u128(1)),
        call_id: CallId(Uuid::from_u128(number)),
        tool: "run_command".into(),
        arguments: json!({"command": "make"}),
        attempt,
        fence,
        lease_s: 60,
        digests: [("a".to_owned(), None)].into(),
    }
}

fn id(number: u128, attempt: u32) -> AttemptId {
    AttemptId { call_id: CallId(Uuid::from_u128(number)), attempt }
}

fn succeeded(text: &str) -> Outcome {
    Outcome::Succeeded(ToolResult { content: text.into(), ..ToolResult::default() })
}

fn finish(journal: &mut Journal, number: u128, attempt: u32, text: &str) {
    let session_id = SessionId(Uuid::from_u128(1));
    journal.finish(Finished { session_id, id: id(number, attempt), outcome: succeeded(text) }).unwrap();
}

fn start(journal: &mut Journal, number: u128) {
    assert_eq!(journal.receive(&call(number, 1, 3)).unwrap(), Receipt::New);
    journal.begin(id(number, 1)).unwrap();
}

/// One word for each attempt that the journal knows.
fn told(journal: &Journal, ids: &[AttemptId]) -> Vec<&'static str> {
    let word = |id: &AttemptId| match journal.standing(*id) {
        None => "unknown",
        Some(Standing::Underway) => "underway",
        Some(Standing::Finished(outcome)) if matches!(*outcome, Outcome::Interrupted { .. }) => "interrupted",
        Some(Standing::Finished(_)) => "finished",
        Some(Standing::Acknowledged) => "acknowledged",
    };
    ids.iter().map(word).collect()
}

/// Cut anywhere, a journal opens with every step that was on disk and none that wasn't.
#[test]
fn c08_a_journal_cut_at_any_byte_keeps_what_was_synced_and_invents_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 7);
    finish(&mut journal, 7, 1, "done");
    journal.acknowledge(id(7, 1)).unwrap();
    start(&mut journal, 8);
    drop(journal);
    let content = std::fs::read(&path).unwrap();
    let ends: Vec<usize> = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1).collect();
    let expected = [
        ["unknown", "unknown"],
        // Its own name only.
        ["unknown", "unknown"],
        // Received only: forgotten, so that the hub may hand it over again.
        ["unknown", "unknown"],
        ["interrupted", "unknown"],
        ["finished", "unknown"],
        ["acknowledged", "unknown"],
        ["acknowledged", "unknown"],
        ["acknowledged", "interrupted"],
    ];
    assert_eq!(ends.len() + 1, expected.len());
    // Around every end of a record, all of the last one, and some places in between.
    let last = ends[ends.len() - 2];
    let near_end = |cut: usize| ends.iter().any(|end| end.abs_diff(cut) <= 1);
    for cut in (0..=content.len()).filter(|cut| *cut >= last || near_end(*cut) || cut % 16 == 0) {
        std::fs::write(&path, &content[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count();
        // The second opening finds what the first one settled.
        for opening in 1..=2 {
            let journal = Journal::open(directory.path()).unwrap();
            assert_eq!(told(&journal, &[id(7, 1), id(8, 1)]), expected[whole], "cut at {cut}, opening {opening}");
        }
    }
}

#[test]
fn a_repeat_never_runs_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 7);
    let receive = |journal: &mut Journal| journal.receive(&call(7, 1, 3)).unwrap();
    assert_eq!(receive(&mut journal), Receipt::Known(Standing::Underway));
    finish(&mut journal, 7, 1, "done");
    assert_eq!(receive(&mut journal), Receipt::Known(Standing::Finished(Box::new(succeeded("done")))));
    drop(journal);
    let mut journal = Journal::open(directory.path()).unwrap();
    assert_eq!(receive(&mut journal), Receipt::Known(Standing::Finished(Box::new(succeeded("done")))));
    journal.acknowledge(id(7, 1)).unwrap();
    assert!(journal.unacknowledged().is_empty());
    assert_eq!(receive(&mut journal), Receipt::Known(Standing::Acknowledged));
}

#[test]
fn f7_an_older_hub_is_refused_for_good() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    assert!(journal.admit(5).unwrap());
    drop(journal);
    let mut journal = Journal::open(directory.path()).unwrap();
    assert!(!journal.admit(4).unwrap());
    assert_eq!(journal.receive(&call(7, 1, 4)).unwrap(), Receipt::StaleFence { newest: 5 });
    assert_eq!(journal.receive(&call(7, 1, 6)).unwrap(), Receipt::New);
    assert!(!journal.admit(5).unwrap(), "the call brought a newer fence");
    assert_eq!(journal.receive(&call(7, 1, 9)).unwrap(), Receipt::Known(Standing::Underway));
    assert!(!journal.admit(8).unwrap(), "a repeat did too");
}

#[test]
fn attempts_of_one_call_never_run_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 7);
    assert_eq!(journal.receive(&call(7, 2, 3)).unwrap(), Receipt::Joins(id(7, 1)));
    finish(&mut journal, 7, 1, "one");
    finish(&mut journal, 7, 2, "one");
    assert_eq!(journal.receive(&call(7, 3, 3)).unwrap(), Receipt::New);
    journal.acknowledge(id(7, 2)).unwrap();
    let other = call(8, 2, 3);
    assert_eq!(journal.receive(&other).unwrap(), Receipt::New);
    assert_eq!(journal.receive(&call(8, 1, 3)).unwrap(), Receipt::Superseded);
}

#[test]
fn what_runs_and_what_ended_is_told_at_each_connection() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 7);
    start(&mut journal, 8);
    journal.receive(&call(9, 1, 3)).unwrap();
    finish(&mut journal, 7, 1, "done");
    let states = |journal: &Journal| {
        journal.running().into_iter().map(|call| (call.call_id.0.as_u128(), call.state)).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = [(7, RunningState::Finished), (8, RunningState::Running), (9, RunningState::Accepted)];
    assert_eq!(states(&journal), before.into());
    drop(journal);
    let journal = Journal::open(directory.path()).unwrap();
    assert_eq!(states(&journal), [(7, RunningState::Finished), (8, RunningState::Interrupted)].into());
    let Outcome::Interrupted { known } = &journal.unacknowledged()[1].outcome else { panic!("interrupted") };
    assert!(known.contains("run_command"), "{known}");
}

#[test]
fn a_second_device_on_the_same_directory_is_refused_naming_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let _first = Journal::open(directory.path()).unwrap();
    let error = Journal::open(directory.path()).unwrap_err();
    assert!(matches!(&error, JournalError::File(RecordFileError::Locked { pid: Some(pid), .. }) if *pid == std::process::id()));
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
}

#[test]
fn another_pairing_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 7);
    let (one, other) = (DeviceId(Uuid::from_u128(1)), DeviceId(Uuid::from_u128(2)));
    assert_eq!(journal.adopt(one).unwrap(), 0);
    assert_eq!(journal.adopt(one).unwrap(), 0);
    assert_eq!(told(&journal, &[id(7, 1)]), ["underway"], "a first pairing takes nothing away");
    assert_eq!(journal.adopt(other).unwrap(), 1);
    assert!(journal.running().is_empty());
    assert!(journal.admit(1).unwrap(), "the other hub's fences begin where they begin");
}

#[test]
fn a_journal_does_not_grow_with_what_is_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut journal = Journal::open(directory.path()).unwrap();
    start(&mut journal, 1000);
    for number in 0..40 {
        start(&mut journal, number);
        finish(&mut journal, number, 1, &"x".repeat(64 * 1024));
        journal.acknowledge(id(number, 1)).unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() < 20 * COMPACT_BYTES, "with one call underway it stays bounded");
    finish(&mut journal, 1000, 1, "at last");
    journal.acknowledge(id(1000, 1)).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < COMPACT_BYTES, "{size}");
    drop(journal);
    let mut journal = Journal::open(directory.path()).unwrap();
    assert_eq!(journal.receive(&call(20, 1, 3)).unwrap(), Receipt::Known(Standing::Acknowledged));
    assert!(!journal.admit(2).unwrap(), "the fence is kept");
}

#[test]
fn f7_a_journal_that_was_lost_is_another_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut journal = Journal::open(directory.path()).unwrap();
    let first = journal.identity();
    start(&mut journal, 7);
    journal.adopt(DeviceId(Uuid::from_u128(1))).unwrap();
    assert_eq!(journal.identity(), first, "the first pairing forgets nothing");
    for number in 100..140 {
        start(&mut journal, number);
        finish(&mut journal, number, 1, &"x".repeat(64 * 1024));
        journal.acknowledge(id(number, 1)).unwrap();
    }
    drop(journal);
    let journal = Journal::open(directory.path()).unwrap();
    assert_eq!(journal.identity(), first, "it is the same after a restart, and after it was written anew");
    drop(journal);
    std::fs::remove_file(&path).unwrap();
    let mut journal = Journal::open(directory.path()).unwrap();
    let second = journal.identity();
    assert_ne!(second, first);
    journal.adopt(DeviceId(Uuid::from_u128(1))).unwrap();
    journal.adopt(DeviceId(Uuid::from_u128(2))).unwrap();
    let third = journal.identity();
    assert_ne!(third, second, "what another pairing's journal held is forgotten");
    drop(journal);
    assert_eq!(Journal::open(directory.path()).unwrap().identity(), third);
}

/// A crash between the two records of another pairing, and a journal of an earlier version.
#[test]
fn f7_a_journal_without_an_identity_is_given_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let (mut file, _) = RecordFile::open::<Record>(&path).unwrap();
    file.append(&Record::Adopted { device_id: DeviceId(Uuid::from_u128(1)) }).unwrap();
    drop(file);
    let identity = Journal::open(directory.path()).unwrap().identity();
    assert_eq!(Journal::open(directory.path()).unwrap().identity(), identity);
}
