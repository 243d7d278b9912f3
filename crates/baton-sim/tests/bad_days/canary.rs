//! Secrets stay where they belong (S6): tokens, the invitation's secret, the model's key and the admin token are searched for in every
//! place that others can read.

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan};
use crate::support::hub::Unusual;
use baton_proto::Trust;
use serde_json::{Value, json};
use std::path::Path;

const KEY: &str = "canary-key-0123456789abcdef";

/// The text of every file below a directory, but for those in which the secret has its place.
fn files(directory: &Path, but: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if !but.iter().any(|name| path.ends_with(name)) {
                found.push((path.display().to_string(), String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned()));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_no_secret_is_where_others_can_read_it() {
    let rules = json!([
        rule(
            "work",
            0,
            json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "env; cat /proc/*/environ; cat /proc/*/cmdline; sleep 0.2"]}}]})
        ),
        rule("work", 1, json!({"text": "{{last_result}}"})),
        rule("fail", 0, json!({"fault": {"status": 403}})),
    ]);
    let hub = Unusual { variables: &[("BATON_MODEL_KEY", KEY), ("BATON_LOG", "trace")], ..Unusual::default() };
    let house = House::build(Plan { rules: Some(rules), hub, ..Plan::default() }).await;
    let hub_file: Value = serde_json::from_slice(&std::fs::read(house.hub.data.join("hub.json")).expect("a file")).expect("JSON");
    let device: Value = serde_json::from_slice(&std::fs::read(house.hub.data.join("device/profile.json")).expect("a file")).expect("JSON");
    let invitation = house.phone.invite(Trust::Trusted).await.expect("an invitation");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let secrets = [
        ("the model's key", KEY.to_owned()),
        ("the admin token", text(&hub_file["admin_token"])),
        ("the device's token", text(&device["token"])),
        ("the terminal's token", house.terminal.known("token")),
        ("the owner link's secret", house.hub.owner_link().split("invite=").nth(1).expect("a secret").to_owned()),
        ("an invitation's secret", invitation.secret),
    ];
    let mut said = String::new();
    let keep = |said: &mut String, shown: &crate::support::command::Shown| said.extend([shown.out.as_str(), shown.errors.as_str()]);
    let (session, _) = house.ask("work").await;
    let open = house.open_approval(session).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.rest(session).await;
    keep(&mut said, &house.terminal.show(&["send", "--session", &session.to_string(), "--wait", "fail"], "").await);
    // Errors of every kind, with the secret in the request where a user may put it.
    for (_, secret) in &secrets {
        for arguments in [["show", secret], ["approve", secret], ["answer", secret], ["devices", secret], ["pair", secret]] {
            let mut arguments = arguments.to_vec();
            if arguments[0] == "answer" {
                arguments.push("x");
            }
            // What the caller itself typed may be repeated to the caller, and to nobody else.
            house.terminal.show(&arguments, "").await;
        }
        let wrong = Terminal::named(house.directory.path(), "wrong");
        std::fs::create_dir_all(wrong.profile().parent().expect("a directory")).expect("a directory");
        let profile = json!({"hub": house.hub.url(), "device_id": open.id, "user_id": open.id, "name": "wrong", "token": secret});
        std::fs::write(wrong.profile(), profile.to_string()).expect("a file");
        if *secret != house.terminal.known("token") && secret != device["token"].as_str().expect("a token") {
            let refused = wrong.show(&["sessions"], "").await;
            assert_eq!(refused.code, 4, "{refused:?}");
            keep(&mut said, &refused);
        }
        let door = reqwest::Client::builder().no_proxy().build().expect("a client");
        for path in ["/v1/hub", "/v1/sessions", "/v1/nothing", "/"] {
            let answer = door.get(format!("{}{path}?token={secret}", house.hub.url())).bearer_auth(format!("{secret}x")).send().await;
            said.push_str(&answer.expect("an answer").text().await.expect("a text"));
        }
    }
    let log = serde_json::to_string(&house.log(session).await).expect("JSON");
    let view = serde_json::to_string(&house.view(session).await).expect("JSON");
    let snapshot = serde_json::to_string(&house.phone.snapshot(session).await.expect("a snapshot")).expect("JSON");
    let devices = serde_json::to_string(&house.phone.devices().await.expect("a list")).expect("JSON");
    let requests =
        serde_json::to_string(&house.model().requests().into_iter().map(|request| request.body).collect::<Vec<_>>()).expect("JSON");
    let lines: String = crate::processes("").join("\n");
    let mut places = vec![
        ("answers".to_owned(), said),
        ("logs".to_owned(), house.hub.logs()),
        ("events".to_owned(), log),
        ("the view".to_owned(), view),
        ("a snapshot".to_owned(), snapshot),
        ("the list of devices".to_owned(), devices),
        ("what the model was sent".to_owned(), requests),
        ("arguments of processes".to_owned(), lines),
    ];
    places.extend(files(&house.hub.data, &["hub.json", "device/profile.json"]));
    places.extend(files(&house.workspace, &[]));
    for (place, text) in &places {
        for (name, secret) in &secrets {
            assert!(!text.contains(secret.as_str()), "{name} is in {place}");
        }
    }
    assert!(places.iter().any(|(_, text)| text.contains("PATH=")), "what the command printed was looked through");
    assert!(house.hub.logs().len() > 1000, "there are logs to look through");
}
