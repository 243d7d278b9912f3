//! The road: a task begun on a phone goes on in the terminal, through any crash. The built binary, a scripted model over HTTP, a real
//! Chromium at phone size, and the command line; hub, device and a second device are killed at instants chosen by a seed, and what is left
//! is compared with an undisturbed run: files, answers, each end's stream against the log, and an outside record of effects.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::{ChangeEntry, Http, Token};
use baton_proto::{EntityView, Phase, Role, SessionId, SessionView, WorkState};
use baton_sim::ledger::Ledger;
use baton_sim::scripted_model::{Script, ScriptedModel};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::Seeded;
use support::browser::Browser;
use support::command::Terminal;
use support::hub::{Hub, code_of, confirm, ledger_device};
use support::workspace::admin_template;
use tokio::process::Child;

/// What is said in a language, and what the agent is scripted to answer.
struct Words {
    locale: &'static str,
    first: &'static str,
    second: &'static str,
    first_done: &'static str,
    second_done: &'static str,
}

const ENGLISH: Words = Words {
    locale: "en-US",
    first: "set the home page button's corner radius to 8px, and check whether the contrast is good enough in dark mode",
    second: "do the table page in the same style",
    first_done: "The home page button has a corner radius of 8px, and its contrast is good enough in dark mode.",
    second_done: "The table page's button has the same corner radius of 8px.",
};

const CHINESE: Words = Words {
    locale: "zh-CN",
    first: "把首页按钮的圆角改成 8px,并检查深色模式下的对比度是否足够",
    second: "表格页也用同样的风格",
    first_done: "首页按钮的圆角已改为 8px,深色模式下对比度足够。",
    second_done: "表格页的按钮已使用同样的 8px 圆角。",
};

const BUTTON: &str = r#"<button class="btn btn-primary" id="btnNavbarSearch" type="button">"#;
const ROUNDED: &str = r#"<button class="btn btn-primary" id="btnNavbarSearch" type="button" style="border-radius: 8px">"#;

/// The agent's part. Each answer follows from the request alone, so that a repeated request is answered in the same way. The second task
/// knows the radius from the first one's state only: its rule doesn't match without the fact.
fn script(words: &Words) -> Script {
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let rule = |user: &str, results: usize, reply: Value| json!({"when": {"last_user_contains": user, "results": results}, "reply": reply});
    let rules = json!([
        rule(words.first, 0, json!({"thinking": "Two steps.", "text": "…", "calls": [
            call("set_plan", json!({"steps": [{"id": "radius", "title": "Radius"}, {"id": "contrast", "title": "Contrast", "depends_on": ["radius"]}]})),
            call("start_step", json!({"step_id": "radius"})),
            call("find_text", json!({"pattern": "btnNavbarSearch", "path": "index.html", "literal": true}))]})),
        rule(words.first, 3, json!({"calls": [
            call("read_file", json!({"path": "index.html", "start_line": 15, "end_line": 30})),
            call("edit_file", json!({"path": "index.html", "old_text": BUTTON, "new_text": ROUNDED})),
            call("record_fact", json!({"key": "button.corner_radius", "value": "8px", "scope": "session", "source": "the user"}))]})),
        rule(words.first, 6, json!({"calls": [
            call("finish_step", json!({"step_id": "radius", "conclusion": "8px", "product": "index.html"})),
            call("start_step", json!({"step_id": "contrast"})),
            call("run_command", json!({"argv": ["sh", "-c", "sleep 1; echo checked >> contrast.txt; grep -c btn-primary index.html"]}))]})),
        rule(words.first, 9, json!({"calls": [call("record_entry", json!({"text": "contrast checked"}))]})),
        rule(words.first, 10, json!({"calls": [
            call("finish_step", json!({"step_id": "contrast", "conclusion": "good enough"})),
            call("finish_task", json!({"summary": words.first_done}))]})),
        {"when": {"last_user_contains": words.second, "results": 0, "system_contains": ["button.corner_radius = 8px"]}, "reply": {"calls": [
            call("read_file", json!({"path": "tables.html", "start_line": 15, "end_line": 30})),
            call("edit_file", json!({"path": "tables.html", "old_text": BUTTON, "new_text": ROUNDED}))]}},
        rule(words.second, 2, json!({"calls": [call("finish_task", json!({"summary": words.second_done}))]})),
    ]);
    serde_json::from_value(rules).expect("the script can be read")
}

