//! Devices that die before, in and after an effect (E3, C08, C11, C23): what became of it is looked up, or a human is asked, and whatever
//! is answered has the effect that was meant, once.

use crate::support::house::{House, call, is, messages, open_question, task};
use crate::support::hub::{confirm, ledger_device};
use crate::{calling, rule};
use baton_proto::{CallState, Phase, QuestionKind, SessionId, Trust};
use baton_sim::ledger::Ledger;
use serde_json::json;
use std::time::Duration;

/// What is answered to the question of an unknown outcome.
const ANSWERS: [&str; 3] = ["happened", "do_it", "skip"];

#[tokio::test(flavor = "multi_thread")]
async fn e3_c08_a_command_cut_off_is_asked_about_on_every_end_and_each_answer_has_its_effect() {
    let command = "echo x >> effects.txt; test -e go.txt || sleep 86400";
    let rules = json!([
        rule("act", 0, calling("run_command", json!({"argv": ["sh", "-c", command]}))),
        rule("act", 1, json!({"text": "I know: {{last_result}}"})),
    ]);
    let house = House::with_model(rules).await;
    for answer in ANSWERS {
        for name in ["effects.txt", "go.txt"] {
            let _ = std::fs::remove_file(house.workspace.join(name));
        }
        let (session, _) = house.ask(&format!("act, then {answer}")).await;
        let open = house.open_approval(session).await;
        house.terminal.ok(&["approve", &open.id.to_string()]).await;
        house
            .until(session, "the effect", |view| is(view, "run_command", CallState::Started).filter(|_| house.file("effects.txt") == "x\n"))
            .await;
        house.hub.kill_device();
        let question = house.open_question(session).await;
        assert_eq!((question.question_kind, question.options.as_slice()), (QuestionKind::Outcome, &ANSWERS.map(str::to_owned)[..]));
        assert!(question.known.as_deref().is_some_and(|known| !known.is_empty()), "what is known is said");
        let shown = house.terminal.show(&["show", &session.to_string()], "").await;
        assert_eq!(shown.code, 3);
        let offers = ["1 happened", "2 do_it", "3 skip"].iter().all(|option| shown.out.contains(option));
        assert!(offers && shown.out.contains("effects.txt"), "{}", shown.out);
        house.hands().await;
        assert_eq!(house.file("effects.txt"), "x\n", "it isn't run again by itself");

        let wrong = house.terminal.run(&["answer", &question.id.to_string(), "maybe"]).await;
        assert!(wrong.code == 4 && wrong.errors.contains("happened"), "{wrong:?}");
        std::fs::write(house.workspace.join("go.txt"), "").expect("a file");
        house.terminal.ok(&["answer", &question.id.to_string(), answer]).await;
        let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
        let (effects, state, told) = match answer {
            "happened" => ("x\n", CallState::Succeeded, "says that it happened"),
            "do_it" => ("x\nx\n", CallState::Succeeded, "exit status 0"),
            _ => ("x\n", CallState::Failed, "chose to skip it"),
        };
        assert_eq!(house.file("effects.txt"), effects, "{answer}");
        assert_eq!(call(&view, "run_command").state, state, "{answer}");
        let last = messages(&view).pop().expect("words").1;
        assert!(last.contains(told), "{answer}: {last}");
        let late = house.terminal.run(&["answer", &question.id.to_string(), "do_it"]).await;
        assert!(late.code == 4 && late.errors.contains("question_closed"), "{late:?}");
    }
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_what_ran_when_the_host_went_down_is_not_run_again_at_any_start() {
    let command = "echo x >> effects.txt; sleep 86400";
    let rules = json!([
        rule("reboot", 0, calling("run_command", json!({"argv": ["sh", "-c", command]}))),
        rule("reboot", 1, json!({"text": "I know: {{last_result}}"})),
    ]);
    let mut house = House::with_model(rules).await;
    let (session, _) = house.ask("reboot it").await;
    let open = house.open_approval(session).await;
    house.terminal.ok(&["approve", &open.id.to_string()]).await;
    house
        .until(session, "the effect", |view| is(view, "run_command", CallState::Started).filter(|_| house.file("effects.txt") == "x\n"))
        .await;
    let mut asked = None;
    for _ in 0..3 {
        // Everything goes at once, as when the host does, and comes back.
        house.hub.kill().await;
        house.hub.kill_device();
        house.hub.start().await;
        house.hands().await;
        let question = house.open_question(session).await;
        assert_eq!(*asked.get_or_insert(question.id), question.id, "it is asked about once");
        assert_eq!(house.file("effects.txt"), "x\n", "it isn't run again");
    }
    assert_eq!(house.model().requests().len(), 1, "nor is the model asked");
    house.terminal.ok(&["answer", &asked.expect("a question").to_string(), "happened"]).await;
    house.until(session, "the end", |view| (task(view).phase == Phase::Done).then_some(())).await;
    assert_eq!(house.file("effects.txt"), "x\n");
    house.all_dialogues_were_valid();
}

/// A service that takes connections and never answers: what a device sees that dies before its effect.
struct Silence {
    listener: tokio::net::TcpListener,
    url: String,
}

impl Silence {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        Self { listener, url }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_c08_a_device_killed_before_or_after_its_effect_leaves_exactly_one() {
    let rules = json!([
        rule("record", 0, calling("record_entry", json!({"text": "recorded"}))),
        rule("append", 0, calling("append_entry", json!({"text": "appended"}))),
        {"when": {"results": 1}, "reply": {"text": "I know: {{last_result}}"}},
    ]);
    let house = House::with_model(rules).await;
    let silence = Silence::start().await;
    // The answer comes so late that it never comes: a device that is killed now dies between its effect and the result.
    let mut ledger = Ledger::start(Duration::from_hours(1)).await.expect("a ledger");
    let prompt = Ledger::start(Duration::ZERO).await.expect("a ledger");
    let invitation = house.phone.invite(Trust::Trusted).await.expect("an invitation");
    let directory = house.directory.path();
    let mut device = ledger_device(&house.hub, directory, &silence.url, Some(&invitation.secret));
    confirm(&house.phone).await;
    house.online("ledger").await;

    // What is dispatched to a device that has just died reaches the one that follows it. Killed before the effect. With a lookup it is found not to have happened, and done; without one a human decides.
    let rows: [(&str, Option<&str>, usize); 4] =
        [("record", None, 1), ("append", Some("do_it"), 1), ("append", Some("skip"), 0), ("append", Some("happened"), 0)];
    for (said, answer, effects) in rows {
        let before = prompt.entries().len();
        let session = house.tell(&format!("{said}, {answer:?}")).await;
        let _reached = silence.listener.accept().await.expect("the device asks");
        device.kill().await.expect("it can be killed");
        device = ledger_device(&house.hub, directory, prompt.url(), None);
        finish(&house, session, answer).await;
        assert_eq!(prompt.entries().len() - before, effects, "{said} {answer:?}");
        device.kill().await.expect("it can be killed");
        device = ledger_device(&house.hub, directory, &silence.url, None);
    }

    // Killed after the effect and before its result.
    device.kill().await.expect("it can be killed");
    device = ledger_device(&house.hub, directory, ledger.url(), None);
    let rows: [(&str, Option<&str>); 3] = [("record", None), ("append", Some("happened")), ("append", Some("skip"))];
    for (place, (said, answer)) in rows.into_iter().enumerate() {
        let session = house.tell(&format!("{said}, {answer:?}, after")).await;
        ledger.reached(place + 1).await.expect("the effect");
        device.kill().await.expect("it can be killed");
        device = ledger_device(&house.hub, directory, ledger.url(), None);
        finish(&house, session, answer).await;
        assert_eq!(ledger.entries().len(), place + 1, "{said} {answer:?}: nothing happens twice");
    }
    house.all_dialogues_were_valid();
}

/// Answers the question where there is one to come, and waits for the task's end.
async fn finish(house: &House, session: SessionId, answer: Option<&str>) {
    if let Some(answer) = answer {
        let question = house.open_question(session).await;
        house.terminal.ok(&["answer", &question.id.to_string(), answer]).await;
    }
    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert!(open_question(&view).is_none());
    let asked = view.entities.iter().any(|entity| entity.kind() == "question");
    assert_eq!(asked, answer.is_some(), "nobody is asked what can be looked up");
}
