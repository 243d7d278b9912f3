//! `read_file`: the text of a file, or some lines of it.

use super::{arguments, blocking};
use crate::output::result_of;
use crate::tool::{Run, Tool, failed, refused};
use crate::workspace::{MAX_FILE_BYTES, RelativePath, WorkspaceRoot, history_error};
use async_trait::async_trait;
use baton_proto::{Effect, Outcome, Risk, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ReadFile {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    start_line: Option<usize>,
    end_line: Option<usize>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: format!(
                "Reads a text file of the workspace, whole or some lines of it. Use it before changing a file. Files over {MAX_FILE_BYTES} bytes \
                 and binary files are refused; text over 16 KiB is shown by its beginning and end, so ask for lines of a long file."
            ),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["path"],
                "properties": {
                    "path": {"type": "string", "description": "File relative to the workspace."},
                    "start_line": {"type": "integer", "minimum": 1, "description": "First line to show, counted from 1. Default: 1."},
                    "end_line": {"type": "integer", "minimum": 1, "description": "Last line to show. Default: the last one."}
                }
            }),
            effect: Effect::Read,
            risk: Risk::Safe,
            prepare: false,
            lookup: false,
            lasting: false,
            timeout_s: 30,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        let root = Arc::clone(&self.root);
        let text = blocking(move || {
            let arguments: Arguments = arguments(&run.arguments)?;
            read(&root, &arguments)
        });
        match text.await {
            Ok(text) => Outcome::Succeeded(result_of(&text)),
            Err(error) => failed(error),
        }
    }
}

fn read(root: &WorkspaceRoot, arguments: &Arguments) -> Result<String, ToolError> {
    let path = RelativePath::parse(&arguments.path)?;
    let (file, stat) = root.files.file(&path)?;
    drop(file);
    let not_found =
        || refused("not_found", format!("There is no '{path}' in the workspace."), "Look at what is there, with list_files or /run ls.");
    let content = root.files.read(&path, MAX_FILE_BYTES)?.ok_or_else(not_found)?;
    if content.bytes.contains(&0) {
        let message = format!("'{path}' is a binary file of {} bytes and can't be shown as text.", stat.st_size);
        return Err(refused("not_text", message, "Use run_command or /run with a program that understands the file."));
    }
    let text = String::from_utf8_lossy(&content.bytes);
    let note = match text {
        std::borrow::Cow::Borrowed(_) => "",
        std::borrow::Cow::Owned(_) => "[not UTF-8: bytes that are no characters are shown as \u{fffd}; the file can't be edited as text]\n",
    };
    let shown = select(&path, &text, arguments)?;
    root.history.saw(path.as_str(), Some(&content.digest)).map_err(history_error)?;
    Ok(format!("{note}{shown}"))
}

fn select(path: &RelativePath, text: &str, arguments: &Arguments) -> Result<String, ToolError> {
    let (start, end) = (arguments.start_line.unwrap_or(1), arguments.end_line.unwrap_or(usize::MAX));
    let count = text.split_inclusive('\n').count();
    if start == 0 || start > end || (start > count && start > 1) {
        let message = format!("Lines {start} to {} are not in '{path}', which has {count} lines.", arguments.end_line.unwrap_or(count));
        return Err(refused("no_such_lines", message, "Ask for lines that are there; they are counted from 1."));
    }
    Ok(text.split_inclusive('\n').skip(start - 1).take((end - start).saturating_add(1)).collect())
}
