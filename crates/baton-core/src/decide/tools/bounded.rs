//! Word of a device that is larger than the log takes. Devices of ours keep to the limits; whatever another one sends is settled at once,
//! since what can't be stored would be sent again for ever (C43).

use crate::words::{excerpt, json_excerpt};
use baton_proto::{ApprovalBinding, MAX_EVENT_BYTES, MAX_PREVIEW_BYTES, Outcome, StateModified, ToolError, ToolResult};
use serde::Serialize;

/// Bytes of what becomes part of an event; the rest is for its envelope.
const ROOM: usize = MAX_EVENT_BYTES - 8 * 1024;
/// Bytes in JSON that are kept of a text that doesn't fit.
const KEPT_BYTES: usize = 8 * 1024;
/// Bytes of a sentence; none is longer by right.
const SENTENCE_BYTES: usize = 2000;
/// Changed files that are kept of more than fit.
const KEPT_CHANGES: usize = 50;

/// The outcome as it is stored. What is left out of it is said in its own words.
pub(super) fn outcome(outcome: &Outcome) -> Outcome {
    if size(outcome) <= ROOM {
        return outcome.clone();
    }
    match outcome {
        Outcome::Succeeded(it) => Outcome::Succeeded(result(it)),
        Outcome::Failed { error, result: it } => Outcome::Failed {
            error: ToolError {
                code: excerpt(&error.code, 100),
                message: json_excerpt(&error.message, SENTENCE_BYTES),
                hint: json_excerpt(&error.hint, SENTENCE_BYTES),
                state_modified: error.state_modified,
            },
            result: it.as_ref().map(result),
        },
        Outcome::Cancelled { result: it } => Outcome::Cancelled { result: it.as_ref().map(result) },
        Outcome::Interrupted { known } => Outcome::Interrupted { known: sentence(known) },
    }
}

/// What is known of a call, at the length of a sentence.
pub(super) fn sentence(known: &str) -> String {
    json_excerpt(known, SENTENCE_BYTES)
}

/// A result as it is stored.
pub(super) fn result(result: &ToolResult) -> ToolResult {
    if size(result) <= ROOM {
        return result.clone();
    }
    let kept = json_excerpt(&result.content, KEPT_BYTES);
    let left_out = result.content.len().saturating_sub(kept.len());
    let changes: Vec<_> = result.changes.iter().filter(|change| size(change) <= 1024).take(KEPT_CHANGES).cloned().collect();
    let unlisted = result.changes.len() - changes.len();
    let files = if unlisted > 0 { format!("; {unlisted} changed files aren't listed") } else { String::new() };
    ToolResult {
        content: format!(
            "{kept}\n[{left_out} bytes are left out here{files}: the device sent more than the {ROOM} bytes that a result may take]"
        ),
        bytes: result.bytes,
        omitted: result.omitted.saturating_add(left_out as u64),
        digest: result.digest.clone(),
        outside_id: result.outside_id.as_ref().map(|id| json_excerpt(id, 200)),
        changes,
        not_recorded: result.not_recorded.iter().filter(|it| size(it) <= 1024).take(KEPT_CHANGES).cloned().collect(),
        baseline: result.baseline.clone().filter(|baseline| size(baseline) <= 4096),
    }
}

/// Why nobody can be asked about a call whose card would be larger than a card may be; `None` when it can be shown.
pub(super) fn refusal(binding: &ApprovalBinding) -> Option<ToolError> {
    let (preview, whole) = (binding.preview.len(), size(binding));
    if preview <= MAX_PREVIEW_BYTES && whole <= ROOM {
        return None;
    }
    Some(too_large_to_show(preview.max(whole), if preview > MAX_PREVIEW_BYTES { MAX_PREVIEW_BYTES } else { ROOM }))
}

/// The same for what a device found out about a call.
pub(super) fn unstorable(prepared: &impl Serialize) -> Option<ToolError> {
    let size = size(prepared);
    (size > ROOM).then(|| too_large_to_show(size, ROOM))
}

fn too_large_to_show(size: usize, limit: usize) -> ToolError {
    ToolError {
        code: "too_large_to_show".to_owned(),
        message: format!("The call is {size} bytes long; only what a person can be shown whole, {limit} bytes, can be approved."),
        hint: "Write it into a file first, or split it.".to_owned(),
        state_modified: StateModified::No,
    }
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}
