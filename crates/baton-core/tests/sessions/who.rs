//! The table "Who may do what" and the table of risk and trust, row by row.

use crate::world::{World, code, id, say};
use baton_core::Command;
use baton_proto::ErrorCode::{
    Forbidden, IllegalTransition, Invalid, NeedsConfirmation, NotFound, NotHolder, StaleEpoch, Transferring, TrustTooLow,
};
use baton_proto::{ApprovalState, CallState, Decision, ErrorCode, HandoffId, Intent, Operation, Risk, SessionEvent};
use serde_json::json;

/// How a sender stands: the columns of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Holder,
    Follower,
    OldEpoch,
    /// The holder, while the session is being handed over.
    Source,
    Target,
    /// A third one meanwhile.
    Other,
    Guest,
    /// A device that only acts.
    Actor,
}

const COLUMNS: [Column; 8] =
    [Column::Holder, Column::Follower, Column::OldEpoch, Column::Source, Column::Target, Column::Other, Column::Guest, Column::Actor];

/// Whether a row's operation leaves the sender as holder.
const MOVES: &[(&str, Column)] = &[
    ("say", Column::Follower),
    ("say", Column::Target),
    ("new_task", Column::Follower),
    ("new_task", Column::Target),
    ("resume", Column::Follower),
    ("resume", Column::Target),
    ("take_over force", Column::Follower),
    ("take_over", Column::Target),
    ("take_over force", Column::Target),
    ("accept_handoff", Column::Target),
];

/// A session that `cli` holds, with a paused task, a note and, beneath the paused one, nothing that runs.
fn held() -> World {
    let mut world = World::new();
    world.say("phone", "work on it").unwrap();
    world.op("phone", Intent::Pause { task_id: None }).unwrap();
    world.op("cli", Intent::TakeOver { force: true }).unwrap();
    world.op("cli", Intent::SetNote { key: "style".to_owned(), value: "round".to_owned() }).unwrap();
    world
}

fn row(intent: &Intent, name: &str, expected: [Option<ErrorCode>; 8]) {
    for (column, expected) in COLUMNS.into_iter().zip(expected) {
        let mut world = held();
        if matches!(intent, Intent::Confirm { .. } | Intent::Answer { .. }) {
            world.op("cli", Intent::Resume { task_id: None }).unwrap();
            let call = if matches!(intent, Intent::Confirm { .. }) {
                ("run_command", json!({"argv": ["make"]}))
            } else {
                ("ask_user", json!({"question": "Which?"}))
            };
            world.answer("", &[call]);
            if matches!(intent, Intent::Confirm { .. }) {
                world.prepare("run_command", Risk::Sensitive);
            }
        }
        if matches!(column, Column::Source | Column::Target | Column::Other) {
            world.op("cli", Intent::Handoff { to_device: id("phone") }).unwrap();
        }
        let sender = match column {
            Column::Holder | Column::Source => "cli",
            Column::Follower | Column::OldEpoch | Column::Target => "phone",
            Column::Other => "tablet",
            Column::Guest => "visitor",
            Column::Actor => "laptop",
        };
        let handoff_id = world.state.holder.transfer.as_ref().map_or(HandoffId(uuid::Uuid::from_u128(9)), |transfer| transfer.handoff_id);
        let intent = match intent.clone() {
            Intent::Confirm { decision, .. } => Intent::confirm(world.approval(), decision),
            Intent::Answer { text, option, .. } => Intent::Answer { question_id: world.question(), text, option },
            Intent::AcceptHandoff { .. } => Intent::AcceptHandoff { handoff_id },
            Intent::DeclineHandoff { .. } => Intent::DeclineHandoff { handoff_id },
            other => other,
        };
        let outcome = world.op_with(sender, intent, |operation| {
            // The tablet's extra confirmation; the second table has rows of its own.
            operation.confirmed = true;
            if column == Column::OldEpoch {
                operation.epoch = operation.epoch.map(|epoch| epoch - 1);
            }
        });
        assert_eq!(code(&outcome), expected, "{name} by {column:?}: {outcome:?}");
        let moved = world.state.holder.device == Some(id(sender)) && sender != "cli";
        assert_eq!(moved, MOVES.contains(&(name, column)), "{name} by {column:?} moves the session");
        if outcome.is_err() {
            assert_eq!(
                world.count(|body| matches!(body, SessionEvent::ConflictRefused { .. })) > 0,
                expected == Some(StaleEpoch),
                "{name}"
            );
        }
    }
}

