//! Tools that the hub performs itself (T4): the model proposes, the hub commits. Each checks what it is given against the state,
//! and answers with one result in the same commit as the call.

mod ask;
mod attachment;
mod finish;
mod memory;
mod plan;

pub(crate) use attachment::named as named_attachment;
pub use attachment::{part_of, wanted_blob};

use crate::decide::{answers_result as result_of, set_phase};
use crate::draft::Draft;
use crate::machine::tool_call::ToolCall;
use baton_proto::{CallId, ModelTool, SessionEvent, StateModified, TaskId, ToolError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Every hub-side tool as the model is told of it.
pub fn hub_tools() -> Vec<ModelTool> {
    vec![
        plan::set_plan(),
        plan::start_step(),
        plan::finish_step(),
        memory::record_fact(),
        memory::note(),
        ask::ask_user(),
        ask::propose_intent_change(),
        finish::finish_task(),
        attachment::read_attachment(),
    ]
}

pub(crate) fn knows(name: &str) -> bool {
    matches!(
        name,
        "set_plan"
            | "start_step"
            | "finish_step"
            | "record_fact"
            | "note"
            | "ask_user"
            | "propose_intent_change"
            | "finish_task"
            | attachment::NAME
    )
}

/// Performs a proposed call. It either settles it at once, or asks the user and leaves it waiting.
/// `fetched` is what the call asked to read, where it did and where there is such a thing.
pub(crate) fn perform(draft: &mut Draft<'_>, call_id: CallId, fetched: Option<&Result<String, ToolError>>) {
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    let outcome = match call.tool.as_str() {
        "set_plan" => plan::perform_set_plan(draft, &call),
        "start_step" => plan::perform_start_step(draft, &call),
        "finish_step" => plan::perform_finish_step(draft, &call),
        "record_fact" => memory::perform_record_fact(draft, &call),
        "note" => memory::perform_note(draft, &call),
        "finish_task" => finish::perform(draft, &call),
        "ask_user" => ask::perform_ask_user(draft, &call),
        "propose_intent_change" => ask::perform_propose(draft, &call),
        attachment::NAME => attachment::perform(&draft.state, &call, fetched),
        _ => Err(refusal("unknown_tool", "The hub has no such tool.", "Use one that was offered.")),
    };
    match outcome {
        Ok(Done::Now(content)) => draft.emit(SessionEvent::ToolSucceeded { call_id, attempt: 1, result: result_of(content) }),
        Ok(Done::WhenAnswered) => {}
        Err(error) => draft.emit(SessionEvent::ToolFailed { call_id, attempt: 0, error, result: None }),
    }
}

/// An answer to a question that a hub-side tool asked.
pub(crate) fn answered(draft: &mut Draft<'_>, call: &ToolCall, answer: &str) {
    let content =
        if call.tool == "propose_intent_change" { ask::intent_decided(draft, call, answer) } else { format!("The user answers: {answer}") };
    draft.emit(SessionEvent::ToolSucceeded { call_id: call.id, attempt: 1, result: result_of(content) });
}

enum Done {
    Now(String),
    WhenAnswered,
}

fn refusal(code: &str, message: impl Into<String>, hint: impl Into<String>) -> ToolError {
    ToolError { code: code.to_owned(), message: message.into(), hint: hint.into(), state_modified: StateModified::No }
}

fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments.clone())
        .map_err(|error| refusal("invalid_arguments", format!("The arguments can't be read: {error}."), "Follow the tool's schema."))
}

fn task_of(call: &ToolCall) -> Result<TaskId, ToolError> {
    call.task_id.ok_or_else(|| refusal("no_task", "There is no task here.", "Answer in words."))
}
