use crate::{
    ApprovalBinding, ApprovalId, Attachment, Baseline, CallId, CallOrigin, CoreIntent, DeviceId, Effect, FactId, FactScope, HandoffId,
    Language, MessageId, Origins, Phase, QuestionId, QuestionKind, RememberChoice, Risk, Role, RuleId, Said, Selection, Sender, SessionId,
    TaskId, Timestamp, ToolError, ToolResult, TurnId, UnknownCause, Usage, WorkspaceId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What ends are shown (D2): whole entities, each replaced by a newer version of itself. The hub folds; ends keep a map by kind and id.
///
/// `version` is the sequence number of the event that last touched the entity; `created_seq` orders a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EntityView {
    Session(Box<SessionEntity>),
    Task(Box<TaskEntity>),
    Turn(TurnEntity),
    Message(MessageEntity),
    Call(Box<CallEntity>),
    Approval(Box<ApprovalEntity>),
    Question(QuestionEntity),
    Fact(FactEntity),
    Note(NoteEntity),
    Handoff(HandoffEntity),
    Workspace(WorkspaceEntity),
}

impl EntityView {
    /// The kind's name on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Task(_) => "task",
            Self::Turn(_) => "turn",
            Self::Message(_) => "message",
            Self::Call(_) => "call",
            Self::Approval(_) => "approval",
            Self::Question(_) => "question",
            Self::Fact(_) => "fact",
            Self::Note(_) => "note",
            Self::Handoff(_) => "handoff",
            Self::Workspace(_) => "workspace",
        }
    }

    /// The id within its kind.
    pub fn id(&self) -> String {
        match self {
            Self::Session(it) => it.id.to_string(),
            Self::Task(it) => it.id.to_string(),
            Self::Turn(it) => it.id.to_string(),
            Self::Message(it) => it.id.to_string(),
            Self::Call(it) => it.id.to_string(),
            Self::Approval(it) => it.id.to_string(),
            Self::Question(it) => it.id.to_string(),
            Self::Fact(it) => it.id.to_string(),
            Self::Note(it) => it.id.clone(),
            Self::Handoff(it) => it.id.to_string(),
            Self::Workspace(it) => it.id.to_string(),
        }
    }

    pub const fn version(&self) -> u64 {
        match self {
            Self::Session(it) => it.version,
            Self::Task(it) => it.version,
            Self::Turn(it) => it.version,
            Self::Message(it) => it.version,
            Self::Call(it) => it.version,
            Self::Approval(it) => it.version,
            Self::Question(it) => it.version,
            Self::Fact(it) => it.version,
            Self::Note(it) => it.version,
            Self::Handoff(it) => it.version,
            Self::Workspace(it) => it.version,
        }
    }
}

/// What ends show of a task or session at a glance (T3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    Pending,
    Running,
    AwaitingInput,
    Completed,
    Failed,
    Cancelled,
}

