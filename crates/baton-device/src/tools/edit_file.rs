//! `edit_file`: one exact text for another.

use super::{Changed, arguments, blocking, change, check_expected, check_seen, prepared, writable};
use crate::tool::{Run, Tool, refused};
use crate::workspace::{MAX_FILE_BYTES, Wanted, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{CallId, Effect, Finding, Outcome, Prepared, Risk, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct EditFile {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

#[async_trait]
impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit_file".to_owned(),
            description: "Replaces one exact piece of text in a file of the workspace. Use it for changes to existing files. `old_text` must occur \
                          exactly once, spaces and line breaks included, unless `replace_all` is set; give enough lines around it to be unique. \
                          Refuses files that changed since they were last read, files over 2 MiB, and files that are not UTF-8."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["path", "old_text", "new_text"],
                "properties": {
                    "path": {"type": "string", "description": "File relative to the workspace."},
                    "old_text": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file."},
                    "new_text": {"type": "string", "description": "What to put in its place; empty to delete it."},
                    "replace_all": {"type": "boolean", "default": false, "description": "Replace every occurrence."}
                }
            }),
            effect: Effect::Idempotent,
            risk: Risk::Safe,
            prepare: true,
            lookup: true,
            lasting: false,
            timeout_s: 30,
        }
    }

    async fn prepare(&self, arguments: &Value) -> Prepared {
        let (root, arguments) = (Arc::clone(&self.root), arguments.clone());
        let planned = blocking(move || plan(&root, &arguments).map(|(wanted, _)| wanted)).await;
        prepared(Risk::Safe, planned)
    }

    async fn run(&self, run: Run) -> Outcome {
        change(&self.root, run, |root, run| {
            let (wanted, count) = plan(root, &run.arguments)?;
            check_expected(&run.expected, &wanted.path, wanted.before.as_ref())?;
            let made = root.change(run.call_id, &wanted)?;
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            let words = format!("Replaced the text {times} in {}: {}.", wanted.path, super::lines(made.added, made.removed));
            Ok(Changed::Now { changes: vec![made], not_recorded: Vec::new(), words })
        })
        .await
    }

    async fn lookup(&self, call_id: CallId, _arguments: &Value) -> Finding {
        super::look_up(&self.root, call_id).await
    }
}

fn plan(root: &WorkspaceRoot, value: &Value) -> Result<(Wanted, usize), ToolError> {
    let arguments: Arguments = arguments(value)?;
    let path = writable(&arguments.path)?;
    let not_found = || {
        refused(
            "not_found",
            format!("There is no '{path}' in the workspace."),
            "Look at what is there, with list_files or /run ls; a file that is to be new is made with write_file.",
        )
    };
    let before = root.files.read(&path, MAX_FILE_BYTES)?.ok_or_else(not_found)?;
    check_seen(root, &path, &before)?;
    let text = std::str::from_utf8(&before.bytes).map_err(|_| {
        refused(
            "not_text",
            format!("'{path}' is not UTF-8 text, so it can't be edited as text."),
            "Use run_command or /run with a program that understands it.",
        )
    })?;
    let (old, new) = in_the_files_line_ends(text, &arguments);
    let count = if old.is_empty() { 0 } else { text.matches(&old).count() };
    if count == 0 {
        let message = format!("The text to replace ('old_text') occurs 0 times in '{path}'.");
        return Err(refused(
            "no_match",
            message,
            "Look at the file, with read_file or /show, and give the text exactly as it is there, spaces and line breaks included.",
        ));
    }
    if count > 1 && !arguments.replace_all {
        let message = format!("The text to replace ('old_text') occurs {count} times in '{path}'.");
        return Err(refused(
            "several_matches",
            message,
            "Give more of what is around it, so that it is there once; edit_file replaces all of them with 'replace_all'.",
        ));
    }
    let after = text.replace(&old, &new).into_bytes();
    if after.len() as u64 > MAX_FILE_BYTES {
        let message = format!("'{path}' would grow to {} bytes; at most {MAX_FILE_BYTES} are written.", after.len());
        return Err(refused("too_large", message, "Make a smaller change."));
    }
    Ok((Wanted { path, before: Some(before), after: Some(after), mode: None }, count))
}

/// Models write line feeds. In a file whose lines all end with carriage return and line feed, both texts are taken to mean these.
fn in_the_files_line_ends(text: &str, arguments: &Arguments) -> (String, String) {
    let feeds = text.matches('\n').count();
    let windows = feeds > 0 && text.matches("\r\n").count() == feeds;
    let convert = |text: &str| if windows && !text.contains('\r') { text.replace('\n', "\r\n") } else { text.to_owned() };
    (convert(&arguments.old_text), convert(&arguments.new_text))
}