/// Who is killed when the session's log has reached that length.
#[derive(Clone, Copy, Debug)]
struct Kill {
    at: u64,
    whom: Whom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Hub,
    Device,
    Both,
    Ledger,
}

/// What a run leaves behind.
#[derive(Debug, PartialEq)]
struct Left {
    files: Vec<(String, String)>,
    answers: Vec<String>,
    entries: Vec<String>,
    facts: Vec<String>,
}

struct World {
    directory: PathBuf,
    workspace: PathBuf,
    hub: Hub,
    ledger: Ledger,
    ledger_device: Option<Child>,
    model: ScriptedModel,
    browser: Browser,
    terminal: Terminal,
    kills: Vec<Kill>,
}

impl World {
    async fn start(directory: &Path, words: &Words, kills: Vec<Kill>) -> Self {
        let model = ScriptedModel::start(script(words)).await.expect("the scripted model starts");
        let ledger = Ledger::start(Duration::from_millis(300)).await.expect("the ledger starts");
        let workspace = admin_template(directory);
        let hub = Hub::up(directory, &workspace, Some(&model.url())).await;
        let terminal = Terminal::new(directory);
        let mut browser = Browser::open(390, 844, words.locale);
        browser.goto(&hub.owner_link()).await;
        browser.wait("pair-name", json!({})).await;
        browser.picture(&format!("phone-{}-1-pairing", words.locale)).await;
        browser.fill("pair-name", "Phone").await;
        browser.click("pair-start").await;
        browser.wait("composer", json!({})).await;
        Self { directory: directory.to_owned(), workspace, hub, ledger, ledger_device: None, model, browser, terminal, kills }
    }

    /// A terminal is paired with a code that the phone approves; through it the ledger's device comes in too.
    async fn pair_terminal(&mut self) {
        let url = self.hub.url();
        let mut pairing = self.terminal.start(&["pair", &url, "--name", "desk"]);
        let code = code_of(&mut pairing).await;
        self.browser.click("devices").await;
        self.browser.click("approve-device").await;
        self.browser.fill("approve-code", &code).await;
        self.browser.click("approve-check").await;
        self.browser.wait_text("pairing-preview", json!({}), "desk").await;
        self.browser.click("approve-as-trusted").await;
        pairing.event("paired").await;
        let invitation = self.terminal.ok(&["devices", "invite"]).await;
        let link = invitation.event("invitation")["url"].as_str().expect("a link").to_owned();
        let secret = link.split("invite=").nth(1).expect("a secret").to_owned();
        self.ledger_device = Some(ledger_device(&self.hub, &self.directory, self.ledger.url(), Some(&secret)));
        let http = self.http();
        confirm(&http).await;
        until("the ledger's device is connected", || async {
            http.devices().await.is_ok_and(|all| all.iter().any(|device| device.name == "ledger" && device.online))
        })
        .await;
    }

    fn http(&self) -> Http {
        let profile = std::fs::read(self.directory.join("terminal/baton/profiles/default.json")).expect("a profile");
        let profile: Value = serde_json::from_slice(&profile).expect("JSON");
        let token = Token::new(profile["token"].as_str().expect("a token")).expect("a token");
        Http::new(self.hub.url().parse().expect("an address"), Some(token)).expect("a client")
    }

