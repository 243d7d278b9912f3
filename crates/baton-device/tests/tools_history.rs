//! What calls changed, apart from what the user did, and all of it taken back or nothing (E7).

mod common;

use baton_device::history::{Change, MAX_KEPT_FILE, State};
use baton_proto::{CallId, FileDiff, FileStatus, Finding, NotRecorded, Outcome, RecordedChanges, Timestamp};
use common::{Place, call_id, error_of, succeeded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

async fn run(place: &Place, line: &str) -> CallId {
    let id = call_id();
    succeeded(place.run_as(id, "run_command", json!({"argv": ["sh", "-c", line]}), BTreeMap::new()).await);
    id
}

async fn act(place: &Place, tool: &str, arguments: Value) -> CallId {
    let id = call_id();
    succeeded(place.run_as(id, tool, arguments, BTreeMap::new()).await);
    id
}

async fn diff(place: &Place, calls: &[CallId]) -> RecordedChanges {
    let Some(record) = place.tools.record() else { panic!("a workspace's tools keep a record") };
    record.changes_of(calls.to_vec()).await
}

async fn undo(place: &Place, calls: &[CallId]) -> Outcome {
    place.run("undo", json!({"call_ids": calls})).await
}

fn file<'a>(changes: &'a RecordedChanges, path: &str) -> &'a FileDiff {
    changes.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path} in {changes:#?}"))
}

#[tokio::test]
async fn what_a_command_changed_is_shown_and_taken_back_ignored_files_too() {
    let place = Place::repository();
    place.write(".gitignore", "build\n");
    place.write("build/out", "old\n");
    place.write("gone", "bye\n");
    place.write("run.sh", "true\n");
    let call = run(&place, "echo new > build/out; rm gone; echo x > fresh; chmod 755 run.sh").await;
    let changes = diff(&place, &[call]).await;
    let shown: Vec<_> = changes.files.iter().map(|file| (file.path.as_str(), file.status)).collect();
    let (added, modified, deleted) = (FileStatus::Added, FileStatus::Modified, FileStatus::Deleted);
    assert_eq!(shown, [("build/out", modified), ("fresh", added), ("gone", deleted), ("run.sh", modified)]);
    let out = file(&changes, "build/out");
    assert_eq!(out.diff, "--- a/build/out\n+++ b/build/out\n@@ -1,1 +1,1 @@\n-old\n+new\n");
    assert_eq!((out.added, out.removed, out.changed_since, &out.calls), (1, 1, false, &vec![call]));
    assert_eq!(file(&changes, "run.sh").modes, Some((0o644, 0o755)));
    assert!(changes.not_recorded.is_empty(), "{:?}", changes.not_recorded);

    let result = succeeded(undo(&place, &[call]).await);
    assert_eq!(result.changes.len(), 4, "{}", result.content);
    assert_eq!((place.text("build/out"), place.text("gone")), ("old\n".to_owned(), "bye\n".to_owned()));
    assert!(!place.path().join("fresh").exists());
    assert_eq!(std::fs::metadata(place.path().join("run.sh")).unwrap().permissions().mode() & 0o777, 0o644);
    let after = diff(&place, &[call]).await;
    assert_eq!((after.files.len(), after.undone), (0, vec![call]));
    assert_eq!(error_of(undo(&place, &[call]).await).code, "already_undone");
}

