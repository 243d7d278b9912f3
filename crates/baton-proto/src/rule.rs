use crate::{DeviceId, Digest, Risk, RuleId, Sender, SessionId, TaskId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A remembered approval (E5): calls of one tool on one device that are allowed without asking again, in the name of whoever granted it.
/// It dies with its granter's trust, and never covers what is dangerous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    pub rule_id: RuleId,
    pub tool: String,
    /// The device that runs the calls.
    pub device_id: DeviceId,
    /// The directory they run in.
    #[serde(default)]
    pub directory: Option<String>,
    /// Why the device called it risky. With another reason, calls are asked about.
    #[serde(default)]
    pub risk_reason: String,
    pub pattern: RulePattern,
    /// Calls of a higher risk are asked about all the same.
    pub max_risk: Risk,
    pub granted_by: Sender,
    pub granted_at: Timestamp,
    /// For this task of this session alone; else for every session of the user's.
    #[serde(default)]
    pub only: Option<RuleScope>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleScope {
    pub session_id: SessionId,
    pub task_id: TaskId,
}

/// Which calls of the tool are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RulePattern {
    /// The very same arguments.
    Exact {
        argument_digest: Digest,
        /// What the approval showed, by its beginning.
        shown: String,
    },
    /// Commands whose argument list begins with these words.
    Prefix { words: Vec<String> },
}

/// What is to be remembered of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remember {
    pub scope: RememberScope,
    /// The first words of the command that later ones have to begin with; without it the very same call is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_words: Option<u32>,
}

/// One way in which an open approval may be remembered: `scope` and `prefix_words` are what [`Remember`] takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RememberChoice {
    pub scope: RememberScope,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_words: Option<u32>,
    /// These first words, to be shown. Empty where the very same call is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RememberScope {
    /// As long as the task goes on.
    Task,
    /// Until it is removed, or its granter loses trust.
    Always,
}
