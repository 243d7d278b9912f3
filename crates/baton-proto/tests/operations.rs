//! What an end is told of an operation that can't be read: the code, and the words (D3).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to look at should stop there")]

use baton_proto::{ErrorCode, Operation};
use serde_json::{Value, json};

fn valid() -> Value {
    json!({"v": 1, "operation_id": "0199f0d0-0000-7000-8000-00000000000f", "session_id": "0199f0d0-0000-7000-8000-000000000004",
        "intent": "say", "payload": {"text": "hello"}, "epoch": 3})
}

#[test]
fn a_valid_operation_may_leave_out_what_has_a_default() {
    let read = Operation::decode(valid()).unwrap();
    assert_eq!((read.intent.name(), read.epoch, read.confirmed, read.base_version), ("say", Some(3), false, None));
    for payload in [None, Some(Value::Null), Some(json!({}))] {
        let mut operation = valid();
        operation["intent"] = json!("cancel");
        match payload {
            Some(payload) => operation["payload"] = payload,
            None => drop(operation.as_object_mut().unwrap().remove("payload")),
        }
        assert_eq!(Operation::decode(operation).unwrap().intent.name(), "cancel");
    }
    let mut operation = valid();
    operation["colour"] = json!("blue");
    operation["payload"]["mood"] = json!("fine");
    Operation::decode(operation).unwrap();
}

#[test]
fn a_malformed_operation_is_answered_with_what_is_wrong_with_it() {
    use ErrorCode::{Invalid, UnsupportedVersion};
    type Change = fn(&mut Value);
    fn without(operation: &mut Value, field: &str) {
        operation.as_object_mut().unwrap().remove(field);
    }
    let intents = "new_session, say, new_task, confirm, answer, cancel, pause, resume, handoff, accept_handoff, decline_handoff, take_over, \
                   release, set_note, forget, rename, pin, archive, reset_context, undo_reset";
    let rows: Vec<(&str, Change, ErrorCode, String)> = vec![
        ("no v", |o| without(o, "v"), UnsupportedVersion, "The operation's version is none; this hub speaks version 1.".to_owned()),
        (
            "v is null",
            |o| o["v"] = Value::Null,
            UnsupportedVersion,
            "The operation's version is none; this hub speaks version 1.".to_owned(),
        ),
        ("another v", |o| o["v"] = json!(2), UnsupportedVersion, "The operation's version is 2; this hub speaks version 1.".to_owned()),
        (
            "v is text",
            |o| o["v"] = json!("1"),
            Invalid,
            "The operation can't be read: invalid type: string \"1\", expected u32.".to_owned(),
        ),
        (
            "no operation id",
            |o| without(o, "operation_id"),
            Invalid,
            "The operation can't be read: missing field `operation_id`.".to_owned(),
        ),
        (
            "an operation id that is none",
            |o| o["operation_id"] = json!("seven"),
            Invalid,
            "The operation can't be read: UUID parsing failed: invalid character: found `s` at 0.".to_owned(),
        ),
        ("no intent", |o| without(o, "intent"), Invalid, "The operation can't be read: missing field `intent`.".to_owned()),
        (
            "an unknown intent",
            |o| o["intent"] = json!("sing\u{202e}"),
            Invalid,
            format!("There is no intent 'sing⟨U+202E⟩'; known are {intents}."),
        ),
        (
            "a payload by place",
            |o| o["payload"] = json!(["hello", null, "steer"]),
            Invalid,
            "The payload of 'say' can't be read: it is not a JSON object.".to_owned(),
        ),
        (
            "a payload that is text",
            |o| o["payload"] = json!("hello"),
            Invalid,
            "The payload of 'say' can't be read: it is not a JSON object.".to_owned(),
        ),
        ("a missing field", |o| o["payload"] = json!({}), Invalid, "The payload of 'say' can't be read: missing field `text`.".to_owned()),
        (
            "a field of another type",
            |o| o["payload"] = json!({"text": 7}),
            Invalid,
            "The payload of 'say' can't be read: invalid type: integer `7`, expected a string.".to_owned(),
        ),
        (
            "a delivery that isn't there yet",
            |o| o["payload"]["delivery"] = json!("someday"),
            Invalid,
            "The payload of 'say' can't be read: unknown variant `someday`, expected one of `steer`, `queue`, `interrupt`.".to_owned(),
        ),
        (
            "a negative epoch",
            |o| o["epoch"] = json!(-1),
            Invalid,
            "The operation can't be read: invalid value: integer `-1`, expected u64.".to_owned(),
        ),
        (
            "a time that is none",
            |o| o["sent_at"] = json!("yesterday"),
            Invalid,
            "The operation can't be read: expected a time as RFC 3339, such as 2026-11-30T10:00:00Z.".to_owned(),
        ),
        ("no object", |o| *o = json!("say hello"), Invalid, "The operation can't be read: it is not a JSON object.".to_owned()),
        ("a list", |o| *o = json!([1]), Invalid, "The operation can't be read: it is not a JSON object.".to_owned()),
    ];
    for (name, change, code, message) in rows {
        let mut operation = valid();
        change(&mut operation);
        let error = Operation::decode(operation).expect_err(name);
        assert_eq!(error.code, code, "{name}");
        assert!(!error.hint.is_empty(), "{name} says what to do");
        assert_eq!(error.message, message, "{name}");
    }
}

