use crate::entity::is_false;
use crate::{
    ApprovalId, Attachment, Baseline, CallId, Capabilities, ClientType, Decision, Delivery, DeviceId, DeviceRecord, Digest, Effect,
    ErrorCode, FactId, HandoffId, InvitationId, JournalId, MessageId, ModelCallId, ModelError, OperationId, Origins, Prepared, QuestionId,
    Risk, Rule, RuleId, Said, Selection, SessionId, TaskId, Timestamp, ToolError, ToolResult, ToolSpec, Trust, TurnId, Usage, UserId,
    Workspace,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// One line of dialogue in a session. Only `main` exists until roles work in parallel (R9).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Lane(pub String);

impl Default for Lane {
    fn default() -> Self {
        Self("main".to_owned())
    }
}

/// Who brought an event about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum Actor {
    Device(DeviceId),
    Agent,
    Hub,
}

/// One entry of a stream's log (O1), in the form in which it is stored and sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<B = SessionEvent> {
    pub at: Timestamp,
    pub lane: Lane,
    pub actor: Actor,
    pub operation_id: Option<OperationId>,
    pub body: B,
}

/// What is common to the events of every kind of stream: a name, a version, and a way to read older versions.
pub trait EventBody: Serialize + DeserializeOwned {
    /// The type's name on the wire and in the store.
    fn name(&self) -> &'static str;
    /// Every name this build knows.
    fn names() -> &'static [&'static str];
    /// The version this build writes of the type with that name; older ones are brought up to it before they are applied.
    fn version(name: &str) -> u32;
    /// Brings the data of an older version up to the present one.
    fn upcast(name: &str, version: u32, data: Value) -> Value;
}

/// Why a stored event can't be read. The store refuses what it doesn't know (O6); ends show it neutrally (C19).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventError {
    UnknownType(String),
    NewerVersion { name: String, found: u32, known: u32 },
    Malformed(String),
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType(name) => write!(f, "the event type '{name}' is unknown to this version of Baton"),
            Self::NewerVersion { name, found, known } => {
                write!(
                    f,
                    "the event '{name}' has version {found}, and this version of Baton knows {known}; install the newer Baton that wrote it"
                )
            }
            Self::Malformed(why) => write!(f, "the event can't be read: {why}"),
        }
    }
}

impl std::error::Error for EventError {}

#[derive(Serialize, Deserialize)]
struct RawEvent {
    #[serde(rename = "type")]
    name: String,
    v: u32,
    at: Timestamp,
    #[serde(default)]
    lane: Lane,
    actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation_id: Option<OperationId>,
    data: Value,
}

impl<B: EventBody> Event<B> {
    /// Reads a stored event, bringing an older version up to date.
    pub fn decode(bytes: &[u8]) -> Result<Self, EventError> {
        let raw: RawEvent = serde_json::from_slice(bytes).map_err(|error| EventError::Malformed(error.to_string()))?;
        Self::from_raw(raw)
    }

    fn from_raw(raw: RawEvent) -> Result<Self, EventError> {
        if !B::names().contains(&raw.name.as_str()) {
            return Err(EventError::UnknownType(raw.name));
        }
        let known = B::version(&raw.name);
        if raw.v > known {
            return Err(EventError::NewerVersion { name: raw.name, found: raw.v, known });
        }
        let data = if raw.v < known { B::upcast(&raw.name, raw.v, raw.data) } else { raw.data };
        let body =
            serde_json::from_value(json!({"type": raw.name, "data": data})).map_err(|error| EventError::Malformed(error.to_string()))?;
        Ok(Self { at: raw.at, lane: raw.lane, actor: raw.actor, operation_id: raw.operation_id, body })
    }
}

