use crate::{Activity, DeviceId, EntityView, Language, SessionId, TaskId, Timestamp, Usage, WorkState, WorkspaceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session at one moment: its entities and recent timeline at `seq` (D4). What follows is every change after `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    pub session_id: SessionId,
    pub seq: u64,
    pub entities: Vec<EntityView>,
    /// Where the timeline goes on backwards: pass it to `history?before=`. `None` at the beginning.
    #[serde(default)]
    pub history_before: Option<u64>,
}

/// `GET /v1/sessions`: one line of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    pub session_id: SessionId,
    pub title: String,
    pub language: Language,
    pub state: WorkState,
    pub activity: Activity,
    /// The active task's line and progress.
    pub line: String,
    pub progress: u8,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    pub waiting: u32,
    pub epoch: u64,
    #[serde(default)]
    pub holder: Option<DeviceId>,
    #[serde(default)]
    pub workspace_id: Option<WorkspaceId>,
    pub seq: u64,
    pub updated_at: Timestamp,
    /// Tokens used on each of the last days, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<DayUsage>,
}

/// Tokens used on one day (R3), which is counted in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DayUsage {
    /// Such as `2026-11-30`.
    pub day: String,
    pub usage: Usage,
}

/// `GET /v1/usage`: tokens by day over all sessions, the newest last, beside the budgets that hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    pub days: Vec<DayUsage>,
    /// Tokens after which a task pauses; resuming gives it as many again.
    #[serde(default)]
    pub task_budget: Option<u64>,
    /// Tokens of one day after which work pauses until the user confirms it.
    #[serde(default)]
    pub day_budget: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionSummary>,
    /// Pass it as `?before=` for the next page.
    #[serde(default)]
    pub next: Option<String>,
}

/// `GET /v1/sessions/{id}/history`: older messages and calls, oldest first (H3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    pub entries: Vec<EntityView>,
    #[serde(default)]
    pub before: Option<u64>,
}

/// What an end should know of the hub it talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubInfo {
    pub version: String,
    pub incarnation: u64,
    /// The model's name, or `None` when none is configured: every end says so, and slash commands still work (R7).
    #[serde(default)]
    pub model: Option<String>,
    pub commands: Vec<SlashCommand>,
}

/// A command that works without a model; the same list on every end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlashCommand {
    /// With its slash, such as `/show`.
    pub name: String,
    pub usage: String,
    pub description: String,
}
