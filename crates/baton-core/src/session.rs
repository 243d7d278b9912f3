use crate::machine::origins::Reading;
use crate::machine::tool_call::{GivenUp, ToolCall};
use crate::machine::{Approval, Fact, Holder, Note, Question, QueuedInput, Task, Transfer, Turn};
use baton_proto::{
    ApprovalId, ApprovalState, Attachment, CallId, FactId, HandoffState, Language, QuestionId, QuestionState, SessionId, TaskId, Timestamp,
    Usage, UserId, Workspace,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The whole state of a session: the fold of its log. Bounded whatever the length of the history, since dialogue and results stay in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub user: UserId,
    /// The last sequence number; the session's version.
    pub seq: u64,
    pub version: u64,
    pub title: String,
    pub pinned: bool,
    pub archived: bool,
    pub language: Language,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub holder: Holder,
    pub workspace: Option<Workspace>,
    pub workspace_version: u64,
    /// What somebody else changed in the workspace, to be said to the model at its next step (E7).
    pub workspace_news: Option<String>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Tasks that aren't ended, the active one last.
    pub stack: Vec<TaskId>,
    /// The last turn, open or ended.
    pub turn: Option<Turn>,
    /// Calls of the last turn.
    pub calls: BTreeMap<CallId, ToolCall>,
    /// Calls that were given up and may have acted all the same, the latest of them: their devices may still say so (C12).
    pub given_up: BTreeMap<CallId, GivenUp>,
    pub approvals: BTreeMap<ApprovalId, Approval>,
    pub questions: BTreeMap<QuestionId, Question>,
    pub facts: BTreeMap<FactId, Fact>,
    pub notes: BTreeMap<String, Note>,
    /// The transfer that was closed last, for its entity.
    pub closed_transfer: Option<(Transfer, HandoffState)>,
    /// Facts that were last replaced or forgotten, for their entities; their version is the event that did it.
    pub closed_facts: Vec<Fact>,
    /// Input that waits for the turn's end, in order.
    pub queue: Vec<QueuedInput>,
    /// What users attached to messages, the oldest first; of many the latest.
    pub attachments: Vec<Attachment>,
    /// What the agent has read besides its user's own words (S21).
    #[serde(default)]
    pub reading: Reading,
    /// Tokens of the last request to the model with its answer: how much of the model's window the dialogue fills.
    pub context_tokens: u64,
    /// Tokens used on each of the last days.
    pub usage: BTreeMap<String, Usage>,
    /// The day on which the user lets this session go on beyond the day's budget.
    pub beyond_day: Option<String>,
    /// The events at which the agent's context was reset, without those that were taken back (D7).
    pub context_resets: Vec<u64>,
    /// The latest reset that can't be taken back any more, since so many came after it.
    pub context_floor: u64,
    /// How often the session was taken up since anything else happened in it.
    pub resumes_in_a_row: u32,
}

impl Session {
    /// A session before its first event.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            user: UserId(Uuid::nil()),
            seq: 0,
            version: 0,
            title: String::new(),
            pinned: false,
            archived: false,
            language: Language::En,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            holder: Holder::default(),
            workspace: None,
            workspace_version: 0,
            workspace_news: None,
            tasks: BTreeMap::new(),
            stack: Vec::new(),
            turn: None,
            calls: BTreeMap::new(),
            given_up: BTreeMap::new(),
            approvals: BTreeMap::new(),
            questions: BTreeMap::new(),
            facts: BTreeMap::new(),
            notes: BTreeMap::new(),
            closed_transfer: None,
            closed_facts: Vec::new(),
            queue: Vec::new(),
            attachments: Vec::new(),
            reading: Reading::default(),
            context_tokens: 0,
            usage: BTreeMap::new(),
            beyond_day: None,
            context_resets: Vec::new(),
            context_floor: 0,
            resumes_in_a_row: 0,
        }
    }

    pub const fn exists(&self) -> bool {
        self.seq > 0
    }

    /// The event from which on the agent's context counts; what stands before it is the user's to read, and not shown to the model.
    pub fn context_from(&self) -> u64 {
        self.context_resets.last().copied().unwrap_or(self.context_floor)
    }

    pub fn open_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.end.is_none())
    }

    /// The task that input goes to.
    pub fn active_task(&self) -> Option<&Task> {
        self.stack.last().and_then(|id| self.tasks.get(id))
    }

    pub fn open_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.values().filter(|approval| approval.state == ApprovalState::Open)
    }

    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.values().filter(|question| question.state == QuestionState::Open)
    }

    pub fn unsettled_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.values().filter(|call| !call.is_settled())
    }
}
