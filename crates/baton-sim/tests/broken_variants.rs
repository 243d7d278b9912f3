//! The simulator's own proof: parts that are broken in one way each, and are found out within a fixed number of worlds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_sim::world::{Habit, Plan, run};

/// Worlds in which each fault has to be found.
const BUDGET: u64 = 60;

fn found(habit: Habit, expected: &[&str]) {
    let mut others = Vec::new();
    for seed in 0..BUDGET {
        let outcome = run(&Plan::of(seed), habit).unwrap();
        if outcome.violations.iter().any(|what| expected.iter().any(|words| what.contains(words))) {
            eprintln!("{habit:?} is found by seed {seed}: {}", outcome.violations[0]);
            return;
        }
        others.extend(outcome.violations);
    }
    panic!("{habit:?} isn't found in {BUDGET} worlds; other findings: {others:?}");
}

#[test]
fn an_acknowledgement_before_the_commit_is_found() {
    found(Habit::AckBeforeCommit, &["is gone after a crash", "is lost"]);
}

#[test]
fn a_store_without_fencing_is_found() {
    found(
        Habit::NoFencing,
        &["twice", "a second time", "doesn't say what the log does", "isn't what the log has", "never proposed", "epoch"],
    );
}

#[test]
fn a_device_that_repeats_what_is_unknown_is_found() {
    found(Habit::RepeatsUnknown, &["happened twice"]);
}

#[test]
fn arguments_that_were_not_approved_are_found() {
    found(Habit::ApprovalNotBound, &["with other arguments than were proposed and approved"]);
}

#[test]
fn a_cursor_off_by_one_is_found() {
    found(Habit::CursorOffByOne, &["gets change"]);
}

#[test]
fn an_effect_before_its_intention_is_durable_is_found() {
    found(
        Habit::EffectsBeforeAppend,
        &["before its intention is durable", "before it is durable", "without a durable intention", "isn't what the log has"],
    );
}

#[test]
fn a_store_that_mixes_users_up_is_found() {
    found(Habit::UsersNotKeptApart, &["another user's session is shown", "is shown to another user"]);
}

#[test]
fn each_broken_variant_has_a_test() {
    let here = include_str!("broken_variants.rs");
    for habit in Habit::BROKEN {
        assert!(here.contains(&format!("Habit::{habit:?},")), "{habit:?} isn't looked for");
    }
}
