//! File tools on real files: reading, changing, refusing, undoing.

mod common;

use baton_device::history::Change;
use baton_proto::{Digest, Finding, MAX_RESULT_BYTES, Risk, Timestamp};
use common::{Place, call_id, error_of, succeeded};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

#[tokio::test]
async fn s13_no_tool_reads_or_writes_outside_the_workspace_or_hangs() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("secret"), "secret").unwrap();
    let at = place.path();
    symlink("../secret", at.join("link")).unwrap();
    symlink("..", at.join("up")).unwrap();
    mknodat(CWD, at.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _listener = UnixListener::bind(at.join("socket")).unwrap();
    symlink("/dev/zero", at.join("zero")).unwrap();

    for (path, code) in [
        ("../secret", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("a/../../secret", "outside_workspace"),
        ("link", "outside_workspace"),
        ("up/secret", "outside_workspace"),
        ("zero", "outside_workspace"),
        ("pipe", "not_a_file"),
        ("socket", "not_a_file"),
        ("%2e%2e/secret", "not_found"),
        ("..%2fsecret", "not_found"),
    ] {
        assert_eq!(place.error("read_file", json!({"path": path})).await.code, code, "{path}");
        assert_eq!(place.error("edit_file", json!({"path": path, "old_text": "secret", "new_text": "x"})).await.code, code, "{path}");
        assert_eq!(place.error("delete_file", json!({"path": path})).await.code, code, "{path}");
        let prepared = place.prepare("delete_file", json!({"path": path})).await;
        assert_eq!(prepared.refusal.unwrap().code, code, "{path}");
    }
    for path in ["../secret", "link", "up/secret", "up/new/file", "pipe", ".git/config", "sub/.git/hooks/pre-commit", ""] {
        place.error("write_file", json!({"path": path, "content": "x"})).await;
    }
    assert_eq!(std::fs::read_to_string(place.directory.path().join("secret")).unwrap(), "secret");
    assert!(!place.directory.path().join("new").exists() && !at.join(".git").exists() && !at.join("sub").exists());
    assert!(!place.ok("find_text", json!({"pattern": "secret"})).await.content.contains("secret:"));
    assert!(place.ok("list_files", json!({})).await.content.contains("link (symbolic link, not followed)"));
}

#[tokio::test]
async fn s13_a_directory_swapped_for_a_link_gains_nothing() {
    let place = Place::new();
    let outside = place.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "outside").unwrap();
    place.write("inner/file", "inside");
    place.ok("read_file", json!({"path": "inner/file"})).await;
    std::fs::rename(place.path().join("inner"), place.path().join("moved")).unwrap();
    symlink(&outside, place.path().join("inner")).unwrap();
    assert_eq!(place.error("write_file", json!({"path": "inner/file", "content": "x"})).await.code, "outside_workspace");
    assert_eq!(place.error("read_file", json!({"path": "inner/file"})).await.code, "outside_workspace");
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "outside");
}

#[tokio::test]
async fn an_edit_needs_exactly_one_match_and_names_the_count() {
    let place = Place::new();
    place.write("a", "x y x\n");
    let edit = |old: &str, all: bool| json!({"path": "a", "old_text": old, "new_text": "z", "replace_all": all});
    let none = place.error("edit_file", edit("q", false)).await;
    assert!(none.code == "no_match" && none.message.contains("0 times"), "{none:?}");
    let two = place.error("edit_file", edit("x", false)).await;
    assert!(two.code == "several_matches" && two.message.contains("2 times"), "{two:?}");
    assert_eq!(place.text("a"), "x y x\n");

    let prepared = place.prepare("edit_file", edit("y", false)).await;
    assert_eq!((prepared.risk, prepared.refusal), (Risk::Safe, None));
    assert!(prepared.preview.contains("-x y x") && prepared.preview.contains("+x z x"), "{}", prepared.preview);
    let result = place.ok("edit_file", edit("y", false)).await;
    assert_eq!((result.changes[0].added, result.changes[0].removed), (1, 1));
    assert_eq!(result.changes[0].after, Some(Digest::of_bytes(b"x z x\n")));
    assert!(result.baseline.is_some());
    place.ok("edit_file", edit("x", true)).await;
    assert_eq!(place.text("a"), "z z z\n");
    assert_eq!(place.error("edit_file", json!({"path": "a", "old_text": "z"})).await.code, "invalid_arguments");
    assert_eq!(place.error("edit_file", json!({"path": "none", "old_text": "z", "new_text": ""})).await.code, "not_found");
}

