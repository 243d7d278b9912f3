mod bounded;

use super::{advance, answers, devices};
use crate::context::OfferedTool;
use crate::draft::Draft;
use crate::machine::tool_call::{CallStage, GivenUp, ToolCall, Waiting};
use crate::rules;
use crate::words;
use baton_proto::{
    ApprovalBinding, CallId, CallOrigin, CallTerms, DeviceId, Digest, Effect, Finding, Outcome, Prepared, QuestionKind, Reconciliation,
    Risk, Rule, SessionEvent, StateModified, TaskId, ToolError, TurnId, UnknownCause,
};
use serde_json::Value;

/// Tries of a call whose device dies each time it runs, before it is given up: it may be what kills the device (C11). Only interrupted
/// tries count; a hub that restarts plans nothing anew (C44).
const MAX_ATTEMPTS: u32 = 5;

/// A call as it is put forward, before anything is decided on it.
pub(super) struct Proposal {
    pub(super) call_id: CallId,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) origin: CallOrigin,
    pub(super) turn_id: TurnId,
    pub(super) task_id: Option<TaskId>,
}

/// The tool of that name, as a device offers it.
pub(super) fn offered(draft: &Draft<'_>, tool: &str) -> Option<OfferedTool> {
    let holder = draft.state.workspace.as_ref().and_then(|workspace| workspace.device_id);
    draft.at.around.offer(tool, holder).cloned()
}

pub(super) fn propose(draft: &mut Draft<'_>, proposal: &Proposal, offered: &OfferedTool) {
    let spec = &offered.spec;
    let terms = CallTerms {
        device_id: Some(offered.device_id),
        effect: spec.effect,
        risk: spec.risk,
        prepare: spec.prepare,
        lookup: spec.lookup,
        lasting: spec.lasting,
        timeout_s: spec.timeout_s,
    };
    propose_on(draft, proposal, terms);
}

pub(super) fn propose_on(draft: &mut Draft<'_>, proposal: &Proposal, terms: CallTerms) {
    let step_id = proposal
        .task_id
        .and_then(|id| draft.state.tasks.get(&id))
        .and_then(|task| task.steps.iter().find(|step| step.status == baton_proto::StepStatus::Running))
        .map(|step| step.id.clone());
    draft.emit(SessionEvent::ToolProposed {
        call_id: proposal.call_id,
        turn_id: proposal.turn_id,
        task_id: proposal.task_id,
        step_id,
        tool: proposal.tool.clone(),
        arguments: proposal.arguments.clone(),
        origin: proposal.origin,
        terms,
    });
}

/// The device looked at the call: its risk, the digests of what it names, what will happen (E5).
pub(super) fn prepared(draft: &mut Draft<'_>, call_id: CallId, device: DeviceId, prepared: &Prepared) {
    let Some(call) = draft.state.calls.get(&call_id) else { return };
    if call.stage != CallStage::Proposed || call.terms.device_id != Some(device) || !call.terms.prepare {
        return;
    }
    let found = Prepared { preview: String::new(), ..prepared.clone() };
    if let Some(error) = bounded::unstorable(&found) {
        draft.emit(SessionEvent::ToolFailed { call_id, attempt: 0, error, result: None });
        return;
    }
    draft.emit(SessionEvent::ToolPrepared { call_id, prepared: found });
    if let Some(error) = prepared.refusal.clone() {
        draft.emit(SessionEvent::ToolFailed { call_id, attempt: 0, error, result: None });
        return;
    }
    settle_terms(draft, call_id, Some(prepared));
}

/// A call that needs no preparation is decided on at once.
pub(super) fn decide_unprepared(draft: &mut Draft<'_>, call_id: CallId) {
    settle_terms(draft, call_id, None);
}

/// The intention to let a call run, for the journal that its device is known by (E2, F7).
pub(super) fn plan(draft: &mut Draft<'_>, call_id: CallId, attempt: u32) {
    let device = draft.state.calls.get(&call_id).and_then(|call| call.terms.device_id);
    let journal = device.and_then(|device| draft.at.around.devices.get(&device)).and_then(|device| device.journal);
    draft.emit(SessionEvent::ToolPlanned { call_id, attempt, journal });
}

