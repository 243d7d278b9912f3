use crate::entity::is_false;
use crate::{Activity, DeviceId, EntityView, Language, MessageId, Role, SessionId, TaskId, Timestamp, Usage, WorkState, WorkspaceId};
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

/// `GET /v1/sessions?archived=&waiting=&pinned=`: which sessions are listed. Those that are archived are a list of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFilter {
    #[serde(default, skip_serializing_if = "is_false")]
    pub archived: bool,
    /// Only those in which something waits for the user.
    #[serde(default, skip_serializing_if = "is_false")]
    pub waiting: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
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
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub archived: bool,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DayUsage {
    /// Such as `2026-11-30`.
    pub day: String,
    pub usage: Usage,
    /// What it cost at the price that is configured now, in its currency; in `GET /v1/usage` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What a million tokens cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Price {
    pub input: f64,
    /// Of those that the provider had kept from an earlier request.
    pub cached_input: f64,
    pub output: f64,
    /// As it is written, such as `USD` or `¥`.
    pub currency: String,
}

impl Price {
    /// What that many tokens cost.
    #[allow(clippy::cast_precision_loss, reason = "nobody uses 2^53 tokens")]
    pub fn of(&self, usage: Usage) -> f64 {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        (fresh as f64 * self.input + cached as f64 * self.cached_input + usage.output_tokens as f64 * self.output) / 1e6
    }
}

/// `GET /v1/usage`: tokens by day over all sessions, the newest last, beside the budgets that hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageReport {
    pub days: Vec<DayUsage>,
    /// Tokens after which a task pauses; resuming gives it as many again.
    #[serde(default)]
    pub task_budget: Option<u64>,
    /// Tokens of one day after which work pauses until the user confirms it.
    #[serde(default)]
    pub day_budget: Option<u64>,
    /// The price at which `cost` of the days is reckoned, where one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionSummary>,
    /// Pass it as `?before=` for the next page.
    #[serde(default)]
    pub next: Option<String>,
    /// Approvals and questions that wait for the user, in all sessions.
    #[serde(default)]
    pub waiting_total: u32,
}

/// `GET /v1/sessions/{id}/history`: older messages and calls, oldest first (H3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    pub entries: Vec<EntityView>,
    #[serde(default)]
    pub before: Option<u64>,
}

/// `GET /v1/search?q=&limit=`: messages in which all of the words stand, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchResults {
    pub hits: Vec<SearchHit>,
    /// `false` while older messages are still being read for the first time: some may be missing.
    pub complete: bool,
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    pub session_id: SessionId,
    /// The session's.
    pub title: String,
    /// The session is out of the list.
    #[serde(default, skip_serializing_if = "is_false")]
    pub archived: bool,
    pub message_id: MessageId,
    /// Its place in the session's timeline: `history?before=` one more leads to it.
    pub seq: u64,
    pub at: Timestamp,
    pub role: Role,
    /// A piece of the message around the first match.
    pub excerpt: String,
    /// Where the words stand in the excerpt: begin and end of each, counted in characters (Unicode scalar values), in order.
    pub matches: Vec<(u32, u32)>,
}

/// What an end should know of the hub it talks to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubInfo {
    pub version: String,
    pub incarnation: u64,
    /// The model's name, or `None` when none is configured: every end says so, and slash commands still work (R7).
    #[serde(default)]
    pub model: Option<String>,
    /// Tokens that the model's window holds, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
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
