//! `undo`: recorded changes taken back, all of them or none; what somebody else changed since stays.

use super::{Changed, arguments, change};
use crate::history::{ChangeSet, File, Reversed, of_calls};
use crate::tool::{Run, Tool, refused};
use crate::workspace::{MAX_RECORDED_BYTES, RelativePath, Wanted, WorkspaceRoot, shown};
use async_trait::async_trait;
use baton_proto::{CallId, Effect, FileChange, Finding, MAX_NAMED_CALLS, NotRecorded, Outcome, Risk, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// Conflicts, and unrecorded changes, that are named; more are counted.
const MAX_NAMED: usize = 20;

#[derive(Debug)]
pub(super) struct Undo {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    call_id: Option<CallId>,
    #[serde(default)]
    call_ids: Vec<CallId>,
}

#[async_trait]
impl Tool for Undo {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "undo".to_owned(),
            description: "Takes back the newest recorded change (or those of given calls): the files become what they were before. Use it when a \
                          change turned out wrong. Lines that somebody else changed since are kept; where both changed the same lines, nothing \
                          at all is done and the conflicts are named. What a command changed is taken back, too, as far as it was recorded."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "call_id": {"type": "string", "format": "uuid", "description": "The call to take back. Default: the newest not taken back yet."},
                    "call_ids": {
                        "type": "array", "maxItems": MAX_NAMED_CALLS, "items": {"type": "string", "format": "uuid"},
                        "description": "Several calls to take back together."
                    }
                }
            }),
            effect: Effect::Idempotent,
            risk: Risk::Safe,
            prepare: false,
            lookup: true,
            lasting: false,
            timeout_s: 60,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        change(&self.root, run, |root, run| {
            let calls = choose(root, arguments(&run.arguments)?)?;
            take_back(root, run.call_id, &calls)
        })
        .await
    }

    async fn lookup(&self, call_id: CallId, _arguments: &Value) -> Finding {
        super::look_up(&self.root, call_id).await
    }
}

/// The calls to take back.
fn choose(root: &WorkspaceRoot, arguments: Arguments) -> Result<Vec<CallId>, ToolError> {
    let named: Vec<_> = arguments.call_ids.into_iter().chain(arguments.call_id).collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let newest = root.history.newest_to_undo().ok_or_else(|| {
        refused(
            "nothing_to_undo",
            "No recorded change is left to take back.",
            "What was changed by hand, or before Baton kept a record here, is brought back by hand or with git.",
        )
    })?;
    Ok(vec![newest.call_id])
}

fn take_back(root: &WorkspaceRoot, call_id: CallId, calls: &[CallId]) -> Result<Changed, ToolError> {
    let (files, sets) = of_calls(&root.history, calls);
    if files.is_empty() {
        return Err(nothing_to_undo(calls, &sets));
    }
    let mut wanted = Vec::new();
    let mut conflicts = Vec::new();
    for file in &files {
        match restored(root, file) {
            Ok(Some(change)) => wanted.push(change),
            // Somebody has taken it back already.
            Ok(None) => {}
            Err(why) => conflicts.push(format!("{}: {why}", shown(&file.path))),
        }
    }
    if !conflicts.is_empty() {
        return Err(conflict(&conflicts, files.len()));
    }
    let mut taken: Vec<CallId> = sets.iter().filter(|set| set.can_be_undone()).map(|set| set.call_id).collect();
    taken.sort_unstable();
    taken.dedup();
    let changes = root.change_all(call_id, &taken, &wanted)?;
    let not_recorded: Vec<_> = sets.iter().filter(|set| set.can_be_undone()).flat_map(|set| set.not_recorded.iter().cloned()).collect();
    Ok(Changed::Now { words: words(&files, &changes, &not_recorded), changes, not_recorded })
}

/// What a file is to become, or why that can't be told. `None` where it is that already.
fn restored(root: &WorkspaceRoot, file: &File) -> Result<Option<Wanted>, String> {
    let path = RelativePath::parse(&file.path).map_err(|error| error.message)?;
    if path.is_git_internal() {
        return Err("it belongs to git".to_owned());
    }
    let before = root.files.read(&path, MAX_RECORDED_BYTES).map_err(|error| error.message)?;
    let after = match file.reverse(&root.history, before.as_ref().map(|content| content.bytes.as_slice()))? {
        Reversed::To(after) => after,
        Reversed::Conflict(why) => return Err(why),
    };
    let mode = file.mode_back(before.as_ref().map(|content| content.mode));
    let same_mode = before.as_ref().is_none_or(|content| Some(content.mode) == mode);
    if before.as_ref().map(|content| &content.bytes) == after.as_ref() && same_mode {
        return Ok(None);
    }
    Ok(Some(Wanted { path, before, after, mode }))
}

fn nothing_to_undo(calls: &[CallId], sets: &[ChangeSet]) -> ToolError {
    if let Some(set) = sets.iter().find(|set| set.undone_by.is_some()) {
        let what = match set.changes.as_slice() {
            [] => "That change".to_owned(),
            [one] => format!("The change of '{}'", shown(&one.path)),
            [first, more @ ..] => format!("The change of '{}' and of {}", shown(&first.path), others(more.len())),
        };
        return refused("already_undone", format!("{what} was taken back already, by an earlier undo."), "Nothing is left to do.");
    }
    let message = match calls {
        [_] => "That call has changed no file that is recorded here.".to_owned(),
        several => format!("None of these {} calls has changed a file that is recorded here.", several.len()),
    };
    refused("nothing_to_undo", message, "Nothing is left to do.")
}

fn others(count: usize) -> String {
    if count == 1 { "another file".to_owned() } else { format!("{count} others") }
}

fn conflict(conflicts: &[String], files: usize) -> ToolError {
    let named = conflicts.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = conflicts.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("{} of {files} files can't be taken back: {named}{more}. Nothing was done to any file.", conflicts.len());
    refused("changed_since", message, "Undo the newer changes first, or bring these files back by hand; then try again.")
}

fn words(files: &[File], changes: &[FileChange], not_recorded: &[NotRecorded]) -> String {
    let mut text = match changes {
        [] => format!("Nothing had to be changed: {} files are as they were before already.", files.len()),
        [one] if one.after.is_none() => format!("'{}' is gone again; it was new.", one.path),
        [one] => format!("'{}' is as it was before.", one.path),
        several => format!("{} files are as they were before.", several.len()),
    };
    for item in not_recorded.iter().take(MAX_NAMED) {
        let _ = write!(text, "\n[not taken back, since it wasn't recorded: {}: {}]", item.path, item.reason);
    }
    if not_recorded.len() > MAX_NAMED {
        let _ = write!(text, "\n[nor were {} more]", not_recorded.len() - MAX_NAMED);
    }
    text
}
