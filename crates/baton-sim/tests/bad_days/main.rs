//! Bad days, through the built binary and the real wire: commands that misbehave, hubs that can't start or are cut off, full disks, devices
//! that die in the middle of an effect, answers that race, and answers that get lost. What is left is compared with the files, and with an
//! outside record of effects.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod answers;
mod canary;
mod commands;
mod crashes;
mod full_disk;
mod hubs;
mod journals;
mod quarantine;
mod sending;
mod sizes;
mod slash;
#[path = "../support/mod.rs"]
mod support;

use serde_json::{Value, json};

/// A rule of the scripted model: what is answered to a message after so many results.
fn rule(user: &str, results: usize, reply: Value) -> Value {
    json!({"when": {"last_user_contains": user, "results": results}, "reply": reply})
}

/// An answer of one call.
fn calling(tool: &str, arguments: Value) -> Value {
    json!({"calls": [{"name": tool, "arguments": arguments}]})
}

/// The processes whose command line contains a text.
fn processes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(line);
        }
    }
    found
}
