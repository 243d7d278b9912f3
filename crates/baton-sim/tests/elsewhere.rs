//! The workspace seen from elsewhere, through the built binary and the real wire: files and paths from another machine (C31, C33), the
//! user's own uncommitted work (C32), and what the user changes by hand while the agent works (C34).

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::ClientError;
use baton_proto::{ClientType, EntityView, ErrorCode, Intent, SessionId, SessionView, Trust, WorkspaceEntity};
use serde_json::{Value, json};
use support::command::Terminal;
use support::house::{House, Plan, call, invited, open_approvals, operate};
use support::until;
use support::workspace::{commit, git};

fn rule(user: &str, results: usize, reply: Value) -> Value {
    let mut rule = json!({"when": {"last_user_contains": user, "results": results}});
    rule["reply"] = reply;
    rule
}

fn calls(tool: &str, arguments: Value) -> Value {
    let mut call = json!({"name": tool});
    call["arguments"] = arguments;
    json!({ "calls": [call] })
}

fn workspace(view: &SessionView) -> Option<WorkspaceEntity> {
    view.entities.iter().find_map(|entity| match entity {
        EntityView::Workspace(workspace) => Some(workspace.clone()),
        _ => None,
    })
}

async fn new_session(house: &House) -> SessionId {
    house.hands().await;
    let said = house.terminal.ok(&["send", "--new", "/show note.txt"]).await;
    let session = said.event("sent")["session_id"].as_str().expect("an id").parse().expect("an id");
    house.rest(session).await;
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn c31_c33_a_file_is_that_of_the_sessions_workspace_wherever_it_is_asked_for() {
    let house = House::build(Plan::default()).await;
    let session = new_session(&house).await;
    std::fs::create_dir(house.workspace.join("文档")).expect("a directory");
    std::fs::write(house.workspace.join("文档/plan.md"), "# Plan\n\u{1b}[2Jhidden\n").expect("a file");
    std::fs::write(house.workspace.join("picture.bin"), [0, 159, 146, 150]).expect("a file");

    // The terminal stands in a directory that has a file of the same name, which isn't meant.
    let elsewhere = house.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    std::fs::write(elsewhere.join("note.txt"), "the wrong one\n").expect("a file");
    let terminal = house.terminal.standing_in(&elsewhere);
    for arguments in [&["cat", "note.txt"][..], &["open", "./note.txt"], &["cat", "note.txt:1:4"]] {
        let shown = terminal.show(arguments, "").await;
        assert_eq!((shown.code, shown.out.as_str()), (0, "milk and bread\n"), "{arguments:?} {}", shown.errors);
    }
    let absolute = house.workspace.join("note.txt").display().to_string();
    assert_eq!(terminal.show(&["cat", &absolute], "").await.out, "milk and bread\n");
    let sent = terminal.show(&["send", "--wait", "/show note.txt"], "").await;
    assert!(sent.out.contains("milk and bread") && !sent.out.contains("the wrong one"), "{}", sent.out);

    // Programs are given what is there, byte for byte; a new file of their own holds it too, and nothing is written over.
    let shown = terminal.show(&["cat", "文档/plan.md"], "").await;
    assert_eq!(shown.out, "# Plan\n\u{1b}[2Jhidden\n");
    let told = terminal.ok(&["cat", "picture.bin"]).await;
    assert_eq!((&told.lines[0]["base64"], &told.lines[0]["bytes"]), (&json!("AJ+Slg=="), &json!(4)));
    let saved = elsewhere.join("saved.bin");
    let target = saved.display().to_string();
    terminal.ok(&["cat", "picture.bin", "--output", &target]).await;
    assert_eq!(std::fs::read(&saved).expect("a file"), [0, 159, 146, 150]);
    assert_ne!(terminal.run(&["cat", "note.txt", "--output", &target]).await.code, 0);
    assert_eq!(std::fs::read(&saved).expect("a file"), [0, 159, 146, 150]);

    for (path, code) in [
        ("../elsewhere/note.txt", ErrorCode::Invalid),
        ("/etc/passwd", ErrorCode::Invalid),
        ("文档", ErrorCode::Invalid),
        ("nothing", ErrorCode::NotFound),
    ] {
        let refused = house.phone.file(session, path).await;
        assert!(matches!(&refused, Err(ClientError::Hub(error)) if error.code == code), "{path}: {refused:?}");
    }
    let (guest, _) = invited(&house.hub, &house.phone, Trust::Guest, "Visitor", ClientType::Phone).await;
    assert!(matches!(guest.file(session, "note.txt").await, Err(ClientError::Hub(error)) if error.code == ErrorCode::TrustTooLow));
    assert!(matches!(guest.paths(session, "n", None).await, Err(ClientError::Hub(error)) if error.code == ErrorCode::TrustTooLow));

    // Nothing of what was looked at is in any log.
    let log = format!("{:?}", house.log(session).await);
    assert!(!log.contains("hidden"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_are_completed_on_the_device_and_a_new_file_is_found_at_once() {
    let house = House::build(Plan::default()).await;
    let session = new_session(&house).await;
    let find = async |begun: &str| {
        let found = house.phone.paths(session, begun, Some(5)).await.expect("the device answers");
        found.paths.into_iter().map(|found| found.path).collect::<Vec<_>>()
    };
    assert_eq!(find("note").await, ["note.txt"]);
    std::fs::create_dir(house.workspace.join("新")).expect("a directory");
    std::fs::write(house.workspace.join("新/笔记.md"), "x").expect("a file");
    until("the new file's name", || async { (find("笔").await == ["新/笔记.md"]).then_some(()) }).await;
    std::fs::remove_file(house.workspace.join("新/笔记.md")).expect("a file");
    until("the name is gone", || async { find("笔").await.is_empty().then_some(()) }).await;
}

/// Branch, commit and whether something is uncommitted follow within moments, without anybody asking the agent.
#[tokio::test(flavor = "multi_thread")]
async fn d8_the_workspace_that_ends_are_shown_follows_what_the_user_does() {
    let house = House::build(Plan::default()).await;
    let session = new_session(&house).await;
    let shown =
        async |what: &str, fits: fn(&WorkspaceEntity) -> bool| house.until(session, what, |view| workspace(view).filter(&fits)).await;
    let first = shown("a clean workspace", |workspace| workspace.baseline.dirty.is_none()).await;
    assert_eq!(first.baseline.branch.as_deref(), Some("main"));
    std::fs::write(house.workspace.join("note.txt"), "milk and wine\n").expect("a file");
    shown("uncommitted work", |workspace| workspace.baseline.dirty.is_some()).await;
    commit(&house.workspace, "Wine");
    let committed = shown("the commit", |workspace| workspace.baseline.dirty.is_none()).await;
    assert_ne!(committed.baseline.commit, first.baseline.commit);
    git(&house.workspace, &["checkout", "--quiet", "-b", "topic"]);
    shown("the branch", |workspace| workspace.baseline.branch.as_deref() == Some("topic")).await;
    // What the list of workspaces says is the same.
    let listed =
        house.phone.devices().await.expect("devices").into_iter().flat_map(|device| device.workspaces).next().expect("a workspace");
    assert_eq!(listed.baseline.branch.as_deref(), Some("topic"));
}

#[tokio::test(flavor = "multi_thread")]
async fn c32_uncommitted_work_of_the_users_stays_as_it_is_when_a_task_starts_and_when_the_session_moves() {
    let rules = json!([
        rule("improve", 0, calls("read_file", json!({"path": "page.html"}))),
        rule("improve", 1, calls("edit_file", json!({"path": "page.html", "old_text": "<p>one</p>", "new_text": "<p>1</p>"}))),
        rule("improve", 2, calls("run_command", json!({"argv": ["sh", "-c", "echo built > built.txt"]}))),
        rule("improve", 3, json!({"text": "Done."})),
    ]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let work = &house.workspace;
    // Changed, staged, new, and deleted; the page is both the user's and the agent's.
    std::fs::write(work.join("page.html"), "<p>one</p>\n<p>two</p>\n<p>the user's</p>\n").expect("a file");
    std::fs::write(work.join("staged.txt"), "staged\n").expect("a file");
    git(work, &["add", "staged.txt"]);
    std::fs::write(work.join("draft.txt"), "not yet added\n").expect("a file");
    std::fs::remove_file(work.join("note.txt")).expect("a file");
    let before = (git(work, &["rev-parse", "HEAD"]), git(work, &["diff", "--cached"]));

    let session = house.tell("improve the page").await;
    house.open_approval(session).await;
    // The session moves while the agent waits, and goes on from there.
    let desk = Terminal::named(house.directory.path(), "second desk");
    house.pair(&desk, "second desk", Trust::Trusted).await;
    let moved = desk.run(&["take-over", &session.to_string()]).await;
    assert_eq!(moved.code, 0, "the move isn't refused for it: {}", moved.errors);
    let approval = open_approvals(&house.view(session).await).remove(0);
    let intent = Intent::Confirm { approval_id: approval.id, decision: baton_proto::Decision::Approve, remember: None, reason: None };
    operate(&house.phone, session, intent).await;
    house.rest(session).await;

    assert_eq!(house.file("built.txt"), "built\n");
    assert_eq!(house.file("page.html"), "<p>1</p>\n<p>two</p>\n<p>the user's</p>\n");
    assert_eq!((house.file("staged.txt"), house.file("draft.txt")), ("staged\n".to_owned(), "not yet added\n".to_owned()));
    assert!(!work.join("note.txt").exists(), "what was deleted stays deleted");
    assert_eq!((git(work, &["rev-parse", "HEAD"]), git(work, &["diff", "--cached"])), before, "neither history nor index was touched");
    assert_eq!(git(work, &["stash", "list"]), "");
    let paths: Vec<_> =
        house.phone.diff(session, None, None, None).await.expect("a diff").changes.files.into_iter().map(|file| file.path).collect();
    assert_eq!(paths, ["built.txt", "page.html"], "only the agent's own");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn c34_a_commit_by_hand_between_two_steps_is_told_with_its_files_before_the_next_edit() {
    let rules = json!([
        rule("improve", 0, calls("edit_file", json!({"path": "page.html", "old_text": "one", "new_text": "1"}))),
        rule("improve", 1, calls("ask_user", json!({"question": "Go on?"}))),
        {"when": {"last_tool": "ask_user"}, "reply": calls("edit_file", json!({"path": "page.html", "old_text": "two", "new_text": "2"}))},
        {"when": {"last_tool": "edit_file"}, "reply": {"text": "Done."}},
    ]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let session = house.tell("improve the page").await;
    let question = house.open_question(session).await;
    let asked = house.model().requests().len();
    let before = workspace(&house.view(session).await).expect("a workspace").baseline;
    assert!(before.dirty.is_some(), "the agent's own edit is uncommitted");

    std::fs::write(house.workspace.join("note.txt"), "milk and wine\n").expect("a file");
    commit(&house.workspace, "By hand");
    let head = git(&house.workspace, &["rev-parse", "HEAD"]).trim().to_owned();
    house
        .until(session, "the commit", |view| {
            workspace(view).filter(|workspace| workspace.baseline.commit.as_deref() == Some(head.as_str()))
        })
        .await;
    house.terminal.ok(&["answer", &question.id.to_string(), "yes"]).await;
    house.rest(session).await;
    assert_eq!(call(&house.view(session).await, "edit_file").state, baton_proto::CallState::Succeeded);

    let requests = house.model().requests();
    let told = requests[asked].body.to_string();
    for words in ["Somebody else changed the workspace", &head, &before.commit.expect("a commit"), "'note.txt'", "'page.html'"] {
        assert!(told.contains(words), "{words} isn't in {told}");
    }
    for request in requests[..asked].iter().chain(&requests[asked + 1..]) {
        assert!(
            !request.body.to_string().contains("Somebody else changed"),
            "the agent's own edits are nobody else's, and it is told once"
        );
    }
}
