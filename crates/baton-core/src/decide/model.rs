use super::tools::{self, Proposal};
use super::{advance, stop};
use crate::command::{ModelOutcome, ProposedCall};
use crate::draft::Draft;
use crate::fold::repeat_key;
use crate::hub_tools;
use crate::machine::{ModelCall, ModelStage};
use crate::words;
use baton_proto::{
    CallOrigin, CallTerms, CalledTool, Effect, MAX_REPEATS, ModelCallId, ModelCause, ModelError, ModelErrorKind, Phase, Risk, Role,
    SessionEvent, StateModified, ToolError,
};
use serde_json::json;

/// Failures of one model call before the turn is given up.
const MAX_FAILURES: u32 = 6;
/// Calls of one answer that are performed; what goes beyond is refused in words.
pub const MAX_CALLS: usize = 16;
/// Calls of one answer that are answered at all. No model in its senses makes more.
const MAX_ANSWERED_CALLS: usize = 64;

/// A model call ended. One that isn't under way any more, or in another attempt, changes nothing.
pub(super) fn ended(draft: &mut Draft<'_>, model_call_id: ModelCallId, attempt: u32, outcome: &ModelOutcome) {
    let Some(call) = draft.state.open_turn().and_then(|turn| turn.model.clone()) else { return };
    if call.id != model_call_id || call.attempt != attempt || call.stage != ModelStage::Started {
        return;
    }
    match outcome {
        ModelOutcome::Failed(error) => failed(draft, &call, error),
        // Taken as an answer it would end the task, with nothing done and nothing said.
        ModelOutcome::Answered { answer, calls, .. } if answer.text.trim().is_empty() && calls.is_empty() => {
            failed(draft, &call, &said_nothing(answer.truncated));
        }
        ModelOutcome::Answered { model, answer, calls } => {
            let Some(turn) = draft.state.open_turn() else { return };
            let (turn_id, task_id) = (turn.id, turn.task_id);
            let named: Vec<_> = calls.iter().take(MAX_ANSWERED_CALLS).map(|call| (draft.at.ids.fresh(), call)).collect();
            draft.emit(SessionEvent::ModelFinished {
                model_call_id,
                attempt,
                message_id: call.message_id,
                model: model.clone(),
                text: answer.text.clone(),
                thinking: answer.thinking.clone(),
                calls: named
                    .iter()
                    .map(|(call_id, call)| CalledTool { call_id: *call_id, tool: call.tool.clone(), arguments: call.written.clone() })
                    .collect(),
                usage: answer.usage,
                truncated: answer.truncated || calls.len() > MAX_ANSWERED_CALLS,
            });
            for (place, (call_id, call)) in named.into_iter().enumerate() {
                let arguments = call.arguments.clone().unwrap_or_else(|_| json!({}));
                let proposal = Proposal { call_id, tool: call.tool.clone(), arguments, origin: CallOrigin::Model, turn_id, task_id };
                take_up(draft, &proposal, call, place);
            }
        }
    }
}

/// One call of an answer: refused in words that the model can act on, performed by the hub, or put forward to a device.
fn take_up(draft: &mut Draft<'_>, proposal: &Proposal, call: &ProposedCall, place: usize) {
    let offered = tools::offered(draft, &proposal.tool);
    let by_hub = hub_tools::knows(&proposal.tool);
    let repeats =
        draft.state.turn.as_ref().and_then(|turn| turn.repeats.get(&repeat_key(&proposal.tool, &proposal.arguments)).copied()).unwrap_or(0);
    match &offered {
        Some(offered) if !by_hub => tools::propose(draft, proposal, offered),
        _ => tools::propose_on(draft, proposal, hub_terms()),
    }
    let over = has_ended(draft, proposal);
    let refusal = match (&call.arguments, &offered) {
        _ if over => Some(too_late()),
        _ if place >= MAX_CALLS => Some(too_many(place)),
        (_, None) if !by_hub => Some(unknown_tool(draft, &proposal.tool)),
        (Err(error), _) => Some(error.clone()),
        _ if repeats >= MAX_REPEATS => Some(repeated(&proposal.tool, repeats)),
        _ => None,
    };
    if let Some(error) = refusal {
        draft.emit(SessionEvent::ToolFailed { call_id: proposal.call_id, attempt: 0, error, result: None });
        if repeats >= MAX_REPEATS + 2 && !over {
            let reason = words::going_in_circles(draft.state.language, &proposal.tool);
            pause_for(draft, &reason);
        }
    } else if by_hub {
        hub_tools::perform(draft, proposal.call_id, call.fetched.as_ref());
    }
}

fn said_nothing(truncated: bool) -> ModelError {
    let (message, hint) = if truncated {
        ("The model used up its tokens before it said anything.", "Give it more with max_tokens, or choose another model.")
    } else {
        ("The model's answer was empty.", "It is asked again after a pause. If that goes on, choose another model.")
    };
    ModelError { kind: ModelErrorKind::Malformed, message: message.to_owned(), hint: hint.to_owned(), retry_after_ms: None }
}

/// Whether an earlier call of the same answer ended the task, or led to the turn's stop: nothing new starts then.
fn has_ended(draft: &Draft<'_>, proposal: &Proposal) -> bool {
    let stopping = draft.state.open_turn().is_none_or(|turn| turn.stop.is_some());
    stopping || proposal.task_id.and_then(|id| draft.state.tasks.get(&id)).is_some_and(|task| task.phase.is_ended())
}

