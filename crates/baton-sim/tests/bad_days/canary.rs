//! Secrets stay where they belong (S6): tokens, the invitation's secret, the model's key and the admin token are searched for in every
//! place that others can read.

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan, approve};
use crate::support::hub::Unusual;
use baton_client::Http;
use baton_proto::{
    Capabilities, ClientType, InvitationApproval, InvitationClaim, InvitationState, PairingClaim, PairingId, PairingRequest, PairingState,
    Trust,
};
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

/// What a device that was let in had in its hands.
struct Entered {
    /// Of the link.
    first: String,
    asking: String,
    token: String,
}

async fn enter_by_link(house: &House) -> Entered {
    let door = Http::new(house.hub.url().parse().expect("an address"), None).expect("a client");
    let link = house.phone.invite(Trust::Standard).await.expect("a link");
    let claim = InvitationClaim {
        secret: link.secret.clone(),
        name: "by link".to_owned(),
        client_type: ClientType::Web,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let opened = door.open_invitation(&claim).await.expect("it is opened");
    let InvitationState::Asking { pairing_id, secret, number, .. } = opened else { panic!("{opened:?}") };
    assert!(door.open_invitation(&claim).await.is_err(), "it works once");
    house.phone.approve_invitation(link.invitation_id, &InvitationApproval { number }).await.expect("approved");
    Entered { first: link.secret, token: collect(&door, pairing_id, &secret).await, asking: secret }
}

async fn enter_by_code(house: &House) -> Entered {
    let door = Http::new(house.hub.url().parse().expect("an address"), None).expect("a client");
    let request = PairingRequest { name: "by code".to_owned(), client_type: ClientType::Web, capabilities: Capabilities::default() };
    let started = door.start_pairing(&request).await.expect("it begins");
    approve(&house.phone, &started.code, Trust::Standard).await;
    Entered { first: String::new(), token: collect(&door, started.pairing_id, &started.secret).await, asking: started.secret }
}

async fn collect(door: &Http, id: PairingId, secret: &str) -> String {
    match door.claim_pairing(id, &PairingClaim { secret: secret.to_owned(), cookie: false }).await.expect("an answer") {
        PairingState::Approved(credentials) => credentials.token,
        other @ PairingState::Waiting { .. } => panic!("{other:?}"),
    }
}

/// A model that works, and one that fails.
fn rules() -> Value {
    json!([
        rule(
            "work",
            0,
            json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "env; cat /proc/*/environ; cat /proc/*/cmdline; sleep 0.2"]}}]})
        ),
        rule("work", 1, json!({"text": "{{last_result}}"})),
        rule("fail", 0, json!({"fault": {"status": 403}})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_no_secret_is_where_others_can_read_it() {
    let hub = Unusual { variables: &[("BATON_MODEL_KEY", KEY), ("BATON_LOG", "trace")], ..Unusual::default() };
    let house = House::build(Plan { rules: Some(rules()), hub, ..Plan::default() }).await;
    let hub_file: Value = serde_json::from_slice(&std::fs::read(house.hub.data.join("hub.json")).expect("a file")).expect("JSON");
    let device: Value = serde_json::from_slice(&std::fs::read(house.hub.data.join("device/profile.json")).expect("a file")).expect("JSON");
    let invitation = house.phone.invite(Trust::Trusted).await.expect("an invitation");
    let (by_link, by_code) = (enter_by_link(&house).await, enter_by_code(&house).await);
    let unused = house.phone.invite(Trust::Trusted).await.expect("an invitation");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let secrets = [
        ("the model's key", KEY.to_owned()),
        ("the admin token", text(&hub_file["admin_token"])),
        ("the device's token", text(&device["token"])),
        ("the terminal's token", house.terminal.known("token")),
        ("the owner link's secret", house.hub.owner_link().split("invite=").nth(1).expect("a secret").to_owned()),
        ("an invitation's secret", invitation.secret),
        ("the secret of a link that nobody opened", unused.secret),
        ("the secret of a link that was used", by_link.first),
        ("the secret with which a device asks by a link", by_link.asking),
        ("the token of a device that came by a link", by_link.token),
        ("the secret with which a device asks by a code", by_code.asking),
        ("the token of a device that came by a code", by_code.token),
    ];
    let mut said = String::new();
    let keep = |said: &mut String, shown: &crate::support::command::Shown| said.extend([shown.out.as_str(), shown.errors.as_str()]);
    let (session, _) = house.ask("work").await;
    let open = house.open_approval(session).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.rest(session).await;
    keep(&mut said, &house.terminal.show(&["send", "--session", &session.to_string(), "--wait", "fail"], "").await);
    // Errors of every kind, with the secret in the request where a user may put it.
    for (name, secret) in &secrets {
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
        // A device's own token opens the door, as it should.
        let opens = name.ends_with("'s token") || name.starts_with("the token of a device");
        if !opens {
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
    let brief = serde_json::to_string(&house.phone.brief(session).await.expect("a brief")).expect("JSON");
    let history = serde_json::to_string(&house.phone.history(session, None, None).await.expect("a history")).expect("JSON");
    let lines: String = crate::processes("").join("\n");
    // What leaves the house on purpose.
    let leaving = house.directory.path().join("leaving");
    std::fs::create_dir(&leaving).expect("a directory");
    let path = |name: &str| leaving.join(name).display().to_string();
    house.terminal.ok(&["export", &session.to_string(), &path("session.jsonl")]).await;
    house.terminal.ok(&["backup", &path("backup"), "--data", &house.hub.data.display().to_string()]).await;
    let mut places = vec![
        ("answers".to_owned(), said),
        ("logs".to_owned(), house.hub.logs()),
        ("events".to_owned(), log),
        ("the view".to_owned(), view),
        ("a snapshot".to_owned(), snapshot),
        ("the list of devices".to_owned(), devices),
        ("the brief".to_owned(), brief),
        ("the history".to_owned(), history),
        ("what the model was sent".to_owned(), requests),
        ("arguments of processes".to_owned(), lines),
    ];
    places.extend(files(&house.hub.data, &["hub.json", "device/profile.json"]));
    places.extend(files(&house.workspace, &[]));
    let kept = files(&leaving, &["profile.json"]);
    assert!(
        kept.iter().any(|(name, _)| name.ends_with("session.jsonl")) && kept.len() > 1,
        "{:?}",
        kept.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    places.extend(kept);
    for (place, text) in &places {
        for (name, secret) in &secrets {
            assert!(!place.contains(secret.as_str()) && !text.contains(secret.as_str()), "{name} is in {place}");
        }
    }
    assert!(places.iter().any(|(_, text)| text.contains("PATH=")), "what the command printed was looked through");
    assert!(house.hub.logs().len() > 1000, "there are logs to look through");
}
