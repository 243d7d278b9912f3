//! Every command once, in both forms, as one conversation with one hub.

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan, invited};
use baton_proto::{ClientType, Trust};
use serde_json::json;
use std::collections::BTreeMap;

/// Replaces what differs from run to run by names that say which is which: the same id has the same name throughout.
#[derive(Debug, Default)]
struct Names {
    known: BTreeMap<String, String>,
}

impl Names {
    /// A text that is always called by that name.
    fn call(&mut self, text: &str, name: &str) {
        self.known.insert(text.to_owned(), format!("‹{name}›"));
    }

    fn redact(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        // Longer ones first: a path may begin with another.
        let mut known: Vec<_> = self.known.clone().into_iter().collect();
        known.sort_by_key(|(given, _)| std::cmp::Reverse(given.len()));
        for (given, name) in &known {
            text = text.replace(given, name);
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            if let Some(id) = rest.get(..36).filter(|id| uuid::Uuid::parse_str(id).is_ok()) {
                let next = self.known.len();
                let name = self.known.entry(id.to_owned()).or_insert_with(|| format!("‹id {next}›"));
                out.push_str(name);
                rest = &rest[36..];
            } else if let Some(length) = stretch(rest) {
                out.push_str("offline for ‹time›");
                rest = &rest[length..];
            } else if let Some(length) = time(rest) {
                out.push_str("‹time›");
                rest = &rest[length..];
            } else if let Some(length) = day(rest) {
                out.push_str("‹day›");
                rest = &rest[length..];
            } else if let Some(count) = rest.strip_prefix("_tokens\":") {
                // What a request weighs changes with each word of it.
                out.push_str("_tokens\":‹count›");
                rest = count.trim_start_matches(|c: char| c.is_ascii_digit());
            } else if let Some(length) = secret(rest) {
                out.push_str("‹secret or digest›");
                rest = &rest[length..];
            } else {
                let c = rest.chars().next().expect("it isn't empty");
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        out
    }
}

/// The length of how long a device is away, such as `offline for 3 min`, at the beginning of a text.
fn stretch(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("offline for ")?;
    let words = rest.split(' ').take(2).map(str::len).sum::<usize>() + 1;
    Some(text.len() - rest.len() + words)
}

/// The length of a time such as `2026-11-30T10:00:00.123Z` at the beginning of a text.
fn time(text: &str) -> Option<usize> {
    let shape = text.get(..19)?.bytes().enumerate().all(|(place, byte)| match place {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    let end = text[19..].find('Z').filter(|end| text[19..19 + end].bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()))?;
    shape.then_some(19 + end + 1)
}

/// The length of a day such as `2026-11-30` at the beginning of a text.
fn day(text: &str) -> Option<usize> {
    let digits = |byte: &u8| byte.is_ascii_digit();
    let shape = text.get(..10)?.bytes().enumerate().all(|(place, byte)| if matches!(place, 4 | 7) { byte == b'-' } else { digits(&byte) });
    (shape && !text[10..].bytes().next().as_ref().is_some_and(digits)).then_some(10)
}

/// The length of a run of random characters: a secret, a digest, or a commit.
fn secret(text: &str) -> Option<usize> {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-').count();
    let digits = text.bytes().take(length).filter(u8::is_ascii_digit).count();
    (length >= 40 && digits >= 4).then_some(length)
}

/// One command in both forms: what it printed, what it said of errors, and its exit code.
async fn both(house: &House, names: &mut Names, arguments: &[&str]) -> String {
    let plain = house.terminal.show(arguments, "").await;
    let mut with_json = arguments.to_vec();
    with_json.push("--json");
    let json = house.terminal.show(&with_json, "").await;
    assert_eq!(plain.code, json.code, "{arguments:?}: both forms end alike\n{plain:?}\n{json:?}");
    for line in json.out.lines().chain(json.errors.lines().filter(|line| line.starts_with('{'))) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{arguments:?}: not JSON: {line}"));
        assert!(value.is_object(), "{arguments:?}: one object a line, not {line}");
    }
    record(names, arguments, &plain.out, &plain.errors, plain.code) + &record(names, &with_json, &json.out, &json.errors, json.code)
}

/// Of the changes that are told while a program waits only what they are about: the views themselves have golden files of their own.
fn shortened(line: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(line) {
        Ok(value) if value["event"] == "upsert" => format!("{} {} {}", value["seq"], value["type"], value["entity"]["kind"]),
        _ => line.to_owned(),
    }
}

fn record(names: &mut Names, arguments: &[&str], out: &str, errors: &str, code: i32) -> String {
    let out: String = out.lines().flat_map(|line| [shortened(line), "\n".to_owned()]).collect();
    let errors: String = errors.lines().flat_map(|line| ["! ", line, "\n"]).collect();
    names.redact(&format!("$ baton {}\n{out}{errors}= {code}\n\n", arguments.join(" ")))
}

async fn once(house: &House, names: &mut Names, arguments: &[&str], input: &str) -> String {
    let shown = house.terminal.show(arguments, input).await;
    record(names, arguments, &shown.out, &shown.errors, shown.code)
}

fn rules() -> serde_json::Value {
    let asking =
        |file: &str| json!({"calls": [{"name": "run_command", "arguments": {"argv": ["sh", "-c", format!("echo ran >> {file}")]}}]});
    json!([
        rule("greet", 0, json!({"text": "Good day."})),
        rule("read the note", 0, json!({"text": "I look.", "calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]})),
        rule("read the note", 1, json!({"text": "It says milk and bread."})),
        rule("mark", 0, asking("mark.txt")),
        rule("mark", 1, json!({"text": "Marked."})),
        rule("which", 0, json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]})),
        rule("which", 1, json!({"text": "So it is {{last_result}}"})),
        rule("break", 0, json!({"fault": {"status": 401}})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_says_what_it_did_in_both_forms() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let mut names = Names::default();
    names.call(&house.directory.path().canonicalize().expect("a directory").display().to_string(), "directory");
    names.call(&house.hub.url(), "hub");
    names.call(&house.hub.url().replace("http://", ""), "address");
    let commit = crate::support::workspace::git(&house.workspace, &["rev-parse", "HEAD"]);
    names.call(commit.trim(), "commit");
    names.call(&commit[..10], "short commit");
    names.call(std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim(), "machine");
    let mut ready = house.hub.ready.clone();
    for field in ["pid", "device_pid"] {
        assert!(ready[field].is_u64());
        ready[field] = json!(0);
    }
    let mut story = names.redact(&format!("{ready}\n\n"));
    for arguments in [&["sessions"][..], &["devices"], &["brief", "latest"], &["send", "--wait", "--new", "greet"]] {
        story += &both(&house, &mut names, arguments).await;
    }
    let http = house.phone.clone();
    let newest = async || http.sessions(None, None).await.expect("a list").sessions[0].session_id.to_string();
    let session = newest().await;
    names.call(&session, "session");
    for arguments in [
        &["send", "--wait", "--session", &session, "read the note"][..],
        &["sessions"],
        &["show", &session],
        &["brief", &session],
        &["send", "--wait", "--session", &session, "/show absent.txt"],
        &["show", "nonsense"],
        &["approve", "nonsense"],
        &["answer", "nonsense", "x"],
        &["resume", &session],
        &["stop", &session],
        &["take-over", &session],
    ] {
        story += &both(&house, &mut names, arguments).await;
    }
    story += &once(&house, &mut names, &["send", "-", "--wait", "--new"], "greet me,\nfrom standard input\n").await;
    story += &once(&house, &mut names, &["send", "greet, without a session"], "").await;
    house.rest(newest().await.parse().expect("an id")).await;

    // What waits for the user: each way out, once in each form.
    for (arguments, said) in [(&["approve"][..], "mark"), (&["reject"], "mark"), (&["answer"], "which")] {
        for form in [&[][..], &["--json"]] {
            let mut words = vec!["send", "--wait", "--new", said];
            words.extend(form);
            story += &once(&house, &mut names, &words, "").await;
            let session = newest().await.parse().expect("an id");
            let view = house.view(session).await;
            let id = match crate::support::house::open_question(&view) {
                Some(question) => question.id.to_string(),
                None => house.open_approval(session).await.id.to_string(),
            };
            let mut words = [arguments, &[id.as_str()]].concat();
            if said == "which" {
                words.push("blue");
            }
            words.extend(form);
            story += &once(&house, &mut names, &words, "").await;
            house.rest(session).await;
            story += &once(&house, &mut names, &words, "").await;
        }
    }
    story += &once(&house, &mut names, &["send", "--wait", "--new", "break"], "").await;
    let data = house.hub.data.display().to_string();
    story += &once(&house, &mut names, &["user", "add", "Ada", "--data", &data], "").await;
    story += &once(&house, &mut names, &["user", "add", "Grace", "--data", &data, "--json"], "").await;
    story += &once(&house, &mut names, &["devices", "invite", "--trust", "guest"], "").await;
    story += &both(&house, &mut names, &["pair", &house.hub.url()]).await;
    story += &both(&house, &mut names, &["devices", "approve", "AAAA-AAAA"]).await;
    story += &both(&house, &mut names, &["devices", "revoke", "nobody"]).await;
    insta::assert_snapshot!(story);
}

#[tokio::test(flavor = "multi_thread")]
async fn d4_events_go_on_from_a_number_and_follow_until_interrupted() {
    let house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let (session, _) = house.ask("greet").await;
    let id = session.to_string();
    let all = house.terminal.ok(&["events", &id]).await;
    let log = house.log(session).await;
    assert_eq!(all.lines.len(), log.len());
    for (line, change) in all.lines.iter().zip(&log) {
        assert_eq!(*line, serde_json::to_value(change).expect("JSON"));
    }
    let rest = house.terminal.ok(&["events", &id, "--after", "3"]).await;
    assert_eq!(rest.lines, all.lines[3..]);
    let none = house.terminal.ok(&["events", &id, "--after", "100000"]).await;
    assert!(none.lines.is_empty());

    let mut following = house.terminal.start(&["events", &id, "--after", "2", "--follow"]);
    for expected in 3..=log.len() as u64 {
        assert_eq!(following.next().await["seq"], expected);
    }
    house.terminal.ok(&["send", "--session", &id, "--wait", "read the note"]).await;
    let log = house.log(session).await;
    for change in &log[all.lines.len()..] {
        assert_eq!(following.next().await, serde_json::to_value(change).expect("JSON"), "what comes is followed, in order");
    }
    let pid = following.child.id().expect("it runs").to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().is_ok_and(|status| status.success()));
    let ended = following.child.wait().await.expect("it ends");
    assert!(ended.code() == Some(0) || std::os::unix::process::ExitStatusExt::signal(&ended) == Some(2), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_tell_done_from_usage_waiting_failed_and_unreachable() {
    let mut house = House::build(Plan { rules: Some(rules()), ..Plan::default() }).await;
    let rows: [(&[&str], i32); 10] = [
        (&["send", "--new", "--wait", "greet"], 0),
        (&["send"], 2),
        (&["frobnicate"], 2),
        (&["send", "--new", "--session", "x", "greet"], 2),
        (&["show", "nonsense"], 2),
        (&["pair", "not a url"], 2),
        (&["--profile", "../x", "sessions"], 2),
        (&["send", "--new", "--wait", "mark"], 3),
        (&["send", "--new", "--wait", "break"], 4),
        (&["--profile", "unpaired", "sessions"], 4),
    ];
    for (arguments, code) in rows {
        let said = house.terminal.show(arguments, "").await;
        assert_eq!(said.code, code, "{arguments:?}: {said:?}");
        assert!(code == 0 || code == 3 || !said.errors.is_empty() || !said.out.is_empty(), "{arguments:?} says why");
    }
    let too_much = house.terminal.show(&["send", "--new", &"x".repeat(baton_proto::MAX_TEXT_BYTES + 1)], "").await;
    assert_eq!(too_much.code, 2, "refused whole, with the limit named");
    assert!(too_much.errors.contains("32768 is the limit"), "{}", too_much.errors);
    let empty = house.terminal.show(&["send", "--new", "-"], "\n").await;
    assert_eq!(empty.code, 4);
    house.hub.kill().await;
    for arguments in [&["sessions"][..], &["send", "greet"], &["devices"], &["brief", "latest"]] {
        let said = house.terminal.show(arguments, "").await;
        assert_eq!(said.code, 5, "{arguments:?}: {said:?}");
        assert!(said.errors.contains("can't be reached") && said.errors.contains("baton up"), "{}", said.errors);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_no_hidden_character_reaches_the_terminal_in_either_form() {
    const TRAP: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}exe.\u{200b}\r\u{7f}";
    let name = "note\u{1b}[8m\u{202e}.txt";
    let rules = json!([
        rule(
            "trap",
            0,
            json!({"text": TRAP, "thinking": TRAP, "calls": [
            {"name": "list_files", "arguments": {}},
            {"name": "read_file", "arguments": {"path": name}},
            {"name": TRAP, "arguments": {"x": TRAP}},
            {"name": "run_command", "arguments": {"argv": ["sh", "-c", format!("cat './{name}' {TRAP}")]}}]})
        ),
        rule("trap", 4, json!({"calls": [{"name": "ask_user", "arguments": {"question": TRAP, "options": [TRAP, "no"]}}]})),
        rule("trap", 5, json!({"text": TRAP})),
    ]);
    let house = House::build(Plan { rules: Some(rules), ..Plan::default() }).await;
    std::fs::write(house.workspace.join(name), TRAP).expect("a file");
    let (_, guest) = invited(&house.hub, &house.phone, Trust::Guest, "pho\u{fffd}ne", ClientType::Phone).await;
    assert_eq!(guest.trust, Trust::Guest);
    let mut printed = Vec::new();
    let said = format!("trap {TRAP}");
    let mut run = async |arguments: &[&str]| {
        for form in [&[][..], &["--json"]] {
            let shown = house.terminal.show(&[arguments, form].concat(), "").await;
            printed.push((arguments.join(" "), shown));
        }
    };
    let (session, _) = house.ask(&said).await;
    let id = session.to_string();
    run(&["show", &id]).await;
    let open = house.open_approval(session).await;
    run(&["reject", &open.id.to_string()]).await;
    house.open_question(session).await;
    run(&["send", "--session", &id, "--wait", "trap again"]).await;
    for arguments in [
        &["show", &id][..],
        &["events", &id],
        &["brief", &id],
        &["snapshot", &id],
        &["sessions"],
        &["devices"],
        &["show", TRAP],
        &["take-over", &id],
    ] {
        run(arguments).await;
    }
    for (command, shown) in &printed {
        for text in [&shown.out, &shown.errors] {
            let hidden: Vec<_> = text.lines().filter(|line| baton_proto::make_visible(line) != *line).collect();
            assert!(hidden.is_empty(), "{command}: {hidden:?}");
        }
    }
    let all: String = printed.iter().map(|(_, shown)| shown.out.as_str()).collect();
    assert!(all.contains("⟨U+001B⟩") && all.contains("\\u001b"), "what was hidden is shown as such");
}

#[tokio::test(flavor = "multi_thread")]
async fn h2_a_snapshot_stays_within_its_bound_and_a_brief_is_short() {
    let long = "long words ".repeat(1800);
    let rules = (0..8).flat_map(|n| {
        let note = json!({"calls": [{"name": "note", "arguments": {"key": format!("k{n}"), "value": "v".repeat(900)}}]});
        [rule(&format!("part {n}"), 0, note), rule(&format!("part {n}"), 1, json!({"text": long}))]
    });
    let house = House::build(Plan { rules: Some(rules.collect()), ..Plan::default() }).await;
    let (session, said) = house.ask("part 0").await;
    assert_eq!(said.code, 0, "{}", said.errors);
    for n in 1..8 {
        house.terminal.ok(&["send", "--session", &session.to_string(), "--wait", &format!("part {n}")]).await;
    }
    let id = session.to_string();
    let snapshot = house.terminal.ok(&["snapshot", &id]).await;
    let bytes = serde_json::to_vec(&snapshot.lines[0]).expect("JSON").len();
    assert!((1000..=baton_proto::MAX_SNAPSHOT_BYTES).contains(&bytes), "{bytes}");
    assert!(snapshot.lines[0]["omitted"].as_object().is_some_and(|omitted| !omitted.is_empty()), "what was left out is counted");
    let brief = house.terminal.ok(&["brief", &id]).await;
    assert!(serde_json::to_vec(&brief.lines[0]).expect("JSON").len() <= baton_proto::MAX_BRIEF_BYTES);
    let other = Terminal::named(house.directory.path(), "other");
    house.pair(&other, "couch", Trust::Trusted).await;
    assert_eq!(other.ok(&["snapshot", &id]).await.lines[0]["version"], snapshot.lines[0]["version"]);
}
