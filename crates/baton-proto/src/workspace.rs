use crate::{DeviceId, Digest, ToolError, WorkspaceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A directory of the user's on one device (E7). Which directory is meant is decided by its device alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Workspace {
    pub workspace_id: WorkspaceId,
    /// The device that holds it; filled in by the hub from the connection, never from the device's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
    /// The last part of the path, for people.
    pub name: String,
    pub baseline: Baseline,
    /// Whether commands run in a sandbox here, and in which.
    #[serde(default)]
    pub sandbox: Option<String>,
}

/// What a workspace looked like at a moment: the commit, if any, and a digest of uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Absolute path on the device.
    pub path: String,
    #[serde(default)]
    pub branch: Option<String>,
    #[serde(default)]
    pub commit: Option<String>,
    /// Digest of uncommitted changes, `None` when there are none (or, without git, of the whole tree's listing).
    #[serde(default)]
    pub dirty: Option<Digest>,
}

/// Largest file that ends are shown through the hub, in bytes (C33).
pub const MAX_SHOWN_FILE_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of a file in one part, so that a part fits a frame whatever it consists of.
pub const MAX_FILE_PART_BYTES: usize = 128 * 1024;
/// Paths that one question for them is answered with, at most.
pub const MAX_FOUND_PATHS: u32 = 100;

/// A device's answer to the question for a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FileShown {
    Part(FilePart),
    /// Why it isn't shown, as a tool would say it.
    Refused {
        error: ToolError,
    },
}

/// A part of a file of the workspace. What is plainly a secret in a text is replaced by a note, as in results of tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePart {
    /// Of the whole as it is shown: parts that name the same one fit together.
    pub digest: Digest,
    /// Of the whole as it is shown.
    pub bytes: u64,
    /// Where the part begins, in bytes.
    pub offset: u64,
    /// In base64.
    pub content: String,
}

/// `GET /v1/sessions/{id}/paths`, and a device's answer to it: files and directories of the workspace whose names fit, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPaths {
    pub paths: Vec<FoundPath>,
    /// Whether more fit than are named.
    #[serde(default)]
    pub more: bool,
    /// Names that were looked at.
    #[serde(default)]
    pub listed: u64,
    /// Why not every name was looked at, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// A file or a directory of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundPath {
    /// As tools take it: relative to the workspace; bytes that are not UTF-8 are characters of a private range.
    pub path: String,
    /// As people are shown it, where that differs: such bytes as `\xNN`, characters that deceive as `⟨U+NNNN⟩`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    #[serde(default)]
    pub directory: bool,
}