/// Plans a call, or asks for approval first.
fn settle_terms(draft: &mut Draft<'_>, call_id: CallId, prepared: Option<&Prepared>) {
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    let literal = call.origin == CallOrigin::User && call.risk <= Risk::Sensitive;
    if call.risk == Risk::Safe || literal {
        plan(draft, call_id, call.attempt + 1);
        return;
    }
    let arguments = call.arguments.to_string();
    // Nobody is asked to approve what isn't shown.
    let preview = prepared.map(|prepared| prepared.preview.clone()).filter(|preview| !preview.trim().is_empty()).unwrap_or(arguments);
    let declared = words::declared_risk(draft.state.language, &call.tool);
    let risk_reason = prepared.map(|prepared| prepared.risk_reason.clone()).filter(|reason| !reason.trim().is_empty());
    let risk_said = match (&risk_reason, prepared) {
        (Some(_), Some(prepared)) => prepared.risk_said.clone(),
        _ => vec![declared.clone()],
    };
    let binding = ApprovalBinding {
        task_id: call.task_id,
        turn_id: call.turn_id,
        tool: call.tool.clone(),
        argument_digest: Digest::of_json(&call.arguments),
        file_digests: prepared.map(|prepared| prepared.digests.clone()).unwrap_or_default(),
        risk: call.risk,
        risk_reason: risk_reason.unwrap_or_else(|| declared.text.clone()),
        risk_said,
        preview,
        directory: prepared.and_then(|prepared| prepared.directory.clone()),
        device_id: call.terms.device_id,
        epoch: draft.state.holder.epoch,
        origins: draft.state.reading.of(call.task_id),
    };
    if let Some(error) = bounded::refusal(&binding) {
        draft.emit(SessionEvent::ToolFailed { call_id, attempt: 0, error, result: None });
        return;
    }
    let rule = rules::allowing(&draft.at.around, draft.state.id, &call, &binding).cloned();
    let approval_id = draft.at.ids.fresh();
    let Some(Rule { rule_id, granted_by, .. }) = rule else {
        draft.emit(SessionEvent::ApprovalRequested { approval_id, call_id, binding });
        return;
    };
    draft.emit(SessionEvent::ApprovalGranted { approval_id, call_id, binding, rule_id, by: granted_by });
    plan(draft, call_id, call.attempt + 1);
}

/// The device wrote it down and is about to act.
pub(super) fn started(draft: &mut Draft<'_>, call_id: CallId, attempt: u32, device: DeviceId) {
    let Some(call) = draft.state.calls.get(&call_id) else { return };
    if call.terms.device_id != Some(device) || call.attempt != attempt {
        return;
    }
    match call.stage {
        CallStage::Planned { .. } => draft.emit(SessionEvent::ToolStarted { call_id, attempt, device_id: device }),
        CallStage::Unknown { waiting: Waiting::Device, .. } => {
            draft.emit(SessionEvent::ToolReconciled { call_id, attempt, finding: Reconciliation::StillRunning });
        }
        _ => {}
    }
}

/// A device's word on how a call ended. A stale or repeated one changes nothing.
pub(super) fn ended(draft: &mut Draft<'_>, call_id: CallId, attempt: u32, device: DeviceId, outcome: &Outcome) {
    if let Some(given_up) = draft.state.given_up.get(&call_id).filter(|kept| kept.attempt == attempt && kept.device_id == device).cloned() {
        came_late(draft, call_id, &given_up, outcome);
        return;
    }
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    let acting = matches!(
        call.stage,
        CallStage::Planned { .. } | CallStage::Started { .. } | CallStage::Cancelling { .. } | CallStage::Unknown { .. }
    );
    if !acting || call.attempt != attempt || call.terms.device_id != Some(device) {
        return;
    }
    // A device repeats its word until it is acknowledged; that it was interrupted is known already.
    let known_as_interrupted = matches!(call.stage, CallStage::Unknown { waiting: Waiting::Human { .. } | Waiting::Lookup, .. });
    if known_as_interrupted && matches!(outcome, Outcome::Interrupted { .. }) {
        return;
    }
    withdraw_question(draft, &call);
    match &bounded::outcome(outcome) {
        Outcome::Succeeded(result) => {
            let baseline = result.baseline.clone();
            draft.emit(SessionEvent::ToolSucceeded { call_id, attempt, result: result.clone() });
            if let Some(baseline) = baseline {
                devices::workspace_seen(draft, &baseline, Some(call_id));
            }
        }
        Outcome::Failed { error, result } => {
            let stopping = matches!(call.stage, CallStage::Cancelling { .. });
            let repeatable = !stopping && call.terms.effect == Effect::Read && error.code == "device_busy" && attempt < 3;
            if repeatable {
                draft.emit(SessionEvent::ToolAttemptFailed { call_id, attempt, error: error.clone() });
                plan(draft, call_id, attempt + 1);
                return;
            }
            let baseline = result.as_ref().and_then(|result| result.baseline.clone());
            draft.emit(SessionEvent::ToolFailed { call_id, attempt, error: error.clone(), result: result.clone() });
            if let Some(baseline) = baseline {
                devices::workspace_seen(draft, &baseline, Some(call_id));
            }
        }
        Outcome::Cancelled { result } => {
            let reason = match &call.stage {
                CallStage::Cancelling { reason, .. } => reason.clone(),
                _ => words::stopped_on_its_device(draft.state.language).to_owned(),
            };
            draft.emit(SessionEvent::ToolCancelled { call_id, reason, result: result.clone() });
        }
        Outcome::Interrupted { known } => interrupted(draft, call_id, UnknownCause::DeviceRestarted, known),
    }
}

