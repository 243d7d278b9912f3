//! Hubs that can't start, and hubs that stop (C14, O6).

use crate::processes;
use crate::support::command::{Said, Terminal};
use crate::support::house::{House, Plan, call};
use crate::support::hub::Unusual;
use crate::support::workspace::small_project;
use crate::support::{free_port, program};
use baton_proto::CallState;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

fn error(said: &Said) -> Value {
    let line = said.errors.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no error as JSON: {said:?}"));
    serde_json::from_str(line).expect("JSON")
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .map(|all| all.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

/// `baton up` that has to fail: its exit code and its words.
async fn refused(data: &Path, further: &[&str]) -> (i32, String) {
    let directory = TempDir::new().expect("a directory");
    let workspace = small_project(directory.path()).display().to_string();
    let data = data.display().to_string();
    let mut arguments = vec!["up", "--data", &data];
    for (name, value) in [("--workspace", workspace.as_str()), ("--listen", "127.0.0.1:0")] {
        if !further.contains(&name) {
            arguments.extend([name, value]);
        }
    }
    arguments.extend(further);
    let terminal = Terminal::new(directory.path());
    // One that starts after all would run for ever.
    let said = tokio::time::timeout(Duration::from_secs(30), terminal.run(&arguments)).await;
    let said = said.unwrap_or_else(|_| panic!("{further:?}: it started, and should have been refused"));
    let error = error(&said);
    let (message, hint) = (error["message"].as_str().expect("a message"), error["hint"].as_str().expect("a hint"));
    assert!(!message.is_empty() && !hint.is_empty());
    assert!(said.lines.is_empty(), "it says nothing that looks like a hub: {said:?}");
    (said.code, format!("{message} {hint}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn c14_a_second_hub_on_the_same_data_is_refused_and_named_the_first() {
    let house = House::build(Plan::default()).await;
    let before = (names(&house.hub.data), std::fs::read(house.hub.data.join("hub.json")).expect("a file"));
    let pid = house.hub.pid().expect("a hub").to_string();
    // On another port and on the very same one: what is wrong is the data, not the port.
    for listen in ["127.0.0.1:0".to_owned(), format!("127.0.0.1:{}", house.hub.port)] {
        let (code, words) = refused(&house.hub.data, &["--listen", &listen]).await;
        assert_eq!(code, 4);
        assert!(words.contains(&format!("in use by process {pid}")), "{words}");
    }
    assert_eq!((names(&house.hub.data), std::fs::read(house.hub.data.join("hub.json")).expect("a file")), before, "nothing was written");
    let (_, said) = house.ask("/show note.txt").await;
    assert_eq!(said.code, 0, "the first one isn't disturbed");
}

#[tokio::test(flavor = "multi_thread")]
async fn o6_hubs_that_cannot_start_say_why_and_touch_nothing() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");

    let (code, words) = refused(&data, &["--listen", "0.0.0.0:0"]).await;
    assert_eq!(code, 2);
    assert!(words.contains("read tokens and act as you") && words.contains("--allow-plain-http"), "{words}");
    for (path, why) in [("/nonexistent/project", "No such file"), ("/etc/hostname", "no directory")] {
        let (code, words) = refused(&data, &["--workspace", path]).await;
        assert_eq!(code, 2);
        assert!(words.contains(path) && words.contains(why), "{words}");
    }
    for path in [directory.path(), Path::new("/")] {
        let (code, words) = refused(&data, &["--workspace", &path.display().to_string()]).await;
        assert_eq!(code, 2);
        assert!(words.contains("contains the device's own data") && words.contains("Name a directory below it"), "{words}");
    }
    assert!(!data.exists(), "what can't be right leaves nothing behind");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, words) = refused(&data, &["--listen", &address]).await;
    assert_eq!(code, 4);
    assert!(words.contains(&address) && words.contains("--listen"), "{words}");
    assert!(!data.join("hub.json").exists(), "nobody is led to a hub that isn't there");

    for (text, why) in [
        ("[model\nname = ", "baton.toml"),
        ("[model]\nkey = \"canary-key\"\nnmae = \"x\"\n", "nmae"),
        ("[model]\nname = \"x\"\n", "address"),
    ] {
        std::fs::write(data.join("baton.toml"), text).expect("a file");
        let (code, words) = refused(&data, &[]).await;
        assert_eq!(code, 2, "{text}");
        assert!(words.contains(why) && !words.contains("canary-key"), "{words}");
    }
    std::fs::remove_file(data.join("baton.toml")).expect("a file");

    // The store as it is, with the number of a format from the future in its header.
    let path = data.join("baton.db");
    let sound = std::fs::read(&path).expect("the store");
    let mut newer = sound.clone();
    newer[60..64].copy_from_slice(&9999_u32.to_be_bytes());
    std::fs::write(&path, &newer).expect("a file");
    let (code, words) = refused(&data, &[]).await;
    assert_eq!(code, 4);
    assert!(words.contains("9999") && words.contains("newer"), "{words}");
    assert_eq!(std::fs::read(&path).expect("the store"), newer, "it is left as it was");

    let garbage = b"this is no database ".repeat(1000);
    std::fs::write(&path, &garbage).expect("a file");
    let (code, words) = refused(&data, &[]).await;
    assert_eq!(code, 4);
    assert!(words.contains("baton.db") || words.contains("damaged") || words.contains("not a database"), "{words}");
    assert_eq!(std::fs::read(&path).expect("the store"), garbage, "it is left as it was");
    assert_eq!(processes(&data.display().to_string()), Vec::<String>::new(), "no device is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_without_bubblewrap_no_command_runs_unless_that_is_wanted() {
    // The hub's world, without bubblewrap in it.
    let wrapper = ["bwrap", "--dev-bind", "/", "/", "--bind", "/dev/null", "/usr/bin/bwrap", "--die-with-parent", "--"];
    let house = House::build(Plan { hub: Unusual { wrapper: &wrapper, ..Unusual::default() }, ..Plan::default() }).await;
    let (session, said) = house.ask("/run echo hello").await;
    assert_eq!(said.code, 4);
    let refused = call(&house.view(session).await, "run_command");
    let error = refused.error.expect("an error");
    assert_eq!((refused.state, error.code.as_str()), (CallState::Failed, "no_sandbox"));
    assert!(error.hint.contains("'bubblewrap'") && error.hint.contains("--no-sandbox"), "{error:?}");
    let (session, _) = house.ask("/show note.txt").await;
    assert_eq!(call(&house.view(session).await, "read_file").state, CallState::Succeeded, "all else works");
    drop(house);

    let hub = Unusual { wrapper: &wrapper, arguments: &["--no-sandbox"], ..Unusual::default() };
    let house = House::build(Plan { hub, ..Plan::default() }).await;
    let (session, _) = house.ask("/run echo hello").await;
    let ran = call(&house.view(session).await, "run_command");
    assert!(ran.result.is_some_and(|result| result.content.contains("hello")));
}

#[tokio::test(flavor = "multi_thread")]
async fn c23_ctrl_c_drains_and_the_next_start_has_everything() {
    let mut house = House::build(Plan::default()).await;
    let (finished, _) = house.ask("/show note.txt").await;
    let mark = format!("86400.{}", uuid::Uuid::now_v7().as_u128() % 1_000_000_007);
    let running = house.tell(&format!("/run sh -c 'echo > begun.txt; sleep {mark}'")).await;
    house.until(running, "the command runs", |_| house.workspace.join("begun.txt").exists().then_some(())).await;
    let data = house.hub.data.display().to_string();

    assert_eq!(house.hub.interrupt().await, Some(0));
    assert_eq!(processes(&data), Vec::<String>::new(), "the device is gone with it");
    assert_eq!(processes(&mark), Vec::<String>::new(), "and what it ran");
    assert!(!house.hub.data.join("hub.json").exists());
    let unreachable = house.terminal.run(&["sessions"]).await;
    assert_eq!(unreachable.code, 5);
    assert!(error(&unreachable)["message"].as_str().is_some_and(|message| message.contains("can't be reached")));

    house.hub.start().await;
    let listed = house.terminal.ok(&["sessions"]).await;
    let listed: Vec<_> = listed.lines.iter().map(|line| line["session_id"].as_str().expect("an id").to_owned()).collect();
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.contains(&finished.to_string()) && listed.contains(&running.to_string()));
    // Nothing says "running" that isn't: the interrupted command is cancelled, or somebody is asked what became of it.
    let view = house
        .until(running, "the interrupted command's fate", |view| {
            let fate = call(view, "run_command");
            let asked = crate::support::house::open_question(view).is_some();
            (asked || fate.state.is_settled()).then(|| view.clone())
        })
        .await;
    assert_ne!(call(&view, "run_command").state, CallState::Started);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_before_it_is_ready_leaves_no_device_behind() {
    let directory = TempDir::new().expect("a directory");
    let workspace = small_project(directory.path());
    let data = directory.path().join("data");
    let mut child = tokio::process::Command::new(crate::support::program("baton"))
        .args(["up", "--listen", &format!("127.0.0.1:{}", free_port()), "--data"])
        .arg(&data)
        .arg("--workspace")
        .arg(&workspace)
        .env("BATON_LOCAL_MODELS", "none")
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it starts");
    let text = data.join("device").display().to_string();
    crate::support::until("the device is started", || async { (!processes(&text).is_empty()).then_some(()) }).await;
    let pid = child.id().expect("a number").to_string();
    let _ = std::process::Command::new("kill").args(["-INT", &pid]).status();
    assert_eq!(child.wait().await.expect("it ends").code(), Some(0));
    // A sandbox that looks at the workspace dies with the device, and is gone a moment later.
    crate::support::until("nothing is left", || async { processes(&text).is_empty().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o6_a_device_that_gives_up_again_and_again_is_left_alone_with_its_last_words() {
    let directory = TempDir::new().expect("a directory");
    let workspace = small_project(directory.path());
    let device = directory.path().join("data/device");
    std::fs::create_dir_all(&device).expect("a directory");
    std::fs::write(device.join("workspaces.json"), "nonsense").expect("a file");
    let mut hub = tokio::process::Command::new(program("baton"))
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path().join("data"))
        .arg("--workspace")
        .arg(&workspace)
        .env("XDG_CONFIG_HOME", directory.path())
        .env("BATON_LOCAL_MODELS", "none")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the hub starts");
    let mut lines = BufReader::new(hub.stderr.take().expect("standard error")).lines();
    let told = async {
        let mut again = 0;
        while let Some(line) = lines.next_line().await.expect("a line") {
            let mended = line.contains("workspaces.json can't be read") && line.contains("Restore it, or remove it");
            assert!(mended || !line.contains("the device ended"), "{line}");
            again += usize::from(line.contains("starting it again"));
            if line.contains("isn't started any more") {
                return again;
            }
        }
        panic!("the hub ended");
    };
    let again = tokio::time::timeout(Duration::from_mins(2), told).await.expect("it is told in time");
    assert_eq!(again, 4);
    assert!(hub.try_wait().expect("a status").is_none(), "the hub goes on");
}