    /// Plays the human at the phone, and death, until the session rests with its task done.
    async fn see_through(&mut self, session: SessionId) -> SessionView {
        let http = self.http();
        let end = tokio::time::Instant::now() + Duration::from_mins(2);
        loop {
            assert!(
                tokio::time::Instant::now() < end,
                "the task isn't done: {:#?}",
                http.session(session).await.map(|view| timeline(&view))
            );
            // Between two looks the world goes on; nothing is asserted about how long anything takes.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let Ok(view) = http.session(session).await else { continue };
            if let Some(position) = self.kills.iter().position(|kill| kill.at <= view.seq) {
                let kill = self.kills.remove(position);
                self.carry_out(kill).await;
                continue;
            }
            match entity_state(&view) {
                WorkState::AwaitingInput => self.answer(&view).await,
                WorkState::Completed if active_phase(&view) == Some(Phase::Done) => return view,
                _ => {}
            }
        }
    }

    async fn carry_out(&mut self, kill: Kill) {
        match kill.whom {
            Whom::Hub => self.hub.kill().await,
            Whom::Device => self.hub.kill_device(),
            Whom::Both => {
                self.hub.kill_device();
                self.hub.kill().await;
            }
            Whom::Ledger => {
                if let Some(mut device) = self.ledger_device.take() {
                    device.kill().await.expect("it can be killed");
                }
                self.ledger_device = Some(ledger_device(&self.hub, &self.directory, self.ledger.url(), None));
            }
        }
        if matches!(kill.whom, Whom::Hub | Whom::Both) {
            self.hub.start().await;
        }
    }

    /// What a person would do: allow what is asked, and look before saying what became of an interrupted command.
    async fn answer(&mut self, view: &SessionView) {
        let open = |entity: &&EntityView| match entity {
            EntityView::Approval(approval) => approval.state == baton_proto::ApprovalState::Open,
            EntityView::Question(question) => question.state == baton_proto::QuestionState::Open,
            _ => false,
        };
        let command = match view.entities.iter().find(open) {
            Some(EntityView::Approval(_)) => json!({"do": "click", "id": "approve", "timeout": 3000}),
            Some(EntityView::Question(_)) => {
                let happened = self.workspace.join("contrast.txt").exists();
                json!({"do": "click", "id": "question-option", "attributes": {"option": if happened { "happened" } else { "do_it" }}, "timeout": 3000})
            }
            _ => return,
        };
        // The phone may be reconnecting at this moment; then the next look tries again.
        let _ = self.browser.attempt(command).await;
    }

    fn left(&self, view: &SessionView) -> Left {
        let read = |name: &str| (name.to_owned(), std::fs::read_to_string(self.workspace.join(name)).unwrap_or_default());
        let answers = view.entities.iter().filter_map(|entity| match entity {
            EntityView::Message(message) if message.role == Role::Agent => Some((message.created_seq, message.text.clone())),
            _ => None,
        });
        let mut answers: Vec<_> = answers.collect();
        answers.sort();
        let facts = view.entities.iter().filter_map(|entity| match entity {
            EntityView::Fact(fact) => Some(format!("{} = {}", fact.key, fact.value)),
            _ => None,
        });
        Left {
            files: ["index.html", "tables.html", "contrast.txt"].map(read).to_vec(),
            answers: answers.into_iter().map(|(_, text)| text).collect(),
            entries: self.ledger.entries().into_iter().map(|entry| entry.text).collect(),
            facts: facts.collect(),
        }
    }