/// A call was given up, and now its device says that it acted after all: told once, to people and to the agent, and nothing runs again
/// (C12). The call keeps the result that the agent has read.
fn came_late(draft: &mut Draft<'_>, call_id: CallId, given_up: &GivenUp, outcome: &Outcome) {
    let outcome = bounded::outcome(outcome);
    let (what, result) = match &outcome {
        Outcome::Succeeded(result) => (&result.content, Some(result)),
        Outcome::Failed { error, result } if error.state_modified != StateModified::No => (&error.message, result.as_ref()),
        Outcome::Failed { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted { .. } => return,
    };
    let known = words::came_late(draft.state.language, &given_up.tool, what);
    draft.emit(SessionEvent::ToolReconciled { call_id, attempt: given_up.attempt, finding: Reconciliation::Late { known: known.clone() } });
    advance::add_hub_message(draft, &known);
    if let Some(baseline) = result.and_then(|result| result.baseline.clone()) {
        devices::workspace_seen(draft, &baseline, Some(call_id));
    }
}

/// The device knows better after all, so nobody needs to be asked any more.
pub(super) fn withdraw_question(draft: &mut Draft<'_>, call: &ToolCall) {
    if let CallStage::Unknown { waiting: Waiting::Human { question_id }, .. } = call.stage {
        let reason = words::device_reported(draft.state.language).to_owned();
        draft.emit(SessionEvent::QuestionVoided { question_id, reason });
    }
}

/// The device died in the middle of a call, or lost what it knew of it. Reading is repeated; what can be looked up is looked up; what changes
/// nothing when repeated is repeated; for the rest a human decides (E3).
pub(super) fn interrupted(draft: &mut Draft<'_>, call_id: CallId, cause: UnknownCause, known: &str) {
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    let attempt = call.attempt;
    if let CallStage::Cancelling { reason, .. } = &call.stage {
        let reason = words::stopped_while_it_ran(draft.state.language, reason, known);
        draft.emit(SessionEvent::ToolCancelled { call_id, reason, result: None });
        return;
    }
    if !matches!(call.stage, CallStage::Unknown { .. }) {
        draft.emit(SessionEvent::ToolUnknown { call_id, attempt, cause, known: known.to_owned() });
    }
    if call.terms.effect != Effect::Read && call.terms.lookup {
        draft.emit(SessionEvent::ToolReconciled { call_id, attempt, finding: Reconciliation::Unclear { known: known.to_owned() } });
        return;
    }
    repeat_or_ask(draft, &call, known);
}

fn repeat_or_ask(draft: &mut Draft<'_>, call: &ToolCall, known: &str) {
    let (call_id, attempt) = (call.id, call.attempt);
    // As it is by now: the call that was handed in may be older than the word of its loss.
    let cause = match draft.state.calls.get(&call_id).map(|call| &call.stage) {
        Some(CallStage::Unknown { cause, .. }) => Some(*cause),
        _ => None,
    };
    if matches!(call.terms.effect, Effect::Read | Effect::Idempotent) {
        if attempt >= MAX_ATTEMPTS {
            draft.emit(SessionEvent::ToolFailed { call_id, attempt, error: interrupted_each_time(call, known), result: None });
            return;
        }
        draft.emit(SessionEvent::ToolReconciled { call_id, attempt, finding: Reconciliation::Repeatable });
        plan(draft, call_id, attempt + 1);
        return;
    }
    draft.emit(SessionEvent::QuestionAsked {
        question_id: draft.at.ids.fresh(),
        kind: QuestionKind::Outcome,
        call_id,
        task_id: call.task_id,
        text: words::outcome_question(draft.state.language, &call.tool, &call.arguments),
        options: answers::OUTCOME_OPTIONS.map(str::to_owned).to_vec(),
        known: Some(known.to_owned()),
        cause,
    });
}

fn interrupted_each_time(call: &ToolCall, known: &str) -> ToolError {
    ToolError {
        code: "interrupted".to_owned(),
        message: format!("The device died each of the {} times that this ran. {known}", call.attempt),
        hint: "Don't repeat it as it is: it may be what kills the device. Look at what is there, and find another way.".to_owned(),
        state_modified: if call.terms.effect == Effect::Read { StateModified::No } else { StateModified::Unknown },
    }
}

/// The tool's lookup answered.
pub(super) fn probed(draft: &mut Draft<'_>, call_id: CallId, attempt: u32, device: DeviceId, finding: &Finding) {
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    let waits = matches!(call.stage, CallStage::Unknown { waiting: Waiting::Lookup, .. });
    if !waits || call.attempt != attempt || call.terms.device_id != Some(device) {
        return;
    }
    match finding {
        Finding::Happened { result } => {
            let result = bounded::result(result);
            let baseline = result.baseline.clone();
            draft.emit(SessionEvent::ToolSucceeded { call_id, attempt, result });
            if let Some(baseline) = baseline {
                devices::workspace_seen(draft, &baseline, Some(call_id));
            }
        }
        Finding::NotHappened => {
            draft.emit(SessionEvent::ToolReconciled { call_id, attempt, finding: Reconciliation::NotHappened });
            plan(draft, call_id, attempt + 1);
        }
        Finding::Unclear { known } => repeat_or_ask(draft, &call, &bounded::sentence(known)),
    }
}

/// Cancels a call that no device has been told of.
pub(super) fn cancel_unstarted(draft: &mut Draft<'_>, call_id: CallId, reason: &str) {
    draft.emit(SessionEvent::ToolCancelled { call_id, reason: reason.to_owned(), result: None });
}

/// Stops a call, whatever it is doing. One that may be acting is cancelled once its device confirms that it stopped (F3).
pub(super) fn cancel(draft: &mut Draft<'_>, call_id: CallId, reason: &str) {
    let Some(call) = draft.state.calls.get(&call_id).cloned() else { return };
    match call.stage {
        CallStage::Proposed | CallStage::AwaitingApproval { .. } | CallStage::AwaitingAnswer { .. } => {
            cancel_unstarted(draft, call_id, reason);
        }
        // A planned call may be on its way to the device already.
        CallStage::Planned { .. } | CallStage::Started { .. } | CallStage::Unknown { waiting: Waiting::Device | Waiting::Lookup, .. } => {
            draft.emit(SessionEvent::ToolCancelRequested { call_id, reason: reason.to_owned() });
            let reachable = call.terms.device_id.is_some_and(|device| draft.at.around.online.contains(&device));
            if !reachable {
                cancelled_out_of_reach(draft, call_id);
            }
        }
        CallStage::Unknown { .. } => {
            let reason = words::effect_unknown(draft.state.language, reason);
            draft.emit(SessionEvent::ToolCancelled { call_id, reason, result: None });
        }
        CallStage::Cancelling { .. } | CallStage::Succeeded | CallStage::Failed | CallStage::Cancelled => {}
    }
}

/// The device that should stop a call is out of reach: the call is given up, and what isn't known is said. The device is told when it is back.
pub(super) fn cancelled_out_of_reach(draft: &mut Draft<'_>, call_id: CallId) {
    let Some(CallStage::Cancelling { reason, .. }) = draft.state.calls.get(&call_id).map(|call| call.stage.clone()) else { return };
    let reason = words::effect_unknown_offline(draft.state.language, &reason);
    draft.emit(SessionEvent::ToolCancelled { call_id, reason, result: None });
}
