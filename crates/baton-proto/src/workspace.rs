use crate::{DeviceId, Digest, WorkspaceId};
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
