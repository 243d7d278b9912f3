//! Budgets of tokens (R4): work pauses at one, and its user lets it go on.

use super::handoff;
use crate::draft::Draft;
use crate::policy::Standing;
use crate::slash;
use crate::words;
use baton_proto::{ErrorBody, ErrorCode, Intent, Operation, SessionEvent, TaskId};

/// Why the agent may not ask the model again, if a budget is used up.
pub(super) fn used_up(draft: &Draft<'_>) -> Option<String> {
    let language = draft.state.language;
    let task = draft.state.open_turn().and_then(|turn| turn.task_id).and_then(|id| draft.state.tasks.get(&id));
    if let (Some(limit), Some(task)) = (draft.at.budgets.task, task)
        && task.usage.total().saturating_sub(task.budget_from) >= limit
    {
        return Some(words::task_budget_used_up(language, limit));
    }
    day_used_up(draft).map(|limit| words::day_budget_used_up(language, limit))
}

/// The day's budget, if it is used up and the user hasn't let this session go on today.
fn day_used_up(draft: &Draft<'_>) -> Option<u64> {
    let budgets = &draft.at.budgets;
    let allowed = draft.state.beyond_day.as_deref() == Some(draft.at.now.day().as_str());
    budgets.day.filter(|limit| budgets.spent_today >= *limit && !allowed)
}

/// Beyond the day's budget nothing begins without the user's confirmation, which holds for this session and this day.
pub(super) fn of_the_day(draft: &mut Draft<'_>, operation: &Operation, standing: Standing) -> Result<(), ErrorBody> {
    // What no model is asked for costs nothing.
    if matches!(&operation.intent, Intent::Say { text, .. } if slash::parse(text.trim()).is_some()) {
        return Ok(());
    }
    let Some(limit) = day_used_up(draft) else { return Ok(()) };
    if !operation.confirmed {
        return Err(ErrorBody::new(
            ErrorCode::NeedsConfirmation,
            // One confirmation answers all that there is to confirm, so all of it is said.
            format!(
                "Today's budget of {limit} tokens is used up: {} were spent.{}",
                draft.at.budgets.spent_today,
                handoff::lasting(draft, standing).map(|it| format!(" {it}")).unwrap_or_default()
            ),
            "Confirm to let this session go on today all the same, or raise `day_tokens` under [budget] in baton.toml.",
        ));
    }
    draft.emit(SessionEvent::BudgetExtended { task_id: None, day: Some(draft.at.now.day()) });
    Ok(())
}

/// A turn that its user begins on a task beyond its budget gives it as much again.
pub(super) fn extend_for(draft: &mut Draft<'_>, task_id: TaskId) {
    let over = draft
        .state
        .tasks
        .get(&task_id)
        .is_some_and(|task| draft.at.budgets.task.is_some_and(|limit| task.usage.total().saturating_sub(task.budget_from) >= limit));
    if over {
        draft.emit(SessionEvent::BudgetExtended { task_id: Some(task_id), day: None });
    }
}
