use super::{budget, model, say, stop, tools};
use crate::draft::Draft;
use crate::machine::tool_call::{CallStage, Waiting};
use crate::session::Session;
use crate::words;
use baton_proto::{CallOrigin, Delivery, MAX_ITERATIONS, MessageId, ModelCause, Phase, Role, SessionEvent, TaskId};

/// Takes the state as far as it goes without anybody's doing: decides on fresh calls, asks the model when all results are in,
/// ends the turn when nothing is left, and keeps the task's phase true. Run after every command, so that no state can be stuck.
pub(crate) fn advance(draft: &mut Draft<'_>) {
    let proposed: Vec<_> = draft
        .state
        .calls
        .values()
        .filter(|call| call.stage == CallStage::Proposed && !call.terms.prepare && call.terms.device_id.is_some())
        .map(|call| call.id)
        .collect();
    for call_id in proposed {
        tools::decide_unprepared(draft, call_id);
    }
    wait_for_workspace(draft);
    advance_turn(draft);
    if draft.state.open_turn().is_none() && say::start_queued(draft) {
        wait_for_workspace(draft);
        advance_turn(draft);
    }
    keep_phase(draft);
}

/// One executor per workspace (E6): a turn that finds another session there waits, and says for what.
fn wait_for_workspace(draft: &mut Draft<'_>) {
    let Some((behind, title)) = draft.at.workspace_held_by.clone().filter(|(other, _)| *other != draft.state.id) else { return };
    if needs_workspace(&draft.state)
        && let Some(turn) = draft.state.open_turn()
        && turn.behind.is_none()
    {
        let turn_id = turn.id;
        draft.emit(SessionEvent::WorkspaceWaited { turn_id, behind, title });
    }
}

/// Whether a session's turn has to have its workspace: while it is open, but not while it only waits for a human.
pub fn needs_workspace(state: &Session) -> bool {
    let asks = state.open_approvals().next().is_some() || state.open_questions().next().is_some();
    let acts = state.unsettled_calls().any(|call| {
        call.terms.device_id.is_some()
            && matches!(
                call.stage,
                CallStage::Planned { .. } | CallStage::Started { .. } | CallStage::Unknown { .. } | CallStage::Cancelling { .. }
            )
            && !matches!(call.stage, CallStage::Unknown { waiting: Waiting::Human { .. }, .. })
    });
    state.workspace.is_some() && state.open_turn().is_some() && (acts || !asks)
}

fn advance_turn(draft: &mut Draft<'_>) {
    let Some(turn) = draft.state.open_turn().cloned() else { return };
    if draft.state.unsettled_calls().next().is_some() {
        return;
    }
    if let Some(stop) = &turn.stop {
        draft.emit(SessionEvent::TurnInterrupted { turn_id: turn.id, reason: stop.reason.clone() });
        return;
    }
    if turn.model.is_some() || turn.behind.is_some() {
        return;
    }
    if turn.literal {
        draft.emit(SessionEvent::TurnFinished { turn_id: turn.id, reason: "done".to_owned() });
        take_up_unread(draft, &turn);
        return;
    }
    let concluded = turn.task_id.and_then(|id| draft.state.tasks.get(&id)).is_some_and(|task| task.phase.is_ended());
    if (turn.rested || concluded) && turn.unread.is_empty() {
        return rest(draft, &turn);
    }
    if turn.iterations >= MAX_ITERATIONS {
        let reason = words::too_many_iterations(draft.state.language, MAX_ITERATIONS);
        model::pause_for(draft, &reason);
        let turn_id = turn.id;
        draft.emit(SessionEvent::TurnInterrupted { turn_id, reason });
        return;
    }
    if let Some(reason) = budget::used_up(draft) {
        model::pause_for(draft, &reason);
        let turn_id = turn.id;
        draft.emit(SessionEvent::TurnInterrupted { turn_id, reason });
        return;
    }
    let cause = if turn.unread.is_empty() { ModelCause::Results } else { ModelCause::Input };
    let read = unread(draft);
    draft.emit(SessionEvent::ModelStarted {
        model_call_id: draft.at.ids.fresh(),
        turn_id: turn.id,
        attempt: 1,
        iteration: turn.iterations + 1,
        message_id: draft.at.ids.fresh(),
        cause,
        read,
    });
}

