//! The bodies of the fuzzers (fuzz/src) as property tests: a fixed number of inputs made from the golden files, so that every run of the tests
//! covers them without an instrumented compiler. `cargo xtask fuzz` looks further.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub,
    reason = "a test fails by panicking, and the bodies are another crate's"
)]

#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use std::path::Path;

/// What stands in many inputs, or often breaks readers.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "null",
    "true",
    "0",
    "-1",
    "1e308",
    "0.1",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{202e}",
    "\n",
    "```json",
    "'",
    "/*",
    "é",
    "\"data\":",
];

/// One thing that is done to an input.
#[derive(Clone, Debug)]
enum Edit {
    Byte(Index, u8),
    Cut(Index, Index),
    Word(Index, &'static str),
    Repeat(Index, usize),
    /// A value somewhere in the JSON becomes another one.
    Value(Index, Value),
    /// From there on it is another seed.
    Splice(Index, Index, Index),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let values = vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(0.1),
        json!(1e300),
        json!(""),
        json!("0199f0d0-0000-7000-8000-000000000004"),
        json!("2026-11-30T10:00:00.000Z"),
        json!("x".repeat(70_000)),
        json!("a\u{0}b\u{202e}c"),
        json!([]),
        json!({}),
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"path": {"$ref": "#/properties/path"}}}),
        json!({"type": "object", "patternProperties": {"(a+)+$": {"pattern": "^(\\w+\\s?)*$"}}}),
        (0..130).fold(json!(1), |inner, _| json!([inner])),
    ];
    let edit = prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Edit::Cut(from, to)),
        (any::<Index>(), select(WORDS.to_vec())).prop_map(|(at, word)| Edit::Word(at, word)),
        (any::<Index>(), 2_usize..400).prop_map(|(at, times)| Edit::Repeat(at, times)),
        (any::<Index>(), select(values)).prop_map(|(at, value)| Edit::Value(at, value)),
        (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, seed, from)| Edit::Splice(at, seed, from)),
    ];
    proptest::collection::vec(edit, 1..4)
}

/// Makes inputs of the seeds and hands each to the body, which panics where something doesn't hold.
fn look(cases: u32, seeds: &[Vec<u8>], body: fn(&[u8])) {
    for seed in seeds {
        body(seed);
    }
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let result = proptest::test_runner::TestRunner::new(config).run(&(any::<Index>(), edits()), |(seed, edits)| {
        let mut bytes = seeds[seed.index(seeds.len())].clone();
        for edit in edits {
            bytes = edited(bytes, &edit, seeds);
        }
        body(&bytes);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn edited(mut bytes: Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) -> Vec<u8> {
    let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
    match edit {
        Edit::Byte(at, byte) => {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
        }
        Edit::Cut(from, to) => {
            let (from, to) = (place(from, &bytes), place(to, &bytes));
            bytes.drain(from.min(to)..from.max(to));
        }
        Edit::Word(at, word) => {
            let at = place(at, &bytes);
            bytes.splice(at..at, word.bytes());
        }
        Edit::Repeat(at, times) => {
            if let Some(byte) = bytes.get(place(at, &bytes)).copied() {
                let at = place(at, &bytes);
                bytes.splice(at..at, std::iter::repeat_n(byte, *times));
            }
        }
        Edit::Value(at, value) => {
            if let Ok(mut json) = serde_json::from_slice::<Value>(&bytes) {
                let mut places = Vec::new();
                pointers(&json, String::new(), &mut places);
                if let Some(found) = json.pointer_mut(&places[at.index(places.len())]) {
                    *found = value.clone();
                }
                return json.to_string().into_bytes();
            }
        }
        Edit::Splice(at, seed, from) => {
            let other = &seeds[seed.index(seeds.len())];
            bytes.truncate(place(at, &bytes));
            bytes.extend(&other[place(from, other)..]);
        }
    }
    bytes
}

/// Every place in a value, as a JSON pointer.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, inner)| pointers(inner, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(number, inner)| pointers(inner, format!("{at}/{number}"), found)),
        _ => {}
    }
    found.push(at);
}

/// The golden files whose names begin so, as they are and in one line.
fn golden(families: &[&str]) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../baton-proto/tests/golden/v1");
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut found = Vec::new();
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        if families.iter().any(|family| name.starts_with(family)) {
            let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            found.push(json.to_string().into_bytes());
        }
    }
    assert!(!found.is_empty(), "there are golden files of {families:?}");
    found
}

/// The files of a folder of fuzz/seeds.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn operations_and_frames_of_any_shape_are_read_or_refused_in_short() {
    look(1000, &golden(&["operation.", "client_frame."]), bodies::operation::check);
}

#[test]
fn stored_events_of_any_shape_are_read_as_they_are_written() {
    look(1000, &golden(&["event.", "user_event."]), bodies::stored_event::check);
}

#[test]
fn arguments_of_any_shape_fit_or_are_refused() {
    look(1500, &seeds("arguments"), bodies::arguments::check);
}

#[test]
fn manifests_of_any_shape_are_taken_or_refused() {
    let mut all = golden(&["client_frame.hello"]);
    all.extend(seeds("manifest"));
    look(600, &all, bodies::manifest::check);
}

#[test]
fn archives_of_any_shape_are_taken_whole_or_refused() {
    let events = golden(&["event."]);
    let created = events.iter().find(|event| String::from_utf8_lossy(event).contains("\"session_created\"")).unwrap().clone();
    let mut all: Vec<_> = events.iter().map(|event| [created.clone(), event.clone()].join(&b'\n')).collect();
    let others: Vec<_> = events.iter().filter(|event| **event != created).cloned().collect();
    all.push([&[created], &others[..]].concat().join(&b'\n'));
    assert!(bodies::archive::sealed(&all[1]).ends_with(b"}\n"));
    look(600, &all, bodies::archive::check);
}

/// The fuzzers would find nothing at all if nothing that they make were ever taken.
#[test]
fn a_sealed_archive_of_whole_events_is_taken() {
    let created = golden(&["event.session_created"]).remove(0);
    let note = golden(&["event.note_set"]).remove(0);
    let file = bodies::archive::sealed(&[created, note].join(&b'\n'));
    assert!(baton_runtime::examine_export(&file).unwrap() >= 2);
}
