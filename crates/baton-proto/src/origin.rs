use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the agent had read, besides the user's own words, before it came to something (S21). Whatever it read may have led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origins {
    /// For the same task, the latest last; of much the latest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<Origin>,
    /// How much more it was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
    /// Whether it had read such things for other tasks before, and may still have them in mind.
    #[serde(default, skip_serializing_if = "is_false")]
    pub earlier: bool,
}

/// One thing that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub kind: OriginKind,
    /// The path, the command line, the attachment's or the tool's name; shortened where it is long.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    /// A file or directory of the workspace.
    Path,
    /// What a command printed.
    Command,
    Attachment,
    /// What another tool returned.
    Tool,
}

impl Origins {
    /// Whether it had nothing but the user's own words.
    pub const fn is_empty(&self) -> bool {
        self.read.is_empty() && self.more == 0 && !self.earlier
    }
}

impl OriginKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Command => "command",
            Self::Attachment => "attachment",
            Self::Tool => "tool",
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
