use super::{advance, model, tools};
use crate::draft::Draft;
use crate::machine::ModelStage;
use crate::machine::tool_call::{CallStage, Waiting};
use crate::words;
use baton_proto::{Baseline, CallId, DeviceId, MAX_DEADLY_RESUMES, Reconciliation, RunningState, SessionEvent, UnknownCause, make_visible};
use std::fmt::Write as _;

/// Changed files that the agent is told by name, and bytes of a name.
const MAX_CHANGED_FILES: usize = 10;
const MAX_CHANGED_NAME: usize = 120;

/// A device is back and says what its journal knows. A planned call that the same journal doesn't know never reached it, and is dispatched
/// again; of one that another journal may have known, nobody can say whether it ran (F7).
pub(super) fn reported(draft: &mut Draft<'_>, device: DeviceId, running: &[(CallId, u32, RunningState)]) {
    let mine: Vec<_> =
        draft.state.calls.values().filter(|call| call.may_act_on(device)).map(|call| (call.id, call.attempt, call.stage.clone())).collect();
    for (call_id, attempt, stage) in mine {
        let told = running.iter().find(|(id, at, _)| *id == call_id && *at == attempt).map(|(_, _, state)| *state);
        match (&stage, told) {
            // Its word that it began was lost with the connection.
            (CallStage::Planned { .. }, Some(RunningState::Running)) => {
                draft.emit(SessionEvent::ToolStarted { call_id, attempt, device_id: device });
            }
            (CallStage::Unknown { .. }, Some(RunningState::Running | RunningState::Accepted)) => {
                if let Some(call) = draft.state.calls.get(&call_id).cloned() {
                    tools::withdraw_question(draft, &call);
                }
                draft.emit(SessionEvent::ToolReconciled { call_id, attempt, finding: Reconciliation::StillRunning });
            }
            // It was written down before it was reported as started; a journal that doesn't know it was lost.
            (CallStage::Started { .. } | CallStage::Unknown { waiting: Waiting::Device, .. }, None) => {
                tools::interrupted(draft, call_id, UnknownCause::DeviceRestarted, "The device has no record of it any more.");
            }
            (CallStage::Planned { .. }, None) => forgotten(draft, call_id),
            (CallStage::Cancelling { reason, .. }, None) => {
                draft.emit(SessionEvent::ToolCancelled { call_id, reason: reason.clone(), result: None });
            }
            // Of one that it knows otherwise, the outcome itself follows as a result; one that it doesn't know at all is dispatched anew.
            _ => {}
        }
    }
}

/// What a device may have been given before it lost its journal isn't handed out again as if it had never come.
fn forgotten(draft: &mut Draft<'_>, call_id: CallId) {
    let Some(call) = draft.state.calls.get(&call_id) else { return };
    let device = call.terms.device_id.and_then(|device| draft.at.around.devices.get(&device));
    if call.may_be_forgotten(device.and_then(|device| device.journal)) {
        tools::interrupted(
            draft,
            call_id,
            UnknownCause::JournalLost,
            "The device lost its journal after this was handed to it, so it can't say whether it ran.",
        );
    }
}

/// A device's last connection is gone. Whether what it does goes on there is unknown, and shown so.
pub(super) fn lost(draft: &mut Draft<'_>, device: DeviceId) {
    let running: Vec<_> = draft
        .state
        .calls
        .values()
        .filter(|call| call.terms.device_id == Some(device) && matches!(call.stage, CallStage::Started { .. }))
        .map(|call| (call.id, call.attempt))
        .collect();
    for (call_id, attempt) in running {
        draft.emit(SessionEvent::ToolUnknown {
            call_id,
            attempt,
            cause: UnknownCause::DeviceDisconnected,
            known: words::lost_while_it_ran(draft.state.language).to_owned(),
        });
    }
    let cancelling: Vec<_> = draft
        .state
        .calls
        .values()
        .filter(|call| call.terms.device_id == Some(device) && matches!(call.stage, CallStage::Cancelling { .. }))
        .map(|call| call.id)
        .collect();
    for call_id in cancelling {
        tools::cancelled_out_of_reach(draft, call_id);
    }
}

