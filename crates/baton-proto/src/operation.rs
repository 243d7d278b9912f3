use crate::{
    ApprovalId, CallId, ClientType, DeviceId, Digest, ErrorBody, HandoffId, OperationId, PROTOCOL_VERSION, QuestionId, Remember, SessionId,
    TaskId, Timestamp, TurnId, WorkspaceId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One thing an end asks for (D3). The sender and its trust are those of the token's device, never of this envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    pub v: u32,
    /// Made by the end; names this operation for ever (E1).
    pub operation_id: OperationId,
    /// Absent for `new_session` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// May be given, and must then match the token's device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_id: Option<DeviceId>,
    /// May be given, and must then match the token's device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_type: Option<ClientType>,
    #[serde(flatten)]
    pub intent: Intent,
    /// The same operation sent again after `needs_confirmation`.
    #[serde(default)]
    pub confirmed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// The session's epoch as the end believes it to be (H5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The version of the entity that is written, as the end last saw it (H8).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_version: Option<u64>,
    /// The calls that a slash command means by a task or step. The hub looks them up in the log; no end can name them.
    #[serde(skip)]
    pub named_calls: Vec<CallId>,
}

/// What is asked for. Who may ask it: the table in docs/requirements.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "intent", content = "payload", rename_all = "snake_case")]
pub enum Intent {
    NewSession {
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        workspace: Option<WorkspaceId>,
    },
    Say {
        text: String,
        #[serde(default)]
        selection: Option<Selection>,
        /// Files that go with the message, uploaded before (D6).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        #[serde(default)]
        delivery: Delivery,
    },
    NewTask {
        title: String,
        #[serde(default)]
        description: String,
        #[serde(default)]
        acceptance: Vec<String>,
    },
    Confirm {
        approval_id: ApprovalId,
        decision: Decision,
        /// Makes a rule of an approval (E5).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<Remember>,
        /// Why not, for the agent to read; with a rejection only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Answer {
        question_id: QuestionId,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        option: Option<String>,
    },
    Cancel {
        #[serde(default)]
        task_id: Option<TaskId>,
    },
    Pause {
        #[serde(default)]
        task_id: Option<TaskId>,
    },
    Resume {
        #[serde(default)]
        task_id: Option<TaskId>,
    },
    Handoff {
        to_device: DeviceId,
    },
    AcceptHandoff {
        handoff_id: HandoffId,
    },
    DeclineHandoff {
        handoff_id: HandoffId,
    },
    TakeOver {
        #[serde(default)]
        force: bool,
    },
    Release {},
    SetNote {
        key: String,
        value: String,
    },
    Forget {
        key: String,
    },
    /// Gives the session a title of the user's, which the hub doesn't change any more.
    Rename {
        title: String,
    },
    Pin {
        pinned: bool,
    },
    Archive {
        archived: bool,
    },
    /// From here on the agent doesn't see what was said and done before (D7). Needs `confirmed`.
    ResetContext {},
    /// Takes the latest reset back.
    UndoReset {},
}

impl Intent {
    /// A plain decision, once.
    pub const fn confirm(approval_id: ApprovalId, decision: Decision) -> Self {
        Self::Confirm { approval_id, decision, remember: None, reason: None }
    }

    /// The name on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NewSession { .. } => "new_session",
            Self::Say { .. } => "say",
            Self::NewTask { .. } => "new_task",
            Self::Confirm { .. } => "confirm",
            Self::Answer { .. } => "answer",
            Self::Cancel { .. } => "cancel",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Handoff { .. } => "handoff",
            Self::AcceptHandoff { .. } => "accept_handoff",
            Self::DeclineHandoff { .. } => "decline_handoff",
            Self::TakeOver { .. } => "take_over",
            Self::Release {} => "release",
            Self::SetNote { .. } => "set_note",
            Self::Forget { .. } => "forget",
            Self::Rename { .. } => "rename",
            Self::Pin { .. } => "pin",
            Self::Archive { .. } => "archive",
            Self::ResetContext {} => "reset_context",
            Self::UndoReset {} => "undo_reset",
        }
    }

    /// Stopping and answering are always possible, and where a session stands in a list is no matter of who holds it: these name no epoch.
    pub const fn needs_epoch(&self) -> bool {
        !matches!(
            self,
            Self::NewSession { .. }
                | Self::Confirm { .. }
                | Self::Answer { .. }
                | Self::Cancel { .. }
                | Self::Pause { .. }
                | Self::Rename { .. }
                | Self::Pin { .. }
                | Self::Archive { .. }
        )
    }
}

/// Text that was selected in an editor when the user spoke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selection {
    pub path: String,
    /// First and last line, from 1.
    pub range: (u32, u32),
    pub text: String,
}

/// A file that goes with a message (D6). Its bytes are a blob of the user's, uploaded before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attachment {
    pub digest: Digest,
    /// What it is called, for people and for the agent; no path.
    pub name: String,
    /// Such as `text/plain` or `image/png`. The hub looks at the bytes before it shows a model an image.
    pub media_type: String,
    /// Its size. The hub sets it from the blob, whatever an end wrote.
    #[serde(default)]
    pub bytes: u64,
}

/// When input that arrives in the middle of a turn is taken in (T10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Before the next model call.
    #[default]
    Steer,
    /// In a turn of its own, once the one under way has ended.
    Queue,
    /// At once: the turn under way is stopped, and a new one begins with it.
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approve,
    Reject,
}

