use baton_proto::Phase::{self, Cancelled, Checking, Done, Executing, Failed, Idle, Paused, Planning, WaitingDevice, WaitingUser};

/// Which phase may follow which (T3). Whatever isn't here is refused, whatever the model says. docs/tasks.md shows the same table.
pub const TRANSITIONS: &[(Phase, &[Phase])] = &[
    (Idle, &[Planning, Executing, Paused, Cancelled]),
    (Planning, &[Executing, Checking, WaitingUser, WaitingDevice, Paused, Failed, Cancelled]),
    (Executing, &[Planning, Checking, WaitingUser, WaitingDevice, Paused, Failed, Cancelled]),
    (Checking, &[Executing, Planning, Done, WaitingUser, WaitingDevice, Paused, Failed, Cancelled]),
    (WaitingUser, &[Planning, Executing, Checking, WaitingDevice, Paused, Failed, Cancelled]),
    (WaitingDevice, &[Planning, Executing, Checking, WaitingUser, Paused, Failed, Cancelled]),
    (Paused, &[Planning, Executing, Cancelled]),
    (Done, &[]),
    (Failed, &[]),
    (Cancelled, &[]),
];

/// Whether a task in phase `from` may enter phase `to`.
pub fn may_follow(from: Phase, to: Phase) -> bool {
    TRANSITIONS.iter().any(|(phase, next)| *phase == from && next.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_phase_once_and_ended_ones_stay_ended() {
        for phase in Phase::ALL {
            let rows: Vec<_> = TRANSITIONS.iter().filter(|(from, _)| *from == phase).collect();
            assert_eq!(rows.len(), 1, "{phase:?}");
            assert_eq!(rows[0].1.is_empty(), phase.is_ended(), "{phase:?}");
            assert!(!may_follow(phase, phase), "{phase:?} may not follow itself");
        }
        assert!(!may_follow(Phase::Planning, Phase::Done), "nothing is done unchecked");
        assert!(!may_follow(Phase::WaitingUser, Phase::Done), "nothing is done while a human is asked");
    }
}