#[tokio::test]
async fn the_users_own_edits_are_apart_and_stay() {
    let place = Place::new();
    let lines = |first: &str, fifth: &str, last: &str| format!("{first}\n2\n3\n4\n{fifth}\n6\n7\n8\n{last}\n");
    place.write("page", lines("one", "five", "nine"));
    let first = run(&place, "sed -i 's/one/ONE/' page").await;
    // The user changes the same file between two steps, and makes another one.
    place.write("page", lines("ONE", "the user's", "nine"));
    place.write("mine", "mine\n");
    let second = run(&place, "sed -i 's/nine/NINE/' page").await;

    let changes = diff(&place, &[first, second]).await;
    let page = file(&changes, "page");
    assert_eq!(changes.files.len(), 1, "what the user made isn't the agent's: {changes:#?}");
    assert!(!page.diff.contains("the user's") && page.diff.contains("+ONE") && page.diff.contains("+NINE"), "{}", page.diff);
    assert_eq!((page.added, page.removed, page.calls.clone()), (2, 2, vec![first, second]));
    assert!(page.note.as_ref().unwrap().contains("Somebody else changed it between"));
    let yours = place.root.history().yours();
    let paths: Vec<_> = yours.iter().flat_map(|set| &set.changes).map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["mine", "page"]);

    // And once more after the last step.
    place.write("page", lines("ONE", "the user's", "NINE").replace("7\n", "seven\n"));
    assert!(file(&diff(&place, &[first, second]).await, "page").changed_since);
    succeeded(undo(&place, &[first, second]).await);
    assert_eq!(place.text("page"), lines("one", "the user's", "nine").replace("7\n", "seven\n"));
    assert_eq!(place.text("mine"), "mine\n");
}

#[tokio::test]
async fn after_an_undo_the_agent_knows_what_it_knew_before_the_change_also_in_a_later_run() {
    let mut place = Place::new();
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old_text": old, "new_text": new});
    for name in ["read", "blind", "merged"] {
        place.write(name, "one\n2\n3\n4\nfive\n");
    }
    for name in ["read", "merged"] {
        place.ok("read_file", json!({"path": name})).await;
    }
    // Two changes are taken back one after the other, and made again.
    for name in ["read", "blind"] {
        place.ok("edit_file", edit(name, "one", "ONE")).await;
        place.ok("edit_file", edit(name, "five", "FIVE")).await;
        place.ok("undo", json!({})).await;
        place.ok("edit_file", edit(name, "five", "Five")).await;
        place.ok("undo", json!({})).await;
        place.reopen();
        place.ok("undo", json!({})).await;
        assert_eq!(place.text(name), "one\n2\n3\n4\nfive\n");
    }
    // What it had never read it may change by naming a piece of it, and not overwrite as a whole.
    assert_eq!(place.error("write_file", json!({"path": "blind", "content": ""})).await.code, "not_read");
    for name in ["read", "blind"] {
        place.ok("edit_file", edit(name, "one", "ONE")).await;
        place.ok("undo", json!({})).await;
    }
    place.ok("write_file", json!({"path": "read", "content": "new\n"})).await;
    place.ok("undo", json!({})).await;
    place.ok("delete_file", json!({"path": "read"})).await;
    place.ok("undo", json!({})).await;
    place.ok("write_file", json!({"path": "read", "content": "newer\n"})).await;

    // Where the user's lines stayed in it, it has to be read, and nobody else is blamed.
    place.ok("edit_file", edit("merged", "one", "ONE")).await;
    place.write("merged", "ONE\n2\n3\n4\nthe user's\n");
    let blamed = place.error("edit_file", edit("merged", "ONE", "One")).await;
    assert!(blamed.message.contains("changed by somebody else"), "{blamed:?}");
    place.ok("undo", json!({})).await;
    assert_eq!(place.text("merged"), "one\n2\n3\n4\nthe user's\n");
    let refused = place.error("edit_file", edit("merged", "one", "ONE")).await;
    assert_eq!(refused.code, "changed_since_read");
    assert!(refused.message.contains("was put back by an undo") && !refused.message.contains("somebody"), "{refused:?}");
    place.ok("read_file", json!({"path": "merged"})).await;
    place.ok("edit_file", edit("merged", "one", "ONE")).await;
    run(&place, "echo more >> merged").await;
    let refused = place.error("edit_file", edit("merged", "ONE", "one")).await;
    assert!(refused.message.contains("changed by a command here"), "{refused:?}");
}

