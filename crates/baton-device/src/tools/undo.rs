//! `undo`: a recorded change taken back, unless somebody changed the file since.

use super::{Changed, acting, arguments, blocking, changed_outcome};
use crate::history::{ChangeSet, State};
use crate::tool::{Run, Tool, refused};
use crate::workspace::{MAX_RECORDED_BYTES, RelativePath, Wanted, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{CallId, Effect, Finding, Outcome, Risk, ToolError, ToolSpec};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Undo {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    call_id: Option<CallId>,
}

#[async_trait]
impl Tool for Undo {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "undo".to_owned(),
            description:
                "Takes back the newest recorded change of a file (or that of a given call): the file becomes what it was before. Use it \
                          when a change turned out wrong. Refuses when the file was changed since. What commands changed is not recorded."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "call_id": {"type": "string", "format": "uuid", "description": "The call to take back. Default: the newest not taken back yet."}
                }
            }),
            effect: Effect::Idempotent,
            risk: Risk::Safe,
            prepare: false,
            lookup: true,
            lasting: false,
            timeout_s: 30,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        let root = Arc::clone(&self.root);
        let changed = blocking(move || {
            let _acting = acting(&root);
            if let Some(result) = root.settled(run.call_id)? {
                return Ok(Changed::Before(result));
            }
            let Arguments { call_id } = arguments(&run.arguments)?;
            take_back(&root, run.call_id, &choose(&root, call_id)?)
        });
        changed_outcome(&self.root, changed.await).await
    }

    async fn lookup(&self, call_id: CallId, _arguments: &Value) -> Finding {
        super::look_up(&self.root, call_id).await
    }
}

fn choose(root: &WorkspaceRoot, call_id: Option<CallId>) -> Result<ChangeSet, ToolError> {
    let Some(call_id) = call_id else {
        return root.history.newest_to_undo().ok_or_else(|| {
            refused(
                "nothing_to_undo",
                "No recorded change is left to take back.",
                "Changes made by commands are not recorded; use git for those.",
            )
        });
    };
    let set = root.history.find(call_id).filter(|set| set.state == State::Done);
    let set = set.ok_or_else(|| {
        refused(
            "nothing_to_undo",
            format!("The call {call_id} has changed no file here."),
            "Leave 'call_id' out to take back the newest change.",
        )
    })?;
    match set.undone_by {
        Some(by) => Err(refused("already_undone", format!("The call {call_id} was taken back by {by}."), "Nothing is left to do.")),
        None => Ok(set),
    }
}

fn take_back(root: &WorkspaceRoot, call_id: CallId, set: &ChangeSet) -> Result<Changed, ToolError> {
    // Each of this device's calls changes one file.
    let [change] = set.changes.as_slice() else {
        return Err(refused("not_recorded", "The change covers several files.", "Use git to take it back."));
    };
    let path = RelativePath::parse(&change.path)?;
    let current = root.files.read(&path, MAX_RECORDED_BYTES)?;
    if current.as_ref().map(|content| &content.digest) != change.after.as_ref() {
        let message =
            format!("'{path}' was changed since the call {}; taking that back would lose the newer change. Nothing was done.", set.call_id);
        return Err(refused("changed_since", message, "Compare both and edit the file by hand, or undo the newer change first."));
    }
    let after = match &change.before {
        None => None,
        Some(digest) => Some(root.history.image(digest).ok_or_else(|| {
            refused("not_recorded", format!("The earlier content of '{path}' is no longer kept."), "Use git to bring it back.")
        })?),
    };
    let wanted = Wanted { path, before: current, after };
    let change = root.change(call_id, Some(set.call_id), &wanted, Some(change.mode))?;
    let path = &wanted.path;
    let words =
        if change.after.is_some() { format!("'{path}' is as it was before.") } else { format!("'{path}' is gone again; it was new.") };
    Ok(Changed::Now { change, words })
}
