use crate::{
    Brief, CallId, Capabilities, ClientType, DeviceId, Digest, EntityView, ErrorBody, Event, FileShown, Finding, FoundPaths, HandoffId,
    HubInfo, JournalId, MessageId, Outcome, Prepared, QuestionToDevice, RecordedChanges, Reply, SessionId, SessionView, Timestamp,
    ToolSpec, Trust, UserId, Workspace,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One change of a session, as it is stored and sent (D4): the event, and the entities it touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    pub session_id: SessionId,
    pub seq: u64,
    pub event: Event,
    pub upserts: Vec<EntityView>,
}

/// A call as a device's journal knows it, told when the device connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningCall {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub attempt: u32,
    pub state: RunningState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunningState {
    /// Received and written down; not begun.
    Accepted,
    Running,
    /// Its result follows.
    Finished,
    /// The device died while it acted. Its `interrupted` outcome follows.
    Interrupted,
}

/// What a client sends over the WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientFrame {
    /// The first frame of every connection.
    Hello {
        protocol: u32,
        client_type: ClientType,
        #[serde(default)]
        capabilities: Capabilities,
        #[serde(default)]
        tools: Vec<ToolSpec>,
        #[serde(default)]
        workspaces: Vec<Workspace>,
        /// Sessions to go on with, each after the last sequence number that was seen.
        #[serde(default)]
        cursors: BTreeMap<SessionId, u64>,
        #[serde(default)]
        running: Vec<RunningCall>,
        /// Which journal `running` is from. Another one than before shows that the device forgot what it had been given (F7).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        journal: Option<JournalId>,
    },
    /// Without `after`: the view, then changes. With it: what came after it.
    Subscribe {
        session_id: SessionId,
        #[serde(default)]
        after: Option<u64>,
    },
    Unsubscribe {
        session_id: SessionId,
    },
    Op {
        #[serde(flatten)]
        operation: Value,
    },
    Heartbeat {
        #[serde(default)]
        capabilities: Option<Capabilities>,
        #[serde(default)]
        epochs: BTreeMap<SessionId, u64>,
    },
    ToolStarted {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
    },
    ToolProgress {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        text: String,
    },
    Prepared {
        session_id: SessionId,
        call_id: CallId,
        prepared: Prepared,
    },
    ToolResult {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        outcome: Outcome,
    },
    Probed {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        finding: Finding,
    },
    /// Somebody else than a call changed a workspace.
    WorkspaceChanged {
        workspace: Workspace,
        /// Files by which it differs from what was told before, as people are shown them; the first of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        #[serde(default, skip_serializing_if = "none_left_out")]
        files_left_out: u32,
    },
    /// The answer to `show_changes`.
    ChangesShown {
        question: QuestionToDevice,
        changes: Box<RecordedChanges>,
    },
    /// The answer to `show_file`.
    FileShown {
        question: QuestionToDevice,
        shown: FileShown,
    },
    /// The answer to `find_paths`.
    PathsFound {
        question: QuestionToDevice,
        found: FoundPaths,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn none_left_out(count: &u32) -> bool {
    *count == 0
}

/// What the hub sends over the WebSocket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HubFrame {
    Welcome {
        device_id: DeviceId,
        user_id: UserId,
        name: String,
        trust: Trust,
        heartbeat_s: u64,
        limits: Limits,
        hub: HubInfo,
    },
    View(Box<SessionView>),
    Change(Box<Change>),
    /// Transient text of an answer under way. `offset` counts bytes of UTF-8 from the start of the attempt's text.
    Delta {
        session_id: SessionId,
        message_id: MessageId,
        attempt: u32,
        offset: u64,
        part: DeltaPart,
        text: String,
    },
    /// Transient word from a running call.
    Progress {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        text: String,
    },
    Ack(Reply),
    PrepareCall {
        session_id: SessionId,
        call_id: CallId,
        tool: String,
        arguments: Value,
        fence: u64,
    },
    ToolCall(Box<DispatchedCall>),
    CancelCall {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        fence: u64,
    },
    ProbeCall {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
        tool: String,
        arguments: Value,
        fence: u64,
    },
    ToolResultAck {
        session_id: SessionId,
        call_id: CallId,
        attempt: u32,
    },
    /// Asks for what these calls changed in the workspace, in the order in which they were made; at most 1,000. Nothing of it is logged.
    ShowChanges {
        question: QuestionToDevice,
        calls: Vec<CallId>,
    },
    /// Asks for a part of a file of the workspace. Nothing of it is logged.
    ShowFile {
        question: QuestionToDevice,
        /// Relative to the workspace, or below its absolute path.
        path: String,
        /// Where the part begins, in bytes.
        #[serde(default)]
        offset: u64,
        /// The whole that the part has to be of; without it, the file as it is now.
        #[serde(default)]
        digest: Option<Digest>,
    },
    /// Asks for paths of the workspace that fit what somebody began to write. Nothing of it is logged.
    FindPaths {
        question: QuestionToDevice,
        query: String,
        limit: u32,
    },
    HandoffOffer {
        session_id: SessionId,
        handoff_id: HandoffId,
        from: DeviceId,
        brief: Box<Brief>,
        summary: String,
        deadline: Timestamp,
    },
    /// The view that follows replaces everything the client keeps of this session.
    Reset {
        session_id: SessionId,
        reason: String,
    },
    /// The user's devices or sessions changed; read them again.
    Changed {
        what: Changed,
    },
    Error {
        #[serde(default)]
        session_id: Option<SessionId>,
        error: ErrorBody,
    },
    /// The answer to a client's heartbeat. A browser sees no ping of the WebSocket, so this is how it notices that packets
    /// vanish without a close.
    Heartbeat {},
    Bye {
        reason: String,
        retry_after_s: u64,
    },
}

/// A call as it is handed to a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DispatchedCall {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub tool: String,
    pub arguments: Value,
    pub attempt: u32,
    /// The hub's incarnation; a device refuses one that is older than the newest it has seen.
    pub fence: u64,
    pub lease_s: u32,
    /// Digests that were approved; the device runs the call only if they still hold (S17).
    #[serde(default)]
    pub digests: BTreeMap<String, Option<crate::Digest>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaPart {
    Text,
    Thinking,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    Sessions,
    Devices,
    Rules,
    /// Somebody opened a link that one of the user's devices made, or tried one that is taken: `GET /v1/invitations`.
    Invitations,
}

/// Limits that a client should know before it runs into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub max_frame_bytes: usize,
    pub max_text_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_frame_bytes: crate::MAX_FRAME_BYTES, max_text_bytes: crate::MAX_TEXT_BYTES }
    }
}