#[tokio::test]
async fn bytes_outside_the_edit_and_the_mode_stay() {
    let place = Place::new();
    place.write("dos", "\u{feff}one\r\ntwo\r\nthree");
    std::fs::set_permissions(place.path().join("dos"), std::fs::Permissions::from_mode(0o750)).unwrap();
    place.ok("edit_file", json!({"path": "dos", "old_text": "one\ntwo", "new_text": "1\n2"})).await;
    assert_eq!(place.text("dos"), "\u{feff}1\r\n2\r\nthree");
    assert_eq!(std::fs::metadata(place.path().join("dos")).unwrap().permissions().mode() & 0o7777, 0o750);

    place.write("mixed", "one\r\ntwo\n");
    place.ok("edit_file", json!({"path": "mixed", "old_text": "two\n", "new_text": "2\n"})).await;
    assert_eq!(place.text("mixed"), "one\r\n2\n");

    place.write("latin", b"caf\xe9\n");
    assert_eq!(place.error("edit_file", json!({"path": "latin", "old_text": "caf", "new_text": "x"})).await.code, "not_text");
    assert!(place.ok("read_file", json!({"path": "latin"})).await.content.starts_with("[not UTF-8"));
}

#[tokio::test]
async fn c32_what_the_user_changed_since_is_never_overwritten() {
    let place = Place::new();
    place.write("a", "one\n");
    let write = |content: &str| json!({"path": "a", "content": content});
    assert_eq!(place.error("write_file", write("agent")).await.code, "not_read");
    place.ok("read_file", json!({"path": "a"})).await;
    place.write("a", "one by the user\n");
    for (tool, arguments) in [
        ("write_file", write("agent")),
        ("edit_file", json!({"path": "a", "old_text": "one", "new_text": "two"})),
        ("delete_file", json!({"path": "a"})),
    ] {
        let error = place.error(tool, arguments).await;
        assert!(error.code == "changed_since_read" && error.hint.contains("read_file"), "{tool}: {error:?}");
    }
    assert_eq!(place.text("a"), "one by the user\n");

    place.ok("read_file", json!({"path": "a"})).await;
    place.ok("edit_file", json!({"path": "a", "old_text": "user", "new_text": "agent"})).await;
    place.ok("write_file", write("agent again\n")).await;
    assert_eq!(place.text("a"), "agent again\n");
}

#[tokio::test]
async fn what_the_agent_read_is_known_after_a_restart() {
    let mut place = Place::new();
    place.write("a", "one\n");
    place.ok("read_file", json!({"path": "a"})).await;
    place.reopen();
    place.ok("write_file", json!({"path": "a", "content": "two\n"})).await;
    place.reopen();
    place.write("a", "user\n");
    assert_eq!(place.error("write_file", json!({"path": "a", "content": "three\n"})).await.code, "changed_since_read");
}

#[tokio::test]
async fn s17_a_file_that_is_not_the_approved_one_is_left_alone() {
    let place = Place::new();
    place.write("a", "one\n");
    let prepared = place.prepare("delete_file", json!({"path": "a"})).await;
    assert_eq!((prepared.risk, prepared.digests["a"].clone()), (Risk::Dangerous, Some(Digest::of_bytes(b"one\n"))));
    place.write("a", "two\n");
    let outcome = place.run_as(call_id(), "delete_file", json!({"path": "a"}), prepared.digests).await;
    assert_eq!(error_of(outcome).code, "changed_since_approval");
    let expected = BTreeMap::from([("new".to_owned(), None)]);
    place.write("new", "by the user");
    place.ok("read_file", json!({"path": "new"})).await;
    let outcome = place.run_as(call_id(), "write_file", json!({"path": "new", "content": "x"}), expected).await;
    assert_eq!(error_of(outcome).code, "changed_since_approval");
    assert_eq!((place.text("a"), place.text("new")), ("two\n".into(), "by the user".into()));
}

