//! `delete_file`: one file, kept in the history.

use super::{Changed, arguments, blocking, change, check_expected, check_seen, prepared, writable};
use crate::tool::{Run, Tool, refused};
use crate::workspace::{MAX_RECORDED_BYTES, Wanted, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{CallId, Effect, Finding, Outcome, Prepared, Risk, Said, ToolError, ToolSpec, all_said};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct DeleteFile {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
}

#[async_trait]
impl Tool for DeleteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "delete_file".to_owned(),
            description:
                "Deletes one file of the workspace; its content is kept in the history, so that undo can bring it back. Use it when a file \
                          is no longer needed. Directories are not deleted. Always asks the user."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["path"],
                "properties": {"path": {"type": "string", "description": "File relative to the workspace."}}
            }),
            effect: Effect::Idempotent,
            risk: Risk::Dangerous,
            prepare: true,
            lookup: true,
            lasting: false,
            timeout_s: 30,
        }
    }

    async fn prepare(&self, arguments: &Value) -> Prepared {
        let (root, arguments) = (Arc::clone(&self.root), arguments.clone());
        let planned = blocking(move || plan(&root, &arguments)).await;
        let named = planned.as_ref().ok().map(super::summary);
        let mut prepared = prepared(Risk::Dangerous, planned);
        if let Some(named) = named {
            // The name says what is lost; the whole content would only make large files undeletable.
            prepared = Prepared { preview: baton_proto::make_visible(&named), refusal: None, ..prepared };
            prepared.risk_said.insert(0, Said::new("deletes_file", "It deletes a file."));
            prepared.risk_reason = all_said(&prepared.risk_said);
        }
        prepared
    }

    async fn run(&self, run: Run) -> Outcome {
        change(&self.root, run, |root, run| {
            let wanted = plan(root, &run.arguments)?;
            check_expected(&run.expected, &wanted.path, wanted.before.as_ref())?;
            let made = root.change(run.call_id, &wanted)?;
            let words = format!("Deleted {}. Its content is kept; undo brings it back.", wanted.path);
            Ok(Changed::Now { changes: vec![made], not_recorded: Vec::new(), words })
        })
        .await
    }

    async fn lookup(&self, call_id: CallId, _arguments: &Value) -> Finding {
        super::look_up(&self.root, call_id).await
    }
}

fn plan(root: &WorkspaceRoot, value: &Value) -> Result<Wanted, ToolError> {
    let Arguments { path } = arguments(value)?;
    let path = writable(&path)?;
    let not_found =
        || refused("not_found", format!("There is no '{path}' in the workspace."), "Look at what is there, with list_files or /run ls.");
    let before = root.files.read(&path, MAX_RECORDED_BYTES)?.ok_or_else(not_found)?;
    check_seen(root, &path, &before)?;
    Ok(Wanted { path, before: Some(before), after: None, mode: None })
}
