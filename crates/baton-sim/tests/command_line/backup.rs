//! Backups of a hub that works, and hubs that start on them (O7); data of another version (O6).

use crate::rule;
use crate::support::house::{House, Plan, call, is, messages, task};
use baton_proto::{CallState, Phase, QuestionKind};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn rules() -> Value {
    let command = "echo x >> effects.txt; test -e go.txt || sleep 86400";
    json!([
        rule("act", 0, json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", command]}}]})),
        rule("act", 1, json!({"text": "I know: {{last_result}}"})),
        rule("which", 0, json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]})),
        rule("which", 1, json!({"text": "So it is {{last_result}}"})),
    ])
}

/// Every file and directory below one.
fn below(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (vec![directory.to_owned()], vec![directory.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory").flatten() {
            found.push(entry.path());
            if entry.path().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// What stays the same of a list of sessions, whatever they do.
fn listed(lines: &[Value]) -> Vec<Value> {
    let mut listed: Vec<_> = lines.iter().map(|line| json!([line["session_id"], line["title"]])).collect();
    listed.sort_by_key(Value::to_string);
    listed
}

#[tokio::test(flavor = "multi_thread")]
async fn o7_a_hub_on_a_backup_that_was_taken_while_it_worked_goes_on() {
    let config = "[model]\ntemperature = 0.5\n";
    let mut house = House::build(Plan { rules: Some(rules()), config: Some(config), ..Plan::default() }).await;
    house.hands().await;
    let (changed, said) = house.ask("/replace note.txt bread butter").await;
    assert_eq!(said.code, 0, "{}", said.errors);
    let (asking, _) = house.ask("which").await;
    let question = house.open_question(asking).await;
    let (acting, _) = house.ask("act").await;
    let open = house.open_approval(acting).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house
        .until(acting, "the effect", |view| is(view, "run_command", CallState::Started).filter(|_| house.file("effects.txt") == "x\n"))
        .await;
    let (sessions, log) = (house.terminal.ok(&["sessions"]).await.lines, house.log(asking).await);

    let backup = house.directory.path().join("backup");
    let (to, data) = (backup.display().to_string(), house.hub.data.clone());
    let of = data.display().to_string();
    let said = house.terminal.ok(&["backup", &to, "--data", &of]).await;
    let figures = said.event("backed_up");
    assert_eq!((&figures["sessions"], &figures["users"]), (&json!(3), &json!(1)), "{figures}");
    for path in below(&backup) {
        let mode = path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    assert_eq!(std::fs::read_to_string(backup.join("baton.toml")).expect("a file"), config);
    let before: Vec<_> = below(&backup).into_iter().map(|path| std::fs::read(path).ok()).collect();
    let again = house.terminal.run(&["backup", &to, "--data", &of]).await;
    assert!(again.code == 2 && again.errors.contains("exists already"), "{again:?}");
    assert_eq!(below(&backup).into_iter().map(|path| std::fs::read(path).ok()).collect::<Vec<_>>(), before);

    // What comes later is not in it. (It waits for the workspace, which the command has.) Then the machine is lost, with the command that ran.
    house.terminal.ok(&["answer", &question.id.to_string(), "red"]).await;
    house.hub.kill().await;
    house.hub.kill_device();
    std::fs::rename(&data, data.with_extension("lost")).expect("it can be moved");
    std::fs::rename(&backup, &data).expect("it can be moved");
    house.hub.start().await;

    // The same devices, the same sessions, the same device with the same workspace.
    assert_eq!(listed(&house.terminal.ok(&["sessions"]).await.lines), listed(&sessions));
    house.hands().await;
    let restored = house.log(asking).await;
    assert_eq!(restored[..log.len()], log[..]);
    let question = house.open_question(asking).await;
    house.terminal.ok(&["answer", &question.id.to_string(), "blue"]).await;
    let view = house.until(asking, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert!(messages(&view).pop().expect("words").1.contains("blue"));

    // What ran is asked about, and not run again.
    let question = house.open_question(acting).await;
    assert_eq!(question.question_kind, QuestionKind::Outcome);
    house.terminal.ok(&["answer", &question.id.to_string(), "happened"]).await;
    let view = house.until(acting, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert_eq!(call(&view, "run_command").state, CallState::Succeeded);
    assert_eq!(house.file("effects.txt"), "x\n");

    // The history of the workspace is there too.
    assert_eq!(house.file("note.txt"), "milk and butter\n");
    let undone = house.terminal.run(&["send", "--session", &changed.to_string(), "--wait", "/undo"]).await;
    assert_eq!(undone.code, 0, "{}", undone.errors);
    assert_eq!(house.file("note.txt"), "milk and bread\n");
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn o7_what_cannot_be_backed_up_is_said_and_leaves_nothing_behind() {
    let mut house = House::build(Plan::default()).await;
    let (data, place) = (house.hub.data.clone(), house.directory.path().join("place"));
    std::fs::create_dir(&place).expect("a directory");
    std::fs::write(place.join("precious"), "precious").expect("a file");
    let of = data.display().to_string();
    let at = |name: &str| place.join(name).display().to_string();
    let rows: [(String, String, i32, &str); 5] = [
        (at("absent"), at("nothing"), 4, "Name the hub's data directory"),
        (of.clone(), at("precious"), 2, "exists already"),
        (of.clone(), at(""), 2, "exists already"),
        (of.clone(), at("no/such/place"), 4, "can't be made"),
        (of.clone(), "..".to_owned(), 2, "no name"),
    ];
    for (data, to, code, why) in rows {
        let said = house.terminal.run(&["backup", &to, "--data", &data]).await;
        assert!(said.code == code && said.errors.contains(why), "{to}: {said:?}");
    }
    let left: Vec<_> = std::fs::read_dir(&place).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["precious"]);

    // Of a hub that doesn't run, as well.
    house.hub.interrupt().await;
    let stopped = house.terminal.ok(&["backup", &at("stopped"), "--data", &of]).await;
    assert_eq!(stopped.event("backed_up")["users"], 1);
    assert!(house.directory.path().join("place/stopped/device/profile.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn o6_data_of_a_newer_version_is_refused_and_left_as_it_is() {
    let mut house = House::build(Plan::default()).await;
    house.hub.interrupt().await;
    let file = house.hub.data.join("baton.db");
    let mut bytes = std::fs::read(&file).expect("the database");
    // Where SQLite keeps the number that a program gives its format.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&file, &bytes).expect("it can be written");
    let (data, copy) = (house.hub.data.display().to_string(), house.directory.path().join("copy"));
    let to = copy.display().to_string();
    let rows: [&[&str]; 3] = [
        &["serve", "--data", &data, "--listen", "127.0.0.1:0"],
        &["up", "--data", &data, "--listen", "127.0.0.1:0"],
        &["backup", &to, "--data", &data],
    ];
    for arguments in rows {
        let said = house.terminal.run(arguments).await;
        assert!(said.code == 4 && said.errors.contains("newer"), "{arguments:?}: {said:?}");
        assert_eq!(std::fs::read(&file).expect("the database"), bytes, "{arguments:?}");
    }
    assert!(!copy.exists());
}
