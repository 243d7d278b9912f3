//! Where a session stands in its user's list: its title, pinned, put away. Nothing of it touches the work.

use crate::draft::Draft;
use baton_proto::{ErrorBody, ErrorCode, MAX_TITLE_CHARS, SessionEvent, make_visible};

pub(super) fn rename(draft: &mut Draft<'_>, title: &str) -> Result<(), ErrorBody> {
    let title = checked_title(title)?;
    if title.is_empty() {
        return Err(ErrorBody::invalid("A session needs a title to be renamed to."));
    }
    if title != draft.state.title {
        draft.emit(SessionEvent::SessionRenamed { title });
    }
    Ok(())
}

pub(super) fn pin(draft: &mut Draft<'_>, pinned: bool) {
    if pinned != draft.state.pinned {
        draft.emit(SessionEvent::SessionPinned { pinned });
    }
}

/// What is at work or waits for somebody can't be put out of sight.
pub(super) fn archive(draft: &mut Draft<'_>, archived: bool) -> Result<(), ErrorBody> {
    if archived && draft.state.open_turn().is_some() {
        return Err(ErrorBody::new(
            ErrorCode::IllegalTransition,
            "The agent is at work in this session, or waits for you.",
            "Stop it, or wait until it has finished; then archive the session.",
        ));
    }
    if archived != draft.state.archived {
        draft.emit(SessionEvent::SessionArchived { archived });
    }
    Ok(())
}

/// Work goes on in a session, so it is back in the list.
pub(super) fn bring_back(draft: &mut Draft<'_>) {
    if draft.state.archived {
        draft.emit(SessionEvent::SessionArchived { archived: false });
    }
}

/// A title without characters that deceive, in one line. It may be empty.
pub(super) fn checked_title(title: &str) -> Result<String, ErrorBody> {
    let title = title.trim();
    if title.chars().count() > MAX_TITLE_CHARS {
        return Err(ErrorBody::new(ErrorCode::TooLarge, format!("A title has at most {MAX_TITLE_CHARS} characters."), "Shorten it."));
    }
    if title.contains(['\n', '\t']) || make_visible(title) != title {
        return Err(ErrorBody::invalid("A title may not contain control, zero-width or bidirectional characters."));
    }
    Ok(title.to_owned())
}