impl<B: EventBody> Serialize for Event<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tagged = serde_json::to_value(&self.body).map_err(serde::ser::Error::custom)?;
        let name = self.body.name();
        let data = tagged.get_mut("data").map_or_else(|| json!({}), Value::take);
        RawEvent {
            name: name.to_owned(),
            v: B::version(name),
            at: self.at,
            lane: self.lane.clone(),
            actor: self.actor,
            operation_id: self.operation_id,
            data,
        }
        .serialize(serializer)
    }
}

impl<'de, B: EventBody> Deserialize<'de> for Event<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_raw(RawEvent::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The envelope alone: ends show types they don't know neutrally, so a schema for them leaves type and data open (D4).
impl<B> JsonSchema for Event<B> {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (at, lane, actor) =
            (generator.subschema_for::<Timestamp>(), generator.subschema_for::<Lane>(), generator.subschema_for::<Actor>());
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "type": {"type": "string"},
                "v": {"type": "integer", "minimum": 1},
                "at": at,
                "lane": lane,
                "actor": actor,
                "operation_id": {"type": ["string", "null"], "format": "uuid"},
                "data": {"type": "object", "additionalProperties": true},
            },
            "required": ["type", "v", "at", "actor", "data"],
        })
    }
}

/// Declares the events of one kind of stream, each with its wire name.
macro_rules! events {
    ($(#[$meta:meta])* $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal { $($(#[$fmeta:meta])* $field:ident : $ty:ty),* $(,)? })+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "data")]
        pub enum $enum {
            $($(#[$doc])* #[serde(rename = $name)] $variant { $($(#[$fmeta])* $field: $ty),* },)+
        }
        impl EventBody for $enum {
            fn name(&self) -> &'static str { match self { $(Self::$variant { .. } => $name),+ } }
            fn names() -> &'static [&'static str] { &[$($name),+] }
            fn version(_: &str) -> u32 { 1 }
            fn upcast(_: &str, _: u32, data: Value) -> Value { data }
        }
    };
}

events! {
    /// What happens in a session (O1).
    SessionEvent {
        SessionCreated = "session_created" { user_id: UserId, title: String, language: Language, workspace: Option<Workspace>, holder: Option<DeviceId>, epoch: u64 }
        /// The log up to here came in from a file, on that device.
        SessionImported = "session_imported" { device_id: DeviceId }
        SessionTitled = "session_titled" { title: String, language: Language }
        /// The user's own title, which the hub doesn't change any more.
        SessionRenamed = "session_renamed" { title: String }
        /// Kept at the top of lists, or no longer.
        SessionPinned = "session_pinned" { pinned: bool }
        /// Out of the list of sessions until something is said in it, or brought back.
        SessionArchived = "session_archived" { archived: bool }

        /// What a user said, or a hub-made answer to a literal request. The agent's own words are in `model_finished`.
        MessageAdded = "message_added" {
            message_id: MessageId, role: Role, text: String, turn_id: Option<TurnId>, task_id: Option<TaskId>,
            sender: Option<Sender>, #[serde(default)] selection: Option<Selection>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")] attachments: Vec<Attachment>,
        }

        TurnStarted = "turn_started" { turn_id: TurnId, task_id: Option<TaskId>, message_id: Option<MessageId>, literal: bool }
        /// Input in the middle of a turn, read at the next step (T10).
        /// `goal` is what a task of its own would be about, where the input waits for the turn's end.
        TurnInputQueued = "turn_input_queued" {
            turn_id: TurnId, message_id: MessageId, delivery: Delivery, #[serde(default, skip_serializing_if = "Option::is_none")] goal: Option<String>,
        }
        /// No new tool starts from here on.
        TurnStopRequested = "turn_stop_requested" {
            turn_id: TurnId, reason: String, pause: bool,
            /// Queued input begins the next turn at once.
            #[serde(default, skip_serializing_if = "is_false")] for_input: bool,
        }
        TurnFinished = "turn_finished" { turn_id: TurnId, reason: String }
        TurnInterrupted = "turn_interrupted" { turn_id: TurnId, reason: String }
        TurnFailed = "turn_failed" { turn_id: TurnId, reason: String }

        ModelStarted = "model_started" {
            model_call_id: ModelCallId, turn_id: TurnId, attempt: u32, iteration: u32, message_id: MessageId, cause: ModelCause, read: Vec<MessageId>,
        }
        ModelFailed = "model_failed" { model_call_id: ModelCallId, attempt: u32, error: ModelError, retry_at: Option<Timestamp> }
        ModelFinished = "model_finished" {
            model_call_id: ModelCallId, attempt: u32, message_id: MessageId, model: String, text: String, thinking: String, calls: Vec<CalledTool>, usage: Usage,
            truncated: bool,
        }

        TaskCreated = "task_created" { task_id: TaskId, title: String, core_intent: CoreIntent }
        TaskIntentRevised = "task_intent_revised" { task_id: TaskId, core_intent: CoreIntent }
        TaskPlanned = "task_planned" { task_id: TaskId, steps: Vec<PlanStep> }
        TaskPhaseChanged = "task_phase_changed" { task_id: TaskId, from: Phase, to: Phase, reason: Option<String> }
        TaskProgressed = "task_progressed" { task_id: TaskId, progress: u8, line: String }
        /// The user let the agent go on beyond a budget: of this task, or of that day in this session (R4).
        BudgetExtended = "budget_extended" { task_id: Option<TaskId>, day: Option<String> }
        TaskConcluded = "task_concluded" { task_id: TaskId, summary: String }

        StepStarted = "step_started" { task_id: TaskId, step_id: String }
        StepFinished = "step_finished" { task_id: TaskId, step_id: String, conclusion: String, evidence: Option<String>, product: Option<String> }

        /// Replaces an earlier fact with the same key and scope (T1).
        FactRecorded = "fact_recorded" {
            fact_id: FactId, key: String, value: String, scope: FactScope, task_id: Option<TaskId>, source: String, confidence: Option<f64>,
            #[serde(default, skip_serializing_if = "Origins::is_empty")] origins: Origins,
        }
        FactForgotten = "fact_forgotten" { fact_id: FactId }
        NoteSet = "note_set" { key: String, value: String }
        NoteForgotten = "note_forgotten" { key: String }
        /// From this event on the model is shown nothing that was said or done before it (D7).
        ContextReset = "context_reset" {}
        /// The latest reset is taken back.
        ContextRestored = "context_restored" {}

        ToolProposed = "tool_proposed" {
            call_id: CallId, turn_id: TurnId, task_id: Option<TaskId>, step_id: Option<String>, tool: String, arguments: Value, origin: CallOrigin,
            terms: CallTerms,
        }
        ToolPrepared = "tool_prepared" { call_id: CallId, prepared: Prepared }
        /// The intention, durable before anything is dispatched (E2).
        ToolPlanned = "tool_planned" {
            call_id: CallId, attempt: u32,
            /// The journal that its device was known by then, into which it may be written from now on.
            #[serde(default, skip_serializing_if = "Option::is_none")] journal: Option<JournalId>,
        }
        ToolStarted = "tool_started" { call_id: CallId, attempt: u32, device_id: DeviceId }
        ToolAttemptFailed = "tool_attempt_failed" { call_id: CallId, attempt: u32, error: ToolError }
        ToolUnknown = "tool_unknown" { call_id: CallId, attempt: u32, cause: UnknownCause, known: String }
        ToolReconciled = "tool_reconciled" { call_id: CallId, attempt: u32, finding: Reconciliation }
        ToolSucceeded = "tool_succeeded" { call_id: CallId, attempt: u32, result: ToolResult }
        ToolFailed = "tool_failed" { call_id: CallId, attempt: u32, error: ToolError, result: Option<ToolResult> }
        ToolCancelRequested = "tool_cancel_requested" { call_id: CallId, reason: String }
        ToolCancelled = "tool_cancelled" { call_id: CallId, reason: String, result: Option<ToolResult> }

        ApprovalRequested = "approval_requested" { approval_id: ApprovalId, call_id: CallId, binding: ApprovalBinding }
        ApprovalDecided = "approval_decided" { approval_id: ApprovalId, decision: Decision, by: Sender }
        /// A call that a rule allows, in its granter's name: nobody was asked.
        ApprovalGranted = "approval_granted" { approval_id: ApprovalId, call_id: CallId, binding: ApprovalBinding, rule_id: RuleId, by: Sender }
        /// Nobody decided in time, or what it was asked on has changed: it can't be answered any more, and is asked anew (E5).
        ApprovalExpired = "approval_expired" { approval_id: ApprovalId, reason: String }
        ApprovalVoided = "approval_voided" { approval_id: ApprovalId, reason: String }

        QuestionAsked = "question_asked" {
            question_id: QuestionId, kind: QuestionKind, call_id: CallId, task_id: Option<TaskId>, text: String, options: Vec<String>, known: Option<String>,
            /// Why the outcome is unknown, where that is the question.
            #[serde(default, skip_serializing_if = "Option::is_none")] cause: Option<UnknownCause>,
        }
        QuestionAnswered = "question_answered" { question_id: QuestionId, answer: String, by: Sender }
        QuestionVoided = "question_voided" { question_id: QuestionId, reason: String }

        HandoffOffered = "handoff_offered" { handoff_id: HandoffId, from: DeviceId, to: DeviceId, deadline: Timestamp }
        HandoffAccepted = "handoff_accepted" { handoff_id: HandoffId, from: DeviceId, to: DeviceId, epoch: u64 }
        HandoffDeclined = "handoff_declined" { handoff_id: HandoffId }
        HandoffExpired = "handoff_expired" { handoff_id: HandoffId }
        HandoffTakenOver = "handoff_taken_over" { from: Option<DeviceId>, to: DeviceId, epoch: u64, forced: bool }
        HandoffReleased = "handoff_released" { from: DeviceId, epoch: u64 }

        /// The baseline as a device last saw it. `changed` names what differs from the one before, where somebody else changed it.
        WorkspaceSeen = "workspace_seen" { baseline: Baseline, changed: Option<String> }

        /// Another session works in the workspace; this one's turn goes on when it has it (E6).
        WorkspaceWaited = "workspace_waited" { turn_id: TurnId, behind: SessionId, title: String }
        /// The workspace is this session's until its turn rests or waits for a human.
        WorkspaceGranted = "workspace_granted" { turn_id: TurnId }

        /// A hub that took the session up again, and what it found in flight (R1).
        /// `in_a_row` counts how often that happened with nothing else in between.
        Recovered = "recovered" { incarnation: u64, found: Vec<String>, #[serde(default)] in_a_row: u32 }
        /// The hub process that drove the session stopped in good order.
        DriverReleased = "driver_released" { incarnation: u64 }
        /// An operation that lost against newer state (H8).
        ConflictRefused = "conflict_refused" { intent: String, code: ErrorCode, device_id: DeviceId }
    }
}

events! {
    /// What happens to a user's devices. Never sent to ends as it is: it holds hashes of secrets.
    UserEvent {
        UserCreated = "user_created" { user_id: UserId, name: String }
        DevicePaired = "device_paired" { device: DeviceRecord, token_hash: Digest }
        DeviceRenamed = "device_renamed" { device_id: DeviceId, name: String }
        DeviceTrustSet = "device_trust_set" { device_id: DeviceId, trust: Trust }
        DeviceRevoked = "device_revoked" { device_id: DeviceId }
        DeviceDescribed = "device_described" {
            device_id: DeviceId, capabilities: Capabilities, tools: Vec<ToolSpec>, workspaces: Vec<Workspace>,
            #[serde(default, skip_serializing_if = "Option::is_none")] journal: Option<JournalId>,
        }
        InvitationMade = "invitation_made" { invitation_id: InvitationId, secret_hash: Digest, trust: Trust, expires_at: Timestamp }
        InvitationClaimed = "invitation_claimed" { invitation_id: InvitationId, device_id: DeviceId }
        RuleMade = "rule_made" { rule: Rule }
        RuleRemoved = "rule_removed" { rule_id: RuleId, reason: String }
    }
}

/// The conversation's language, for what the hub itself says in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    #[default]
    En,
    Zh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Agent,
    /// The hub itself, such as the result of a literal request.
    Hub,
}

/// A device as it was when it acted: names may change, the record of who did it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    pub device_id: DeviceId,
    pub name: String,
    pub client_type: ClientType,
}

/// Why the model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelCause {
    Input,
    Results,
    Retry,
    Recovered,
}

