//! `write_file`: a whole file.

use super::{Changed, arguments, blocking, change, check_expected, check_seen, prepared, writable};
use crate::tool::{Run, Tool, refused};
use crate::workspace::{MAX_FILE_BYTES, Wanted, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{CallId, Effect, Finding, Outcome, Prepared, Risk, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct WriteFile {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: String,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".to_owned(),
            description: "Writes a whole file of the workspace, creating it and its directories where needed. Use it for new files, or to write a \
                          file anew; use edit_file for changes to a part. An existing file must have been read first, and not have changed since."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["path", "content"],
                "properties": {
                    "path": {"type": "string", "description": "File relative to the workspace."},
                    "content": {"type": "string", "description": "The whole content, at most about 30 KiB."}
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
        prepared(Risk::Safe, blocking(move || plan(&root, &arguments)).await)
    }

    async fn run(&self, run: Run) -> Outcome {
        change(&self.root, run, |root, run| {
            let wanted = plan(root, &run.arguments)?;
            check_expected(&run.expected, &wanted.path, wanted.before.as_ref())?;
            let verb = if wanted.before.is_some() { "Wrote" } else { "Created" };
            let made = root.change(run.call_id, &wanted)?;
            let words = format!("{verb} {}: {}.", wanted.path, super::lines(made.added, made.removed));
            Ok(Changed::Now { changes: vec![made], not_recorded: Vec::new(), words })
        })
        .await
    }

    async fn lookup(&self, call_id: CallId, _arguments: &Value) -> Finding {
        super::look_up(&self.root, call_id).await
    }
}

fn plan(root: &WorkspaceRoot, value: &Value) -> Result<Wanted, ToolError> {
    let Arguments { path, content } = arguments(value)?;
    let path = writable(&path)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        let message = format!("The content is {} bytes; at most {MAX_FILE_BYTES} are written.", content.len());
        return Err(refused("too_large", message, "Write several smaller files."));
    }
    let before = root.files.read(&path, MAX_FILE_BYTES)?;
    if let Some(before) = &before {
        if root.history.seen(path.as_str()).is_none() {
            let message = format!("'{path}' exists and was never read here. Nothing was overwritten.");
            return Err(refused("not_read", message, "Read it with read_file first, then write it; or use another name."));
        }
        check_seen(root, &path, before)?;
    }
    Ok(Wanted { path, before, after: Some(content.into_bytes()), mode: None })
}
