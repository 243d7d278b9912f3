//! Every point at which short pieces of work can be killed: before and after each call of the store, at each dispatch, receipt, beginning,
//! effect, result and acknowledgement; each followed by a resume and, at later points, by a second kill; and every write whose sync can fail.
//! The work ends each time, the world outside is as if nothing had happened, and nothing is lost, doubled or stuck.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_sim::world::{Action, Deed, Fault, Habit, Moment, Plan, Trouble, When, Who, run, told};

/// How far behind the first kill the second one comes, in moments of its kind.
const LATER: [u64; 2] = [1, 4];

fn work(kind: usize) -> Plan {
    let action = Action { at_ms: 10, who: Who::Phone, session: 0, deed: Deed::Work { kind, number: 0 } };
    Plan { seed: 4242, meddling: false, neighbour: false, sessions: 1, actions: vec![action], faults: Vec::new() }
}

fn kills(moment: Moment) -> Vec<Trouble> {
    let hub = |kept, linger| Trouble::KillHub { down_ms: 150, kept, linger };
    let device = Trouble::KillDevice { down_ms: 150 };
    match moment {
        Moment::BeforeStore => vec![hub(0, false), hub(9, true)],
        Moment::AfterStore | Moment::ResultArrived => vec![hub(0, false)],
        Moment::Dispatched | Moment::AckSent => vec![hub(0, true)],
        Moment::Received | Moment::Begun | Moment::Acted | Moment::Finished | Moment::AckArrived => vec![device, hub(0, false)],
    }
}

/// Kills once at each point of the work; returns how many worlds that were.
fn once(kind: usize) -> usize {
    let plan = work(kind);
    let undisturbed = run(&plan, Habit::Honest).unwrap();
    assert!(undisturbed.is_fine(), "{}", told(&plan, &undisturbed));
    assert!(!undisturbed.outside.is_empty(), "this work leaves nothing outside");
    let mut worlds = 0;
    for (moment, times) in &undisturbed.moments {
        for nth in 1..=*times {
            for trouble in kills(*moment) {
                check(&plan, &[Fault { when: When::Nth(*moment, nth), trouble }], &undisturbed.outside);
                worlds += 1;
            }
        }
    }
    worlds
}

fn check(plan: &Plan, faults: &[Fault], outside: &std::collections::BTreeMap<String, usize>) {
    let plan = Plan { faults: faults.to_vec(), ..plan.clone() };
    let outcome = run(&plan, Habit::Honest).unwrap();
    assert!(outcome.is_fine(), "{}", told(&plan, &outcome));
    assert_eq!(&outcome.outside, outside, "{}", told(&plan, &outcome));
}

#[test]
fn a_change_with_approval_survives_a_kill_at_every_point() {
    assert!(once(0) > 100);
}

#[test]
fn entries_that_can_be_looked_up_survive_a_kill_at_every_point() {
    assert!(once(4) > 60);
}

/// A kill at each moment, and a second one soon after the resume, or later: at a call of the store, or when something happens outside.
#[test]
fn two_kills_leave_no_trace_outside() {
    let plan = work(4);
    let undisturbed = run(&plan, Habit::Honest).unwrap();
    let mut worlds = 0;
    for (moment, times) in &undisturbed.moments {
        for nth in 1..=*times {
            for first in kills(*moment).into_iter().take(1) {
                for (second, later) in seconds(&undisturbed.moments, *moment, nth) {
                    for trouble in kills(second).into_iter().take(1) {
                        let faults =
                            [Fault { when: When::Nth(*moment, nth), trouble: first }, Fault { when: When::Nth(second, later), trouble }];
                        check(&plan, &faults, &undisturbed.outside);
                        worlds += 1;
                    }
                }
            }
        }
    }
    assert!(worlds > 150, "{worlds} worlds");
}

fn seconds(moments: &std::collections::BTreeMap<Moment, u64>, first: Moment, nth: u64) -> Vec<(Moment, u64)> {
    let again = LATER.iter().map(|later| (first, nth + later)).filter(|(_, at)| *at <= moments[&first] + 8);
    // A resume reads before it writes, so that these fall into it.
    let stored = moments[&Moment::AfterStore];
    let in_resume = (first != Moment::AfterStore).then_some((Moment::AfterStore, stored.min(nth) + 2));
    again.chain(in_resume).collect()
}

#[test]
fn a_sync_that_fails_stops_the_hub_and_loses_nothing() {
    for kind in [0, 4] {
        let plan = work(kind);
        let undisturbed = run(&plan, Habit::Honest).unwrap();
        for nth in 1..=undisturbed.moments[&Moment::BeforeStore] {
            for kept in [false, true] {
                let fault = Fault { when: When::Nth(Moment::BeforeStore, nth), trouble: Trouble::SyncFails { kept } };
                check(&plan, &[fault], &undisturbed.outside);
            }
        }
    }
}

#[test]
fn a_journal_torn_or_lost_at_every_point_doubles_nothing() {
    for kind in [0, 4] {
        let plan = work(kind);
        let undisturbed = run(&plan, Habit::Honest).unwrap();
        for moment in [Moment::Received, Moment::Begun, Moment::Acted, Moment::Finished, Moment::AckArrived] {
            for nth in 1..=undisturbed.moments[&moment] {
                for trouble in [Trouble::TearJournal { down_ms: 150 }, Trouble::LoseJournal { down_ms: 150 }] {
                    check(&plan, &[Fault { when: When::Nth(moment, nth), trouble }], &undisturbed.outside);
                }
            }
        }
    }
}
