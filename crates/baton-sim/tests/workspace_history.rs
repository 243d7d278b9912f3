//! What the agent changed, shown and taken back through the built binary and the real wire (E7): by task, step and call, in every kind of
//! repository, also a hostile one, and with the user's own work kept apart.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::ClientError;
use baton_proto::{CallId, EntityView, ErrorCode, FileStatus, SessionId, WorkspaceDiff};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use support::house::{House, Plan, calls, task};
use support::until;
use support::workspace::{commit, git, plain_project, small_project};

fn rule(user: &str, results: usize, calls: &Value) -> Value {
    json!({"when": {"last_user_contains": user, "results": results}, "reply": {"calls": calls}})
}

fn call(tool: &str, arguments: Value) -> Value {
    let mut call = json!({"name": tool});
    call["arguments"] = arguments;
    call
}

/// A plan of two steps: the first edits a note and adds a list, the second edits the note once more.
fn two_steps() -> Value {
    json!([
        rule("improve", 0, &json!([
            call("set_plan", json!({"steps": [{"id": "first", "title": "First"}, {"id": "second", "title": "Second"}]})),
            call("start_step", json!({"step_id": "first"})),
            call("edit_file", json!({"path": "note.txt", "old_text": "1\n", "new_text": "one\n"})),
            call("write_file", json!({"path": "list.txt", "content": "a\nb\n"})),
        ])),
        rule("improve", 4, &json!([
            call("finish_step", json!({"step_id": "first", "conclusion": "done"})),
            call("start_step", json!({"step_id": "second"})),
            call("edit_file", json!({"path": "note.txt", "old_text": "9\n", "new_text": "nine\n"})),
        ])),
        {"when": {}, "reply": {"text": "All done."}},
    ])
}