    /// The phone's stream of changes is the log: no gap, no repeat, and nothing out of order, over every reconnection (C17).
    async fn phone_saw_the_log(&mut self, session: SessionId) {
        let http = self.http();
        let mut log = Vec::new();
        loop {
            let page = http.events(session, log.len() as u64, Some(500)).await.expect("the log can be read");
            if page.changes.is_empty() {
                break;
            }
            log.extend(page.changes.iter().map(|entry| match entry {
                ChangeEntry::Known(change) => (change.seq, baton_proto::EventBody::name(&change.event.body).to_owned()),
                ChangeEntry::Unknown(change) => panic!("unknown event {}", change.seq),
            }));
        }
        let head = log.len() as u64;
        let mut last = 0;
        for _ in 0..100 {
            let seen = self.browser.act(json!({"do": "changes"})).await;
            let seen: Vec<_> =
                seen.as_array().expect("a list").iter().filter(|change| change["session_id"] == session.to_string()).cloned().collect();
            last = 0;
            for change in &seen {
                let seq = change["seq"].as_u64().expect("a number");
                if change["type"] == "(view)" {
                    assert!(seq >= last, "the phone was shown an older view: {seq} after {last}");
                } else {
                    assert_eq!(seq, last + 1, "the phone's stream has a gap or a repeat");
                    assert_eq!(change["type"], log[usize::try_from(seq).expect("small") - 1].1, "event {seq}");
                }
                last = seq;
            }
            if last == head {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(last, head, "the phone doesn't catch up");
    }
}

/// One whole conversation: the first task from the phone, the second from the terminal.
async fn converse(words: &Words, kills: Vec<Kill>) -> (Left, u64) {
    let mut directory = tempfile::tempdir().expect("a directory");
    // A failed run's data and logs can be looked at with BATON_KEEP=1.
    directory.disable_cleanup(std::env::var_os("BATON_KEEP").is_some());
    eprintln!("in {}", directory.path().display());
    let mut world = World::start(directory.path(), words, kills).await;
    world.pair_terminal().await;
    world.browser.act(json!({"do": "press", "key": "Escape"})).await;
    world.browser.fill("composer", words.first).await;
    world.browser.click("send").await;
    world.browser.wait("message", json!({"role": "user"})).await;
    let http = world.http();
    let session = http.sessions(None, Some(1)).await.expect("a list").sessions[0].session_id;
    let first = world.see_through(session).await;
    world.browser.wait_text("message", json!({"role": "agent"}), words.first_done).await;
    world.browser.picture(&format!("phone-{}-2-done", words.locale)).await;
    assert!(world.browser.count("plan-step", json!({"status": "done"})).await >= 2, "the plan is shown with its steps ticked off");
    assert_eq!(
        first_task_calls(&first),
        [
            "edit_file",
            "find_text",
            "finish_step",
            "finish_step",
            "finish_task",
            "read_file",
            "record_entry",
            "record_fact",
            "run_command",
            "set_plan",
            "start_step",
            "start_step"
        ]
    );

    let sent = world.terminal.ok(&["send", words.second, "--session", &session.to_string()]).await;
    assert_eq!(sent.event("sent")["epoch"], 2, "the terminal took the session over");
    let second = world.see_through(session).await;
    world.browser.wait("holder", json!({"self": "false"})).await;
    world.browser.wait_text("message", json!({"role": "agent"}), words.second_done).await;
    world.browser.picture(&format!("phone-{}-3-following", words.locale)).await;
    world.phone_saw_the_log(session).await;
    assert_eq!(world.browser.act(json!({"do": "troubles"})).await, json!([]), "the page reported errors");
    let unanswered = world.model.unanswered();
    assert!(unanswered.is_empty(), "the model was asked something that its script doesn't know: {unanswered:#?}");
    let stuck: Vec<_> = timeline(&second)
        .into_iter()
        .filter(|line| line.contains("Started") || line.contains("Unknown") || line.contains("Planned"))
        .collect();
    assert!(stuck.is_empty(), "shown as running, and isn't: {stuck:?}");
    let left = world.left(&second);
    (left, second.seq)
}

fn first_task_calls(view: &SessionView) -> Vec<String> {
    let mut calls: Vec<_> = view
        .entities
        .iter()
        .filter_map(|entity| match entity {
            EntityView::Call(call) => Some(call.tool.clone()),
            _ => None,
        })
        .collect();
    calls.sort();
    calls
}

fn entity_state(view: &SessionView) -> WorkState {
    view.entities
        .iter()
        .find_map(|entity| match entity {
            EntityView::Session(session) => Some(session.state),
            _ => None,
        })
        .expect("a session")
}

/// The phase of the task that was worked on last.
fn active_phase(view: &SessionView) -> Option<Phase> {
    let turn = view.entities.iter().find_map(|entity| match entity {
        EntityView::Turn(turn) => turn.task_id,
        _ => None,
    })?;
    view.entities.iter().find_map(|entity| match entity {
        EntityView::Task(task) if task.id == turn => Some(task.phase),
        _ => None,
    })
}

fn timeline(view: &SessionView) -> Vec<String> {
    let lines = view.entities.iter().filter_map(|entity| match entity {
        EntityView::Call(call) => Some((call.created_seq, format!("{} {:?} {:?}", call.tool, call.state, call.error))),
        EntityView::Message(message) => Some((message.created_seq, format!("{:?}: {}", message.role, message.text))),
        EntityView::Question(question) => Some((question.created_seq, format!("question {:?}: {}", question.state, question.text))),
        EntityView::Approval(approval) => Some((approval.created_seq, format!("approval {:?}", approval.state))),
        EntityView::Task(task) => Some((0, format!("task {:?} {}", task.phase, task.line))),
        _ => None,
    });
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it never came: {what}");
}

fn expected(words: &Words) -> Left {
    let template = |name: &str| {
        std::fs::read_to_string(support::root().join("node_modules/startbootstrap-sb-admin/dist").join(name)).expect("the template")
    };
    Left {
        files: vec![
            ("index.html".to_owned(), template("index.html").replace(BUTTON, ROUNDED)),
            ("tables.html".to_owned(), template("tables.html").replace(BUTTON, ROUNDED)),
            ("contrast.txt".to_owned(), "checked\n".to_owned()),
        ],
        answers: vec!["…".to_owned(), words.first_done.to_owned(), words.second_done.to_owned()],
        entries: vec!["contrast checked".to_owned()],
        facts: vec!["button.corner_radius = 8px".to_owned()],
    }
}

/// Kills at instants that a seed chooses, spread over the conversation.
fn kills(seed: u64, length: u64) -> Vec<Kill> {
    let mut seeded = Seeded::new(seed);
    let whom = [Whom::Hub, Whom::Device, Whom::Both, Whom::Ledger];
    let mut kills: Vec<_> = (0..4)
        .map(|turn| Kill { at: 6 + seeded.below(length - 8), whom: whom[usize::try_from((seeded.below(4) + turn) % 4).expect("small")] })
        .collect();
    kills.sort_by_key(|kill| kill.at);
    kills
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undisturbed_conversation_in_english() {
    let (left, length) = converse(&ENGLISH, Vec::new()).await;
    assert_eq!(left, expected(&ENGLISH));
    assert!(length > 60, "the conversation has {length} events");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undisturbed_conversation_in_chinese() {
    let (left, _) = converse(&CHINESE, Vec::new()).await;
    assert_eq!(left, expected(&CHINESE));
}

/// `BATON_SEEDS=first..last` runs others than the fixed ones.
#[tokio::test(flavor = "multi_thread")]
async fn c08_c23_c25_a_conversation_through_kills_ends_like_an_undisturbed_one() {
    let range = std::env::var("BATON_SEEDS")
        .ok()
        .and_then(|text| text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?))));
    let (first, last): (u64, u64) = range.unwrap_or((1, 4));
    for seed in first..last {
        let kills = kills(seed, 85);
        eprintln!("seed {seed}: {kills:?}");
        let words = if seed % 2 == 0 { &CHINESE } else { &ENGLISH };
        let (left, _) = converse(words, kills).await;
        assert_eq!(left, expected(words), "seed {seed}");
    }
}