fn too_late() -> ToolError {
    ToolError {
        code: "too_late".to_owned(),
        message: "The task was finished or stopped before this call; it was not run.".to_owned(),
        hint: "Make what a task needs before finish_task, not with it.".to_owned(),
        state_modified: StateModified::No,
    }
}

fn too_many(place: usize) -> ToolError {
    ToolError {
        code: "too_many_calls".to_owned(),
        message: format!("This is call {} of one answer; {MAX_CALLS} are performed. It was not run.", place + 1),
        hint: "Make it again in the next answer.".to_owned(),
        state_modified: StateModified::No,
    }
}

fn hub_terms() -> CallTerms {
    CallTerms { device_id: None, effect: Effect::Idempotent, risk: Risk::Safe, prepare: false, lookup: false, lasting: false, timeout_s: 1 }
}

fn unknown_tool(draft: &Draft<'_>, name: &str) -> ToolError {
    let shown: String = name.chars().take(64).collect();
    let known: Vec<_> = draft.at.around.offers.keys().cloned().chain(hub_tools::hub_tools().into_iter().map(|tool| tool.name)).collect();
    ToolError {
        code: "unknown_tool".to_owned(),
        message: format!("There is no tool '{}'.", baton_proto::make_visible(&shown)),
        hint: format!("Use one of: {}.", known.join(", ")),
        state_modified: StateModified::No,
    }
}

fn repeated(tool: &str, times: u32) -> ToolError {
    ToolError {
        code: "repeated_call".to_owned(),
        message: format!("This exact call of '{tool}' was made {times} times in this turn; its result won't change."),
        hint: "Use the result that is there: go on, answer in words, or finish_task.".to_owned(),
        state_modified: StateModified::No,
    }
}

/// Stops the turn and pauses its task, with words that the user reads.
pub(super) fn pause_for(draft: &mut Draft<'_>, reason: &str) {
    advance::add_hub_message(draft, reason);
    stop::begin(draft, reason, stop::After::Nothing(stop::Kind::Pause));
    if let Some(task_id) = draft.state.turn.as_ref().and_then(|turn| turn.task_id) {
        stop::set_phase(draft, task_id, Phase::Paused, Some(reason.to_owned()));
    }
}

fn failed(draft: &mut Draft<'_>, call: &ModelCall, error: &ModelError) {
    let failures = call.failures + 1;
    if error.kind.may_retry() && failures < MAX_FAILURES {
        let wait = backoff_ms(failures, error.retry_after_ms, draft.at.ids.jitter());
        let retry_at = draft.at.now.plus(wait);
        draft.emit(SessionEvent::ModelFailed {
            model_call_id: call.id,
            attempt: call.attempt,
            error: error.clone(),
            retry_at: Some(retry_at),
        });
        return;
    }
    draft.emit(SessionEvent::ModelFailed { model_call_id: call.id, attempt: call.attempt, error: error.clone(), retry_at: None });
    let Some(turn) = draft.state.open_turn() else { return };
    let (turn_id, task_id) = (turn.id, turn.task_id);
    let reason = words::model_gave_up(draft.state.language, error);
    draft.emit(SessionEvent::MessageAdded {
        message_id: call.message_id,
        role: Role::Hub,
        text: reason.clone(),
        turn_id: Some(turn_id),
        task_id,
        sender: None,
        selection: None,
        attachments: Vec::new(),
    });
    draft.emit(SessionEvent::TurnFailed { turn_id, reason: reason.clone() });
    if let Some(task_id) = task_id {
        stop::set_phase(draft, task_id, Phase::Paused, Some(reason));
    }
}

/// Milliseconds until the next try: doubling from half a second to half a minute, with up to a quarter of jitter, or what the provider asked for.
fn backoff_ms(failures: u32, retry_after_ms: Option<u64>, jitter: f64) -> i64 {
    let doubled = 500_i64.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(30_000);
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "at most 30,000 times a fraction")]
    let spread = (doubled as f64 * 0.25 * jitter) as i64;
    let asked = retry_after_ms.and_then(|ms| i64::try_from(ms).ok()).unwrap_or(0).min(300_000);
    (doubled + spread).max(asked)
}

/// A failed call whose time has come is tried again.
pub(super) fn retry_if_due(draft: &mut Draft<'_>) {
    let Some(call) = draft.state.open_turn().and_then(|turn| turn.model.clone()) else { return };
    if let ModelStage::Failed { retry_at } = call.stage
        && retry_at <= draft.at.now
    {
        start_attempt(draft, &call, ModelCause::Retry);
    }
}

/// Starts the next attempt of a call that was begun before.
pub(super) fn start_attempt(draft: &mut Draft<'_>, call: &ModelCall, cause: ModelCause) {
    let Some(turn) = draft.state.open_turn() else { return };
    let (turn_id, iteration) = (turn.id, turn.iterations);
    let read = advance::unread(draft);
    draft.emit(SessionEvent::ModelStarted {
        model_call_id: call.id,
        turn_id,
        attempt: call.attempt + 1,
        iteration,
        message_id: call.message_id,
        cause,
        read,
    });
}