/// A hub process took the session up; what is owed goes on by itself (R1). A session that stops the hub whenever it is taken up is left
/// alone after a few tries, with the others served; a user resumes it.
pub(super) fn resumed(draft: &mut Draft<'_>, incarnation: u64) {
    let mut found = Vec::new();
    if let Some(call) = draft.state.open_turn().and_then(|turn| turn.model.as_ref()) {
        found.push(format!("model call {} in attempt {}", call.id, call.attempt));
    }
    for call in draft.state.unsettled_calls() {
        found.push(format!("{} {} {:?}", call.tool, call.id, call.state()).to_lowercase());
    }
    if found.is_empty() {
        advance::advance(draft);
        return;
    }
    // Only what the hub itself does for a session can take the hub down: asking the model. Waiting for somebody is no danger.
    let does_something = draft.state.open_turn().is_some_and(|turn| turn.model.is_some());
    let in_a_row = if does_something { draft.state.resumes_in_a_row + 1 } else { 0 };
    take_up(draft);
    if in_a_row > MAX_DEADLY_RESUMES {
        let reason = words::deadly(draft.state.language, in_a_row);
        model::pause_for(draft, &reason);
    }
    advance::advance(draft);
    // Last in its commit: it counts only as long as nothing follows.
    draft.emit(SessionEvent::Recovered { incarnation, found, in_a_row });
}

/// A hub process stops in good order: that it took the session up again and nothing else happened is no sign of harm (C44).
pub(super) fn released(draft: &mut Draft<'_>, incarnation: u64) {
    if draft.state.resumes_in_a_row > 0 {
        draft.emit(SessionEvent::DriverReleased { incarnation });
    }
}

/// Nothing is shown as running that isn't known to be.
fn take_up(draft: &mut Draft<'_>) {
    let started: Vec<_> = draft
        .state
        .calls
        .values()
        .filter(|call| matches!(call.stage, CallStage::Started { .. }))
        .map(|call| (call.id, call.attempt))
        .collect();
    for (call_id, attempt) in started {
        draft.emit(SessionEvent::ToolUnknown {
            call_id,
            attempt,
            cause: UnknownCause::HubRestarted,
            known: words::hub_stopped_while_it_ran(draft.state.language).to_owned(),
        });
    }
    // Their device may have come back without its journal while nobody drove this session.
    let planned: Vec<_> =
        draft.state.calls.values().filter(|call| matches!(call.stage, CallStage::Planned { .. })).map(|call| call.id).collect();
    for call_id in planned {
        forgotten(draft, call_id);
    }
    let interrupted = draft.state.open_turn().and_then(|turn| turn.model.clone()).filter(|call| call.stage == ModelStage::Started);
    if let Some(call) = interrupted {
        model::start_attempt(draft, &call, baton_proto::ModelCause::Recovered);
    }
}

/// The session has its workspace again. The baseline is read anew, since others worked there meanwhile (E6).
pub(super) fn workspace_granted(draft: &mut Draft<'_>, baseline: Option<&Baseline>) {
    let Some(turn_id) = draft.state.open_turn().filter(|turn| turn.behind.is_some()).map(|turn| turn.id) else { return };
    draft.emit(SessionEvent::WorkspaceGranted { turn_id });
    if let Some(baseline) = baseline {
        workspace_seen(draft, baseline, None);
    }
}

/// The workspace as a device sees it now. What somebody else changed since is said to the agent at its next step (C34).
pub(super) fn workspace_seen(draft: &mut Draft<'_>, baseline: &Baseline, by_call: Option<CallId>) {
    let Some(known) = draft.state.workspace.as_ref().map(|workspace| workspace.baseline.clone()) else { return };
    if known == *baseline {
        return;
    }
    let changed = if by_call.is_some() { None } else { Some(difference(&known, baseline)) };
    draft.emit(SessionEvent::WorkspaceSeen { baseline: baseline.clone(), changed });
}

/// The same, with the files that its device knows to have changed.
pub(super) fn workspace_changed(draft: &mut Draft<'_>, baseline: &Baseline, files: &[String], files_left_out: u32) {
    let Some(known) = draft.state.workspace.as_ref().map(|workspace| workspace.baseline.clone()) else { return };
    if known == *baseline {
        return;
    }
    let mut changed = difference(&known, baseline);
    let named: Vec<_> =
        files.iter().take(MAX_CHANGED_FILES).map(|file| format!("'{}'", words::excerpt(&make_visible(file), MAX_CHANGED_NAME))).collect();
    if !named.is_empty() {
        let more = u32::try_from(files.len() - named.len()).unwrap_or(u32::MAX).saturating_add(files_left_out);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(changed, " Files: {}{more}.", named.join(", "));
    }
    draft.emit(SessionEvent::WorkspaceSeen { baseline: baseline.clone(), changed: Some(changed) });
}

fn difference(before: &Baseline, after: &Baseline) -> String {
    let name = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    let mut parts = Vec::new();
    if before.branch != after.branch {
        parts.push(format!("the branch was {} and is {}", name(&before.branch), name(&after.branch)));
    }
    if before.commit != after.commit {
        parts.push(format!("the commit was {} and is {}", name(&before.commit), name(&after.commit)));
    }
    if before.dirty != after.dirty {
        parts.push("uncommitted changes differ".to_owned());
    }
    format!("Somebody else changed the workspace: {}.", parts.join("; "))
}
