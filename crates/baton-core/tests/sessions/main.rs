//! What a session does, told through the public functions of the crate: decide, apply, ask what is owed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that finds nothing to look at should stop there")]

mod attachments;
mod bounds;
mod budgets;
mod cases;
mod context;
mod imported;
mod list;
mod origins;
mod phases;
mod properties;
mod queued;
mod rules;
mod strict;
mod told;
mod unknown;
mod users;
mod who;
mod work;
mod world;