fn numbers(directory: &Path) -> PathBuf {
    let workspace = plain_project(directory);
    std::fs::write(workspace.join("note.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").expect("a file");
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    commit(&workspace, "The beginning");
    workspace
}

async fn diff(house: &House, session: SessionId, step: Option<&str>, of: Option<CallId>) -> WorkspaceDiff {
    let task = step.is_some().then_some(async { house.view(session).await });
    let task = match task {
        Some(view) => Some(support::house::task(&view.await).id),
        None => None,
    };
    house.phone.diff(session, task, step, of).await.expect("the device answers")
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_tasks_changes_are_shown_by_step_and_taken_back_without_the_users_own() {
    let house = House::build(Plan { rules: Some(two_steps()), workspace: Some(numbers), ..Plan::default() }).await;
    let (session, said) = house.ask("improve the note").await;
    assert_eq!(said.code, 0, "{said:?}");
    let id = session.to_string();
    let note = house.file("note.txt");
    assert!(note.starts_with("one\n2\n") && note.ends_with("8\nnine\n"), "{note}");

    let all = diff(&house, session, None, None).await;
    let shown: Vec<_> = all.changes.files.iter().map(|file| (file.path.as_str(), file.status, file.steps.join(" "))).collect();
    let expected = [("list.txt", FileStatus::Added, "first".to_owned()), ("note.txt", FileStatus::Modified, "first second".to_owned())];
    assert_eq!(shown, expected);
    assert_eq!(all.task_id, Some(task(&house.view(session).await).id));
    let of_second = diff(&house, session, Some("second"), None).await;
    assert_eq!(of_second.changes.files.len(), 1);
    assert!(of_second.changes.files[0].diff.contains("-9\n+nine\n") && !of_second.changes.files[0].diff.contains("+one"));
    let written = calls(&house.view(session).await).into_iter().find(|call| call.tool == "write_file").expect("a call").id;
    let of_call = diff(&house, session, None, Some(written)).await;
    assert_eq!(of_call.changes.files[0].diff, "--- /dev/null\n+++ b/list.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    assert!(house.log(session).await.iter().all(|change| !format!("{change:?}").contains("list.txt\\n@@")), "nothing of it is logged");

    // People see the same in a terminal.
    let shown = house.terminal.show(&["diff"], "").await;
    for words in ["● added list.txt  +2 -0", "● modified note.txt  +2 -2", "-9\n+nine", "@@ -1,4 +1,4 @@"] {
        assert!(shown.code == 0 && shown.out.contains(words), "{words}: {} {}", shown.out, shown.errors);
    }
    assert!(!shown.out.contains('\u{1b}'), "no colours in a pipe");
    let shown = house.terminal.ok(&["diff", "--session", &id, "--step", "second"]).await;
    assert_eq!(shown.lines[0]["files"][0]["steps"], json!(["second"]));
    let unknown = house.terminal.run(&["diff", "--step", "third"]).await;
    assert!(unknown.code == 4 && unknown.errors.contains("not_found"), "{unknown:?}");

    // The user works on the same file: other lines stay, the same lines are a conflict and nothing at all is done.
    std::fs::write(house.workspace.join("note.txt"), note.replace("5\n", "the user's\n").replace("nine\n", "the user's end\n"))
        .expect("a file");
    assert!(diff(&house, session, None, None).await.changes.files[1].changed_since);
    let before = (house.file("note.txt"), house.file("list.txt"));
    let refused = house.terminal.show(&["undo"], "").await;
    assert_eq!(refused.code, 4, "{}", refused.out);
    assert!(refused.out.contains("1 of 2 files can't be taken back: note.txt: somebody changed the same lines"), "{}", refused.out);
    assert_eq!((house.file("note.txt"), house.file("list.txt")), before);
    std::fs::write(house.workspace.join("note.txt"), note.replace("5\n", "the user's\n")).expect("a file");
    let undone = house.terminal.show(&["undo", "--session", &id, "--step", "second"], "").await;
    assert_eq!(undone.code, 0, "{} {}", undone.out, undone.errors);
    assert_eq!(house.file("note.txt"), "one\n2\n3\n4\nthe user's\n6\n7\n8\n9\n");
    let undone = house.terminal.show(&["undo"], "").await;
    assert_eq!(undone.code, 0, "{} {}", undone.out, undone.errors);
    assert_eq!(house.file("note.txt"), "1\n2\n3\n4\nthe user's\n6\n7\n8\n9\n");
    assert!(!house.workspace.join("list.txt").exists());
    let left = diff(&house, session, None, None).await;
    assert_eq!((left.changes.files.len(), left.changes.undone.len()), (0, 3));
    let again = house.terminal.show(&["undo"], "").await;
    assert!(again.code == 4 && again.out.contains("was taken back already, by an earlier undo"), "{}", again.out);
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_whoever_may_not_ask_and_a_device_that_is_away_are_told_so() {
    let mut house = House::build(Plan { rules: Some(two_steps()), workspace: Some(numbers), ..Plan::default() }).await;
    let (session, _) = house.ask("improve the note").await;
    let guest = support::command::Terminal::named(house.directory.path(), "guest");
    house.pair(&guest, "guest", baton_proto::Trust::Guest).await;
    let refused = guest.run(&["diff", "--session", &session.to_string()]).await;
    assert!(refused.errors.contains("trust_too_low"), "{refused:?}");
    let unknown: SessionId = uuid::Uuid::now_v7().into();
    let refused = house.phone.diff(unknown, None, None, None).await;
    assert!(matches!(refused, Err(ClientError::Hub(error)) if error.code == ErrorCode::NotFound));

    house.hub.kill().await;
    house.hub.start().await;
    house.hands().await;
    assert_eq!(diff(&house, session, None, None).await.changes.files.len(), 2, "the history outlives the hub");
    let devices = house.phone.devices().await.expect("a list");
    let hands = devices.iter().find(|device| !device.workspaces.is_empty()).expect("a device with a workspace").device_id;
    house.phone.revoke_device(hands).await.expect("it is revoked");
    let refused = until("it is gone", || async {
        match house.phone.diff(session, None, None, None).await {
            Err(ClientError::Hub(error)) => Some(error),
            _ => None,
        }
    })
    .await;
    assert_eq!(refused.code, ErrorCode::DeviceOffline, "{refused}");
}

/// A kind of workspace: how it is made, what the agent runs in it, what is shown, and what can't be recorded.
struct Row {
    kind: &'static str,
    make: fn(&Path) -> PathBuf,
    run: &'static str,
    shown: &'static [(&'static str, FileStatus)],
    not_recorded: &'static [&'static str],
}

/// A repository that would write a marker wherever git does what it configures.
fn hostile(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    let evil = workspace.join("evil.sh");
    let marker = directory.join("marker");
    std::fs::write(&evil, format!("#!/bin/sh\ntouch {}\ncat\n", marker.display())).expect("a file");
    std::fs::create_dir_all(workspace.join("hooks")).expect("a directory");
    std::fs::copy(&evil, workspace.join("hooks/post-index-change")).expect("a file");
    for script in [evil.clone(), workspace.join("hooks/post-index-change")] {
        std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    std::fs::write(workspace.join(".gitattributes"), "* filter=x diff=x\n").expect("a file");
    let (evil, hooks) = (evil.display().to_string(), workspace.join("hooks").display().to_string());
    let configured = [
        ("core.fsmonitor", &evil),
        ("filter.x.clean", &evil),
        ("filter.x.smudge", &evil),
        ("diff.x.textconv", &evil),
        ("diff.external", &evil),
        ("core.hooksPath", &hooks),
    ];
    for (name, value) in configured {
        git(&workspace, &["config", name, value]);
    }
    // It is armed: the user's own git does run it.
    git(&workspace, &["status"]);
    std::fs::remove_file(&marker).expect("git ran what the repository configures");
    workspace
}

fn nested(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::create_dir_all(workspace.join("inner")).expect("a directory");
    std::fs::write(workspace.join("inner/file"), "1\n").expect("a file");
    git(&workspace.join("inner"), &["init", "--quiet", "--initial-branch=main"]);
    commit(&workspace.join("inner"), "Inner");
    workspace
}

fn submodule(directory: &Path) -> PathBuf {
    let origin = directory.join("origin");
    std::fs::create_dir_all(&origin).expect("a directory");
    std::fs::write(origin.join("file"), "1\n").expect("a file");
    git(&origin, &["init", "--quiet", "--initial-branch=main"]);
    commit(&origin, "Origin");
    let workspace = small_project(directory);
    let origin = origin.display().to_string();
    git(&workspace, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &origin, "module"]);
    commit(&workspace, "With a module");
    workspace
}

fn large_pointer(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n", "a".repeat(64));
    std::fs::write(workspace.join("film.mp4"), pointer).expect("a file");
    std::fs::write(workspace.join(".gitattributes"), "*.mp4 filter=lfs diff=lfs merge=lfs -text\n").expect("a file");
    workspace
}

fn huge(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::File::create(workspace.join("huge")).and_then(|file| file.set_len(1 << 30)).expect("a file of 1 GiB");
    workspace
}

fn without_commit(directory: &Path) -> PathBuf {
    let workspace = plain_project(directory);
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    workspace
}

fn detached(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    git(&workspace, &["checkout", "--quiet", "--detach", "HEAD"]);
    workspace
}

fn worktree(directory: &Path) -> PathBuf {
    let main = small_project(directory);
    let tree = directory.join("tree");
    git(&main, &["worktree", "add", "--quiet", "-b", "topic", &tree.display().to_string()]);
    tree
}

fn windows_lines(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(workspace.join("note.txt"), "milk\r\nbread\r\n").expect("a file");
    git(&workspace, &["config", "core.autocrlf", "true"]);
    workspace
}

fn odd_name(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(workspace.join(OsStr::from_bytes(b"caf\xe9")), "1\n").expect("a file");
    workspace
}

fn ignored(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(workspace.join(".gitignore"), "secret\n").expect("a file");
    std::fs::write(workspace.join("secret"), "1\n").expect("a file");
    workspace
}

/// Every file of a workspace with its content and permissions, git's own apart from the moment at which it last looked.
fn contents(workspace: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![workspace.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory").flatten() {
            let (path, metadata) = (entry.path(), entry.metadata().expect("metadata"));
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.len() < 1 << 20 {
                found.push((path.clone(), metadata.permissions().mode(), std::fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_s9_changes_are_recorded_and_taken_back_in_every_kind_of_repository() {
    use FileStatus::{Added, Deleted, Modified, Renamed};
    let rows = [
        Row {
            kind: "hostile",
            make: hostile,
            run: "echo x > note.txt; echo y > new",
            shown: &[("new", Added), ("note.txt", Modified)],
            not_recorded: &[],
        },
        Row { kind: "nested", make: nested, run: "echo 2 > inner/file", shown: &[("inner/file", Modified)], not_recorded: &[] },
        Row { kind: "submodule", make: submodule, run: "echo 2 > module/file", shown: &[("module/file", Modified)], not_recorded: &[] },
        Row { kind: "pointer", make: large_pointer, run: "echo 2 > film.mp4", shown: &[("film.mp4", Modified)], not_recorded: &[] },
        Row {
            kind: "1 GiB",
            make: huge,
            run: "printf '' >> huge; touch huge; rm note.txt",
            shown: &[("note.txt", Deleted)],
            not_recorded: &["huge"],
        },
        Row { kind: "no git", make: plain_project, run: "rm page.html", shown: &[("page.html", Deleted)], not_recorded: &[] },
        Row { kind: "no commit", make: without_commit, run: "echo x > note.txt", shown: &[("note.txt", Modified)], not_recorded: &[] },
        Row { kind: "detached", make: detached, run: "echo x > note.txt", shown: &[("note.txt", Modified)], not_recorded: &[] },
        Row { kind: "worktree", make: worktree, run: "echo x > note.txt", shown: &[("note.txt", Modified)], not_recorded: &[] },
        Row { kind: "case", make: small_project, run: "mv note.txt NOTE.txt", shown: &[("NOTE.txt", Renamed)], not_recorded: &[] },
        Row {
            kind: "CRLF",
            make: windows_lines,
            run: "printf 'wine\\r\\nbread\\r\\n' > note.txt",
            shown: &[("note.txt", Modified)],
            not_recorded: &[],
        },
        Row {
            kind: "name",
            make: odd_name,
            run: "for f in caf*; do echo 2 > \"$f\"; done",
            shown: &[("caf\\xE9", Modified)],
            not_recorded: &[],
        },
        Row { kind: "ignored", make: ignored, run: "echo 2 > secret", shown: &[("secret", Modified)], not_recorded: &[] },
    ];
    for Row { kind, make, run, shown, not_recorded } in rows {
        let house = House::build(Plan { workspace: Some(make), ..Plan::default() }).await;
        let before = contents(&house.workspace);
        let said = format!("/run sh -c {}", serde_json::to_string(run).expect("a word"));
        let (session, ran) = house.ask(&said).await;
        assert_eq!(ran.code, 0, "{kind}: {ran:?}");
        let found = diff(&house, session, None, None).await;
        let files: Vec<_> = found.changes.files.iter().map(|file| (file.path.as_str(), file.status)).collect();
        assert_eq!(files, shown, "{kind}: {found:#?}");
        let missing: Vec<_> = found.changes.not_recorded.iter().map(|item| item.path.as_str()).collect();
        assert_eq!(missing, not_recorded, "{kind}");
        if kind == "CRLF" {
            assert!(found.changes.files[0].diff.contains("-milk\\r\n+wine\\r\n bread\\r\n"), "{}", found.changes.files[0].diff);
        }
        let of = call_of(&house, session).await;
        let undone = house.terminal.show(&["send", "--session", &session.to_string(), "--wait", &format!("/undo {of}")], "").await;
        assert_eq!(undone.code, 0, "{kind}: {} {}", undone.out, undone.errors);
        assert_eq!(contents(&house.workspace), before, "{kind}: all is as it was, git's own files too");
        assert!(!house.directory.path().join("marker").exists(), "{kind}: git ran nothing that the repository configures");
    }
}

async fn call_of(house: &House, session: SessionId) -> CallId {
    let view = house.view(session).await;
    let found = view.entities.iter().find_map(|entity| match entity {
        EntityView::Call(call) if call.tool == "run_command" => Some(call.id),
        _ => None,
    });
    found.expect("a command")
}