#[test]
fn every_intent_is_answered_as_the_table_says() {
    let yes = None;
    let (old, busy, low, actor) = (Some(StaleEpoch), Some(Transferring), Some(TrustTooLow), Some(Forbidden));
    let (holder, state) = (Some(NotHolder), Some(IllegalTransition));
    let to_tablet = Intent::Handoff { to_device: id("tablet") };
    let any = HandoffId(uuid::Uuid::nil());
    let approval_id = baton_proto::ApprovalId(uuid::Uuid::nil());
    let question_id = baton_proto::QuestionId(uuid::Uuid::nil());
    let new_task = Intent::NewTask { title: "Another".to_owned(), description: String::new(), acceptance: Vec::new() };
    let answer = Intent::Answer { question_id, text: Some("the blue one".to_owned()), option: None };
    let note = Intent::SetNote { key: "tone".to_owned(), value: "dry".to_owned() };
    let forget = Intent::Forget { key: "style".to_owned() };
    // The order of COLUMNS: holder, follower, old epoch, source, target, other, guest, a device that only acts.
    let rows: Vec<(&str, Intent, [Option<ErrorCode>; 8])> = vec![
        ("accept_handoff", Intent::AcceptHandoff { handoff_id: any }, [state, state, old, busy, yes, busy, low, actor]),
        ("decline_handoff", Intent::DeclineHandoff { handoff_id: any }, [state, state, old, busy, yes, busy, low, actor]),
        ("say", say("go on"), [yes, yes, old, busy, yes, busy, low, actor]),
        ("new_task", new_task, [yes, yes, old, busy, yes, busy, low, actor]),
        ("resume", Intent::Resume { task_id: None }, [yes, yes, old, busy, yes, busy, low, actor]),
        ("confirm", Intent::confirm(approval_id, Decision::Approve), [yes, yes, yes, yes, yes, yes, low, actor]),
        ("reject", Intent::confirm(approval_id, Decision::Reject), [yes, yes, yes, yes, yes, yes, low, actor]),
        ("answer", answer, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("cancel", Intent::Cancel { task_id: None }, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("pause", Intent::Pause { task_id: None }, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("handoff", to_tablet, [yes, holder, old, busy, busy, busy, low, actor]),
        ("release", Intent::Release {}, [yes, holder, old, busy, busy, busy, low, actor]),
        ("set_note", note, [yes, holder, old, busy, busy, busy, low, actor]),
        ("forget", forget, [yes, holder, old, busy, busy, busy, low, actor]),
        ("rename", Intent::Rename { title: "Buttons".to_owned() }, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("pin", Intent::Pin { pinned: true }, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("archive", Intent::Archive { archived: false }, [yes, yes, yes, yes, yes, yes, low, actor]),
        ("reset_context", Intent::ResetContext {}, [yes, holder, old, busy, busy, busy, low, actor]),
        ("undo_reset", Intent::UndoReset {}, [state, holder, old, busy, busy, busy, low, actor]),
        ("take_over", Intent::TakeOver { force: false }, [yes, holder, old, busy, yes, busy, low, actor]),
        ("take_over force", Intent::TakeOver { force: true }, [yes, yes, old, busy, yes, busy, low, actor]),
    ];
    for (name, intent, expected) in rows {
        row(&intent, name, expected);
    }
}

#[test]
fn new_session_makes_its_sender_the_holder_and_is_not_for_guests() {
    for (sender, expected) in [("phone", None), ("tablet", None), ("visitor", Some(TrustTooLow)), ("laptop", Some(Forbidden))] {
        let mut world = World::empty();
        let outcome = world.op(sender, Intent::NewSession { title: Some("Site".to_owned()), workspace: None });
        assert_eq!(code(&outcome), expected, "{sender}");
        assert_eq!(world.state.holder.device, expected.is_none().then(|| id(sender)));
        if expected.is_none() {
            let again = world.op(sender, Intent::NewSession { title: None, workspace: None });
            assert_eq!(code(&again), Some(IllegalTransition));
        }
    }
}

#[test]
fn an_envelope_is_held_to_its_token_and_its_epoch() {
    type Change = fn(&mut Operation);
    let mut world = World::new();
    let rows: [(&str, Change, ErrorCode); 4] = [
        ("another sender", |operation| operation.sender_id = Some(id("cli")), Invalid),
        ("another type", |operation| operation.client_type = Some(baton_proto::ClientType::Ide), Invalid),
        ("no epoch", |operation| operation.epoch = None, Invalid),
        ("a future epoch", |operation| operation.epoch = Some(99), StaleEpoch),
    ];
    for (name, change, expected) in rows {
        let outcome = world.op_with("phone", say("hello"), change);
        assert_eq!(code(&outcome), Some(expected), "{name}");
        let error = outcome.unwrap_err();
        assert!(!error.message.is_empty() && !error.hint.is_empty(), "{name} is answered in words");
    }
    let operation = world.operation(say("hello"), |_| {});
    let nobody = world.run(None, &Command::Operation(operation));
    assert_eq!(code(&nobody), Some(ErrorCode::Unauthenticated));
    assert_eq!(world.state.turn, None);
}

#[test]
fn a_session_that_does_not_exist_is_not_found() {
    let mut world = World::empty();
    assert_eq!(code(&world.say("phone", "hello")), Some(NotFound));
    assert!(world.run(None, &Command::Tick).unwrap().events.is_empty());
}

#[test]
fn a_risk_is_approved_by_a_device_whose_trust_covers_it() {
    let rows = [
        // risk, device, plainly, with the extra confirmation
        (Risk::Sensitive, "phone", None, None),
        (Risk::Sensitive, "tablet", Some(NeedsConfirmation), None),
        (Risk::Sensitive, "visitor", Some(TrustTooLow), Some(TrustTooLow)),
        (Risk::Dangerous, "phone", Some(NeedsConfirmation), None),
        (Risk::Dangerous, "tablet", Some(TrustTooLow), Some(TrustTooLow)),
        (Risk::Dangerous, "visitor", Some(TrustTooLow), Some(TrustTooLow)),
    ];
    for (risk, device, plainly, confirmed) in rows {
        let mut world = World::calling(&[("run_command", json!({"argv": ["make"]}))]);
        world.prepare("run_command", risk);
        let approval_id = world.approval();
        let operation = world.operation(Intent::confirm(approval_id, Decision::Approve), |_| {});
        let first = world.run(Some(device), &Command::Operation(operation.clone()));
        assert_eq!(code(&first), plainly, "{risk:?} by {device}");
        if first.is_err() {
            assert_eq!(world.call("run_command").state(), CallState::AwaitingApproval, "a no changes nothing");
            let again = Operation { confirmed: true, ..operation };
            assert_eq!(code(&world.run(Some(device), &Command::Operation(again))), confirmed, "{risk:?} by {device}, confirmed");
        }
        let allowed = plainly.is_none() || confirmed.is_none();
        let expected =
            if allowed { (ApprovalState::Approved, CallState::Planned) } else { (ApprovalState::Open, CallState::AwaitingApproval) };
        assert_eq!((world.state.approvals[&approval_id].state, world.call("run_command").state()), expected);
        assert_eq!(world.state.holder.device, Some(id("phone")), "an approval never moves the holder");
    }
}

#[test]
fn preparation_raises_a_risk_and_never_lowers_it() {
    let mut world = World::calling(&[("delete_file", json!({"path": "a"}))]);
    world.prepare("delete_file", Risk::Safe);
    assert_eq!(world.call("delete_file").risk, Risk::Dangerous);
    assert_eq!(code(&world.confirm("phone", world.approval(), Decision::Approve)), Some(NeedsConfirmation));
}

#[test]
fn a_switch_during_a_lasting_effect_is_confirmed_first() {
    let intents = [say("go on"), Intent::TakeOver { force: true }];
    for started in [false, true] {
        for intent in intents.clone() {
            let mut world = World::calling(&[("send_payment", json!({"to": "ada", "amount": 5}))]);
            let approval_id = world.approval();
            let confirm = Intent::confirm(approval_id, Decision::Approve);
            world.op_with("phone", confirm, |operation| operation.confirmed = true).unwrap();
            if started {
                world.start("send_payment");
            }
            let operation = world.operation(intent, |_| {});
            let first = world.run(Some("cli"), &Command::Operation(operation.clone()));
            assert_eq!(code(&first), Some(NeedsConfirmation), "started {started}");
            assert_eq!(world.state.holder.device, Some(id("phone")));
            let handoff = world.op("phone", Intent::Handoff { to_device: id("cli") });
            assert_eq!(code(&handoff), Some(NeedsConfirmation));
            world.run(Some("cli"), &Command::Operation(Operation { confirmed: true, ..operation })).unwrap();
            assert_eq!(world.state.holder.device, Some(id("cli")));
        }
    }
}

#[test]
fn a_bare_take_over_is_for_a_holder_that_is_offline_or_gone() {
    let mut world = World::new();
    assert_eq!(code(&world.op("cli", Intent::TakeOver { force: false })), Some(NotHolder));
    world.lose("phone");
    world.op("cli", Intent::TakeOver { force: false }).unwrap();
    assert_eq!((world.state.holder.device, world.state.holder.epoch), (Some(id("cli")), 2));
    world.op("cli", Intent::Release {}).unwrap();
    assert_eq!((world.state.holder.device, world.state.holder.epoch), (None, 3));
    world.op("tablet", Intent::TakeOver { force: false }).unwrap();
    assert_eq!((world.state.holder.device, world.state.holder.epoch), (Some(id("tablet")), 4));
}

#[test]
fn an_offer_is_for_a_device_that_can_hold_a_session() {
    let mut world = World::new();
    let rows = [("visitor", TrustTooLow), ("laptop", TrustTooLow), ("phone", IllegalTransition)];
    for (to, expected) in rows {
        assert_eq!(code(&world.op("phone", Intent::Handoff { to_device: id(to) })), Some(expected), "{to}");
    }
    let nobody = baton_proto::DeviceId(uuid::Uuid::from_u128(77));
    assert_eq!(code(&world.op("phone", Intent::Handoff { to_device: nobody })), Some(NotFound));
}

#[test]
fn an_offer_that_nobody_takes_reverts_by_itself() {
    let mut world = World::new();
    world.op("phone", Intent::Handoff { to_device: id("cli") }).unwrap();
    assert_eq!(world.state.holder.epoch, 1, "an offer raises no epoch");
    world.tick(29_999);
    assert!(world.state.holder.transfer.is_some());
    world.tick(1);
    assert_eq!((world.state.holder.device, world.state.holder.epoch), (Some(id("phone")), 1));
    assert!(world.state.holder.transfer.is_none());
    world.say("phone", "still here").unwrap();
    assert_eq!(code(&world.op("cli", Intent::AcceptHandoff { handoff_id: HandoffId(uuid::Uuid::nil()) })), Some(IllegalTransition));
}
