//! Resetting the agent's context (D7): it begins afresh, on every end at once; the conversation stays the user's to read.

use crate::draft::Draft;
use baton_proto::{ErrorBody, ErrorCode, Operation, SessionEvent};

pub(super) fn reset(draft: &mut Draft<'_>, operation: &Operation) -> Result<(), ErrorBody> {
    at_rest(draft)?;
    if !operation.confirmed {
        return Err(ErrorBody::new(
            ErrorCode::NeedsConfirmation,
            "The agent will no longer see what was said and done in this session so far. Open tasks, facts and notes stay, and so does all that you can read.",
            "Confirm to reset its context; it can be undone.",
        ));
    }
    draft.emit(SessionEvent::ContextReset {});
    Ok(())
}

pub(super) fn undo_reset(draft: &mut Draft<'_>) -> Result<(), ErrorBody> {
    at_rest(draft)?;
    if draft.state.context_resets.is_empty() {
        return Err(ErrorBody::new(
            ErrorCode::IllegalTransition,
            "The agent's context isn't reset, so there is nothing to take back.",
            "Nothing has to be done.",
        ));
    }
    draft.emit(SessionEvent::ContextRestored {});
    Ok(())
}

/// In the middle of a turn the model would lose what it is answering.
fn at_rest(draft: &Draft<'_>) -> Result<(), ErrorBody> {
    if draft.state.open_turn().is_none() {
        return Ok(());
    }
    Err(ErrorBody::new(
        ErrorCode::IllegalTransition,
        "The agent is at work.",
        "Stop it, or wait until it has finished; then change its context.",
    ))
}
