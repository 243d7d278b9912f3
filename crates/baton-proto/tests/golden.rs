//! One file of version 1 for each event type, entity kind, frame and intent, as it is stored and sent. Each is read and written back unchanged,
//! for as long as there is data of version 1 in the world: a later version gets files of its own beside these, and never edits them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to look at should stop there")]

use baton_proto::{ClientFrame, EntityView, Event, EventBody, EventError, HubFrame, Intent, Operation, SessionEvent, Snapshot, UserEvent};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files whose names begin with `family` and a dot, by what follows.
fn files(family: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if let Some(kind) = name.strip_prefix(&format!("{family}.")).and_then(|rest| rest.strip_suffix(".json")) {
            found.insert(kind.to_owned(), std::fs::read_to_string(&path).unwrap());
        }
    }
    found
}

fn check<T: DeserializeOwned + Serialize>(family: &str, expected: BTreeSet<String>) {
    let files = files(family);
    assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), expected, "one file for each {family}");
    for (name, text) in files {
        same::<T>(&format!("{family}.{name}"), &text);
    }
}

fn same<T: DeserializeOwned + Serialize>(name: &str, text: &str) {
    let read: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written, serde_json::from_str::<Value>(text).unwrap(), "{name} is written as it was read");
}

/// The values that `tag` may have in a tagged enum, from its schema.
fn variants<T: JsonSchema>(tag: &str) -> BTreeSet<String> {
    let schema = serde_json::to_value(SchemaGenerator::default().into_root_schema_for::<T>()).unwrap();
    let mut found = BTreeSet::new();
    for variant in schema["oneOf"].as_array().expect("a tagged enum") {
        found.insert(variant["properties"][tag]["const"].as_str().expect("a tag").to_owned());
    }
    found
}

fn names<B: EventBody>() -> BTreeSet<String> {
    B::names().iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn every_event_is_read_and_written_unchanged() {
    check::<Event<SessionEvent>>("event", names::<SessionEvent>());
    check::<Event<UserEvent>>("user_event", names::<UserEvent>());
    for (name, text) in files("event") {
        let read: Event = Event::decode(text.as_bytes()).unwrap();
        assert_eq!(read.body.name(), name, "the file {name} holds what it is named after");
    }
}

#[test]
fn every_entity_is_read_and_written_unchanged() {
    check::<EntityView>("entity", variants::<EntityView>("kind"));
    for (name, text) in files("entity") {
        let read: EntityView = serde_json::from_str(&text).unwrap();
        assert_eq!(read.kind(), name);
        assert!(!read.id().is_empty() && read.version() > 0);
    }
}

#[test]
fn every_frame_is_read_and_written_unchanged() {
    check::<ClientFrame>("client_frame", variants::<ClientFrame>("type"));
    check::<HubFrame>("hub_frame", variants::<HubFrame>("type"));
}

#[test]
fn every_operation_is_read_and_written_unchanged() {
    check::<Operation>("operation", variants::<Intent>("intent"));
    for (name, text) in files("operation") {
        let read = Operation::decode(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(read.intent.name(), name);
        let plain: Operation = serde_json::from_str(&text).unwrap();
        assert_eq!(read, plain, "{name} is read the same both ways");
    }
}

#[test]
fn a_snapshot_is_read_and_written_unchanged() {
    same::<Snapshot>("snapshot", include_str!("golden/v1/snapshot.json"));
}

fn note_set(change: impl FnOnce(&mut Value)) -> Result<Event, EventError> {
    let mut value: Value = serde_json::from_str(include_str!("golden/v1/event.note_set.json")).unwrap();
    change(&mut value);
    Event::decode(&serde_json::to_vec(&value).unwrap())
}

#[test]
fn what_a_store_cannot_know_is_refused_by_name() {
    let unknown = note_set(|event| event["type"] = json!("note_sung"));
    assert_eq!(unknown, Err(EventError::UnknownType("note_sung".to_owned())));
    assert_eq!(unknown.unwrap_err().to_string(), "the event type 'note_sung' is unknown to this version of Baton");
    let newer = note_set(|event| event["v"] = json!(2));
    assert_eq!(newer, Err(EventError::NewerVersion { name: "note_set".to_owned(), found: 2, known: 1 }));
    let words = newer.unwrap_err().to_string();
    assert_eq!(words, "the event 'note_set' has version 2, and this version of Baton knows 1; install the newer Baton that wrote it");
    assert!(matches!(note_set(|event| event["data"] = json!({"key": "tone"})), Err(EventError::Malformed(why)) if why.contains("value")));
    assert!(matches!(note_set(|event| event["at"] = json!("yesterday")), Err(EventError::Malformed(why)) if why.contains("RFC 3339")));
    assert!(matches!(Event::<SessionEvent>::decode(b"\xff{"), Err(EventError::Malformed(_))));
}

#[test]
fn unknown_fields_are_ignored_and_a_missing_lane_is_main() {
    let read = note_set(|event| {
        event["colour"] = json!("blue");
        event["data"]["mood"] = json!("fine");
        event.as_object_mut().unwrap().remove("lane");
    })
    .unwrap();
    assert_eq!(read, note_set(|_| {}).unwrap());
}

#[test]
fn s21_origins_are_read_and_written_where_they_are_told() {
    let origins =
        json!({"read": [{"kind": "path", "name": "README.md"}, {"kind": "command", "name": "npm view x"}], "more": 2, "earlier": true});
    let added = |text: &str, at: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value.pointer_mut(at).unwrap()["origins"] = origins.clone();
        value.to_string()
    };
    same::<Event>("approval_requested", &added(include_str!("golden/v1/event.approval_requested.json"), "/data/binding"));
    same::<Event>("fact_recorded", &added(include_str!("golden/v1/event.fact_recorded.json"), "/data"));
    same::<EntityView>("approval", &added(include_str!("golden/v1/entity.approval.json"), "/binding"));
    same::<EntityView>("fact", &added(include_str!("golden/v1/entity.fact.json"), ""));
}

/// What was added to a type since its golden file was written; without it, the type is as it was.
#[test]
fn f7_a_journals_identity_is_read_and_written_where_it_is_told() {
    let journal = json!("0199f0d0-0000-7000-8000-000000000011");
    let added = |text: &str, at: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value.pointer_mut(at).unwrap()["journal"] = journal.clone();
        value.to_string()
    };
    same::<ClientFrame>("hello", &added(include_str!("golden/v1/client_frame.hello.json"), ""));
    same::<Event>("tool_planned", &added(include_str!("golden/v1/event.tool_planned.json"), "/data"));
    same::<Event<UserEvent>>("device_described", &added(include_str!("golden/v1/user_event.device_described.json"), "/data"));
    same::<Event<UserEvent>>("device_paired", &added(include_str!("golden/v1/user_event.device_paired.json"), "/data/device"));
}
