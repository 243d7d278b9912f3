use crate::{CallId, DeviceId, SessionId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A question to a device outside of any log, so that its answer finds whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct QuestionToDevice(pub Uuid);

/// Calls that one question may name.
pub const MAX_NAMED_CALLS: usize = 1000;

/// `GET /v1/sessions/{id}/diff`: what the agent changed in the workspace, in one task, step or call (E7).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceDiff {
    pub session_id: SessionId,
    /// `None`: what was asked for word by word, outside of any task; or a single call.
    #[serde(default)]
    pub task_id: Option<TaskId>,
    #[serde(default)]
    pub step_id: Option<String>,
    #[serde(default)]
    pub call_id: Option<CallId>,
    /// The device that holds the workspace and answered.
    pub device_id: DeviceId,
    /// Calls that were looked at: those which could have changed something.
    pub calls: u32,
    #[serde(flatten)]
    pub changes: RecordedChanges,
}

/// What a device's history knows of some calls. Their own changes only: what the user changed in between isn't in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedChanges {
    pub files: Vec<FileDiff>,
    /// Changed files that aren't in `files`, since there were too many for one answer.
    #[serde(default)]
    pub files_left_out: u32,
    /// What the calls changed, or may have changed, without a record. It can't be shown or undone.
    #[serde(default)]
    pub not_recorded: Vec<NotRecorded>,
    #[serde(default)]
    pub not_recorded_left_out: u32,
    /// Calls whose changes were taken back. They aren't in `files`.
    #[serde(default)]
    pub undone: Vec<CallId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
}

/// One file before and after the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Relative to the workspace. Bytes that are not UTF-8 are written as `\xNN`.
    pub path: String,
    /// Its name before, where it was renamed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    pub status: FileStatus,
    /// It isn't text, so there is no diff.
    #[serde(default)]
    pub binary: bool,
    /// It is too large for a diff.
    #[serde(default)]
    pub too_large: bool,
    /// A unified diff with three lines of context. Characters that deceive are written as `⟨U+NNNN⟩`, a carriage return at the end of a
    /// line as `\r`, bytes that are not UTF-8 as `\xNN`. Long lines are cut, with a count of what is missing.
    #[serde(default)]
    pub diff: String,
    /// Lines added and removed in all, also where the diff is cut.
    #[serde(default)]
    pub added: u32,
    #[serde(default)]
    pub removed: u32,
    /// Lines of the diff that are left out at its end.
    #[serde(default)]
    pub lines_left_out: u32,
    /// Permission bits before and after, such as 420 for `rw-r--r--`, where they were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modes: Option<(u32, u32)>,
    /// The calls that changed it, in order.
    pub calls: Vec<CallId>,
    /// The steps of the plan that these calls belong to.
    #[serde(default)]
    pub steps: Vec<String>,
    /// It is no longer as these calls left it: the user or a later call changed it.
    #[serde(default)]
    pub changed_since: bool,
    /// What else is to be known, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that changed, or may have changed, without a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRecorded {
    /// Relative to the workspace, as in [`FileDiff`].
    pub path: String,
    /// Why, in words.
    pub reason: String,
}