#[test]
fn every_id_in_a_payload_is_checked() {
    let rows = [
        ("confirm", json!({"approval_id": "x", "decision": "approve"})),
        ("answer", json!({"question_id": "x", "text": "blue"})),
        ("cancel", json!({"task_id": "x"})),
        ("handoff", json!({"to_device": "x"})),
        ("accept_handoff", json!({"handoff_id": "x"})),
        ("new_session", json!({"workspace": "x"})),
    ];
    for (intent, payload) in rows {
        let mut operation = valid();
        operation["intent"] = json!(intent);
        operation["payload"] = payload;
        let error = Operation::decode(operation).expect_err(intent);
        assert_eq!(error.code, ErrorCode::Invalid);
        assert!(error.message.starts_with(&format!("The payload of '{intent}' can't be read: UUID parsing failed")), "{}", error.message);
    }
}

#[test]
fn a_repeat_is_known_by_what_was_asked_and_by_whom() {
    let sender = "0199f0d0-0000-7000-8000-000000000002".parse().unwrap();
    let read = |change: fn(&mut Value)| {
        let mut operation = valid();
        change(&mut operation);
        Operation::decode(operation).unwrap().digest(sender)
    };
    let first = read(|_| {});
    assert_eq!(first, read(|o| o["confirmed"] = json!(true)));
    assert_eq!(first, read(|o| o["epoch"] = json!(4)));
    assert_eq!(first, read(|o| o["payload"]["delivery"] = json!("steer")));
    assert_ne!(first, read(|o| o["payload"]["text"] = json!("hello!")));
    assert_ne!(first, read(|o| o["session_id"] = json!("0199f0d0-0000-7000-8000-000000000005")));
    assert_ne!(first, Operation::decode(valid()).unwrap().digest("0199f0d0-0000-7000-8000-000000000003".parse().unwrap()));
}

/// Found by a fuzzer: the reader's words repeated the whole of a wrong value, with whatever stood in it.
#[test]
fn what_is_refused_is_not_repeated_at_length() {
    for place in ["/payload/delivery", "/operation_id", "/payload/text"] {
        let mut operation = valid();
        operation["payload"]["delivery"] = json!("steer");
        let wrong = if place == "/payload/text" {
            json!([["x".repeat(70_000)]])
        } else {
            json!(format!("\u{202e}\u{1b}[31m{}", "x".repeat(70_000)))
        };
        *operation.pointer_mut(place).unwrap() = wrong;
        let error = Operation::decode(operation).expect_err(place);
        assert!(error.message.len() < 2000, "{place}: {} bytes", error.message.len());
        assert!(!error.message.contains(['\u{202e}', '\u{1b}']), "{place}: {}", error.message);
    }
    for whole in [json!("x".repeat(70_000)), json!({"intent": "x".repeat(70_000), "v": 1})] {
        assert!(Operation::decode(whole).unwrap_err().message.len() < 2000);
    }
}