/// A call as the model made it, in the order in which its result must follow (E4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalledTool {
    pub call_id: CallId,
    pub tool: String,
    /// As written by the model, for its own dialogue.
    pub arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallOrigin {
    Model,
    /// A slash command: asked for literally, so up to `sensitive` it needs no approval.
    User,
}

/// The terms under which a call runs, fixed when it is proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallTerms {
    /// `None`: the hub itself.
    pub device_id: Option<DeviceId>,
    pub effect: Effect,
    pub risk: Risk,
    pub prepare: bool,
    pub lookup: bool,
    pub lasting: bool,
    pub timeout_s: u32,
}

/// What an approval is for, word for word (E5, S17).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalBinding {
    pub task_id: Option<TaskId>,
    pub turn_id: TurnId,
    pub tool: String,
    pub argument_digest: Digest,
    pub file_digests: BTreeMap<String, Option<Digest>>,
    pub risk: Risk,
    pub risk_reason: String,
    /// The same sentence by sentence, each with a code. Empty where the device gave words only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risk_said: Vec<Said>,
    pub preview: String,
    pub directory: Option<String>,
    pub device_id: Option<DeviceId>,
    /// Recorded, not compared: a switch doesn't void an approval.
    pub epoch: u64,
    /// What the agent had read before it asked: empty where it had nothing but the user's own words (S21).
    #[serde(default, skip_serializing_if = "Origins::is_empty")]
    pub origins: Origins,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The agent asks.
    Agent,
    /// A call's outcome is unknown and nothing can look it up (E3).
    Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownCause {
    HubRestarted,
    DeviceDisconnected,
    DeviceRestarted,
    /// The device came back with another journal, so it can't say what it had been given (F7).
    JournalLost,
}

