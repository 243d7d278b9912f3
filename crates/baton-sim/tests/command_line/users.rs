//! Users who share a hub (S5), and devices that aren't trusted, or not any more (H9, C29).

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan, claim, operate, pair_with, refusal, task};
use baton_proto::{ClientType, Decision, DevicePatch, ErrorCode, Intent, Phase, Trust};
use serde_json::{Value, json};

fn rules() -> Value {
    json!([
        rule("mark", 0, json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo ran >> mark.txt"]}}]})),
        rule("mark", 1, json!({"text": "Marked."})),
        rule("which", 0, json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]})),
        rule("which", 1, json!({"text": "So it is {{last_result}}"})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_what_belongs_to_one_user_is_absent_for_another() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let (waiting, _) = house.ask("mark").await;
    let approval = house.open_approval(waiting).await;
    let (asking, _) = {
        house.terminal.ok(&["stop", &waiting.to_string()]).await;
        house.rest(waiting).await;
        house.ask("which").await
    };
    let question = house.open_question(asking).await;
    let own = house.terminal.known("device_id");

    let data = house.hub.data.display().to_string();
    let added = house.terminal.ok(&["user", "add", "Ada", "--data", &data]).await;
    let link = added.event("user_added")["owner_link"].as_str().expect("a link").to_owned();
    let (ada, _) = claim(&house.hub, &link, "Ada's phone", ClientType::Phone).await;
    let terminal = Terminal::named(house.directory.path(), "ada");
    pair_with(&house.hub, &ada, &terminal, "Ada's desk", Trust::Trusted).await;
    assert_ne!(terminal.known("user_id"), house.terminal.known("user_id"));

    assert!(terminal.ok(&["sessions"]).await.lines.is_empty());
    let devices = terminal.ok(&["devices"]).await;
    let names: Vec<_> = devices.lines.iter().map(|line| line["name"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("Ada")), "{names:?}");
    assert!(devices.lines.iter().all(|line| line["workspaces"].as_array().is_none_or(Vec::is_empty)), "nor her workspaces");

    let before = house.log(asking).await.len();
    let (session, approval, question) = (asking.to_string(), approval.id.to_string(), question.id.to_string());
    let absent = uuid::Uuid::now_v7().to_string();
    let rows: [&[&str]; 12] = [
        &["show", &session],
        &["events", &session],
        &["brief", &session],
        &["snapshot", &session],
        &["take-over", &session],
        &["take-over", &session, "--force"],
        &["stop", &session],
        &["resume", &session],
        &["send", "--session", &session, "hello"],
        &["devices", "revoke", &own],
        &["devices", "rename", &own, "mine"],
        &["devices", "trust", &own, "guest"],
    ];
    for arguments in rows {
        let said = terminal.run(arguments).await;
        assert_eq!(said.code, 4, "{arguments:?}: {said:?}");
        assert!(said.errors.contains("not_found"), "{arguments:?}: {}", said.errors);
        // Word for word what is said of an id that nobody has.
        let of_nobody: Vec<_> = arguments.iter().map(|&word| if word == session || word == own { absent.as_str() } else { word }).collect();
        assert_eq!(terminal.run(&of_nobody).await.errors, said.errors, "{arguments:?}");
    }
    for arguments in [&["approve", &approval][..], &["reject", &approval], &["answer", &question, "red"]] {
        let said = terminal.run(arguments).await;
        assert_eq!(said.code, 2, "her terminal finds no such thing among her sessions: {said:?}");
    }
    for intent in [
        Intent::confirm(approval.parse().expect("an id"), Decision::Approve),
        Intent::Answer { question_id: question.parse().expect("an id"), text: Some("red".to_owned()), option: None },
        Intent::Cancel { task_id: None },
    ] {
        let reply = operate(&ada, asking, intent.clone()).await;
        assert_eq!(refusal(&reply), Some(ErrorCode::NotFound), "{intent:?}");
    }
    let followed = terminal.run(&["events", &session, "--follow"]).await;
    assert!(followed.code == 4 && followed.errors.contains("not_found"), "{followed:?}");
    assert_eq!(house.log(asking).await.len(), before, "nothing of it has left a trace");
    assert!(
        house.terminal.ok(&["devices"]).await.lines.iter().all(|line| !line["name"].as_str().is_some_and(|name| name.starts_with("Ada")))
    );

    // The same link again, and a link that isn't one.
    let door = baton_client::Http::new(house.hub.url().parse().expect("an address"), None).expect("a client");
    let secret = link.split("invite=").nth(1).expect("a secret").to_owned();
    let again = baton_proto::InvitationClaim {
        secret,
        name: "Eve".to_owned(),
        client_type: ClientType::Phone,
        capabilities: baton_proto::Capabilities::default(),
        cookie: false,
    };
    assert!(door.claim_invitation(&again).await.is_err(), "it works once");
    let nameless = house.terminal.run(&["user", "add", " ", "--data", &data]).await;
    assert_eq!(nameless.code, 4, "{nameless:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c29_a_revoked_terminal_is_told_so_and_can_be_paired_anew() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let other = Terminal::named(house.directory.path(), "other");
    house.pair(&other, "couch", Trust::Trusted).await;
    let (session, _) = house.ask("which").await;
    let mut following = other.start(&["events", &session.to_string(), "--follow"]);
    assert_eq!(following.next().await["seq"], 1);
    house.terminal.ok(&["devices", "revoke", "couch"]).await;
    assert_eq!(following.child.wait().await.expect("it ends").code(), Some(4), "whoever follows is cut off");
    let said = other.run(&["sessions"]).await;
    assert_eq!(said.code, 4);
    assert!(said.errors.contains("unauthenticated"), "{}", said.errors);
    let plain = other.show(&["show", &session.to_string()], "").await;
    assert!(plain.code == 4 && plain.errors.contains("Pair it"), "it says what to do: {}", plain.errors);
    let listed = house.terminal.ok(&["devices"]).await;
    assert!(!listed.lines.iter().any(|line| line["name"] == "couch" && line["revoked_at"].is_null()), "{listed:?}");
    house.pair(&other, "couch again", Trust::Trusted).await;
    assert_eq!(other.run(&["show", &session.to_string()]).await.code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn h9_what_a_device_may_do_follows_its_trust() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let standard = Terminal::named(house.directory.path(), "standard");
    let guest = Terminal::named(house.directory.path(), "guest");
    house.pair(&standard, "standard", Trust::Standard).await;
    house.pair(&guest, "guest", Trust::Guest).await;
    let (session, _) = house.ask("mark").await;
    let id = session.to_string();
    let open = house.open_approval(session).await.id.to_string();

    for arguments in [
        &["approve", &open][..],
        &["reject", &open],
        &["send", "--session", &id, "hello"],
        &["send", "--new", "hello"],
        &["take-over", &id, "--force"],
        &["stop", &id],
    ] {
        let said = guest.run(arguments).await;
        assert_eq!(said.code, 4, "{arguments:?}: {said:?}");
        assert!(said.errors.contains("trust_too_low"), "{arguments:?}: {}", said.errors);
    }
    for arguments in [&["devices", "invite"][..], &["devices", "revoke", "desk"], &["devices", "trust", "guest", "trusted"]] {
        for terminal in [&guest, &standard] {
            let said = terminal.run(arguments).await;
            assert_eq!(said.code, 4, "{arguments:?}: {said:?}");
            assert!(said.errors.contains("trust_too_low") || said.errors.contains("forbidden"), "{arguments:?}: {}", said.errors);
        }
    }
    let plain = standard.show(&["approve", &open], "").await;
    assert_eq!(plain.code, 4);
    assert!(plain.errors.contains("sensitive") && plain.errors.contains("--confirm"), "{}", plain.errors);
    assert!(standard.run(&["approve", &open]).await.errors.contains("needs_confirmation"));
    assert!(house.file("mark.txt").is_empty());
    standard.ok(&["approve", &open, "--confirm"]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!(house.file("mark.txt"), "ran\n");

    // The owner decides: what was a guest may act, and what was trusted may not any more.
    house.terminal.ok(&["devices", "trust", "guest", "trusted"]).await;
    let (session, _) = house.ask("mark").await;
    let open = house.open_approval(session).await.id.to_string();
    let desk = house.terminal.known("device_id").parse().expect("an id");
    house.phone.change_device(desk, &DevicePatch { name: None, trust: Some(Trust::Guest) }).await.expect("the owner may");
    assert!(house.terminal.run(&["approve", &open]).await.errors.contains("trust_too_low"));
    guest.ok(&["approve", &open]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!(house.file("mark.txt"), "ran\nran\n");
}