#[tokio::test]
async fn a_call_that_was_taken_back_already_is_named_in_words() {
    let place = Place::new();
    let call = run(&place, "touch a b c").await;
    succeeded(undo(&place, &[call]).await);
    let error = error_of(undo(&place, &[call]).await);
    assert_eq!(error.message, "The change of 'a' and of 2 others was taken back already, by an earlier undo.");
}

#[tokio::test]
async fn an_undo_that_conflicts_changes_nothing_at_all() {
    let place = Place::new();
    place.write("a", "a\n");
    place.write("b", "b\n");
    place.write("d", "d\n");
    let call = run(&place, "echo A > a; echo B > b; echo C > c; rm d").await;
    place.write("b", "the user's\n");
    place.write("c", "the user's, too\n");
    place.write("d", "and that\n");
    let error = error_of(undo(&place, &[call]).await);
    assert_eq!(error.code, "changed_since");
    for word in ["3 of 4 files", "b: somebody changed the same lines", "c: it was created, and somebody changed it", "d: it was deleted"] {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    let contents = ["a", "b", "c", "d"].map(|name| place.text(name));
    assert_eq!(contents, ["A\n", "the user's\n", "the user's, too\n", "and that\n"]);
}

#[tokio::test]
async fn c08_an_undo_of_several_files_that_a_crash_cut_is_finished() {
    let mut place = Place::new();
    for name in ["a", "b", "c"] {
        place.write(name, format!("{name}\n"));
    }
    let call = run(&place, "for f in a b c; do echo changed > $f; done").await;
    // As the device was killed after the first of three files.
    let history = place.root.history();
    let changes = |done: &[&str]| -> Vec<Change> {
        assert!(done.len() < 3);
        let set = history.find(call).unwrap();
        let back = |change: &Change| Change { before: change.after.clone(), after: change.before.clone(), ..change.clone() };
        set.changes.iter().map(back).collect()
    };
    let undoing = call_id();
    history.intend(undoing, &[call], changes(&["a"]), Timestamp(1)).unwrap();
    place.write("a", "a\n");
    place.reopen();
    assert_eq!(["a", "b", "c"].map(|name| place.text(name)), ["a\n", "b\n", "c\n"]);
    assert!(matches!(place.lookup("undo", undoing, json!({"call_ids": [call]})).await, Finding::Happened { .. }));
    assert_eq!(place.root.history().find(call).unwrap().undone_by, Some(undoing));

    // Where somebody changed one of the files by then, it is said which, and nothing is overwritten.
    let call = run(&place, "for f in a b c; do echo again > $f; done").await;
    let history = place.root.history();
    let back = |change: &Change| Change { before: change.after.clone(), after: change.before.clone(), ..change.clone() };
    let undoing = call_id();
    history.intend(undoing, &[call], history.find(call).unwrap().changes.iter().map(back).collect(), Timestamp(2)).unwrap();
    place.write("a", "a\n");
    place.write("b", "the user's\n");
    place.reopen();
    let Finding::Unclear { known } = place.lookup("undo", undoing, json!({})).await else { panic!() };
    assert!(known.starts_with("b is neither") && known.contains("1 are as it would have left them, and 1 as before"), "{known}");
    assert_eq!(["a", "b", "c"].map(|name| place.text(name)), ["a\n", "the user's\n", "again\n"]);
}

#[tokio::test]
async fn a_command_that_died_with_its_device_has_its_changes_put_down_to_it() {
    let mut place = Place::new();
    place.write("a", "one\n");
    run(&place, "true").await;
    let (task, _switch, _lines) = place.start("run_command", json!({"argv": ["sh", "-c", "echo two > a; touch ready; sleep 60"]}));
    while !place.path().join("ready").exists() {
        tokio::task::yield_now().await;
    }
    task.abort();
    let _ = task.await;
    place.reopen();
    let set = place.root.history().list().into_iter().next_back().unwrap();
    assert_eq!(set.state, State::Done);
    let changes = diff(&place, &[set.call_id]).await;
    assert!(file(&changes, "a").diff.contains("-one\n+two\n"));
    succeeded(undo(&place, &[set.call_id]).await);
    assert_eq!(place.text("a"), "one\n");
}

/// Generous: only a broken test waits this long.
const PATIENCE: Duration = Duration::from_secs(45);

/// Waits until a command has made a file.
async fn made(place: &Place, name: &str) {
    let made = async {
        while !place.path().join(name).exists() {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, made).await.is_ok(), "{name} was made");
}

/// The next thing that a call tells, if it tells anything.
async fn told(lines: &mut UnboundedReceiver<String>) -> Option<String> {
    let Ok(line) = tokio::time::timeout(PATIENCE, lines.recv()).await else { panic!("the call neither tells anything nor ends") };
    line
}

const HALF_MADE: &str = "echo half > a; touch ready; while [ ! -e go ]; do sleep 0.05; done; echo whole > a; rm go ready";

#[tokio::test]
async fn calls_that_overlap_change_the_workspace_one_after_the_other() {
    let place = Place::new();
    place.write("b", "1\n");
    let (first, _first, _) = place.start("run_command", json!({"argv": ["sh", "-c", HALF_MADE]}));
    made(&place, "ready").await;
    let (second, _second, mut lines) = place.start("run_command", json!({"argv": ["sh", "-c", "echo 2 > b"]}));
    let waits = Some("waiting until another call in this workspace has ended");
    assert_eq!(told(&mut lines).await.as_deref(), waits);
    let (third, _third, mut lines) = place.start("write_file", json!({"path": "c", "content": "3\n"}));
    assert_eq!(told(&mut lines).await.as_deref(), waits);
    // Who only reads doesn't wait.
    assert!(place.ok("read_file", json!({"path": "a"})).await.content.contains("half"));
    assert!(place.ok("run_command", json!({"argv": ["cat", "a"]})).await.content.contains("half"));
    assert_eq!((place.text("b"), place.path().join("c").exists()), ("1\n".to_owned(), false));
    place.write("go", "");
    for call in [first, second, third] {
        succeeded(call.await.unwrap());
    }
    let sets = place.root.history().list();
    let changed: Vec<Vec<_>> = sets.iter().map(|set| set.changes.iter().map(|change| change.path.as_str()).collect()).collect();
    assert_eq!(changed, [["a"], ["b"], ["c"]]);
    assert!(place.root.history().yours().is_empty(), "{:?}", place.root.history().yours());
    succeeded(undo(&place, &[sets[0].call_id]).await);
    assert!(!place.path().join("a").exists() && place.text("b") == "2\n" && place.text("c") == "3\n");
}

#[tokio::test]
async fn c24_a_call_that_is_cancelled_before_its_turn_has_done_nothing() {
    let place = Place::new();
    let (first, _first, _) = place.start("run_command", json!({"argv": ["sh", "-c", HALF_MADE]}));
    made(&place, "ready").await;
    for (tool, arguments) in
        [("run_command", json!({"argv": ["touch", "never"]})), ("write_file", json!({"path": "never", "content": ""})), ("undo", json!({}))]
    {
        let (waiting, switch, mut lines) = place.start(tool, arguments);
        assert!(told(&mut lines).await.is_some(), "{tool}");
        switch.cancel();
        assert_eq!(waiting.await.unwrap(), Outcome::Cancelled { result: None }, "{tool}");
    }
    place.write("go", "");
    succeeded(first.await.unwrap());
    assert!(!place.path().join("never").exists());
    assert_eq!(place.root.history().list().len(), 1);
    // And nobody is left in the queue.
    run(&place, "true").await;
}

#[tokio::test]
async fn what_a_command_left_that_was_given_up_is_put_down_to_it_and_to_no_later_call() {
    let place = Place::new();
    let (given_up, _switch, _) = place.start("run_command", json!({"argv": ["sh", "-c", "echo half > a; touch ready; sleep 60"]}));
    made(&place, "ready").await;
    given_up.abort();
    let _ = given_up.await;
    let written = act(&place, "write_file", json!({"path": "b", "content": "b\n"})).await;
    place.write("mine", "the user's\n");
    let later = run(&place, "echo c > c").await;
    let sets = place.root.history().list();
    assert!(sets.iter().all(|set| set.state == State::Done), "{sets:#?}");
    let changed: Vec<Vec<_>> = sets.iter().map(|set| set.changes.iter().map(|change| change.path.as_str()).collect()).collect();
    assert_eq!(changed, [vec!["a", "ready"], vec!["b"], vec!["c"]]);
    assert_eq!((sets[1].call_id, sets[2].call_id), (written, later));
    let yours = place.root.history().yours();
    let paths: Vec<_> = yours.iter().flat_map(|set| &set.changes).map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["mine"]);
}

