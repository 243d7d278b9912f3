use crate::{Baseline, Capabilities, CoreIntent, DeviceId, EntityView, Phase, SessionId, StepView, TaskId, Timestamp, UserId, WaitingOn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole running state of a session, at most 32 KiB however long its history is (H2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    pub session_id: SessionId,
    pub user_id: UserId,
    /// Who held the session before, where it moved.
    #[serde(default)]
    pub device_from: Option<DeviceId>,
    #[serde(default)]
    pub device_to: Option<DeviceId>,
    pub saved_at: Timestamp,
    /// The session's last sequence number.
    pub version: u64,
    pub epoch: u64,
    #[serde(default)]
    pub holder: Option<DeviceId>,
    pub state: SnapshotState,
    pub brief: Brief,
    /// What was left out of a section, and where the whole is.
    #[serde(default)]
    pub omitted: BTreeMap<String, Omitted>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotState {
    /// The latest messages, oldest first.
    pub dialogue_history: Vec<EntityView>,
    /// Open tasks, the active one last.
    pub task_stack: Vec<TaskId>,
    pub tasks: BTreeMap<TaskId, SnapshotTask>,
    /// Calls in flight.
    pub tool_state: Vec<EntityView>,
    pub skill_state: BTreeMap<String, serde_json::Value>,
    pub short_term_memory: BTreeMap<String, String>,
    pub facts: Vec<EntityView>,
    pub approvals: Vec<EntityView>,
    pub questions: Vec<EntityView>,
    #[serde(default)]
    pub workspace: Option<Baseline>,
    pub capabilities: Capabilities,
    pub memory: MemoryRef,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotTask {
    pub title: String,
    pub core_intent: CoreIntent,
    pub phase: Phase,
    pub task_progress: TaskProgress,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskProgress {
    #[serde(default)]
    pub current_step: Option<String>,
    pub completed_steps: Vec<StepView>,
    pub remaining_steps: Vec<StepView>,
    pub percent: u8,
    pub line: String,
}

/// What the long-term memory was when the snapshot was taken; version 0 while there is none (R6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRef {
    pub version: u64,
    pub refs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    pub count: u64,
    /// Where the whole is to be had.
    pub r#ref: String,
}

/// Where the work stands, for an agent or a person who takes it up (H4). By template, at most 2 KiB, in the conversation's language.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Brief {
    pub goal: String,
    pub constraints: Vec<String>,
    pub completed_steps: Vec<String>,
    #[serde(default)]
    pub next_step: Option<String>,
    #[serde(default)]
    pub waiting_on: Option<WaitingOn>,
    #[serde(default)]
    pub workspace: Option<Baseline>,
    /// What was put off, by title.
    pub deferred: Vec<String>,
    /// The same as one text.
    pub text: String,
}
