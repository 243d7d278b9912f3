//! Every point at which short pieces of work can be killed: before and after each call of the store, at each dispatch, receipt, beginning,
//! effect, result and acknowledgement; each followed by a resume and, at later points, by a second kill. The work ends each time, the world
//! outside is as if nothing had happened, and nothing is lost, doubled or stuck.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_sim::world::{Action, Deed, Fault, Habit, Moment, Plan, Trouble, When, Who, run, told};

/// How far behind the first kill the second one comes, in moments of its kind.
const LATER: [u64; 3] = [1, 3, 11];

fn work(kind: usize) -> Plan {
    let action = Action { at_ms: 10, who: Who::Phone, session: 0, deed: Deed::Work { kind, number: 0 } };
    Plan { seed: 4242, meddling: false, sessions: 1, actions: vec![action], faults: Vec::new() }
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

#[test]
fn two_kills_leave_no_trace_outside() {
    let plan = work(4);
    let undisturbed = run(&plan, Habit::Honest).unwrap();
    let kill = |when| Fault { when, trouble: Trouble::KillHub { down_ms: 50, kept: 0, linger: false } };
    let dies = |when| Fault { when, trouble: Trouble::KillDevice { down_ms: 50 } };
    let mut worlds = 0;
    for nth in 1..=undisturbed.moments[&Moment::AfterStore] {
        for later in LATER {
            let first = kill(When::Nth(Moment::AfterStore, nth));
            check(&plan, &[first, kill(When::Nth(Moment::AfterStore, nth + later))], &undisturbed.outside);
            worlds += 1;
        }
    }
    for nth in 1..=undisturbed.moments[&Moment::Acted] {
        for (first, second) in [(Moment::Begun, Moment::Acted), (Moment::Acted, Moment::Acted), (Moment::Acted, Moment::ResultArrived)] {
            let second_kill = if second == Moment::ResultArrived { kill } else { dies };
            check(&plan, &[dies(When::Nth(first, nth)), second_kill(When::Nth(second, nth + 1))], &undisturbed.outside);
            worlds += 1;
        }
    }
    assert!(worlds > 50, "{worlds} worlds");
}