#[tokio::test]
async fn what_is_too_large_or_no_file_is_listed_and_never_read() {
    let place = Place::new();
    let huge = std::fs::File::create(place.path().join("huge")).unwrap();
    huge.set_len(1 << 30).unwrap();
    place.write("node_modules/x/index.js", "1\n");
    place.write("a", "1\n");
    let began = std::time::Instant::now();
    let id = call_id();
    let line = "echo 2 > a; printf x >> huge; ln -s a link; mkfifo pipe; echo 2 > node_modules/x/index.js; git init -q sub";
    let result = succeeded(place.run_as(id, "run_command", json!({"argv": ["sh", "-c", line]}), BTreeMap::new()).await);
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "a file of 1 GiB isn't read: {:?}", began.elapsed());
    let reason = |path: &str| {
        let item = result.not_recorded.iter().find(|item| item.path == path);
        item.unwrap_or_else(|| panic!("{path}: {:?}", result.not_recorded)).reason.clone()
    };
    assert!(reason("huge").contains("1073741825 bytes: more than the 4194304"));
    assert_eq!(MAX_KEPT_FILE, 4_194_304);
    assert!(reason("link").contains("symbolic link") && reason("pipe").contains("not a file"));
    assert!(reason("node_modules/").contains("build or install") && reason("sub/.git").contains("belongs to git"));
    assert!(result.content.contains("[not recorded: ") && result.content.contains("[files changed: a]"), "{}", result.content);
    let changes = diff(&place, &[id]).await;
    assert_eq!((changes.files.len(), changes.not_recorded.clone()), (1, result.not_recorded));
    let undone = succeeded(undo(&place, &[id]).await);
    assert!(undone.content.contains("not taken back, since it wasn't recorded: huge"), "{}", undone.content);
    assert_eq!(place.text("a"), "1\n");
    let images = std::fs::read_dir(place.options.data.join("workspaces")).unwrap().next().unwrap().unwrap().path().join("history/images");
    let kept: u64 = std::fs::read_dir(images).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(kept < 1024, "{kept} bytes");
}