/// What was said while a literal request ran begins a turn of its own once that is done: nobody read it before (T10).
fn take_up_unread(draft: &mut Draft<'_>, literal: &crate::machine::Turn) {
    let (Some((first, later)), Some(task_id)) = (literal.unread.split_first(), draft.state.active_task().map(|task| task.id)) else {
        return;
    };
    let turn_id = draft.at.ids.fresh();
    say::open_turn(draft, turn_id, task_id, Some(*first));
    for message_id in later {
        draft.emit(SessionEvent::TurnInputQueued { turn_id, message_id: *message_id, delivery: Delivery::Steer, goal: None });
    }
    advance_turn(draft);
}

/// Messages that the model hasn't seen.
pub(super) fn unread(draft: &Draft<'_>) -> Vec<MessageId> {
    draft.state.open_turn().map(|turn| turn.unread.clone()).unwrap_or_default()
}

/// The agent has nothing more to do. A task without open steps is done; one with open steps waits for the user.
fn rest(draft: &mut Draft<'_>, turn: &crate::machine::Turn) {
    if let Some(task) = turn.task_id.and_then(|id| draft.state.tasks.get(&id)).cloned()
        && !task.phase.is_ended()
    {
        if task.open_steps().next().is_none() {
            conclude(draft, task.id, None);
        } else {
            let left = task.open_steps().count();
            stop::set_phase(draft, task.id, Phase::WaitingUser, Some(words::stopped_short(draft.state.language, left)));
        }
    }
    draft.emit(SessionEvent::TurnFinished { turn_id: turn.id, reason: "done".to_owned() });
}

/// Ends a task as done, through the check that every ending passes. `false` where its phase doesn't allow that.
pub(crate) fn conclude(draft: &mut Draft<'_>, task_id: TaskId, summary: Option<&str>) -> bool {
    if !stop::set_phase(draft, task_id, Phase::Checking, None) {
        return false;
    }
    if let Some(summary) = summary {
        draft.emit(SessionEvent::TaskConcluded { task_id, summary: summary.to_owned() });
    }
    let line = words::done(draft.state.language).to_owned();
    draft.emit(SessionEvent::TaskProgressed { task_id, progress: 100, line });
    stop::set_phase(draft, task_id, Phase::Done, None)
}

pub(super) fn add_hub_message(draft: &mut Draft<'_>, text: &str) {
    let (turn_id, task_id) = draft.state.turn.as_ref().map_or((None, None), |turn| (Some(turn.id), turn.task_id));
    let message_id = draft.at.ids.fresh();
    draft.emit(SessionEvent::MessageAdded {
        message_id,
        role: Role::Hub,
        text: text.to_owned(),
        turn_id,
        task_id,
        sender: None,
        selection: None,
        attachments: Vec::new(),
    });
}

/// The phase follows from what the turn waits for; the model has no say in it (T3).
fn keep_phase(draft: &mut Draft<'_>) {
    let Some(turn) = draft.state.open_turn() else { return };
    let Some(task) = turn.task_id.and_then(|id| draft.state.tasks.get(&id)) else { return };
    if task.phase.is_ended() || task.phase == Phase::Paused {
        return;
    }
    let asks = draft.state.open_approvals().next().is_some() || draft.state.open_questions().next().is_some();
    let online = &draft.at.around.online;
    let absent = draft.state.unsettled_calls().any(|call| {
        let away = call.terms.device_id.is_some_and(|device| !online.contains(&device));
        away && matches!(
            call.stage,
            CallStage::Proposed | CallStage::Planned { .. } | CallStage::Unknown { waiting: Waiting::Device | Waiting::Lookup, .. }
        )
    });
    let acted = draft.state.calls.values().any(|call| call.terms.device_id.is_some() && call.origin == CallOrigin::Model);
    let wanted = if asks {
        Phase::WaitingUser
    } else if absent || turn.behind.is_some() {
        Phase::WaitingDevice
    } else if acted || task.steps.iter().any(|step| step.status != baton_proto::StepStatus::Pending) {
        Phase::Executing
    } else {
        Phase::Planning
    };
    if wanted != task.phase {
        let task_id = task.id;
        stop::set_phase(draft, task_id, wanted, None);
    }
}
