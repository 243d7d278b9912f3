//! Conversations in a terminal, by a person who types.

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, messages, session_of};
use crate::window::Window;
use baton_proto::{Role, Trust};
use serde_json::json;

const ESCAPE: &str = "\u{1b}";
const CONTROL_C: &str = "\u{3}";
const CONTROL_D: &str = "\u{4}";

fn touching(file: &str) -> serde_json::Value {
    json!([{"name": "run_command", "arguments": {"argv": ["touch", file]}}])
}

/// The screen without what differs from run to run.
fn redacted(house: &House, shown: &str) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let workspace = house.workspace.canonicalize().expect("a workspace");
    let shown = match shown.split_once("exit status 0 after ").and_then(|(before, after)| Some((before, after.split_once(" s\n")?.1))) {
        Some((before, after)) => format!("{before}exit status 0 after ‹time›\n{after}"),
        None => shown.to_owned(),
    };
    shown.replace(workspace.to_str().expect("a path"), "‹workspace›").replace(&format!("on {},", machine.trim()), "on ‹machine›,")
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_whole_conversation_in_a_terminal_with_an_approval_steering_and_an_interruption() {
    let rules = json!([
        rule("wine", 0, json!({"text": "Wine too."})),
        rule("wine", 1, json!({"text": "Wine too."})),
        rule("文件", 0, json!({"thinking": "想一想。", "text": "我来做。", "calls": touching("文件")})),
        rule("文件", 1, json!({"text": "完成, it is there."})),
        rule(
            "slowly",
            0,
            json!({"text": "This is said slowly, word by word, so that there is time to say something.", "delay_ms": 250, "calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]})
        ),
        rule("slowly", 1, json!({"text": "Only milk."})),
        rule("hang", 0, json!({"fault": "hang"})),
    ]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (30, 100));
    window.sees("Ctrl+D leaves").await;

    // Wide characters fill two columns, and one key takes one away.
    window.press("touch 文件件");
    window.sees("> touch 文件件").await;
    assert_eq!(window.cursor().1, 14);
    window.press("\u{7f}");
    window.until("one character less", |shown| shown.ends_with("> touch 文件")).await;
    assert_eq!(window.cursor().1, 12);
    window.press("\r");
    window.sees("想一想。").await;

    // The card is answered in place.
    window.sees("y once").await;
    let card = window.shown();
    assert!(card.contains("● May this run? run_command [sensitive:") && card.contains("touch 文件"), "{card}");
    window.press("y");
    window.sees("完成, it is there.").await;
    window.sees("resting").await;
    assert!(house.workspace.join("文件").exists());

    // What is typed while the agent works is read at its next step.
    window.press("slowly please\r");
    window.sees("This is said").await;
    window.press("and wine\r");
    window.sees("read at the next step: and wine").await;
    window.sees("Wine too.").await;
    window.sees("resting").await;

    // Escape stops the agent.
    window.press("hang\r");
    window.sees("Esc stops").await;
    window.press(ESCAPE);
    window.sees("(stopping)").await;
    window.sees("resting").await;

    window.resize(24, 80);
    window.press("a line of 文字 that is longer than eighty columns and goes on in a second row of its own");
    window.sees("its own").await;
    insta::assert_snapshot!("a_whole_conversation", redacted(&house, &window.shown()));
    let all = window.everything();
    for said in ["我来做。", "✓ run_command", "This is said slowly, word by word", "Wine too.", "(stopping)"] {
        assert_eq!(all.matches(said).count(), 1, "'{said}' stands in the scrollback once:\n{all}");
    }
    window.press(CONTROL_C);
    window.until("an empty line", |shown| shown.ends_with('>')).await;
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_card_never_takes_a_key_from_a_line_and_escape_only_sets_it_aside() {
    let rules = json!([
        rule("touch", 0, json!({"text": "Now.", "delay_ms": 100, "calls": touching("made")})),
        rule("touch", 1, json!({"text": "So not."})),
    ]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (24, 80));
    window.sees("Ctrl+D leaves").await;
    window.press("touch it\r");
    window.sees("you (desk): touch it").await;
    window.press("yes, and");
    window.sees("● May this run?").await;
    window.sees("its keys work once this line is sent or empty").await;
    window.press("y");
    window.sees("> yes, andy").await;
    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    let approval = house.open_approval(session).await;
    window.press("\u{15}");
    window.sees("y once").await;
    window.press(ESCAPE);
    window.sees("1 set aside").await;
    assert_eq!(house.open_approval(session).await.id, approval.id, "it is open still");
    window.press("/cards\r");
    window.sees("y once").await;

    // No, with a reason that the agent reads.
    window.press("r");
    window.sees("why not>").await;
    window.press("not today\r");
    window.sees("(refused on desk)").await;
    window.sees("So not.").await;
    assert!(!house.workspace.join("made").exists());
    assert!(house.model().requests().iter().any(|request| format!("{request:?}").contains("not today")), "the reason is read");
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_what_is_typed_without_a_hub_is_sent_once_when_it_is_back() {
    let house = House::with_model(json!([rule("later", 0, json!({"text": "Heard."}))])).await;
    let mut house = house;
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (24, 80));
    window.sees("Ctrl+D leaves").await;
    house.hub.kill().await;
    window.sees("no link to the hub").await;
    window.press("later \u{1b}[200~two\rlines\u{1b}[201~\r");
    window.sees("1 to be sent").await;
    house.hub.start().await;
    window.sees("Heard.").await;
    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    let said = messages(&house.view(session).await);
    assert_eq!(said.iter().filter(|(role, text)| *role == Role::User && text == "later two\nlines").count(), 1, "{said:?}");
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_session_is_handed_from_one_terminal_to_another_that_accepts_in_place() {
    let house = House::with_model(json!([rule("begin", 0, json!({"text": "Begun."}))])).await;
    let other = Terminal::named(house.directory.path(), "other");
    house.pair(&other, "couch", Trust::Trusted).await;
    let (session, _) = house.ask("begin").await;
    let mut window = Window::open(&other, &["chat", "--session", &session.to_string()], (24, 80));
    window.sees("held by desk").await;
    let mut offering = house.terminal.start(&["handoff", "couch"]);
    offering.event("offered").await;
    window.sees("● desk offers you this session.").await;
    window.sees("y accept").await;
    window.press("y");
    offering.event("handed_over").await;
    window.sees("(this terminal has the session now)").await;
    assert_eq!(session_of(&house.view(session).await).holder.map(|id| id.to_string()), Some(other.known("device_id")));

    // A second offer is declined, and then the session is given up.
    let mut back = Window::open(&house.terminal, &["chat", "--session", &session.to_string()], (24, 80));
    back.sees("held by couch").await;
    let refused = tokio::spawn({
        let other = other.clone();
        async move { other.run(&["handoff", "desk"]).await }
    });
    back.sees("y accept").await;
    back.press("n");
    let refused = refused.await.expect("it runs");
    assert_eq!(refused.code, 4, "{refused:?}");
    refused.event("declined");
    other.ok(&["release"]).await;
    assert_eq!(session_of(&house.view(session).await).holder, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_pipe_is_sent_to_another_command_and_shells_get_completions() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let terminal = Terminal::new(directory.path());
    let piped = terminal.show(&["chat"], "hello\n").await;
    assert!(piped.code == 2 && piped.errors.contains("baton send"), "{piped:?}");
    for shell in ["bash", "zsh", "fish"] {
        let completions = terminal.show(&["completions", shell], "").await;
        assert!(completions.code == 0 && completions.out.contains("take-over"), "{completions:?}");
    }
    let page = terminal.show(&["man"], "").await;
    assert!(page.code == 0 && page.out.contains(".TH baton") && page.out.contains("handoff"), "{page:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_s19_cards_show_all_of_it_on_request_and_dangerous_ones_ask_once_more() {
    let lines: Vec<String> = (1..=40).map(|line| format!("line {line}\n")).collect();
    let long = json!([{"name": "run_command", "arguments": {"argv": ["printf", lines.concat()]}}]);
    let rules = json!([
        rule("long", 0, json!({"calls": long})),
        rule("long", 1, json!({"text": "Printed."})),
        rule(
            "which",
            0,
            json!({"calls": [{"name": "ask_user", "arguments": {"question": "Which one? \u{202e}der", "options": ["red", "blue"]}}]})
        ),
        rule("which", 1, json!({"text": "Blue then."})),
        rule("delete", 0, json!({"calls": [{"name": "delete_file", "arguments": {"path": "note.txt"}}]})),
        rule("delete", 1, json!({"text": "Gone."})),
    ]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (24, 80));
    window.sees("Ctrl+D leaves").await;
    window.press("long\r");
    window.sees("more lines: v shows all").await;
    window.sees("y once").await;
    assert!(!window.everything().contains("line 40"));
    // Nobody allows what was not shown to its end: the key shows it first.
    window.press("y");
    window.sees("That is all of what would run").await;
    assert!(window.everything().contains("line 40"));
    let session = house.terminal.ok(&["sessions"]).await.event("session")["session_id"].as_str().expect("an id").parse().expect("an id");
    assert_eq!(crate::support::house::open_approvals(&house.view(session).await).len(), 1, "nothing was allowed yet");
    // A key that is held down hasn't read it: for a moment none of them acts.
    window.sees("y once").await;
    window.press("v");
    window.press("a");
    window.sees("1 printf …").await;
    window.press("1");
    window.sees("Printed.").await;
    let listed = house.terminal.ok(&["rules"]).await;
    assert_eq!(listed.event("rule")["pattern"]["words"], json!(["printf"]));

    window.press("which\r");
    window.sees("1 to 2 chooses").await;
    assert!(window.shown().contains("Which one? ⟨U+202E⟩der"), "{}", window.shown());
    window.press("2");
    window.sees("(answered on desk: blue)").await;
    window.sees("Blue then.").await;

    window.press("delete\r");
    window.sees("y allow, asks once more").await;
    window.press("y");
    window.sees("Type yes and press Enter").await;
    window.press("no\r");
    window.sees("only the word yes does").await;
    assert_eq!(house.file("note.txt"), "milk and bread\n");
    window.press("yes\r");
    window.sees("Gone.").await;
    assert!(!house.workspace.join("note.txt").exists());
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn d9_tab_after_an_at_sign_completes_paths_of_the_workspace() {
    let house = House::build(crate::support::house::Plan::default()).await;
    house.hands().await;
    std::fs::create_dir(house.workspace.join("文档")).expect("a directory");
    for name in ["文档/my notes.txt", "文档/说明.md"] {
        std::fs::write(house.workspace.join(name), "x").expect("a file");
    }
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (30, 100));
    window.sees("Ctrl+D leaves").await;
    window.press("see @pag\t");
    window.sees("> see @page.html").await;
    window.press(" and @说\t");
    window.sees("> see @page.html and @文档/说明.md").await;
    window.press(" and @my\t");
    window.sees("@\"文档/my notes.txt\"").await;
    // Of several, the best comes first and the others take their turn.
    window.press("\u{15}@文\t");
    window.sees("(Tab: the next)").await;
    window.sees("> @文档/").await;
    window.press("\t");
    window.until("another one", |shown| shown.lines().any(|line| line.starts_with("> @文档/") && line.len() > "> @文档/".len())).await;
    window.press("\u{15}@nothing-like-it\t");
    window.sees("No path of the workspace fits").await;
}
