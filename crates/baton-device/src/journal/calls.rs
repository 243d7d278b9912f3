//! The calls that a journal's records add up to.

use super::{AttemptId, Finished, Receipt, Standing};
use baton_proto::{DeviceId, DispatchedCall, JournalId, Outcome, RunningCall, RunningState, SessionId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Acknowledged attempts that are remembered by name, so that a late repeat of one doesn't run again.
const REMEMBERED: usize = 1000;

/// One line of the journal.
#[allow(clippy::large_enum_variant, reason = "one lives for as long as its line is written or read")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(super) enum Record {
    /// Written when the journal is made, so that the hub notices when it has become another one.
    Named {
        journal_id: JournalId,
    },
    Adopted {
        device_id: DeviceId,
    },
    Fence {
        fence: u64,
    },
    Received {
        call: DispatchedCall,
    },
    Begun {
        id: AttemptId,
    },
    Finished {
        session_id: SessionId,
        id: AttemptId,
        outcome: Outcome,
    },
    Acknowledged {
        id: AttemptId,
    },
    /// It was received and never begun, and the device's life ended: as if it had never come.
    Forgotten {
        id: AttemptId,
    },
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    identity: Option<JournalId>,
    device: Option<DeviceId>,
    fence: u64,
    /// Not yet acknowledged, in the order of their last step.
    open: Vec<Open>,
    acknowledged: VecDeque<AttemptId>,
}

#[derive(Debug)]
struct Open {
    session_id: SessionId,
    id: AttemptId,
    state: State,
}

#[derive(Debug)]
enum State {
    Received(DispatchedCall),
    Begun(DispatchedCall),
    Finished(Outcome),
}

impl Calls {
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Named { journal_id } => self.identity = Some(journal_id),
            Record::Adopted { device_id } => {
                if self.device.is_some() {
                    *self = Self::default();
                }
                self.device = Some(device_id);
            }
            Record::Fence { fence } => self.fence = self.fence.max(fence),
            Record::Received { call } => {
                self.fence = self.fence.max(call.fence);
                let id = AttemptId { call_id: call.call_id, attempt: call.attempt };
                self.take(id);
                self.open.push(Open { session_id: call.session_id, id, state: State::Received(call) });
            }
            Record::Begun { id } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.id == id)
                    && let State::Received(call) = &open.state
                {
                    open.state = State::Begun(call.clone());
                }
            }
            Record::Finished { session_id, id, outcome } => {
                self.take(id);
                self.open.push(Open { session_id, id, state: State::Finished(outcome) });
            }
            Record::Acknowledged { id } => {
                self.take(id);
                self.acknowledged.push_back(id);
                if self.acknowledged.len() > REMEMBERED {
                    self.acknowledged.pop_front();
                }
            }
            Record::Forgotten { id } => self.take(id),
        }
    }

    /// What has to be written about calls that another life of the device left unfinished.
    pub(super) fn left_behind(&self) -> Vec<Record> {
        self.open.iter().filter_map(Open::left_behind).collect()
    }

    /// The fewest records that add up to this.
    pub(super) fn records(&self) -> Vec<Record> {
        let device = self.device.map(|device_id| Record::Adopted { device_id });
        let fence = Record::Fence { fence: self.fence };
        let acknowledged = self.acknowledged.iter().map(|id| Record::Acknowledged { id: *id });
        let open = self.open.iter().flat_map(Open::records);
        let named = self.identity.map(|journal_id| Record::Named { journal_id });
        device.into_iter().chain(named).chain([fence]).chain(acknowledged).chain(open).collect()
    }

    pub(super) fn receipt(&self, call: &DispatchedCall) -> Receipt {
        if call.fence < self.fence {
            return Receipt::StaleFence { newest: self.fence };
        }
        let id = AttemptId { call_id: call.call_id, attempt: call.attempt };
        if let Some(standing) = self.standing(id) {
            return Receipt::Known(standing);
        }
        let others = || self.open.iter().filter(|open| open.id.call_id == id.call_id);
        let acknowledged = self.acknowledged.iter().filter(|other| other.call_id == id.call_id);
        if others().map(|open| &open.id).chain(acknowledged).any(|other| other.attempt > id.attempt) {
            return Receipt::Superseded;
        }
        let underway = others().find(|open| !matches!(open.state, State::Finished(_)));
        underway.map_or(Receipt::New, |open| Receipt::Joins(open.id))
    }

    pub(super) fn standing(&self, id: AttemptId) -> Option<Standing> {
        match self.open.iter().find(|open| open.id == id).map(|open| &open.state) {
            Some(State::Received(_) | State::Begun(_)) => Some(Standing::Underway),
            Some(State::Finished(outcome)) => Some(Standing::Finished(Box::new(outcome.clone()))),
            None => self.acknowledged.contains(&id).then_some(Standing::Acknowledged),
        }
    }

    pub(super) fn running(&self) -> Vec<RunningCall> {
        let call = |open: &Open| RunningCall {
            session_id: open.session_id,
            call_id: open.id.call_id,
            attempt: open.id.attempt,
            state: match &open.state {
                State::Received(_) => RunningState::Accepted,
                State::Begun(_) => RunningState::Running,
                State::Finished(Outcome::Interrupted { .. }) => RunningState::Interrupted,
                State::Finished(_) => RunningState::Finished,
            },
        };
        self.open.iter().map(call).collect()
    }

    pub(super) fn unacknowledged(&self) -> Vec<Finished> {
        let finished = |open: &Open| match &open.state {
            State::Finished(outcome) => Some(Finished { session_id: open.session_id, id: open.id, outcome: outcome.clone() }),
            _ => None,
        };
        self.open.iter().filter_map(finished).collect()
    }

    pub(super) const fn device(&self) -> Option<DeviceId> {
        self.device
    }

    pub(super) const fn identity(&self) -> Option<JournalId> {
        self.identity
    }

    pub(super) const fn fence(&self) -> u64 {
        self.fence
    }

    pub(super) const fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn take(&mut self, id: AttemptId) {
        self.open.retain(|open| open.id != id);
    }
}

impl Open {
    fn left_behind(&self) -> Option<Record> {
        match &self.state {
            State::Received(_) => Some(Record::Forgotten { id: self.id }),
            State::Begun(call) => {
                let known = format!(
                    "The device stopped while attempt {} of '{}' was running; what it had done by then isn't known.",
                    call.attempt,
                    baton_proto::make_visible(&call.tool)
                );
                Some(Record::Finished { session_id: self.session_id, id: self.id, outcome: Outcome::Interrupted { known } })
            }
            State::Finished(_) => None,
        }
    }

    fn records(&self) -> Vec<Record> {
        let received = |call: &DispatchedCall| Record::Received { call: call.clone() };
        match &self.state {
            State::Received(call) => vec![received(call)],
            State::Begun(call) => vec![received(call), Record::Begun { id: self.id }],
            State::Finished(outcome) => {
                vec![Record::Finished { session_id: self.session_id, id: self.id, outcome: outcome.clone() }]
            }
        }
    }
}
