use baton_proto::{
    ApprovalId, CallId, CallOrigin, CallState, CallTerms, DeviceId, Digest, JournalId, QuestionId, TaskId, Timestamp, TurnId, UnknownCause,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One requested action. Its id is its effect key, stable over attempts (E1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: CallId,
    pub version: u64,
    pub created_seq: u64,
    pub turn_id: TurnId,
    pub task_id: Option<TaskId>,
    pub step_id: Option<String>,
    pub tool: String,
    pub arguments: Arc<Value>,
    pub origin: CallOrigin,
    pub terms: CallTerms,
    pub stage: CallStage,
    /// The latest attempt that was planned, 0 before the first.
    pub attempt: u32,
    /// The journal that the latest attempt was planned for, where its device has told one.
    #[serde(default)]
    pub journal: Option<JournalId>,
    /// Digests the device found when it prepared the call; it runs only while they hold (S17).
    pub digests: Arc<BTreeMap<String, Option<Digest>>>,
    /// Risk after preparation.
    pub risk: baton_proto::Risk,
    pub approval: Option<ApprovalId>,
    pub approved: bool,
    pub question: Option<QuestionId>,
    pub at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

/// A call that was cancelled after it had been planned for a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenUp {
    pub device_id: DeviceId,
    pub attempt: u32,
    pub tool: String,
    /// When it was given up, as a number of the log.
    pub seq: u64,
}

/// Where a call stands (E2). Results aren't kept here: they are in the log and in what ends were shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallStage {
    /// Known, and not decided on: its device may still have to prepare it.
    Proposed,
    AwaitingApproval {
        approval_id: ApprovalId,
    },
    /// The hub's own question to the user.
    AwaitingAnswer {
        question_id: QuestionId,
    },
    /// To be dispatched with this attempt number, again and again until its device has written it down.
    Planned {
        attempt: u32,
    },
    Started {
        attempt: u32,
    },
    /// Nobody knows whether it acted. That is where real systems lie.
    Unknown {
        attempt: u32,
        cause: UnknownCause,
        waiting: Waiting,
    },
    /// Asked to stop; its device hasn't confirmed yet.
    Cancelling {
        attempt: u32,
        reason: String,
    },
    Succeeded,
    Failed,
    Cancelled,
}

/// What an unknown outcome waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// The device's own word, when it is back.
    Device,
    /// The tool's lookup.
    Lookup,
    /// A human.
    Human { question_id: QuestionId },
}

impl ToolCall {
    pub const fn state(&self) -> CallState {
        match self.stage {
            CallStage::Proposed => CallState::Proposed,
            CallStage::AwaitingApproval { .. } => CallState::AwaitingApproval,
            CallStage::AwaitingAnswer { .. } => CallState::AwaitingAnswer,
            CallStage::Planned { .. } => CallState::Planned,
            CallStage::Started { .. } => CallState::Started,
            CallStage::Unknown { .. } => CallState::Unknown,
            CallStage::Cancelling { .. } => CallState::Cancelling,
            CallStage::Succeeded => CallState::Succeeded,
            CallStage::Failed => CallState::Failed,
            CallStage::Cancelled => CallState::Cancelled,
        }
    }

    pub const fn is_settled(&self) -> bool {
        self.state().is_settled()
    }

    /// Whether it acts, or may be acting, on that device.
    pub fn may_act_on(&self, device: DeviceId) -> bool {
        self.terms.device_id == Some(device)
            && matches!(
                self.stage,
                CallStage::Planned { .. } | CallStage::Started { .. } | CallStage::Unknown { .. } | CallStage::Cancelling { .. }
            )
    }

    /// Whether it may have been handed to a device that forgot it: it was planned for another journal than the device has now (F7).
    pub fn may_be_forgotten(&self, now: Option<JournalId>) -> bool {
        matches!(self.stage, CallStage::Planned { .. }) && matches!((self.journal, now), (Some(then), Some(now)) if then != now)
    }

    /// Whether an effect may be under way that outlasts a switch of device (H6).
    pub const fn is_lasting_in_flight(&self) -> bool {
        // A planned one may have reached its device already.
        self.terms.lasting
            && matches!(
                self.stage,
                CallStage::Planned { .. } | CallStage::Started { .. } | CallStage::Unknown { .. } | CallStage::Cancelling { .. }
            )
    }
}
