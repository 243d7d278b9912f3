//! The command line as people and programs meet it: what it prints in both forms, its exit codes, and what it keeps from one user and
//! from a device that isn't trusted. Each snapshot is a contract; ids, times and paths are named by their place.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod attachments;
mod backup;
mod chat;
mod contract;
mod diffs;
mod export_import;
mod long_text;
mod newcomer;
mod rules;
#[path = "../support/mod.rs"]
mod support;
mod terminals;
mod tls;
mod usage;
mod users;
mod window;

use serde_json::{Value, json};

/// A rule of the scripted model: what is answered to a message after so many results.
fn rule(user: &str, results: usize, reply: Value) -> Value {
    json!({"when": {"last_user_contains": user, "results": results}, "reply": reply})
}
