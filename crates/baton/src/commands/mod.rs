//! One file a command, one shape: arguments in, an exit code or a failure out.

mod admit;
pub(crate) mod answer;
pub(crate) mod approve;
pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod begin;
pub(crate) mod cat;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod diff;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod handoff;
pub(crate) mod hub;
pub(crate) mod import;
pub(crate) mod man;
pub(crate) mod pair;
pub(crate) mod pin;
pub(crate) mod read;
pub(crate) mod release;
pub(crate) mod rename;
pub(crate) mod reset;
pub(crate) mod resume;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod stop;
pub(crate) mod take_over;
pub(crate) mod undo;
pub(crate) mod up;
pub(crate) mod usage;
pub(crate) mod user;

/// What a name that means several things is answered with: each of them, on a line of its own.
fn several(what: &str, each: Vec<String>) -> crate::failure::Failure {
    let listed: String = each.iter().flat_map(|one| ["\n         ", one]).collect();
    crate::failure::Failure::usage(format!("{what}."), format!("Give the id of one of them:{listed}"))
}