#[tokio::test]
async fn s12_a_file_that_acts_later_is_flagged() {
    let place = Place::new();
    let prepared = place.prepare("write_file", json!({"path": ".vscode/tasks.json", "content": "{}"})).await;
    assert!(prepared.risk == Risk::Sensitive && prepared.risk_reason.contains("editors"), "{prepared:?}");
    let said = &prepared.risk_said[0];
    assert_eq!((said.code.as_str(), prepared.risk_reason.as_str()), ("acts_later.editors", said.text.as_str()), "each end can say it");
    assert!(said.params["path"].starts_with(".vscode/"), "{said:?}");
    let hidden = place.prepare("write_file", json!({"path": "Makefile", "content": format!("all:\n\trm{}x", '\u{202e}')})).await;
    assert!(hidden.preview.contains("U+202E"));
    let long = place.prepare("write_file", json!({"path": "Makefile", "content": "x\n".repeat(20_000)})).await;
    assert_eq!(long.refusal.unwrap().code, "preview_too_long");
    let plain = place.prepare("write_file", json!({"path": "notes", "content": "x\n".repeat(20_000)})).await;
    assert!(plain.refusal.is_none() && plain.preview.starts_with("create notes"));
}

#[tokio::test]
async fn reading_and_finding_are_bounded_and_say_so() {
    let place = Place::new();
    place.write("long", "0123456789abcde\n".repeat(4000));
    let long = place.ok("read_file", json!({"path": "long"})).await;
    assert!(long.content.len() <= MAX_RESULT_BYTES && long.omitted > 0 && long.content.contains("left out"));
    assert_eq!(place.ok("read_file", json!({"path": "long", "start_line": 2, "end_line": 3})).await.content, "0123456789abcde\n".repeat(2));
    assert_eq!(place.error("read_file", json!({"path": "long", "start_line": 4001})).await.code, "no_such_lines");
    place.write("huge", vec![b'x'; 3 << 20]);
    let huge = place.error("read_file", json!({"path": "huge"})).await;
    assert!(huge.code == "too_large" && huge.message.contains("2097152"), "{huge:?}");
    place.write("binary", [0, 1, 2]);
    assert_eq!(place.error("read_file", json!({"path": "binary"})).await.code, "not_text");

    let found = place.ok("find_text", json!({"pattern": "^0.*e$", "path": "long"})).await.content;
    assert!(found.starts_with("long:1: 0123456789abcde") && found.contains("stopped after 200 matches"));
    let none = place.ok("find_text", json!({"pattern": "A.C", "literal": true})).await.content;
    assert!(none.starts_with("No match.") && none.contains("2 binary, large or unreadable"), "{none}");
    assert_eq!(place.error("find_text", json!({"pattern": "("})).await.code, "invalid_pattern");
    assert_eq!(place.error("find_text", json!({"pattern": "x", "path": "../"})).await.code, "outside_workspace");
    for index in 0..1100 {
        place.write(&format!("many/{index:04}"), "");
    }
    let listed = place.ok("list_files", json!({"path": "many"})).await;
    assert!(listed.content.contains("stopped after 1000 entries"));
}

#[tokio::test]
async fn an_undo_restores_what_was_there_unless_somebody_changed_it() {
    let place = Place::new();
    place.write("a", "one\n");
    std::fs::set_permissions(place.path().join("a"), std::fs::Permissions::from_mode(0o755)).unwrap();
    place.ok("edit_file", json!({"path": "a", "old_text": "one", "new_text": "two"})).await;
    place.ok("write_file", json!({"path": "deep/new", "content": "x"})).await;
    place.ok("delete_file", json!({"path": "a"})).await;
    assert!(!place.path().join("a").exists());

    assert!(place.ok("undo", json!({})).await.content.contains("as it was"));
    assert_eq!(place.text("a"), "two\n");
    assert_eq!(std::fs::metadata(place.path().join("a")).unwrap().permissions().mode() & 0o777, 0o755);
    place.ok("undo", json!({})).await;
    assert!(!place.path().join("deep/new").exists());
    place.write("a", "two and more\n");
    let error = place.error("undo", json!({})).await;
    assert!(error.code == "changed_since" && place.text("a") == "two and more\n", "{error:?}");
    place.write("a", "two\n");
    place.ok("undo", json!({})).await;
    assert_eq!(place.text("a"), "one\n");
    assert_eq!(place.error("undo", json!({})).await.code, "nothing_to_undo");
}

