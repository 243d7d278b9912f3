//! Sessions as files: out of one hub, into another, and what isn't let in (O1, S23).

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan, claim, messages, pair_with, session_of, task};
use baton_proto::{ApprovalState, ClientType, EntityView, Phase, SessionId, Trust};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

fn rules() -> Value {
    json!([
        rule("mark", 0, json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo ran >> mark.txt"]}}]})),
        rule("mark", 1, json!({"text": "Marked."})),
        rule("flood", 0, json!({"calls": [{"name": "run_command", "arguments": {"argv": ["seq", "1", "20000"]}}]})),
        rule("flood", 1, json!({"text": "Counted."})),
        rule("which", 0, json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]})),
        rule("which", 1, json!({"text": "So it is {{last_result}}"})),
    ])
}

fn session(line: &Value) -> SessionId {
    line["session_id"].as_str().expect("an id").parse().expect("an id")
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_a_session_goes_on_on_another_hub_and_nothing_that_was_open_follows_it() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let (id, _) = house.ask("mark").await;
    let open = house.open_approval(id).await;
    let file = house.directory.path().join("session.jsonl");
    let path = file.display().to_string();
    let said = house.terminal.ok(&["export", &id.to_string(), &path]).await;
    let log = house.log(id).await;
    assert_eq!(said.event("exported")["events"], log.len() as u64);
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&file).expect("a file");
    let text = String::from_utf8(bytes.clone()).expect("text");
    assert_eq!(text.lines().count(), log.len() + 2);
    for (line, change) in text.lines().skip(1).zip(&log) {
        assert_eq!(serde_json::from_str::<Value>(line).expect("JSON"), serde_json::to_value(&change.event).expect("JSON"));
    }
    let again = house.terminal.run(&["export", "latest", &path]).await;
    assert!(again.code == 2 && again.errors.contains("exists already"), "{again:?}");
    assert_eq!(std::fs::read(&file).expect("a file"), bytes, "nothing is overwritten");

    let other = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let imported = other.terminal.ok(&["import", &path]).await;
    assert_eq!(session(imported.event("imported")), id, "the same session, where its id is free");
    let view = other.view(id).await;
    assert_eq!(messages(&view), messages(&house.view(id).await));
    assert_eq!(session_of(&view).holder, None);
    let voided = view.entities.iter().any(
        |entity| matches!(entity, EntityView::Approval(approval) if approval.id == open.id && approval.state == ApprovalState::Voided),
    );
    assert!(voided, "{:#?}", view.entities);
    let late = other.terminal.run(&["approve", &open.id.to_string()]).await;
    assert_ne!(late.code, 0, "it can't be answered any more: {late:?}");
    let going_on = other.terminal.run(&["send", "--session", &id.to_string(), "--wait", "which"]).await;
    assert_eq!(going_on.code, 3, "{going_on:?}");
    let question = other.open_question(id).await;
    other.terminal.ok(&["answer", &question.id.to_string(), "blue"]).await;
    let view =
        other.until(id, "the answer", |view| messages(view).iter().any(|(_, text)| text.contains("So it is")).then(|| view.clone())).await;
    assert!(messages(&view).len() > 2);
    assert!(other.file("mark.txt").is_empty() && house.file("mark.txt").is_empty(), "what waited for an approval never ran");

    // Where the session is already, the file becomes another one, and the first is left as it is.
    let copy = house.terminal.ok(&["import", &path]).await;
    assert_ne!(session(copy.event("imported")), id);
    assert_eq!(house.log(id).await, log);
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.until(id, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!(house.file("mark.txt"), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_a_file_belongs_to_whoever_imports_it_and_what_it_only_names_is_said() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let (id, _) = house.ask("flood").await;
    let open = house.open_approval(id).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.until(id, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    let path = house.directory.path().join("flood.jsonl").display().to_string();
    let said = house.terminal.ok(&["export", "latest", &path]).await;
    assert_eq!(said.event("exported")["not_included"].as_array().expect("a list").len(), 1, "{said:?}");

    let data = house.hub.data.display().to_string();
    let added = house.terminal.ok(&["user", "add", "Ada", "--data", &data]).await;
    let link = added.event("user_added")["owner_link"].as_str().expect("a link").to_owned();
    let (ada, _) = claim(&house.hub, &link, "Ada's phone", ClientType::Phone).await;
    let terminal = Terminal::named(house.directory.path(), "ada");
    pair_with(&house.hub, &ada, &terminal, "Ada's desk", Trust::Trusted).await;
    let absent = terminal.run(&["export", &id.to_string(), &format!("{path}.ada")]).await;
    assert!(absent.code == 4 && absent.errors.contains("not_found"), "{absent:?}");
    let before = house.log(id).await;
    let imported = terminal.ok(&["import", &path]).await;
    assert_eq!(session(imported.event("imported")), id, "nobody learns from an id what others have");
    assert_eq!(terminal.ok(&["sessions"]).await.lines.len(), 1);
    assert_eq!(messages(&ada.session(id).await.expect("it is hers")), messages(&house.view(id).await));
    let going_on = terminal.run(&["send", "--session", &id.to_string(), "--wait", "which"]).await;
    assert_eq!(going_on.code, 3, "{going_on:?}");
    assert_eq!(house.log(id).await, before, "two sessions of one name, and of two users");
    assert_eq!(house.terminal.ok(&["sessions"]).await.lines.len(), 1, "and no other user's");
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_what_is_no_whole_export_is_refused_in_words_and_changes_nothing() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    house.ask("which").await;
    let directory = house.directory.path();
    let good = directory.join("good.jsonl");
    house.terminal.ok(&["export", "latest", &good.display().to_string()]).await;
    let bytes = std::fs::read(&good).expect("a file");
    let text = String::from_utf8(bytes.clone()).expect("text");
    // Told again with the right digest, so that only the format is in the way.
    let newer = {
        let told = text[..=text.trim_end().rfind('\n').expect("lines")].replace("\"baton_session\":1", "\"baton_session\":2");
        let end = json!({"events": text.lines().count() - 2, "digest": baton_proto::Digest::of_bytes(told.as_bytes())});
        format!("{told}{end}\n").into_bytes()
    };
    let rows: [(&str, Vec<u8>, &str, &str); 6] = [
        ("empty", Vec::new(), "invalid", ""),
        ("garbage", b"\x00\xff\x7fELF\nnot ours\n".to_vec(), "invalid", "othing was imported"),
        ("torn", bytes[..bytes.len() / 2].to_vec(), "invalid", "cut short"),
        ("altered", text.replace("Which one", "Which ONE").into_bytes(), "invalid", "digest"),
        ("newer", newer, "unsupported_version", "format 2"),
        ("huge", vec![b'x'; 64 * 1024 * 1024 + 1], "too_large", ""),
    ];
    for (name, bytes, code, why) in rows {
        let path = directory.join(name);
        std::fs::write(&path, bytes).expect("a file");
        let said = house.terminal.run(&["import", &path.display().to_string()]).await;
        assert_eq!(said.code, 4, "{name}: {said:?}");
        assert!(said.errors.contains(code) && said.errors.contains(why), "{name}: {}", said.errors);
        assert_eq!(house.terminal.ok(&["sessions"]).await.lines.len(), 1, "{name}");
    }
    let absent = house.terminal.run(&["import", &directory.join("absent").display().to_string()]).await;
    assert!(absent.code == 2 && absent.errors.contains("can't be read"), "{absent:?}");
}
