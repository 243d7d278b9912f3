//! Seeded worlds: whatever goes wrong, what has to hold holds (docs: "Reliability"). A failing seed is printed with the faults it takes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_sim::world::{Disk, Habit, Plan, run, shortest, told};
use std::sync::Arc;

/// Worlds that every run of the tests looks at; `bench faults` looks at more.
const SEEDS: u64 = 120;

fn check(seeds: impl Iterator<Item = u64>) {
    let mut failed = Vec::new();
    for seed in seeds {
        let plan = Plan::of(seed);
        if !run(&plan, Habit::Honest).unwrap().is_fine() {
            let (plan, outcome) = shortest(&plan, Habit::Honest).unwrap();
            failed.push(told(&plan, &outcome));
        }
    }
    assert!(failed.is_empty(), "{} worlds fail; the first:\n{}", failed.len(), failed[0]);
}

#[test]
fn even_worlds_keep_what_has_to_hold() {
    check((0..SEEDS).filter(|seed| seed % 2 == 0));
}

#[test]
fn odd_worlds_keep_what_has_to_hold() {
    check((0..SEEDS).filter(|seed| seed % 2 == 1));
}

#[test]
fn a_seed_replays_byte_for_byte() {
    let digests: Vec<_> = (1000..1012)
        .map(|seed| {
            let plan = Plan::of(seed);
            let (one, other) = (run(&plan, Habit::Honest).unwrap(), run(&plan, Habit::Honest).unwrap());
            assert_eq!((one.digest, &one.trace), (other.digest, &other.trace), "seed {seed}");
            assert!(one.steps > 20, "seed {seed} is no world: {} steps", one.steps);
            one.digest
        })
        .collect();
    let different: std::collections::BTreeSet<_> = digests.iter().collect();
    assert_eq!(different.len(), digests.len(), "other seeds are other worlds");
}

#[tokio::test]
async fn the_simulated_disk_keeps_the_contract_of_a_store() {
    let disk = Disk::new();
    baton_store::contract::story(|| {
        let disk = Arc::clone(&disk);
        async move { disk.open(None) as Arc<dyn baton_store::Store> }
    })
    .await;
}
