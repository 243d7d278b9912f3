use baton_proto::{
    Baseline, CallId, DeviceId, Finding, ModelAnswer, ModelCallId, ModelError, Operation, Outcome, Prepared, RunningState, ToolError,
};
use serde_json::Value;

/// Everything that can be asked of a session. Outcomes of effects come back as commands; stale or repeated ones change nothing.
#[derive(Clone, Debug)]
pub enum Command {
    /// An end asks for something; who asks is in the context.
    Operation(Operation),
    /// A model call ended.
    Model { model_call_id: ModelCallId, attempt: u32, outcome: ModelOutcome },
    /// A device answered `prepare_call`.
    Prepared { call_id: CallId, device: DeviceId, prepared: Prepared },
    /// A device wrote the call down and is about to act.
    ToolStarted { call_id: CallId, attempt: u32, device: DeviceId },
    /// A device reports how a call ended. Matched by call and attempt, not by fence: it outlives the hub that asked.
    ToolResult { call_id: CallId, attempt: u32, device: DeviceId, outcome: Outcome },
    /// A device looked up what became of a call.
    Probed { call_id: CallId, attempt: u32, device: DeviceId, finding: Finding },
    /// A device connected, and tells what its journal knows of this session's calls.
    DeviceReported { device: DeviceId, running: Vec<(CallId, u32, RunningState)> },
    /// A device's last connection is gone.
    DeviceLost { device: DeviceId },
    /// A hub process took the session up.
    Resumed { incarnation: u64 },
    /// This hub process stops in good order.
    Released { incarnation: u64 },
    /// The log so far came in from outside, by this device.
    Imported { device: DeviceId },
    /// Time passed.
    Tick,
    /// The workspace is this session's now; with what it looked like when it was last seen, by whichever session.
    WorkspaceGranted { baseline: Option<Baseline> },
    /// A device saw its workspace change.
    WorkspaceSeen { baseline: Baseline, files: Vec<String>, files_left_out: u32 },
}

/// How a model call ended, its arguments already checked against the tools' schemas.
#[derive(Clone, Debug)]
pub enum ModelOutcome {
    Answered { model: String, answer: ModelAnswer, calls: Vec<ProposedCall> },
    Failed(ModelError),
}

/// One call of an answer.
#[derive(Clone, Debug)]
pub struct ProposedCall {
    pub tool: String,
    /// As the model wrote them.
    pub written: String,
    /// As they were understood, or why they can't be.
    pub arguments: Result<Value, ToolError>,
    /// What the call asks to read of the user's blobs; see [`crate::wanted_blob`] and [`crate::part_of`].
    pub fetched: Option<Result<String, ToolError>>,
}
