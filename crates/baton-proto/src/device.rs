use crate::{DeviceId, JournalId, Timestamp, ToolSpec, UserId, Workspace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How far a device is trusted (H9). Ordered from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    Guest,
    Standard,
    Trusted,
}

/// What an end is (D1). `Device` only acts: it holds workspaces and tools, and has no user in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientType {
    Phone,
    Tablet,
    Web,
    Ide,
    Cli,
    Device,
}

/// What a device can do at the moment (H11). Unknown features and inputs are kept as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    #[serde(default)]
    pub inputs: BTreeSet<String>,
    /// Width and height in CSS pixels or character cells.
    #[serde(default)]
    pub screen: Option<(u32, u32)>,
    #[serde(default)]
    pub features: BTreeSet<String>,
    /// A language tag the end prefers, such as `zh-CN`.
    #[serde(default)]
    pub language: Option<String>,
}

/// A paired device as the hub keeps it. Its token is kept as a hash elsewhere and never leaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRecord {
    pub device_id: DeviceId,
    pub name: String,
    pub client_type: ClientType,
    pub trust: Trust,
    pub paired_at: Timestamp,
    #[serde(default)]
    pub revoked_at: Option<Timestamp>,
    #[serde(default)]
    pub capabilities: Capabilities,
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub workspaces: Vec<Workspace>,
    /// The journal it came with last. A device that never told one is believed to have lost none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalId>,
}

/// `GET /v1/devices`: a device as its user sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceView {
    pub device_id: DeviceId,
    pub name: String,
    pub client_type: ClientType,
    pub trust: Trust,
    pub online: bool,
    pub paired_at: Timestamp,
    /// Its last sign of life: since when it is away, if it isn't online. `None` when it was never heard since it was paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Timestamp>,
    #[serde(default)]
    pub revoked_at: Option<Timestamp>,
    /// Whether this is the device that asks.
    #[serde(default)]
    pub own: bool,
    #[serde(default)]
    pub workspaces: Vec<Workspace>,
    #[serde(default)]
    pub tools: Vec<String>,
}

/// `PATCH /v1/devices/{id}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePatch {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub trust: Option<Trust>,
}

/// `POST /v1/admin/users`, with the token that a hub leaves in its data directory: adds a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewUser {
    pub name: String,
}

/// The added user, with the secret of a one-time link that pairs the user's first device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddedUser {
    pub user_id: UserId,
    pub name: String,
    pub secret: String,
    pub expires_at: Timestamp,
}