#[tokio::test]
async fn names_and_texts_are_shown_faithfully_and_come_back_byte_for_byte() {
    let place = Place::new();
    let odd = place.path().join(OsStr::from_bytes(b"caf\xe9\x1b[2J.txt"));
    std::fs::write(&odd, b"na\xefve\r\nkept\r\nlast").unwrap();
    place.write("Readme", "the same\n");
    place.write("data.bin", b"\0\x01");
    let call = run(
        &place,
        "for f in caf*; do printf 'na\\357ve!\\r\\nkept\\r\\nlast\\n' > \"$f\"; done; mv Readme README; printf '\\0\\2' > data.bin",
    )
    .await;
    let changes = diff(&place, &[call]).await;
    let text = file(&changes, "caf\\xE9⟨U+001B⟩[2J.txt");
    let shown = "@@ -1,3 +1,3 @@\n-na\\xEFve\\r\n+na\\xEFve!\\r\n kept\\r\n-last\n\\ No newline at end of file\n+last\n";
    assert!(text.diff.ends_with(shown), "{}", text.diff);
    let readme = file(&changes, "README");
    assert_eq!((readme.status, readme.old_path.as_deref()), (FileStatus::Renamed, Some("Readme")));
    assert!(file(&changes, "data.bin").binary);
    succeeded(undo(&place, &[call]).await);
    assert_eq!(std::fs::read(&odd).unwrap(), b"na\xefve\r\nkept\r\nlast");
    assert_eq!(place.text("Readme"), "the same\n");
    assert!(!place.path().join("README").exists());
    assert_eq!(std::fs::read(place.path().join("data.bin")).unwrap(), b"\0\x01");
}

