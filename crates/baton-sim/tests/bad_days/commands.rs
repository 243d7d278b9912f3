//! Commands that hang, hide, flood, and reach outside (E8, C24, S13–S15).

use crate::support::command::Terminal;
use crate::support::house::{House, Plan, call, is};
use crate::support::hub::Unusual;
use crate::support::workspace::small_project;
use crate::{calling, processes, rule};
use baton_proto::{CallState, StateModified, Trust, TurnState};
use baton_sim::ledger::Ledger;
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn c24_a_command_that_hangs_is_stopped_from_another_terminal_with_all_its_processes() {
    for arguments in [&[][..], &["--no-sandbox"]] {
        let house = House::build(Plan { hub: Unusual { arguments, ..Unusual::default() }, ..Plan::default() }).await;
        let other = Terminal::named(house.directory.path(), "other");
        house.pair(&other, "couch", Trust::Standard).await;
        // A number that no other process has in its arguments, and which is found in all of the tree.
        let mark = format!("86400.{}", Uuid::now_v7().as_u128() % 1_000_000_007);
        let line = format!(
            "/run sh -c 'sleep {mark} & setsid sleep {mark} & (setsid sh -c \"sleep {mark} & sleep {mark}\" &); echo > begun.txt; sleep {mark}'"
        );
        let mut waiting = house.terminal.start(&["send", "--new", "--wait", &line]);
        let sent = waiting.event("sent").await;
        let session = sent["session_id"].as_str().expect("an id").parse().expect("an id");
        house
            .until(session, "the command runs", |view| {
                let begun = house.workspace.join("begun.txt").exists() && processes(&mark).len() >= 6;
                is(view, "run_command", CallState::Started).filter(|_| begun)
            })
            .await;
        let stopped = other.show(&["stop", &session.to_string()], "").await;
        assert_eq!((stopped.code, stopped.out.as_str()), (0, "Stopping.\n"), "{}", stopped.errors);
        let view = house.rest(session).await;
        let left: Vec<_> = processes(&mark).into_iter().filter(|line| !line.contains("send --new")).collect();
        assert_eq!(left, Vec::<String>::new(), "{arguments:?}: what it started is gone by the time that is said");
        let stopped = call(&view, "run_command");
        assert_eq!(stopped.state, CallState::Cancelled);
        assert!(stopped.reason.as_deref().is_some_and(|reason| reason.contains("Stopped on couch")), "{stopped:?}");
        let turn = view.entities.iter().find_map(|entity| match entity {
            baton_proto::EntityView::Turn(turn) => Some(turn.state),
            _ => None,
        });
        assert_eq!(turn, Some(TurnState::Interrupted));
        assert_eq!(waiting.child.wait().await.expect("it ends").code(), Some(4), "whoever waited is told");
        let again = other.run(&["stop", &session.to_string()]).await;
        assert_eq!(again.code, 4, "there is nothing left to stop");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c24_a_tool_that_does_not_stop_is_given_up_and_that_is_said() {
    let rules =
        json!([rule("record", 0, calling("record_entry", json!({"text": "entry"}))), rule("go on", 0, json!({"text": "Going on."}))]);
    let house = House::with_model(rules).await;
    // The tool waits for an answer that never comes, and listens to nobody meanwhile.
    let ledger = Ledger::start(Duration::from_hours(1)).await.expect("a ledger");
    let mut device = house.ledger_device(&ledger).await;
    let session = house.tell("record it").await;
    house.until(session, "the call is under way", |view| is(view, "record_entry", CallState::Started)).await;
    house.terminal.ok(&["stop", &session.to_string()]).await;
    let view = house.rest(session).await;
    let stopped = call(&view, "record_entry");
    assert_eq!(stopped.state, CallState::Cancelled);
    let reason = stopped.reason.expect("a reason");
    assert!(reason.contains("Stopped on desk") && reason.contains("didn't within"), "{reason}");
    let said = house.terminal.run(&["send", "--session", &session.to_string(), "--wait", "go on"]).await;
    assert_eq!(said.code, 0, "the session isn't held by it: {said:?}");
    house.all_dialogues_were_valid();
    device.kill().await.expect("it can be killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_s14_s15_a_command_reaches_nothing_outside_and_floods_nobody() {
    let secret = format!("canary-{}", Uuid::now_v7().simple());
    let variables = [("BATON_MODEL_KEY", secret.as_str()), ("A_SECRET_OF_THE_USER", secret.as_str())];
    for arguments in [&[][..], &["--no-sandbox"]] {
        let hub = Unusual { arguments, variables: &variables, ..Unusual::default() };
        let house = House::build(Plan { hub, ..Plan::default() }).await;
        let (session, said) = house.ask("/run env").await;
        assert_eq!(said.code, 0, "{}", said.errors);
        let printed = call(&house.view(session).await, "run_command").result.expect("a result").content;
        assert!(printed.contains("PATH=") && !printed.contains(&secret), "{printed}");
        let device = house.hub.device_pid().expect("a device");
        let environment = std::fs::read(format!("/proc/{device}/environ")).expect("the device's environment");
        assert!(!String::from_utf8_lossy(&environment).contains("BATON_MODEL_KEY"), "the key is the hub's alone");
    }

    let house = House::build(Plan::default()).await;
    let outside = house.directory.path().join("outside.txt");
    let attempts = format!(
        "/run sh -c 'echo x > {}; echo x > ../outside.txt; echo x > /etc/baton-was-here; ls {}/data; ls /root'",
        outside.display(),
        house.directory.path().display()
    );
    let (session, _) = house.ask(&attempts).await;
    let tried = call(&house.view(session).await, "run_command");
    assert!(!outside.exists() && !Path::new("/etc/baton-was-here").exists());
    let printed = tried.result.expect("what it printed").content;
    assert!(!printed.contains("baton.db"), "the hub's data can't be seen: {printed}");

    let (session, said) = house.ask("/run sh -c 'yes 0123456789 | head -c 104857600'").await;
    let view = house.view(session).await;
    let flood = call(&view, "run_command");
    let result = flood.result.clone().expect("a result");
    assert_eq!(flood.error.as_ref().map(|error| error.code.as_str()), Some("output_limit"), "{:?}", flood.error);
    assert!(result.content.len() <= baton_proto::MAX_RESULT_BYTES);
    assert!(result.bytes > 64 << 20, "what it printed is counted: {}", result.bytes);
    assert!(result.omitted > result.bytes - 20_000 && result.content.contains("bytes left out here"), "{}", result.omitted);
    assert!(serde_json::to_string(&said.lines).expect("JSON").len() < 100_000, "the terminal isn't flooded");
    assert!(serde_json::to_string(&house.log(session).await).expect("JSON").len() < 64 << 10);
    // Just below the limit all of it is taken.
    let (session, _) = house.ask("/run sh -c 'yes 0123456789 | head -c 20000000'").await;
    let whole = call(&house.view(session).await, "run_command");
    assert_eq!((whole.state, whole.result.map(|result| result.bytes)), (CallState::Succeeded, Some(20_000_000)));
}

fn with_traps(directory: &Path) -> PathBuf {
    let workspace = small_project(directory);
    std::fs::write(directory.join("secret.txt"), "outside\n").expect("a file");
    symlink(directory.join("secret.txt"), workspace.join("link.txt")).expect("a link");
    symlink(directory, workspace.join("linked")).expect("a link");
    symlink("loop", workspace.join("loop")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(workspace.join("fifo")).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
    std::fs::write(workspace.join("binary"), [0, 159, 146, 150, 0]).expect("a file");
    workspace
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_paths_that_lead_elsewhere_get_an_error_and_change_nothing() {
    let house = House::build(Plan { workspace: Some(with_traps), ..Plan::default() }).await;
    let absolute = house.directory.path().join("secret.txt").display().to_string();
    let rows = [
        "../../etc/passwd",
        "/etc/passwd",
        absolute.as_str(),
        "sub/../../secret.txt",
        "..",
        ".",
        "link.txt",
        "linked/secret.txt",
        "linked",
        "loop",
        "fifo",
        "binary",
        "/dev/zero",
        "/proc/self/environ",
        "absent.txt",
        "note.txt/deeper",
        "./.git/../../secret.txt",
    ];
    for path in rows {
        for command in [format!("/show {path}"), format!("/replace {path} outside inside")] {
            let (session, said) = house.ask(&command).await;
            assert_eq!(said.code, 4, "{command}: {}", said.errors);
            let view = house.view(session).await;
            let tool = if command.starts_with("/show") { "read_file" } else { "edit_file" };
            let refused = call(&view, tool);
            assert_eq!(refused.state, CallState::Failed, "{command}: {refused:?}");
            let error = refused.error.expect("an error");
            assert_eq!(error.state_modified, StateModified::No, "{command}");
            assert!(!error.message.is_empty() && !error.hint.is_empty(), "{command}: {error:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&absolute).expect("a file"), "outside\n");
    let escape = house.ask("/run cat ../secret.txt").await.0;
    let view = house.view(escape).await;
    assert_eq!(call(&view, "run_command").state, CallState::Failed, "the sandbox shows nothing of it either");
}
