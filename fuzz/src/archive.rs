//! A session that comes in as a file.

use super::operation::refused;
use baton_proto::{Digest, EXPORT_FORMAT, ExportEnd};
use serde_json::json;

/// Nothing panics, and a refusal stays short: of the bytes as a file, and of the bytes as the events of a file that is whole otherwise.
pub fn check(bytes: &[u8]) {
    for file in [bytes.to_vec(), sealed(bytes)] {
        if let Err(error) = baton_runtime::examine_export(&file) {
            refused(&error);
        }
    }
}

/// A file with these lines as its events, and with the head and the end that fit them.
pub fn sealed(events: &[u8]) -> Vec<u8> {
    let events = events.strip_suffix(b"\n").unwrap_or(events);
    let count = events.split(|byte| *byte == b'\n').count() as u64;
    let head = json!({
        "baton_session": EXPORT_FORMAT, "session_id": "0199f0d0-0000-7000-8000-000000000004", "title": "A session", "events": count,
        "exported_at": "2026-11-30T10:00:00.000Z", "version": "0.1.0",
    });
    let mut file = format!("{head}\n").into_bytes();
    file.extend(events);
    file.push(b'\n');
    let end = ExportEnd { events: count, digest: Digest::of_bytes(&file) };
    file.extend(serde_json::to_vec(&end).expect("an end can be written"));
    file.push(b'\n');
    file
}
