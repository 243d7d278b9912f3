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
    let by_rule = world.count(|event| matches!(event, SessionEvent::ApprovalDecided { decision: Decision::Approve, rule_id: Some(_), .. })) > 0;
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
    let refused = |argv: &[&str], prefix| rule(argv, remember(RememberScope::Always, prefix)).err().map(|error| error.message);
    for argv in [&["bash", "-c", "ls"][..], &["sudo", "make", "x"], &["/usr/bin/env", "make"], &["python3", "-c", "x"], &["node", "-e", "x"]] {
        for words in 1..=2 {
            assert!(refused(argv, Some(words)).is_some_and(|why| why.contains("can run anything")), "{argv:?} {words}");
        }
        assert_eq!(refused(argv, None), None, "the very same call may be remembered");
    }
    assert!(refused(&["make"], Some(0)).is_some() && refused(&["make"], Some(2)).is_some());

    let mut world = wanting(&["rm", "-r", "build"], Risk::Dangerous);
    let by = world.context(Some("phone")).sender.unwrap().sender();
    let dangerous = rule_of(&open_approval(&world), world.state.id, remember(RememberScope::Always, None), by, world.now);
    assert!(dangerous.unwrap_err().message.contains("asked about each time"));
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
    let (why, yes, long) = (confirm(Decision::Reject, "use ninja"), confirm(Decision::Approve, "fine"), confirm(Decision::Reject, &"x".repeat(2001)));
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
