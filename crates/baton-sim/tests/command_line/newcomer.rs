//! What somebody meets who uses the terminal for the first time: refusals that say why, output that is shown, names that are understood.

use crate::rule;
use crate::support::command::Terminal;
use crate::support::house::{House, Plan, invited};
use crate::support::program;
use crate::window::Window;
use baton_proto::{ClientType, Trust};
use serde_json::json;
use std::process::{Command, Stdio};

const CONTROL_C: &str = "\u{3}";
const CONTROL_D: &str = "\u{4}";
const CONTROL_U: &str = "\u{15}";

async fn without_a_model() -> House {
    let house = House::build(Plan::default()).await;
    house.hands().await;
    house
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_what_the_hub_refuses_for_now_says_why_and_lets_the_rest_go_past_it() {
    let mut house = without_a_model().await;
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (30, 100));
    window.sees("Ctrl+D leaves").await;
    window.press("hello\r");
    window.sees("Not sent: No model is configured").await;
    window.sees("> hello").await;
    window.press(CONTROL_C);
    window.until("an empty line", |shown| shown.ends_with('>')).await;
    window.press("/find milk\r");
    window.sees("note.txt").await;

    // While something else is written, it waits on a card; what is said then isn't held up by it.
    house.hub.kill().await;
    window.sees("no link to the hub").await;
    window.press("hello again\rsomething else");
    window.sees("> something else").await;
    house.hub.start().await;
    window.sees("● Not sent yet: hello again").await;
    window.press(CONTROL_U);
    window.sees("y send it all the same").await;
    window.press("/find bread\r");
    window.until("it is found", |shown| shown.matches("/find bread").count() == 1 && shown.ends_with('>')).await;
    window.press("/retry\r");
    window.sees("> hello again").await;
    window.press(CONTROL_U);
    window.until("an empty line", |shown| shown.ends_with('>')).await;
    window.press("/discard\r");
    window.sees("Nothing waits here").await;
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h12_two_terminals_talk_in_one_session_and_what_one_left_is_sent_by_the_next() {
    let mut house = without_a_model().await;
    house.terminal.ok(&["send", "--new", "--wait", "/find milk"]).await;
    let mut first = Window::open(&house.terminal, &["chat"], (24, 80));
    first.sees("Ctrl+D leaves").await;
    let mut second = Window::open(&house.terminal, &["chat"], (24, 80));
    second.sees("Ctrl+D leaves").await;
    house.hub.kill().await;
    second.sees("no link to the hub").await;
    second.press("/find bread\r");
    second.sees("1 to be sent").await;
    for mut window in [second, first] {
        window.press(CONTROL_D);
        assert_eq!(window.code().await, 0);
    }
    house.hub.start().await;
    house.hands().await;
    let mut third = Window::open(&house.terminal, &["chat"], (24, 80));
    third.sees("you (desk): /find bread").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_failing_command_shows_what_it_printed() {
    let failing =
        json!([{"name": "run_command", "arguments": {"argv": ["sh", "-c", "seq 1 40; echo from the agent; exit 3"], "directory": ""}}]);
    let rules = json!([rule("fail", 0, json!({"calls": failing})), rule("fail", 1, json!({"text": "It failed."}))]);
    let house = House::with_model(rules).await;
    house.hands().await;
    let own = house.terminal.show(&["send", "--new", "--wait", "/run sh -c 'echo told; exit 3'"], "").await;
    assert!(own.code == 4 && own.out.contains("\ntold"), "{own:?}");
    assert!(own.out.contains("run_command sh -c 'echo told; exit 3'"), "its words can be told apart: {own:?}");
    let shown = house.terminal.show(&["show"], "").await;
    assert!(shown.out.contains("\ntold"), "{shown:?}");

    let (session, _) = house.ask("fail").await;
    let open = house.open_approval(session).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house.rest(session).await;
    let shown = house.terminal.show(&["show"], "").await;
    assert!(shown.out.contains("    from the agent") && !shown.out.contains("\n    1\n"), "its last rows: {shown:?}");
    assert!(shown.out.contains("lines before this]") && !shown.out.contains("directory="), "{shown:?}");
    assert!(shown.out.lines().all(|line| line.trim_end() == line), "no spaces at the ends: {shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_output_that_cannot_be_written_is_a_failure_and_a_reader_that_is_gone_is_none() {
    for arguments in [&["completions", "bash"][..], &["man"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        let output = Command::new(program("baton")).args(arguments).stdout(full).stderr(Stdio::piped()).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(4) && errors.contains("can't be written"), "{arguments:?}: {output:?}");

        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(program("baton")).args(arguments).stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_a_refused_message_leaves_no_empty_session_and_says_what_to_do() {
    let house = without_a_model().await;
    house.terminal.ok(&["send", "--new", "--wait", "/find milk"]).await;
    for (said, hint) in
        [("hello", "--model-url"), ("/nonsense", "Write one of these"), ("/run", "Write it like that"), ("", "Write something")]
    {
        let refused = house.terminal.show(&["send", "--new", said], "").await;
        assert!(refused.code == 4 && refused.errors.contains(hint), "{said}: {refused:?}");
        assert!(!refused.errors.contains("protocol.md"), "{said}: {refused:?}");
    }
    let listed = house.terminal.show(&["sessions"], "").await;
    assert!(listed.out.lines().count() == 1 && listed.out.contains("/find milk"), "{listed:?}");

    // One that was opened elsewhere is passed over, too.
    let mut window = Window::open(&house.terminal, &["chat", "--new"], (24, 80));
    window.sees("Ctrl+D leaves").await;
    let shown = house.terminal.show(&["show"], "").await;
    assert!(shown.out.contains("/find milk"), "{shown:?}");
    window.press(CONTROL_D);
    assert_eq!(window.code().await, 0);
    assert_eq!(house.terminal.show(&["sessions"], "").await.out.lines().count(), 1, "nothing was said in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_device_is_found_by_its_kind_and_by_a_part_of_its_name() {
    let house = House::build(Plan::default()).await;
    house.terminal.ok(&["devices", "rename", "Phone", "My telephone"]).await;
    house.terminal.ok(&["devices", "rename", "phone", "My own"]).await;
    house.terminal.ok(&["devices", "rename", "own", "Mine"]).await;
    let (_, other) = invited(&house.hub, &house.phone, Trust::Standard, "Old", ClientType::Phone).await;
    let several = house.terminal.show(&["devices", "revoke", "phone"], "").await;
    assert_eq!(several.code, 2);
    assert!(several.errors.contains(&other.device_id.to_string()) && several.errors.contains("Mine"), "{several:?}");
    house.terminal.ok(&["devices", "revoke", "old"]).await;
    let none = house.terminal.show(&["devices", "revoke", "nobody"], "").await;
    assert_eq!(none.code, 2, "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_options_are_answered_by_their_number_and_states_are_told_in_words() {
    let asked = json!([{"name": "ask_user", "arguments": {"question": "Which one?", "options": ["red", "blue"]}}]);
    let rules = json!([rule("which", 0, json!({"calls": asked})), rule("which", 1, json!({"text": "{{last_result}}"}))]);
    let house = House::with_model(rules).await;
    let (session, _) = house.ask("which").await;
    let question = house.open_question(session).await;
    let shown = house.terminal.show(&["show"], "").await;
    assert!(shown.code == 3 && shown.out.contains("    1 red\n    2 blue\n"), "{shown:?}");
    assert!(shown.out.contains("waits for you") && !shown.out.contains("Awaiting") && !shown.out.contains("WaitingUser"), "{shown:?}");
    house.terminal.ok(&["answer", &question.id.to_string(), "2"]).await;
    let view = house.rest(session).await;
    assert!(format!("{view:?}").contains("blue"), "the option was chosen");
    let answered = view.entities.iter().find_map(|entity| match entity {
        baton_proto::EntityView::Question(question) => question.answer.clone(),
        _ => None,
    });
    assert_eq!(answered.as_deref(), Some("blue"));
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_diff_and_undo_mean_the_same_change_of_a_slash_command() {
    let house = without_a_model().await;
    house.terminal.ok(&["send", "--new", "--wait", "/replace note.txt milk wine"]).await;
    let diff = house.terminal.show(&["diff"], "").await;
    assert!(diff.out.contains("+wine"), "{diff:?}");
    let undone = house.terminal.show(&["undo"], "").await;
    assert!(undone.code == 0 && undone.out.contains("note.txt"), "{undone:?}");
    assert_eq!(house.file("note.txt"), "milk and bread\n");
    let diff = house.terminal.show(&["diff"], "").await;
    assert!(diff.out.contains("No recorded change is left") && diff.out.contains("the changes of 1 call]"), "{diff:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_commands_mean_the_newest_session_and_take_the_hub_either_way() {
    let house = without_a_model().await;
    house.terminal.ok(&["send", "--workspace", "project", "--wait", "/find milk"]).await;
    for command in ["show", "brief", "events", "snapshot", "export", "take-over"] {
        let terminal = house.terminal.standing_in(house.directory.path());
        assert_eq!(terminal.show(&[command], "").await.code, 0, "{command}");
    }
    let unknown = house.terminal.show(&["send", "--workspace", "nowhere", "hello"], "").await;
    assert!(unknown.code == 2 && unknown.errors.contains("Known are: project"), "{unknown:?}");
    let nowhere = Terminal::named(house.directory.path(), "nowhere");
    let away = nowhere.show(&["pair", "--hub", "http://127.0.0.1:9"], "").await;
    assert_eq!(away.code, 5, "{away:?}");
    assert!(away.errors.contains("nothing answers at its address") && !away.errors.contains("tcp connect"), "{away:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_interrupted_waiting_says_that_the_work_goes_on() {
    let house = House::with_model(json!([rule("hang", 0, json!({"fault": "hang"}))])).await;
    let mut window = Window::open(&house.terminal, &["send", "--new", "--wait", "hang"], (24, 120));
    window.sees("you (desk): hang").await;
    window.press(CONTROL_C);
    window.sees("The agent goes on").await;
    window.sees("baton chat --session").await;
    assert_eq!(window.code().await, 130);
}
