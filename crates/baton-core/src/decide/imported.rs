use super::{say, stop};
use crate::draft::Draft;
use crate::words;
use baton_proto::{DeviceId, Phase, SessionEvent};

/// A log came in from outside: what it tells of was under way elsewhere, or never. Nobody is asked for it, nothing of it is done, and it
/// gives nobody a right (S23). What was said and done stays; a task that was open is paused, for a user to go on with.
///
/// Nothing is advanced afterwards, so that an import by itself starts nothing at all.
pub(super) fn imported(draft: &mut Draft<'_>, device: DeviceId) {
    draft.emit(SessionEvent::SessionImported { device_id: device });
    let reason = words::imported(draft.state.language);
    if let Some(turn_id) = draft.state.turn.as_ref().map(|turn| turn.id) {
        say::read_queued(draft, turn_id);
    }
    let approvals: Vec<_> = draft.state.open_approvals().map(|approval| approval.id).collect();
    for approval_id in approvals {
        draft.emit(SessionEvent::ApprovalVoided { approval_id, reason: reason.to_owned() });
    }
    let questions: Vec<_> = draft.state.open_questions().map(|question| question.id).collect();
    for question_id in questions {
        draft.emit(SessionEvent::QuestionVoided { question_id, reason: reason.to_owned() });
    }
    let unsettled: Vec<_> = draft.state.unsettled_calls().map(|call| call.id).collect();
    for call_id in unsettled {
        draft.emit(SessionEvent::ToolCancelled { call_id, reason: reason.to_owned(), result: None });
    }
    if let Some(turn_id) = draft.state.open_turn().map(|turn| turn.id) {
        draft.emit(SessionEvent::TurnInterrupted { turn_id, reason: reason.to_owned() });
    }
    let open: Vec<_> = draft.state.tasks.values().filter(|task| !task.phase.is_ended()).map(|task| task.id).collect();
    for task_id in open {
        stop::set_phase(draft, task_id, Phase::Paused, Some(reason.to_owned()));
    }
    let epoch = draft.state.holder.epoch.saturating_add(1);
    draft.emit(SessionEvent::HandoffReleased { from: device, epoch });
}
