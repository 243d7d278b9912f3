//! Without a model: what is said of that, and the five slash commands in every kind of workspace (R7, E7).

use crate::support::house::{House, Plan};
use crate::support::workspace::{commit, git, plain_project, small_project};
use baton_proto::ErrorCode;
use std::path::{Path, PathBuf};

fn uncommitted(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(workspace.join("note.txt"), "milk and bread\nand my own words\n").expect("a file");
    std::fs::write(workspace.join("staged.txt"), "staged\n").expect("a file");
    git(&workspace, &["add", "staged.txt"]);
    std::fs::write(workspace.join("untracked.txt"), "untracked\n").expect("a file");
    workspace
}

fn detached(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(workspace.join("later.txt"), "later\n").expect("a file");
    commit(&workspace, "Later");
    git(&workspace, &["checkout", "--quiet", "--detach", "HEAD"]);
    workspace
}

fn without_commit(directory: &Path) -> PathBuf {
    let workspace = plain_project(directory);
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    workspace
}

/// Everything in a workspace, with what git keeps, apart from the moment at which git last looked.
fn contents(workspace: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![workspace.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push((path.display().to_string(), std::fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_c32_slash_commands_work_in_every_kind_of_workspace() {
    type Make = fn(&Path) -> PathBuf;
    // Each row: the kind, how it is made, and the branch and commit that are shown.
    let rows: [(&str, Make, &str); 5] = [
        ("git", small_project, "(main, "),
        ("without git", plain_project, "(no branch, no commit"),
        ("uncommitted work", uncommitted, ", uncommitted changes)"),
        ("detached", detached, "(no branch, "),
        ("without a commit", without_commit, ", no commit"),
    ];
    for (kind, workspace, baseline) in rows {
        let house = House::build(Plan { workspace: Some(workspace), ..Plan::default() }).await;
        let before = contents(&house.workspace);
        let note = house.file("note.txt");
        let first = house.terminal.show(&["send", "--new", "--wait", "/show note.txt"], "").await;
        assert_eq!(first.code, 0, "{kind}: {}", first.errors);
        assert!(first.out.contains(note.trim_end()), "{kind}: {}", first.out);
        let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id.to_string();
        let say = async |text: &str| house.terminal.show(&["send", "--session", &session, "--wait", text], "").await;

        let found = say("/find bread").await;
        assert!(found.code == 0 && found.out.contains("note.txt:1"), "{kind}: {} {}", found.out, found.errors);
        let replaced = say("/replace note.txt milk wine").await;
        assert_eq!(replaced.code, 0, "{kind}: {}", replaced.errors);
        assert_eq!(house.file("note.txt"), note.replace("milk", "wine"), "{kind}");
        let ran = say("/run cat note.txt").await;
        assert!(ran.code == 0 && ran.out.contains("wine and bread"), "{kind}: {} {}", ran.out, ran.errors);
        let undone = say("/undo").await;
        assert_eq!(undone.code, 0, "{kind}: {}", undone.errors);
        assert_eq!(contents(&house.workspace), before, "{kind}: all is as it was, git's own files too");
        // What was taken back can be done again at once, and taken back again.
        let again = say("/replace note.txt milk wine").await;
        assert_eq!((again.code, house.file("note.txt")), (0, note.replace("milk", "wine")), "{kind}: {}", again.out);
        assert_eq!(say("/undo").await.code, 0, "{kind}");
        let nothing = say("/undo").await;
        assert_eq!(nothing.code, 4, "{kind}: what failed isn't done");
        assert!(nothing.out.contains("No recorded change is left"), "{kind}: {}", nothing.out);
        let shown = house.terminal.show(&["show", &session], "").await;
        assert!(shown.out.contains(baseline), "{kind}: {}", shown.out);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_without_a_model_what_needs_one_is_refused_in_words_and_kept() {
    let house = House::build(Plan::default()).await;
    assert!(house.hub.ready["model"].is_null());
    let hub = house.phone.hub().await.expect("the hub's description");
    assert!(hub.model.is_none());
    assert_eq!(hub.commands.len(), 5);
    let said = house.terminal.run(&["send", "--new", "make the page blue"]).await;
    assert_eq!(said.code, 4);
    let error: serde_json::Value = serde_json::from_str(said.errors.trim()).expect("an error as JSON");
    assert_eq!(error["code"], ErrorCode::ModelUnavailable.as_str());
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("--model-url") && hint.contains("/undo")), "{error}");
    for (text, code) in [("/frobnicate", ErrorCode::Invalid), ("/show", ErrorCode::Invalid), ("/replace a 'b", ErrorCode::Invalid)] {
        let said = house.terminal.run(&["send", text]).await;
        assert_eq!(said.code, 4, "{text}");
        assert!(said.errors.contains(code.as_str()), "{text}: {}", said.errors);
    }
    let sessions = house.phone.sessions(None, None).await.expect("a list").sessions;
    assert!(sessions.is_empty(), "what was refused left no session that would be taken for the newest: {sessions:?}");
}