/// What settled, or moved on, a call with an unknown outcome (E3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Reconciliation {
    /// The device still performs it.
    StillRunning,
    /// The device's lookup says that it did not happen.
    NotHappened,
    /// The lookup can't tell, or there is none.
    Unclear {
        known: String,
    },
    /// It only reads, or repeating it changes nothing.
    Repeatable,
    /// A human said so.
    HumanSaysHappened {
        by_device: Sender,
    },
    HumanSaysDoIt {
        by_device: Sender,
    },
    HumanSaysSkip {
        by_device: Sender,
    },
    /// The call had been given up before its device said how it ended after all.
    Late {
        known: String,
    },
}

/// What the user wants, kept apart from how it is done (T2, T6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreIntent {
    pub goal: String,
    #[serde(default)]
    pub constraints: Vec<String>,
    #[serde(default)]
    pub acceptance: Vec<String>,
    /// From 1.
    pub version: u32,
    /// Who set this version.
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    pub step_id: String,
    pub title: String,
    #[serde(default)]
    pub depends_on: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FactScope {
    Task,
    Session,
}

/// The phases of a task (T3). Which may follow which is a table in `baton-core`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Idle,
    Planning,
    Executing,
    Checking,
    WaitingUser,
    WaitingDevice,
    Paused,
    Done,
    Failed,
    Cancelled,
}

impl Phase {
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Planning,
        Self::Executing,
        Self::Checking,
        Self::WaitingUser,
        Self::WaitingDevice,
        Self::Paused,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether the task has ended.
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}
