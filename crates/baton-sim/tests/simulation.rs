//! Seeded worlds: whatever goes wrong, what has to hold holds (docs: "Reliability"). A failing seed is printed with the faults it takes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_sim::world::{Disk, Fault, Habit, Moment, Plan, Trouble, When, run, shortest, told};
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

/// A hub that was overtaken while its session rested never learnt that the other one had begun a turn and died.
#[test]
fn a_hub_goes_on_with_what_another_left() {
    let kill = Trouble::KillHub { down_ms: 2870, kept: 0, linger: false };
    let faults = vec![
        Fault { when: When::Nth(Moment::Finished, 1), trouble: Trouble::KillDevice { down_ms: 3155 } },
        Fault { when: When::At(10_542), trouble: Trouble::SecondHub },
        Fault { when: When::Nth(Moment::Dispatched, 1), trouble: kill },
    ];
    check_plan(Plan { neighbour: false, faults, ..Plan::of(595) });
}

/// An end that was refused asked once more, although its next connection followed the session already, and got changes twice.
#[test]
fn an_end_asks_again_only_for_what_it_doesnt_follow() {
    let faults = vec![
        Fault { when: When::Nth(Moment::AckSent, 2), trouble: Trouble::ReadsFail { count: 3 } },
        Fault { when: When::Nth(Moment::AckArrived, 1), trouble: Trouble::SecondHub },
        Fault { when: When::At(1070), trouble: Trouble::RestartHub { down_ms: 3946 } },
        Fault { when: When::Nth(Moment::Acted, 1), trouble: Trouble::KillHub { down_ms: 121, kept: 1, linger: false } },
    ];
    check_plan(Plan { faults, ..Plan::of(2430) });
}

fn check_plan(plan: Plan) {
    let outcome = run(&plan, Habit::Honest).unwrap();
    assert!(outcome.is_fine(), "{}", told(&plan, &outcome));
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