#[tokio::test]
async fn a_diff_is_bounded_and_says_what_it_leaves_out() {
    let place = Place::new();
    place.write("long", "x\n");
    let call = run(
        &place,
        "seq 10000 > many; head -c 1000000 /dev/zero | tr '\\0' y > long; mkdir d; for i in $(seq 60); do seq 1500 > d/$i; done",
    )
    .await;
    let changes = diff(&place, &[call]).await;
    let many = file(&changes, "many");
    assert_eq!(many.added, 10_000);
    assert_eq!(many.diff.lines().count() + many.lines_left_out as usize, 10_003);
    assert!(many.lines_left_out > 8_000, "{}", many.lines_left_out);
    let long = file(&changes, "long");
    assert!(long.diff.contains("… [999000 more bytes in this line]") && long.diff.len() < 2_000, "{}", long.diff.len());
    let size = serde_json::to_string(&changes).unwrap().len();
    assert!(size < 220 * 1024, "{size} bytes fit a frame");
    assert_eq!(changes.files.len() + changes.files_left_out as usize, 62);
    assert_eq!(changes.files_left_out, 0, "each file has its share");
    for file in changes.files.iter().filter(|file| file.path.starts_with("d/")) {
        assert_eq!((file.added, file.diff.lines().count() + file.lines_left_out as usize), (1_500, 1_503), "{}", file.path);
    }
}

#[tokio::test]
async fn file_tools_and_commands_are_taken_back_together_and_one_at_a_time() {
    let place = Place::new();
    place.write("note", "milk\n");
    let written = act(&place, "write_file", json!({"path": "new", "content": "1\n"})).await;
    let edited = act(&place, "edit_file", json!({"path": "note", "old_text": "milk", "new_text": "wine"})).await;
    let ran = run(&place, "echo 2 >> new; echo bread >> note").await;
    let changes = diff(&place, &[written, edited, ran]).await;
    assert_eq!(file(&changes, "new").diff, "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+1\n+2\n");
    assert!(file(&changes, "note").diff.contains("-milk\n+wine\n+bread\n"));
    assert!(place.root.history().yours().is_empty(), "{:?}", place.root.history().yours());
    let of_one = diff(&place, &[edited]).await;
    assert!(file(&of_one, "note").changed_since && file(&of_one, "note").diff.contains("+wine\n") && of_one.files.len() == 1);

    // Without a name the newest goes first, also one of a command.
    succeeded(place.run("undo", json!({})).await);
    assert_eq!((place.text("new"), place.text("note")), ("1\n".to_owned(), "wine\n".to_owned()));
    succeeded(undo(&place, &[written, edited, ran]).await);
    assert_eq!(place.text("note"), "milk\n");
    assert!(!place.path().join("new").exists());
    let unknown = call_id();
    assert_eq!(error_of(undo(&place, &[unknown]).await).code, "nothing_to_undo");
    assert_eq!(diff(&place, &[unknown]).await, RecordedChanges::default());
    let nothing: Vec<NotRecorded> = Vec::new();
    assert_eq!(diff(&place, &[ran]).await.not_recorded, nothing);
}