/// The loop's own state, for the line under the conversation (T3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Idle,
    Thinking,
    AwaitingTool,
    AwaitingUser,
    AwaitingDevice,
    /// Another session works in the workspace.
    AwaitingWorkspace,
    Executing,
    /// Waits for the time of the next try.
    Retrying,
    Stopping,
    Error,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionEntity {
    pub id: crate::SessionId,
    pub version: u64,
    pub title: String,
    pub language: Language,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub epoch: u64,
    /// The device that holds the session (H5); everybody else follows live.
    #[serde(default)]
    pub holder: Option<DeviceId>,
    /// The open offer to another device.
    #[serde(default)]
    pub transfer: Option<HandoffId>,
    /// The user keeps it at the top of lists.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    /// Out of the list of sessions. Speaking in it brings it back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub archived: bool,
    /// Tokens of the last request to the model with its answer. Beside `context_tokens` of `GET /v1/hub` it says how full the model's window is.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub context_tokens: u64,
    pub state: WorkState,
    pub activity: Activity,
    /// The task that input goes to.
    #[serde(default)]
    pub active_task: Option<TaskId>,
    #[serde(default)]
    pub workspace_id: Option<WorkspaceId>,
    /// Approvals and questions that wait for the user.
    pub waiting: u32,
    /// Messages that begin a turn of their own once the one under way has ended (T10).
    #[serde(default)]
    pub queued: Vec<MessageId>,
    /// The event at which the agent's context was reset: it doesn't see what stands before (D7). `undo_reset` takes the latest reset back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_from: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskEntity {
    pub id: TaskId,
    pub version: u64,
    pub title: String,
    pub core_intent: CoreIntent,
    pub phase: Phase,
    pub state: WorkState,
    /// 0 to 100.
    pub progress: u8,
    /// What is happening, in words, in the conversation's language.
    pub line: String,
    #[serde(default)]
    pub waiting_on: Option<WaitingOn>,
    #[serde(default)]
    pub steps: Vec<StepView>,
    #[serde(default)]
    pub current_step: Option<String>,
    #[serde(default)]
    pub last_error: Option<String>,
    /// Tokens that the model used on it so far.
    #[serde(default, skip_serializing_if = "Usage::is_nothing")]
    pub usage: Usage,
    #[serde(default)]
    pub summary: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitingOn {
    Approval {
        id: ApprovalId,
    },
    Question {
        id: QuestionId,
    },
    Device {
        id: DeviceId,
    },
    /// Another session that works in the same workspace.
    Workspace {
        behind: SessionId,
        title: String,
    },
    /// The time of the next try of the model.
    Model {
        retry_at: Timestamp,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    pub step_id: String,
    pub title: String,
    pub status: StepStatus,
    #[serde(default)]
    pub depends_on: Vec<String>,
    #[serde(default)]
    pub conclusion: Option<String>,
    #[serde(default)]
    pub evidence: Option<String>,
    #[serde(default)]
    pub product: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    Pending,
    Running,
    Done,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEntity {
    pub id: TurnId,
    pub version: u64,
    pub created_seq: u64,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    pub state: TurnState,
    /// Model calls made in it (R4).
    pub iterations: u32,
    /// Messages that the model reads at its next step (T10); ends mark them.
    #[serde(default)]
    pub unread: Vec<MessageId>,
    pub started_at: Timestamp,
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    #[serde(default)]
    pub reason: Option<String>,
    /// The answer under way, to which `delta` frames belong.
    #[serde(default)]
    pub answering: Option<MessageId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Running,
    Waiting,
    Stopping,
    Finished,
    Interrupted,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageEntity {
    pub id: MessageId,
    pub version: u64,
    pub created_seq: u64,
    pub role: Role,
    pub text: String,
    #[serde(default)]
    pub thinking: Option<String>,
    #[serde(default)]
    pub turn_id: Option<TurnId>,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    #[serde(default)]
    pub sender: Option<Sender>,
    #[serde(default)]
    pub selection: Option<Selection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    pub at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    Proposed,
    AwaitingApproval,
    /// Waits for an answer to its question.
    AwaitingAnswer,
    Planned,
    Started,
    Unknown,
    /// Asked to stop; not yet confirmed.
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

impl CallState {
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallEntity {
    pub id: CallId,
    pub version: u64,
    pub created_seq: u64,
    pub turn_id: TurnId,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    #[serde(default)]
    pub step_id: Option<String>,
    pub tool: String,
    pub arguments: Value,
    pub origin: CallOrigin,
    pub effect: Effect,
    pub risk: Risk,
    pub state: CallState,
    pub attempt: u32,
    #[serde(default)]
    pub device_id: Option<DeviceId>,
    #[serde(default)]
    pub approval_id: Option<ApprovalId>,
    #[serde(default)]
    pub question_id: Option<QuestionId>,
    /// Why its outcome is unknown.
    #[serde(default)]
    pub unknown: Option<UnknownCause>,
    #[serde(default)]
    pub result: Option<ToolResult>,
    #[serde(default)]
    pub error: Option<ToolError>,
    /// Why it was cancelled.
    #[serde(default)]
    pub reason: Option<String>,
    pub at: Timestamp,
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    Open,
    Approved,
    Rejected,
    Voided,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalEntity {
    pub id: ApprovalId,
    pub version: u64,
    pub created_seq: u64,
    pub call_id: CallId,
    pub state: ApprovalState,
    pub arguments: Value,
    pub binding: ApprovalBinding,
    pub at: Timestamp,
    #[serde(default)]
    pub decided_by: Option<Sender>,
    /// The rule that answered in that device's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<RuleId>,
    #[serde(default)]
    pub decided_at: Option<Timestamp>,
    /// Why it was voided.
    #[serde(default)]
    pub reason: Option<String>,
    /// The workspace changed since it was asked; set on the card.
    #[serde(default)]
    pub workspace_changed: bool,
    /// What of it may be remembered, as long as it is open: each choice is what `confirm` takes as `remember`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remember: Vec<RememberChoice>,
    /// Why nothing of it may be remembered, or not how the command begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_remembered: Option<Said>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    Open,
    Answered,
    Voided,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionEntity {
    pub id: QuestionId,
    pub version: u64,
    pub created_seq: u64,
    pub question_kind: QuestionKind,
    pub call_id: CallId,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    pub text: String,
    /// For a question about an outcome: `happened`, `do_it`, `skip`.
    pub options: Vec<String>,
    /// What is known, in words.
    #[serde(default)]
    pub known: Option<String>,
    /// Why the outcome is unknown, for a question about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<UnknownCause>,
    pub state: QuestionState,
    #[serde(default)]
    pub answer: Option<String>,
    #[serde(default)]
    pub answered_by: Option<Sender>,
    #[serde(default)]
    pub reason: Option<String>,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactEntity {
    pub id: FactId,
    pub version: u64,
    pub key: String,
    pub value: String,
    pub scope: FactScope,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    pub source: String,
    #[serde(default)]
    pub confidence: Option<f64>,
    pub at: Timestamp,
    /// `false` once it was replaced or forgotten.
    pub valid: bool,
    /// What the agent had read before it kept this: empty where it had nothing but the user's own words (S21).
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origins: Origins,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoteEntity {
    /// The note's key.
    pub id: String,
    pub version: u64,
    /// `None` once it was forgotten.
    pub value: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoffState {
    Offered,
    Accepted,
    Declined,
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffEntity {
    pub id: HandoffId,
    pub version: u64,
    pub from: DeviceId,
    pub to: DeviceId,
    pub deadline: Timestamp,
    pub state: HandoffState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceEntity {
    pub id: WorkspaceId,
    pub version: u64,
    #[serde(default)]
    pub device_id: Option<DeviceId>,
    pub name: String,
    pub baseline: Baseline,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_nothing(count: &u64) -> bool {
    *count == 0
}
