use super::{answers, say, tools};
use crate::context::ActingDevice;
use crate::draft::Draft;
use crate::machine::ModelStage;
use crate::machine::phase::may_follow;
use crate::words;
use baton_proto::{ErrorBody, ErrorCode, Phase, QuestionState, Role, SessionEvent, TaskId};

/// Bytes of an answer that was broken off, as JSON writes it.
const MAX_KEPT_BYTES: usize = 48 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cancel,
    Pause,
}

/// What follows once a turn has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Nothing(Kind),
    QueuedInput,
}

/// Stopping is always possible, from any end (requirements, "Who may do what").
pub(super) fn stop(draft: &mut Draft<'_>, sender: &ActingDevice, task_id: Option<TaskId>, kind: Kind) -> Result<(), ErrorBody> {
    let open = draft.state.open_turn().map(|turn| (turn.id, turn.task_id, turn.stop.is_some()));
    let active = draft.state.active_task().map(|task| (task.id, task.phase));
    let task = task_id.or_else(|| match open {
        Some((_, Some(task), _)) => Some(task),
        // A literal request works on no task; one that was asked for meanwhile, and hasn't begun, is meant too.
        Some((_, None, _)) => active.filter(|(_, phase)| *phase == Phase::Idle).map(|(id, _)| id),
        None => active.map(|(id, _)| id),
    });
    let (reason, phase) = match kind {
        Kind::Cancel => (words::stopped(draft.state.language, &sender.name), Phase::Cancelled),
        Kind::Pause => (words::paused(draft.state.language, &sender.name), Phase::Paused),
    };
    if let Some(task_id) = task_id {
        let known = draft.state.tasks.get(&task_id).ok_or_else(|| ErrorBody::not_found("task"))?;
        if known.phase.is_ended() {
            return Err(ErrorBody::new(ErrorCode::IllegalTransition, "That task has ended already.", "There is nothing to stop."));
        }
    }
    match open {
        Some((_, turn_task, stopping)) if turn_task == task || task_id.is_none() => {
            if stopping && kind == Kind::Pause {
                return Err(ErrorBody::new(ErrorCode::IllegalTransition, "It is being stopped already.", "Wait a moment."));
            }
            if !stopping {
                begin(draft, &reason, After::Nothing(kind));
            }
        }
        _ if task.is_none() => {
            return Err(ErrorBody::new(ErrorCode::IllegalTransition, "Nothing is under way.", "There is nothing to stop."));
        }
        _ => {}
    }
    if let Some(task_id) = task {
        set_phase(draft, task_id, phase, Some(reason));
    }
    Ok(())
}

/// From here on nothing new starts; what runs is asked to stop, and the turn ends when all of it has.
pub(super) fn begin(draft: &mut Draft<'_>, reason: &str, after: After) {
    let Some(turn_id) = draft.state.open_turn().map(|turn| turn.id) else { return };
    keep_what_was_written(draft);
    let (pause, for_input) = (after == After::Nothing(Kind::Pause), after == After::QueuedInput);
    draft.emit(SessionEvent::TurnStopRequested { turn_id, reason: reason.to_owned(), pause, for_input });
    answers::set_approvals_aside(draft, reason);
    let questions: Vec<_> =
        draft.state.questions.values().filter(|question| question.state == QuestionState::Open).map(|question| question.id).collect();
    for question_id in questions {
        draft.emit(SessionEvent::QuestionVoided { question_id, reason: reason.to_owned() });
    }
    let unsettled: Vec<_> = draft.state.unsettled_calls().map(|call| call.id).collect();
    for call_id in unsettled {
        tools::cancel(draft, call_id, reason);
    }
}

/// What the user has read of an answer that is broken off stays, for them and for the model.
fn keep_what_was_written(draft: &mut Draft<'_>) {
    let Some(so_far) = draft.at.so_far.clone() else { return };
    let Some(turn) = draft.state.open_turn() else { return };
    let is_under_way = turn
        .model
        .as_ref()
        .is_some_and(|call| call.stage == ModelStage::Started && call.message_id == so_far.message_id && call.attempt == so_far.attempt);
    if !is_under_way || so_far.text.trim().is_empty() {
        return;
    }
    let (turn_id, task_id) = (turn.id, turn.task_id);
    let text = format!("{}\n\n{}", words::json_excerpt(&so_far.text, MAX_KEPT_BYTES), words::broken_off(draft.state.language));
    draft.emit(SessionEvent::MessageAdded {
        message_id: so_far.message_id,
        role: Role::Agent,
        text,
        turn_id: Some(turn_id),
        task_id,
        sender: None,
        selection: None,
        attachments: Vec::new(),
    });
}

/// Goes on with a paused task, or with one whose turn ended before it was done.
pub(super) fn resume(draft: &mut Draft<'_>, task_id: Option<TaskId>) -> Result<(), ErrorBody> {
    if draft.state.open_turn().is_some() {
        return Err(ErrorBody::new(ErrorCode::IllegalTransition, "The agent is at work already.", "Wait until it rests."));
    }
    if draft.at.model.is_none() {
        return Err(ErrorBody::new(
            ErrorCode::ModelUnavailable,
            "No model is configured to go on with it.",
            "Start Baton with --model-url and --model.",
        ));
    }
    let task = match task_id {
        Some(id) => draft.state.tasks.get(&id).ok_or_else(|| ErrorBody::not_found("task"))?,
        None => draft
            .state
            .active_task()
            .ok_or_else(|| ErrorBody::new(ErrorCode::IllegalTransition, "No task is open.", "Say what you want done."))?,
    };
    if task.phase.is_ended() {
        return Err(ErrorBody::new(ErrorCode::IllegalTransition, "That task has ended.", "Say what you want done, and a new one begins."));
    }
    let task_id = task.id;
    say::put_others_aside(draft, task_id);
    let turn_id = draft.at.ids.fresh();
    say::open_turn(draft, turn_id, task_id, None);
    say::read_queued(draft, turn_id);
    Ok(())
}

/// Moves a task to a phase if the table allows it; what isn't allowed is left as it is (T3).
pub(crate) fn set_phase(draft: &mut Draft<'_>, task_id: TaskId, to: Phase, reason: Option<String>) -> bool {
    let Some(from) = draft.state.tasks.get(&task_id).map(|task| task.phase) else { return false };
    if !may_follow(from, to) {
        return false;
    }
    draft.emit(SessionEvent::TaskPhaseChanged { task_id, from, to, reason });
    true
}
