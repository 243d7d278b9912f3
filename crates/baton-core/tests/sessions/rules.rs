//! Remembered approvals (E5, H9): which calls they answer for, in whose name, and how they end.

use crate::world::{World, id};
use baton_core::user::{User, UserCommand};
use baton_core::{Ids, entities, rule_of};
use baton_proto::{
    ApprovalEntity, ApprovalState, Capabilities, ClientType, Decision, Digest, EntityView, ErrorBody, Remember, RememberScope, Risk, Rule,
    RulePattern, SessionEvent, Timestamp, Trust, UserId,
};
use serde_json::json;

fn remember(scope: RememberScope, prefix_words: Option<u32>) -> Remember {
    Remember { scope, prefix_words }
}

fn open_approval(world: &World) -> Box<ApprovalEntity> {
    let open = entities(&world.state).into_iter().find_map(|entity| match entity {
        EntityView::Approval(approval) if approval.state == ApprovalState::Open => Some(approval),
        _ => None,
    });
    open.expect("an approval is open")
}

/// A session whose agent wants to run a command that is sensitive, or as risky as is said.
fn wanting(argv: &[&str], risk: Risk) -> World {
    let mut world = World::calling(&[("run_command", json!({"argv": argv}))]);
    world.prepare("run_command", risk);
    world
}

/// The rule that an approval of that command makes, in the phone's name.
fn rule(argv: &[&str], remember: Remember) -> Result<Rule, ErrorBody> {
    let mut world = wanting(argv, Risk::Sensitive);
    let by = world.context(Some("phone")).sender.unwrap().sender();
    rule_of(&open_approval(&world), world.state.id, remember, by, world.now)
}

/// Whether a rule answers for a command, and in whose name.
fn answers(rules: Vec<Rule>, argv: &[&str], risk: Risk, change: impl FnOnce(&mut World)) -> bool {
    let mut world = World::calling(&[("run_command", json!({"argv": argv}))]);
    world.around.rules = rules;
    change(&mut world);
    world.prepare("run_command", risk);
    let by_rule = world.count(|event| matches!(event, SessionEvent::ApprovalGranted { .. })) > 0;
    let asks = world.state.open_approvals().next().is_some();
    assert_ne!(by_rule, asks, "a call is allowed by a rule or asked about");
    if by_rule {
        let planned = world.count(|event| matches!(event, SessionEvent::ToolPlanned { .. }));
        assert_eq!(planned, 1, "what a rule allows runs once");
    }
    by_rule
}

#[test]
fn e5_a_rule_answers_for_what_was_approved_and_for_nothing_else() {
    let test = || rule(&["cargo", "test", "--all"], remember(RememberScope::Always, Some(2))).unwrap();
    let exact = || rule(&["cargo", "test", "--all"], remember(RememberScope::Always, None)).unwrap();
    let rows: [(Rule, &[&str], Risk, bool); 9] = [
        (test(), &["cargo", "test"], Risk::Sensitive, true),
        (test(), &["cargo", "test", "-p", "x"], Risk::Sensitive, true),
        (test(), &["cargo", "testing"], Risk::Sensitive, false),
        (test(), &["cargo"], Risk::Sensitive, false),
        (test(), &["cargo", "publish"], Risk::Sensitive, false),
        (test(), &["cargo", "test"], Risk::Dangerous, false),
        (exact(), &["cargo", "test", "--all"], Risk::Sensitive, true),
        (exact(), &["cargo", "test"], Risk::Sensitive, false),
        (exact(), &["cargo", "test", "--all"], Risk::Dangerous, false),
    ];
    for (rule, argv, risk, expected) in rows {
        assert_eq!(answers(vec![rule.clone()], argv, risk, |_| {}), expected, "{argv:?} {risk:?} by {:?}", rule.pattern);
    }
    let elsewhere = Rule { device_id: id("phone"), ..test() };
    assert!(!answers(vec![elsewhere], &["cargo", "test"], Risk::Sensitive, |_| {}), "another device's commands");
    let other_directory = Rule { directory: Some("/elsewhere".to_owned()), ..test() };
    assert!(!answers(vec![other_directory], &["cargo", "test"], Risk::Sensitive, |_| {}), "another directory's commands");
    let other_tool = Rule { tool: "send_payment".to_owned(), ..test() };
    assert!(!answers(vec![other_tool], &["cargo", "test"], Risk::Sensitive, |_| {}), "another tool");
}

