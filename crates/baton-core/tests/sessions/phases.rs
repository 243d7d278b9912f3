//! The phases of a task: the table of the code against that of the documentation, and against every pair.

use baton_core::{TRANSITIONS, may_follow};
use baton_proto::Phase;
use std::collections::BTreeSet;
use std::fmt::Write as _;

fn wire(phase: Phase) -> String {
    serde_json::to_value(phase).unwrap().as_str().unwrap().to_owned()
}

#[test]
fn may_follow_says_what_the_table_says_for_every_pair() {
    let allowed: BTreeSet<_> = TRANSITIONS.iter().flat_map(|(from, next)| next.iter().map(move |to| (*from, *to))).collect();
    for from in Phase::ALL {
        for to in Phase::ALL {
            assert_eq!(may_follow(from, to), allowed.contains(&(from, to)), "{from:?} to {to:?}");
        }
    }
    let waits = [Phase::WaitingUser, Phase::WaitingDevice, Phase::Paused];
    assert!(waits.iter().all(|from| !may_follow(*from, Phase::Done)), "nothing is done while it waits");
    let into_done: Vec<_> = Phase::ALL.into_iter().filter(|from| may_follow(*from, Phase::Done)).collect();
    assert_eq!(into_done, [Phase::Checking], "everything that is done was checked");
    for open in Phase::ALL.into_iter().filter(|phase| !phase.is_ended()) {
        assert!(may_follow(open, Phase::Cancelled), "{open:?} can always be cancelled");
    }
}

#[test]
fn the_documentation_shows_the_same_table() {
    let mut table = String::from("| from | may become |\n| --- | --- |\n");
    for (from, next) in TRANSITIONS {
        let next: Vec<_> = next.iter().map(|to| format!("`{}`", wire(*to))).collect();
        let next = if next.is_empty() { "nothing: it has ended".to_owned() } else { next.join(", ") };
        let _ = writeln!(table, "| `{}` | {next} |", wire(*from));
    }
    let shown = include_str!("../../../../docs/tasks.md");
    assert!(shown.contains(&table), "docs/tasks.md should show this table:\n{table}");
    for phase in Phase::ALL {
        assert!(shown.contains(&format!("**`{}`**", wire(phase))), "docs/tasks.md explains {phase:?}");
    }
}