/// The envelope before its intent is understood, so that each part that is wrong gets words of its own.
#[derive(Deserialize)]
struct RawOperation {
    #[serde(default)]
    v: Option<u32>,
    operation_id: OperationId,
    #[serde(default)]
    session_id: Option<SessionId>,
    #[serde(default)]
    sender_id: Option<DeviceId>,
    #[serde(default)]
    client_type: Option<ClientType>,
    intent: String,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default)]
    confirmed: bool,
    #[serde(default)]
    sent_at: Option<Timestamp>,
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default)]
    base_version: Option<u64>,
}

/// Every intent's name, for the error that lists them.
const INTENTS: &[&str] = &[
    "new_session",
    "say",
    "new_task",
    "confirm",
    "answer",
    "cancel",
    "pause",
    "resume",
    "handoff",
    "accept_handoff",
    "decline_handoff",
    "take_over",
    "release",
    "set_note",
    "forget",
    "rename",
    "pin",
    "archive",
    "reset_context",
    "undo_reset",
];

impl Operation {
    /// An operation as an end makes it; the caller fills in what it knows of the session.
    pub const fn new(operation_id: OperationId, session_id: Option<SessionId>, intent: Intent) -> Self {
        Self {
            v: PROTOCOL_VERSION,
            operation_id,
            session_id,
            sender_id: None,
            client_type: None,
            intent,
            confirmed: false,
            sent_at: None,
            epoch: None,
            base_version: None,
            named_calls: Vec::new(),
        }
    }

    /// Reads an envelope, with an error that names what is wrong with it (D3). A missing `v` is not guessed.
    ///
    /// # Errors
    /// `invalid` for anything malformed or unknown, `unsupported_version` for another `v`.
    pub fn decode(value: Value) -> Result<Self, ErrorBody> {
        // A derived reader would take a list for an object, with its fields by place.
        if !value.is_object() {
            return Err(ErrorBody::invalid("The operation can't be read: it is not a JSON object."));
        }
        let raw: RawOperation = serde_json::from_value(value)
            .map_err(|error| ErrorBody::invalid(format!("The operation can't be read: {}.", in_short(&error))))?;
        if raw.v != Some(PROTOCOL_VERSION) {
            let given = raw.v.map_or_else(|| "none".to_owned(), |v| v.to_string());
            return Err(ErrorBody::new(
                crate::ErrorCode::UnsupportedVersion,
                format!("The operation's version is {given}; this hub speaks version {PROTOCOL_VERSION}."),
                "Update whichever is older, the end or the hub.",
            ));
        }
        if !INTENTS.contains(&raw.intent.as_str()) {
            let shown: String = raw.intent.chars().take(40).collect();
            return Err(ErrorBody::invalid(format!(
                "There is no intent '{}'; known are {}.",
                crate::make_visible(&shown),
                INTENTS.join(", ")
            )));
        }
        let payload = raw.payload.filter(|payload| !payload.is_null()).unwrap_or_else(|| json!({}));
        if !payload.is_object() {
            return Err(ErrorBody::invalid(format!("The payload of '{}' can't be read: it is not a JSON object.", raw.intent)));
        }
        let intent: Intent = serde_json::from_value(json!({"intent": raw.intent, "payload": payload}))
            .map_err(|error| ErrorBody::invalid(format!("The payload of '{}' can't be read: {}.", raw.intent, in_short(&error))))?;
        Ok(Self {
            v: PROTOCOL_VERSION,
            operation_id: raw.operation_id,
            session_id: raw.session_id,
            sender_id: raw.sender_id,
            client_type: raw.client_type,
            intent,
            confirmed: raw.confirmed,
            sent_at: raw.sent_at,
            epoch: raw.epoch,
            base_version: raw.base_version,
            named_calls: Vec::new(),
        })
    }

    /// What a repeat must match: sender, session, intent and payload. The confirmation, the epoch and the time may differ.
    pub fn digest(&self, sender: DeviceId) -> Digest {
        let intent = serde_json::to_value(&self.intent).unwrap_or_default();
        Digest::of_json(&json!({"sender": sender, "session": self.session_id, "intent": intent}))
    }
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    pub operation_id: OperationId,
    pub status: ReplyStatus,
    #[serde(default)]
    pub session_id: Option<SessionId>,
    /// The session's last sequence number after it.
    #[serde(default)]
    pub version: u64,
    #[serde(default)]
    pub epoch: u64,
    #[serde(default)]
    pub turn_id: Option<TurnId>,
    #[serde(default)]
    pub task_id: Option<TaskId>,
    #[serde(default)]
    pub error: Option<ErrorBody>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStatus {
    Accepted,
    /// The outcome of the first time, unchanged.
    Duplicate,
    Rejected,
}

impl Reply {
    pub const fn rejected(operation_id: OperationId, session_id: Option<SessionId>, error: ErrorBody) -> Self {
        Self {
            operation_id,
            status: ReplyStatus::Rejected,
            session_id,
            version: 0,
            epoch: 0,
            turn_id: None,
            task_id: None,
            error: Some(error),
        }
    }
}

/// What a reader says of an operation may repeat what stands in it: bounded, and with nothing that deceives the eye.
fn in_short(error: &serde_json::Error) -> String {
    crate::make_visible(&error.to_string().chars().take(300).collect::<String>())
}