#[tokio::test]
async fn e1_a_repeated_call_acts_once_and_answers_the_same() {
    let mut place = Place::new();
    place.write("a", "x\n");
    let id = call_id();
    let arguments = json!({"path": "a", "old_text": "x", "new_text": "xx"});
    let first = succeeded(place.run_as(id, "edit_file", arguments.clone(), BTreeMap::new()).await);
    place.reopen();
    let again = succeeded(place.run_as(id, "edit_file", arguments.clone(), BTreeMap::new()).await);
    assert_eq!((place.text("a"), &first.changes), ("xx\n".to_owned(), &again.changes));
    assert!(matches!(place.lookup("edit_file", id, arguments.clone()).await, Finding::Happened { .. }));
    assert_eq!(place.lookup("edit_file", call_id(), arguments).await, Finding::NotHappened);

    let undo = call_id();
    succeeded(place.run_as(undo, "undo", json!({}), BTreeMap::new()).await);
    succeeded(place.run_as(undo, "undo", json!({}), BTreeMap::new()).await);
    assert_eq!(place.text("a"), "x\n");
}

#[tokio::test]
async fn c08_a_crash_between_intent_and_change_is_found_out() {
    let mut place = Place::new();
    place.write("a", "one");
    let history = place.root.history();
    let (one, two) = (history.keep(b"one").unwrap(), history.keep(b"two").unwrap());
    let change = |path: &str| {
        vec![Change { path: path.into(), before: Some(one.clone()), after: Some(two.clone()), mode: 0o644, mode_before: None }]
    };
    let arguments = json!({"path": "a", "content": "two"});

    // Killed after the intent, with half of the new content written beside the file.
    let before = call_id();
    history.intend(before, &[], change("a"), Timestamp(1)).unwrap();
    place.write(&format!(".baton-{before}.tmp"), "tw");
    place.reopen();
    assert!(!place.path().join(format!(".baton-{before}.tmp")).exists());
    assert_eq!(place.lookup("write_file", before, arguments.clone()).await, Finding::NotHappened);

    // Killed after the rename, before the outcome was written, with the old content still beside the file.
    let after = call_id();
    place.root.history().intend(after, &[], change("a"), Timestamp(2)).unwrap();
    place.write("a", "two");
    place.write(&format!(".baton-{after}.tmp"), "one");
    place.reopen();
    let Finding::Happened { result } = place.lookup("write_file", after, arguments.clone()).await else { panic!() };
    assert_eq!((result.changes[0].before.clone(), result.changes[0].after.clone()), (Some(one.clone()), Some(two.clone())));
    assert!(!place.path().join(format!(".baton-{after}.tmp")).exists());

    // The user changed the file before anybody looked.
    let unclear = call_id();
    place.root.history().intend(unclear, &[], change("a"), Timestamp(3)).unwrap();
    place.write("a", "user");
    place.write(&format!(".baton-{unclear}.tmp"), "nobody's");
    place.reopen();
    assert!(matches!(place.lookup("write_file", unclear, arguments.clone()).await, Finding::Unclear { .. }));
    assert_eq!(error_of(place.run_as(unclear, "write_file", arguments, BTreeMap::new()).await).code, "unclear");
    assert_eq!(place.text(&format!(".baton-{unclear}.tmp")), "nobody's");
    assert_eq!(place.text("a"), "user");
}

#[test]
fn every_tool_is_well_described() {
    let place = Place::new();
    let names: Vec<_> = place.tools.specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["delete_file", "edit_file", "find_text", "list_files", "read_file", "run_command", "undo", "write_file"]);
    for spec in place.tools.specs() {
        assert_eq!(spec.parameters["additionalProperties"], json!(false), "{}", spec.name);
        assert_eq!(spec.problem(), None);
    }
}
