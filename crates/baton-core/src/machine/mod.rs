//! The machines a session is made of: what each may be, and how an event changes it.

pub(crate) mod origins;
pub(crate) mod phase;
pub(crate) mod tool_call;

use baton_proto::{
    ApprovalBinding, ApprovalId, ApprovalState, CallId, CoreIntent, Decision, DeviceId, FactId, FactScope, HandoffId, MessageId,
    ModelCallId, Origins, Phase, QuestionId, QuestionKind, QuestionState, RuleId, Sender, SessionId, StepStatus, TaskId, Timestamp, TurnId,
    TurnState, UnknownCause, Usage,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who holds the session (H5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub device: Option<DeviceId>,
    /// Rises on acceptance, take-over and release, not on an offer.
    pub epoch: u64,
    pub transfer: Option<Transfer>,
}

/// An offer to another device, open until its deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub handoff_id: HandoffId,
    pub from: DeviceId,
    pub to: DeviceId,
    pub deadline: Timestamp,
}

/// One piece of work (T2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub version: u64,
    pub title: String,
    pub intent: CoreIntent,
    pub phase: Phase,
    pub steps: Vec<Step>,
    pub progress: u8,
    pub line: String,
    pub last_error: Option<String>,
    pub usage: Usage,
    /// What it had used when its user last let it go on beyond its budget.
    pub budget_from: u64,
    pub summary: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Task {
    /// The step under way, else the next that may start.
    pub fn current_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.status == StepStatus::Running).or_else(|| self.next_step())
    }

    /// The first step whose dependencies are done.
    pub fn next_step(&self) -> Option<&Step> {
        let done = |id: &String| self.steps.iter().any(|step| &step.id == id && step.status == StepStatus::Done);
        self.steps.iter().find(|step| step.status == StepStatus::Pending && step.depends_on.iter().all(done))
    }

    pub fn open_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| step.status != StepStatus::Done)
    }
}

/// One entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub id: String,
    pub title: String,
    pub depends_on: Vec<String>,
    pub status: StepStatus,
    pub conclusion: Option<String>,
    pub evidence: Option<String>,
    pub product: Option<String>,
}

/// One user input and all that follows until the agent rests. Kept after its end until the next one starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub version: u64,
    pub created_seq: u64,
    pub task_id: Option<TaskId>,
    /// A slash command: one call asked for by the user, no model.
    pub literal: bool,
    pub iterations: u32,
    pub unread: Vec<MessageId>,
    pub model: Option<ModelCall>,
    /// The model has seen everything and said nothing more to do.
    pub rested: bool,
    /// The session that works in the workspace at the moment, with its title; this turn waits for it (E6).
    pub behind: Option<(SessionId, String)>,
    pub stop: Option<Stop>,
    /// How often each call was made with the same arguments since something last changed (R4).
    pub repeats: BTreeMap<String, u32>,
    pub started_at: Timestamp,
    pub end: Option<TurnEnd>,
}

/// The user wants the turn to stop; it ends once nothing runs any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub reason: String,
    pub pause: bool,
    /// Queued input begins the next turn at once.
    pub for_input: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    pub state: TurnState,
    pub reason: String,
    pub at: Timestamp,
}

/// Input that waits for the turn's end (T10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedInput {
    pub message_id: MessageId,
    /// What a task of its own would be about.
    pub goal: String,
}

/// One request to the model over all its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    pub id: ModelCallId,
    pub attempt: u32,
    pub message_id: MessageId,
    /// Failures that count towards giving up; restarts of the hub don't (C44).
    pub failures: u32,
    pub stage: ModelStage,
    /// What somebody else changed in the workspace, told in this request (E7). Kept until it is answered, so that each attempt tells it.
    pub news: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelStage {
    Started,
    /// Tried again at that time.
    Failed {
        retry_at: Timestamp,
    },
}

/// A request for approval, bound to what it is for (E5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    pub version: u64,
    pub created_seq: u64,
    pub call_id: CallId,
    pub binding: Arc<ApprovalBinding>,
    pub state: ApprovalState,
    pub at: Timestamp,
    pub decided: Option<(Decision, Sender, Timestamp)>,
    /// The rule that decided, in its granter's name.
    pub rule: Option<RuleId>,
    pub reason: Option<String>,
    pub workspace_changed: bool,
}

/// A question to the user (T11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: QuestionId,
    pub version: u64,
    pub created_seq: u64,
    pub kind: QuestionKind,
    pub call_id: CallId,
    pub task_id: Option<TaskId>,
    pub text: String,
    pub options: Vec<String>,
    pub known: Option<String>,
    /// Why the outcome that it asks about is unknown.
    pub cause: Option<UnknownCause>,
    pub state: QuestionState,
    pub answer: Option<(String, Sender)>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// A trusted parameter of the work (T1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub id: FactId,
    pub version: u64,
    pub key: String,
    pub value: String,
    pub scope: FactScope,
    pub task_id: Option<TaskId>,
    pub source: String,
    pub confidence: Option<f64>,
    pub at: Timestamp,
    /// What the agent had read before it kept this.
    pub origins: Origins,
}

/// A short-term working note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub version: u64,
    pub value: String,
}
