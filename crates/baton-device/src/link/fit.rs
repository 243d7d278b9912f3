use baton_proto::{MAX_EVENT_BYTES, Outcome, ToolError, ToolResult};

/// An outcome becomes part of an event of the hub, whose envelope takes some room too.
const MAX_OUTCOME_BYTES: usize = MAX_EVENT_BYTES - 8 * 1024;
/// A failure's sentences are never longer by right.
const MAX_SENTENCE_CHARS: usize = 2000;

/// Makes an outcome fit the wire. Tools bound what they say, but not how many files a command may change; what is left
/// out is counted in the words of the result.
pub(crate) fn fit(outcome: Outcome) -> Outcome {
    if size(&outcome) <= MAX_OUTCOME_BYTES {
        return outcome;
    }
    match outcome {
        Outcome::Succeeded(result) => Outcome::Succeeded(fit_result(result)),
        Outcome::Failed { error, result } => Outcome::Failed { error: fit_error(error), result: result.map(fit_result) },
        Outcome::Cancelled { result } => Outcome::Cancelled { result: result.map(fit_result) },
        Outcome::Interrupted { known } => Outcome::Interrupted { known: shorten(known) },
    }
}

fn fit_result(mut result: ToolResult) -> ToolResult {
    let budget = MAX_OUTCOME_BYTES - 16 * 1024;
    let changes = std::mem::take(&mut result.changes);
    // Control characters take up to six bytes in JSON, so the text is measured as it is sent.
    if size(&result) > budget {
        let all = result.content.len();
        let kept: String = result.content.chars().take(budget / 12).collect();
        result.omitted += (all - kept.len()) as u64;
        result.content = format!("{kept}\n[{} more bytes are left out here]", all - kept.len());
    }
    let (all, mut room) = (changes.len(), budget.saturating_sub(size(&result)));
    for change in changes {
        let bytes = size(&change) + 1;
        if bytes > room {
            break;
        }
        room -= bytes;
        result.changes.push(change);
    }
    if result.changes.len() < all {
        let more = all - result.changes.len();
        result.content = format!("{}\n[{more} more changed files aren't listed here]", result.content);
    }
    result
}

fn fit_error(error: ToolError) -> ToolError {
    ToolError { message: shorten(error.message), hint: shorten(error.hint), ..error }
}

fn shorten(text: String) -> String {
    if text.chars().count() <= MAX_SENTENCE_CHARS { text } else { text.chars().take(MAX_SENTENCE_CHARS).chain(['…']).collect() }
}

fn size(value: &impl serde::Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::{Digest, FileChange, StateModified};

    fn change(number: usize) -> FileChange {
        FileChange { path: format!("file{number}"), before: None, after: Some(Digest::of_bytes(b"")), added: 1, removed: 0 }
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let outcome = Outcome::Succeeded(ToolResult { content: "x".repeat(16 * 1024), ..ToolResult::default() });
        assert_eq!(fit(outcome.clone()), outcome);
    }

    #[test]
    fn what_does_not_fit_says_how_much_is_missing() {
        let changes: Vec<_> = (0..10_000).map(change).collect();
        let content = "\u{1}".repeat(16 * 1024);
        let result = ToolResult { content, changes, ..ToolResult::default() };
        let error =
            ToolError { code: "odd".into(), message: "x".repeat(100_000), hint: "y".repeat(100_000), state_modified: StateModified::Yes };
        for outcome in [
            Outcome::Succeeded(result.clone()),
            Outcome::Cancelled { result: Some(result.clone()) },
            Outcome::Failed { error, result: Some(result) },
            Outcome::Interrupted { known: "z".repeat(100_000) },
        ] {
            let fitted = fit(outcome);
            assert!(size(&fitted) <= MAX_OUTCOME_BYTES, "{}", size(&fitted));
            if let Outcome::Succeeded(result) = fitted {
                let missing = 10_000 - result.changes.len();
                assert!(result.content.contains(&format!("{missing} more changed files")));
                assert!(result.content.contains(&format!("{} more bytes", result.omitted)));
            }
        }
    }
}