#[test]
fn c05_a_rule_counts_no_further_than_the_trust_of_whoever_granted_it() {
    let rule = rule(&["make"], remember(RememberScope::Always, Some(1))).unwrap();
    let with_trust = |trust: Option<Trust>| {
        answers(vec![rule.clone()], &["make"], Risk::Sensitive, |world| match trust {
            Some(trust) => world.around.devices.get_mut(&id("phone")).unwrap().trust = trust,
            None => drop(world.around.devices.remove(&id("phone"))),
        })
    };
    assert_eq!([Some(Trust::Trusted), Some(Trust::Standard), Some(Trust::Guest), None].map(with_trust), [true, true, false, false]);
}

#[test]
fn e5_a_rule_for_a_task_ends_with_it() {
    let mut world = wanting(&["make"], Risk::Sensitive);
    let by = world.context(Some("phone")).sender.unwrap().sender();
    let approval = open_approval(&world);
    let rule = rule_of(&approval, world.state.id, remember(RememberScope::Task, Some(1)), by, world.now).unwrap();
    world.confirm("phone", approval.id, Decision::Approve).unwrap();
    world.around.rules = vec![rule];
    world.perform("run_command");
    world.answer("", &[("run_command", json!({"argv": ["make", "again"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    assert!(world.state.open_approvals().next().is_none(), "the same task");
    world.perform("run_command");
    world.answer("Done.", &[]);
    world.say("phone", "now something else").unwrap();
    world.answer("", &[("run_command", json!({"argv": ["make", "other"]}))]);
    world.prepare("run_command", Risk::Sensitive);
    assert_eq!(world.state.open_approvals().count(), 1, "another task");
}

#[test]
fn s19_what_says_nothing_about_the_rest_cannot_be_remembered() {
    let refused = |argv: &[&str], words| rule(argv, remember(RememberScope::Always, Some(words))).err().map(|error| error.message);
    let rows: [&[&str]; 16] = [
        &["bash", "-c", "ls"],
        &["bash", "-lc", "ls"],
        &["sh", "-x", "-c", "ls"],
        &["sudo", "make", "x"],
        &["/usr/bin/env", "make"],
        &["python3", "-m", "http.server"],
        &["python3.12", "-c", "x"],
        &["node", "-p", "x"],
        &["nodejs18", "-e", "x"],
        &["find", ".", "-exec"],
        &["npx", "tool"],
        &["timeout", "9", "sh"],
        &["ssh", "host"],
        &["xargs", "rm"],
        &["busybox", "sh"],
        &["BASH.exe", "-c"],
    ];
    for argv in rows {
        for words in 1..=u32::try_from(argv.len()).unwrap() {
            assert!(refused(argv, words).is_some_and(|why| why.contains("can run anything")), "{argv:?} {words}");
        }
        assert!(rule(argv, remember(RememberScope::Always, None)).is_ok(), "the very same call may be remembered");
    }
    assert_eq!(refused(&["python3", "manage.py", "migrate"], 2), None, "a script is what it is");
    assert!(refused(&["python3", "manage.py"], 1).is_some());
    assert!(refused(&["make"], 0).is_some() && refused(&["make"], 2).is_some());

    let mut world = wanting(&["rm", "-r", "build"], Risk::Dangerous);
    let by = world.context(Some("phone")).sender.unwrap().sender();
    let dangerous = rule_of(&open_approval(&world), world.state.id, remember(RememberScope::Always, None), by, world.now);
    assert!(dangerous.unwrap_err().message.contains("asked about each time"));
}

#[test]
fn e8_a_rule_answers_only_while_the_risk_has_the_same_reason() {
    let sandboxed = rule(&["make"], remember(RememberScope::Always, Some(1))).unwrap();
    let free = Rule { risk_reason: "It runs outside the sandbox.".to_owned(), ..sandboxed.clone() };
    assert!(answers(vec![sandboxed], &["make"], Risk::Sensitive, |_| {}));
    assert!(!answers(vec![free], &["make"], Risk::Sensitive, |_| {}));
}

#[test]
fn a_rejection_can_say_why_and_an_approval_cannot() {
    let mut world = wanting(&["make"], Risk::Sensitive);
    let confirm = |decision, reason: &str| baton_proto::Intent::Confirm {
        approval_id: open_approval(&world).id,
        decision,
        remember: None,
        reason: Some(reason.to_owned()),
    };
    let (why, yes, long) =
        (confirm(Decision::Reject, "use ninja"), confirm(Decision::Approve, "fine"), confirm(Decision::Reject, &"x".repeat(2001)));
    assert!(world.op("phone", yes).is_err() && world.op("phone", long).is_err());
    world.op("phone", why).unwrap();
    let request = format!("{:?}", world.request().messages);
    assert!(request.contains("it was not run. Their reason: use ninja"), "{request}");
}

#[test]
fn h9_what_a_device_granted_ends_with_its_trust() {
    let granted = rule(&["make"], remember(RememberScope::Always, Some(1))).unwrap();
    let ends = |command: fn(baton_proto::DeviceId) -> UserCommand| {
        let mut user = User::empty(UserId(uuid::Uuid::from_u128(1)));
        let mut draws = 0;
        let mut run = |user: &mut User, command: UserCommand| {
            draws += 1;
            for event in user.decide(&command, Timestamp(draws), &Ids::new(Timestamp(draws), draws.unsigned_abs())).unwrap() {
                user.apply(&event);
            }
        };
        run(&mut user, UserCommand::Create { name: "ada".to_owned() });
        for name in ["phone", "tablet"] {
            let (capabilities, token_hash) = (Capabilities::default(), Digest::of_bytes(name.as_bytes()));
            let client_type = ClientType::Phone;
            run(&mut user, UserCommand::Pair { name: name.to_owned(), client_type, capabilities, trust: Trust::Trusted, token_hash });
        }
        let devices: Vec<_> = user.devices.values().map(|device| device.record.clone()).collect();
        for (n, device) in devices.iter().enumerate() {
            let mut rule = Rule { rule_id: baton_proto::RuleId(uuid::Uuid::from_u128(n as u128)), ..granted.clone() };
            rule.granted_by.device_id = device.device_id;
            run(&mut user, UserCommand::AddRule { rule: Box::new(rule.clone()) });
            run(&mut user, UserCommand::AddRule { rule: Box::new(rule) });
        }
        assert_eq!(user.rules.len(), 2, "a rule that is made again is the same rule");
        run(&mut user, command(devices[0].device_id));
        user.rules.iter().all(|rule| rule.granted_by.device_id == devices[1].device_id) && user.rules.len() == 1
    };
    assert!(ends(|device| UserCommand::Revoke { device }));
    assert!(ends(|device| UserCommand::SetTrust { device, trust: Trust::Guest }));
    assert!(ends(|device| UserCommand::SetTrust { device, trust: Trust::Standard }));
    assert!(!ends(|device| UserCommand::SetTrust { device, trust: Trust::Trusted }));
}

#[test]
fn e9_a_rule_shows_what_it_allows_without_secrets() {
    let mut world = wanting(&["curl"], Risk::Sensitive);
    let by = world.context(Some("phone")).sender.unwrap().sender();
    let mut approval = open_approval(&world);
    approval.binding.preview = "curl -H 'Authorization: Bearer abcdefghijklmnop.qrst'".to_owned();
    let rule = rule_of(&approval, world.state.id, remember(RememberScope::Always, None), by, world.now).unwrap();
    let RulePattern::Exact { shown, .. } = rule.pattern else { panic!("{rule:?}") };
    assert_eq!(shown, "curl -H 'Authorization: Bearer [token not shown]'");
}

#[test]
fn rules_are_bounded_and_none_that_is_kept_vanishes_silently() {
    let granted = rule(&["make"], remember(RememberScope::Always, Some(1))).unwrap();
    let mut user = User::empty(UserId(uuid::Uuid::from_u128(1)));
    let run = |user: &mut User, command: UserCommand| -> Result<usize, ErrorBody> {
        let events = user.decide(&command, Timestamp(1), &Ids::new(Timestamp(1), 7))?;
        for event in &events {
            user.apply(event);
        }
        Ok(events.len())
    };
    run(&mut user, UserCommand::Create { name: "ada".to_owned() }).unwrap();
    let (client_type, capabilities, token_hash) = (ClientType::Phone, Capabilities::default(), Digest::of_bytes(b"t"));
    run(&mut user, UserCommand::Pair { name: "phone".into(), client_type, capabilities, trust: Trust::Trusted, token_hash }).unwrap();
    let device = *user.devices.keys().next().unwrap();
    let numbered = |n: u128, only| {
        let mut rule = Rule { rule_id: baton_proto::RuleId(uuid::Uuid::from_u128(n)), only, ..granted.clone() };
        rule.granted_by.device_id = device;
        UserCommand::AddRule { rule: Box::new(rule) }
    };
    let task = Some(baton_proto::RuleScope {
        session_id: baton_proto::SessionId(uuid::Uuid::nil()),
        task_id: baton_proto::TaskId(uuid::Uuid::nil()),
    });
    for n in 0..199 {
        run(&mut user, numbered(n, None)).unwrap();
    }
    run(&mut user, numbered(900, task)).unwrap();
    assert_eq!(run(&mut user, numbered(901, task)).unwrap(), 2, "the older one for a task goes, in an event of its own");
    assert_eq!(run(&mut user, numbered(902, None)).unwrap(), 2);
    let refused = run(&mut user, numbered(903, None)).unwrap_err();
    assert!(refused.message.contains("200 approvals"), "{}", refused.message);
    assert_eq!(user.rules.len(), 200);
}

#[test]
fn e5_every_choice_that_a_card_offers_is_taken_and_no_other_beginning_would_be() {
    let rows: [(&[&str], &[usize], Option<&str>); 6] = [
        (&["cargo", "test", "--all"], &[0, 3, 2, 1], None),
        (&["make"], &[0, 1], None),
        (&["python3", "tidy.py"], &[0, 2], None),
        (&["bash", "-c", "rm -rf x"], &[0], Some("remember.runs_anything")),
        (&["sudo", "make"], &[0], Some("remember.runs_anything")),
        (&["a", "b", "c", "d", "e"], &[0, 4, 3, 2, 1], None),
    ];
    for (argv, counts, why) in rows {
        let approval = open_approval(&wanting(argv, Risk::Sensitive));
        let offered = |scope| {
            let of_scope = approval.remember.iter().filter(|choice| choice.scope == scope);
            of_scope.map(|choice| choice.prefix_words.unwrap_or(0) as usize).collect::<Vec<_>>()
        };
        assert_eq!(offered(RememberScope::Task), counts, "{argv:?}");
        assert_eq!(offered(RememberScope::Always), counts, "{argv:?}");
        assert_eq!(approval.not_remembered.as_ref().map(|said| said.code.as_str()), why, "{argv:?}");
        for choice in &approval.remember {
            assert_eq!(choice.prefix, argv[..choice.prefix_words.unwrap_or(0) as usize]);
            rule(argv, remember(choice.scope, choice.prefix_words)).unwrap();
        }
        for count in 1..=argv.len().min(4) {
            let taken = rule(argv, remember(RememberScope::Always, u32::try_from(count).ok())).is_ok();
            assert_eq!(taken, counts.contains(&count), "{argv:?} by {count} words");
        }
    }
    let dangerous = open_approval(&wanting(&["make"], Risk::Dangerous));
    assert_eq!((dangerous.remember.len(), dangerous.not_remembered.unwrap().code.as_str()), (0, "remember.dangerous"));
}

#[test]
fn a_card_that_is_answered_offers_nothing_any_more() {
    let mut world = wanting(&["make"], Risk::Sensitive);
    world.confirm("phone", open_approval(&world).id, Decision::Approve).unwrap();
    let shown = world.shown.values().find_map(|entity| match entity {
        EntityView::Approval(approval) => Some(approval),
        _ => None,
    });
    let approval = shown.unwrap();
    assert_eq!((approval.state, approval.remember.len()), (ApprovalState::Approved, 0));
}
