use crate::{Baseline, Digest, NotRecorded, Said};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What repeating a call does to the world (R2, E3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing; may be repeated freely.
    Read,
    /// Repeating it with the same arguments leaves the same state.
    Idempotent,
    /// Each run acts anew; never repeated without a human's word or a lookup that says it didn't happen.
    Once,
}

/// How much harm a call can do, and so who may allow it (requirements, "Who may do what").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Runs without asking.
    Safe,
    /// Asks, unless the user asked for it literally.
    Sensitive,
    /// Always asks, a trusted device only, with an extra confirmation.
    Dangerous,
}

/// A tool that a device offers (R2). Checked at registration: see [`ToolSpec::problem`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// Verb first, `snake_case`, at most 64 characters, such as `edit_file`.
    pub name: String,
    /// What it does, when to use it, and its limits; read by the model.
    pub description: String,
    /// A JSON Schema of an object.
    pub parameters: Value,
    pub effect: Effect,
    /// The least risk of any call; `prepare` may raise it for given arguments.
    pub risk: Risk,
    /// Ask the device for digests, risk and a preview before deciding (E5).
    #[serde(default)]
    pub prepare: bool,
    /// The device can find out whether a call with an unknown outcome happened (E3).
    #[serde(default)]
    pub lookup: bool,
    /// Reaches beyond the workspace with a lasting effect, so that a switch of device in mid-call needs confirmation (H6).
    #[serde(default)]
    pub lasting: bool,
    /// Seconds until the device gives up, 1 to 3600.
    pub timeout_s: u32,
}

impl ToolSpec {
    /// Why this tool can't be registered, or `None`. The schema itself is checked by whoever compiles it.
    pub fn problem(&self) -> Option<String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(plain) {
            let shown: String = self.name.chars().take(100).collect();
            return Some(format!("the tool name '{}' is not 1 to 64 of a-z, 0-9 and _", shown.escape_debug()));
        }
        if self.description.trim().is_empty() || self.description.len() > 4096 {
            return Some(format!("the description of '{}' is empty or over 4,096 bytes", self.name));
        }
        if self.parameters.get("type").and_then(Value::as_str) != Some("object") {
            return Some(format!("the parameters of '{}' are not the schema of an object", self.name));
        }
        if !(1..=3600).contains(&self.timeout_s) {
            return Some(format!("the timeout of '{}' is {} s; 1 to 3,600 is allowed", self.name, self.timeout_s));
        }
        None
    }
}

/// What a device found out about a call before it is decided on (E5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prepared {
    /// The risk of exactly these arguments.
    pub risk: Risk,
    /// Why, in words for the card.
    pub risk_reason: String,
    /// The same sentence by sentence, where the device says it so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risk_said: Vec<Said>,
    /// Digest of each file that the arguments name; `None` where there is no such file.
    #[serde(default)]
    pub digests: BTreeMap<String, Option<Digest>>,
    /// What will happen, whole: the command line, or a diff. At most 32 KiB; a longer one is refused, never cut (S19).
    pub preview: String,
    /// The directory it acts in, as the device names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Set when the device refuses the call outright; it then fails with this and nobody is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<ToolError>,
}

/// How a call ended on its device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It acted.
    Succeeded(ToolResult),
    /// It failed, and says what that left behind.
    Failed {
        error: ToolError,
        #[serde(default)]
        result: Option<ToolResult>,
    },
    /// It was stopped on request, its whole process tree gone.
    Cancelled {
        #[serde(default)]
        result: Option<ToolResult>,
    },
    /// The device died while it acted, and can't tell what happened.
    Interrupted { known: String },
}

/// What a call produced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// What the model and people read, at most [`crate::MAX_RESULT_BYTES`]; head and tail where more was produced (E9).
    pub content: String,
    /// Bytes produced in all.
    pub bytes: u64,
    /// Bytes left out between head and tail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Digest of everything that was produced, where something was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The outside system's own name for what was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_id: Option<String>,
    /// Files that the call changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// What the call changed, or may have changed, without a record, and why (E7).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_recorded: Vec<NotRecorded>,
    /// The workspace after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// One file before and after a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// `None`: it didn't exist.
    pub before: Option<Digest>,
    /// `None`: it was deleted.
    pub after: Option<Digest>,
    /// Lines added and removed, where it is text.
    #[serde(default)]
    pub added: u32,
    #[serde(default)]
    pub removed: u32,
}

/// Whether something may have been changed (F4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateModified {
    No,
    Yes,
    #[default]
    Unknown,
}

/// Why a call failed, in words for the model and for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// Stable, such as `outside_workspace`, `changed_since_read`, `no_match`, `timed_out`.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: String,
    #[serde(default)]
    pub state_modified: StateModified,
}

/// What a lookup found out about a call whose outcome was unknown (E3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "a finding is made once and sent, never kept in numbers")]
pub enum Finding {
    /// It took effect.
    Happened { result: ToolResult },
    /// It did not.
    NotHappened,
    /// The lookup can't tell.
    Unclear { known: String },
}
