use crate::draft::Draft;
use baton_proto::{ErrorBody, ErrorCode, Operation, SessionEvent};

const MAX_KEY_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 4096;
const MAX_NOTES: usize = 100;

pub(super) fn set(draft: &mut Draft<'_>, operation: &Operation, key: &str, value: &str) -> Result<(), ErrorBody> {
    check(draft, operation, key)?;
    check_note(draft, key, value)?;
    draft.emit(SessionEvent::NoteSet { key: key.to_owned(), value: value.to_owned() });
    Ok(())
}

/// Limits of a note, whoever writes it.
pub(crate) fn check_note(draft: &Draft<'_>, key: &str, value: &str) -> Result<(), ErrorBody> {
    if key.trim().is_empty() || key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
        return Err(ErrorBody::new(
            ErrorCode::TooLarge,
            format!("A note's key is 1 to {MAX_KEY_BYTES} bytes and its value at most {MAX_VALUE_BYTES}."),
            "Shorten it.",
        ));
    }
    if draft.state.notes.len() >= MAX_NOTES && !draft.state.notes.contains_key(key) {
        return Err(ErrorBody::new(ErrorCode::TooLarge, format!("A session keeps at most {MAX_NOTES} notes."), "Forget one first."));
    }
    Ok(())
}

pub(super) fn forget(draft: &mut Draft<'_>, operation: &Operation, key: &str) -> Result<(), ErrorBody> {
    check(draft, operation, key)?;
    let fact = draft.state.facts.values().find(|fact| fact.key == key).map(|fact| fact.id);
    if draft.state.notes.contains_key(key) {
        draft.emit(SessionEvent::NoteForgotten { key: key.to_owned() });
    } else if let Some(fact_id) = fact {
        draft.emit(SessionEvent::FactForgotten { fact_id });
    } else {
        return Err(ErrorBody::not_found("note or fact"));
    }
    Ok(())
}

/// A write names the version of the thing it changes; if that has changed since, the newer state stays (H8).
fn check(draft: &Draft<'_>, operation: &Operation, key: &str) -> Result<(), ErrorBody> {
    let version = draft
        .state
        .notes
        .get(key)
        .map(|note| note.version)
        .or_else(|| draft.state.facts.values().find(|fact| fact.key == key).map(|fact| fact.version));
    match (operation.base_version, version) {
        (Some(base), Some(version)) if base != version => Err(ErrorBody::new(
            ErrorCode::StaleVersion,
            format!("It has changed since: its version is {version}, yours was {base}."),
            "Look at the newer one, then decide again.",
        )),
        _ => Ok(()),
    }
}
