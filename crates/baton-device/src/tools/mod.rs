//! The tools of a workspace, one file each.

mod delete_file;
mod edit_file;
mod find_text;
mod list_files;
mod read_file;
mod run_command;
mod shapes;
mod undo;
mod write_file;

use crate::history::recorded_changes;
use crate::tool::{PreparedExt as _, Record, Run, Tool, Toolbox, ToolboxError, Window, failed, refused};
use crate::workspace::{Content, RelativePath, Wanted, WorkspaceRoot, line_counts};
use async_trait::async_trait;
use baton_proto::{
    CallId, Digest, FileChange, FileShown, Finding, FoundPaths, MAX_PREVIEW_BYTES, NotRecorded, Outcome, Prepared, RecordedChanges, Risk,
    Said, StateModified, ToolError, ToolResult, all_said, make_visible,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use similar::TextDiff;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

impl Toolbox {
    /// All tools that act in one workspace.
    pub fn for_workspace(root: Arc<WorkspaceRoot>) -> Result<Self, ToolboxError> {
        let tools: [Arc<dyn Tool>; 8] = [
            Arc::new(list_files::ListFiles { root: Arc::clone(&root) }),
            Arc::new(read_file::ReadFile { root: Arc::clone(&root) }),
            Arc::new(find_text::FindText { root: Arc::clone(&root) }),
            Arc::new(edit_file::EditFile { root: Arc::clone(&root) }),
            Arc::new(write_file::WriteFile { root: Arc::clone(&root) }),
            Arc::new(delete_file::DeleteFile { root: Arc::clone(&root) }),
            Arc::new(run_command::RunCommand { root: Arc::clone(&root) }),
            Arc::new(undo::Undo { root: Arc::clone(&root) }),
        ];
        let mut toolbox = Self::default();
        toolbox.keeps(Arc::clone(&root) as Arc<dyn Record>);
        toolbox.opens(root);
        for tool in tools {
            toolbox.insert(tool)?;
        }
        Ok(toolbox)
    }
}

#[async_trait]
impl Record for WorkspaceRoot {
    async fn changes_of(self: Arc<Self>, calls: Vec<CallId>) -> RecordedChanges {
        let shown = blocking(move || Ok(recorded_changes(&self.history, &self.files, &calls)));
        shown.await.unwrap_or_else(|error| RecordedChanges {
            not_recorded: vec![NotRecorded { path: "…".to_owned(), reason: error.message }],
            ..RecordedChanges::default()
        })
    }
}

#[async_trait]
impl Window for WorkspaceRoot {
    async fn file(self: Arc<Self>, path: String, offset: u64, digest: Option<Digest>) -> FileShown {
        let part = blocking(move || self.part(&path, offset, digest.as_ref())).await;
        part.map_or_else(|error| FileShown::Refused { error }, FileShown::Part)
    }

    async fn paths(self: Arc<Self>, query: String, limit: u32) -> FoundPaths {
        self.find_paths(query, limit).await
    }
}

/// Reads a call's arguments. The hub has checked them against the schema; a device doesn't rely on it.
fn arguments<T: DeserializeOwned>(value: &Value) -> Result<T, ToolError> {
    serde_json::from_value(value.clone()).map_err(|error| {
        refused("invalid_arguments", format!("The arguments don't fit the tool's schema: {error}."), "Give arguments that do.")
    })
}

/// Runs work on files where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ToolError> + Send + 'static) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a tool broke");
            let mut error =
                refused("device_error", "The device's tool broke while it worked.", "Look at what it left behind before trying again.");
            error.state_modified = StateModified::Unknown;
            Err(error)
        }
    }
}

/// The turn of a call that may change the workspace; no other such call runs meanwhile (E6). It moves into whatever works for the call, so
/// that it lasts as long as the work, also where nobody waits for that any more.
type Turn = OwnedMutexGuard<()>;

/// Waits for the call's turn, in the order of coming. `None` when the call was asked to stop before: then it has done nothing.
async fn turn(root: &Arc<WorkspaceRoot>, run: &mut Run) -> Result<Option<Turn>, ToolError> {
    run.clock.stop();
    let turn = if let Ok(turn) = Arc::clone(&root.turns).try_lock_owned() {
        turn
    } else {
        run.progress.tell("waiting until another call in this workspace has ended");
        tokio::select! {
            biased;
            () = run.cancel.cancelled() => return Ok(None),
            turn = Arc::clone(&root.turns).lock_owned() => turn,
        }
    };
    let settling = Arc::clone(root);
    let settled = blocking(move || {
        let _acting = acting(&settling);
        // A command that was given up, or whose end couldn't be written down, mustn't have this call's changes put down to it.
        let settled = settling.history.settle_commands(&settling.files);
        settled.map_err(|error| ToolError { state_modified: StateModified::No, ..error })?;
        Ok(turn)
    });
    let settled = async {
        let turn = settled.await?;
        // What somebody else changed up to here isn't the call's.
        root.notice().await;
        Ok(turn)
    };
    tokio::select! {
        biased;
        () = run.cancel.cancelled() => Ok(None),
        turn = settled => {
            run.clock.go();
            turn.map(Some)
        }
    }
}

/// Makes a change when the call's turn has come, unless an earlier attempt of the call has made it.
async fn change(
    root: &Arc<WorkspaceRoot>,
    mut run: Run,
    make: impl FnOnce(&WorkspaceRoot, &Run) -> Result<Changed, ToolError> + Send + 'static,
) -> Outcome {
    let turn = match turn(root, &mut run).await {
        Ok(Some(turn)) => turn,
        Ok(None) => return Outcome::Cancelled { result: None },
        Err(error) => return failed(error),
    };
    let acted = Arc::clone(root);
    let changed = blocking(move || {
        let _acting = acting(&acted);
        let changed = match acted.settled(run.call_id)? {
            Some(result) => Changed::Before(result),
            None => make(&acted, &run)?,
        };
        Ok((turn, changed))
    });
    // The turn lasts until it is known how the workspace looks after the call.
    match changed.await {
        Ok((_turn, changed)) => changed_outcome(root, changed).await,
        Err(error) => failed(error),
    }
}

/// Waits until the device itself does nothing else to files of the workspace.
fn acting(root: &WorkspaceRoot) -> MutexGuard<'_, ()> {
    root.acting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path that a tool may write.
fn writable(text: &str) -> Result<RelativePath, ToolError> {
    let path = RelativePath::parse(text)?;
    if path.is_git_internal() {
        return Err(refused(
            "outside_workspace",
            format!("'{path}' belongs to git; tools don't write there."),
            "It is for the user to do by hand.",
        ));
    }
    if path.is_root() {
        return Err(refused("not_a_file", "The path names the workspace itself.", "Name a file in it."));
    }
    Ok(path)
}

/// Refuses what was approved for other content than is there now (S17).
fn check_expected(expected: &BTreeMap<String, Option<Digest>>, path: &RelativePath, current: Option<&Content>) -> Result<(), ToolError> {
    match expected.get(path.as_str()) {
        Some(approved) if approved.as_ref() != current.map(|content| &content.digest) => Err(refused(
            "changed_since_approval",
            format!("'{path}' is no longer as it was when this call was decided on. Nothing was done."),
            "Look at it again and repeat the call, so that it is decided on anew.",
        )),
        _ => Ok(()),
    }
}

/// Refuses to touch content that the agent doesn't know.
fn check_seen(root: &WorkspaceRoot, path: &RelativePath, current: &Content) -> Result<(), ToolError> {
    match root.history.seen(path.as_str()) {
        Some(seen) if seen != current.digest => Err(match root.history.made_by(path.as_str(), &current.digest) {
            Some(set) => crate::workspace::changed_here(path, &set),
            None => crate::workspace::changed(path),
        }),
        _ => Ok(()),
    }
}

/// What became of a call whose outcome is unknown, by the history.
async fn look_up(root: &Arc<WorkspaceRoot>, call_id: CallId) -> Finding {
    let root = Arc::clone(root);
    let found = blocking(move || {
        let _acting = acting(&root);
        Ok(root.look_up(call_id))
    });
    found.await.unwrap_or_else(|error| Finding::Unclear { known: error.message })
}

/// The outcome of a change, with the workspace as it is afterwards.
async fn changed_outcome(root: &WorkspaceRoot, changed: Changed) -> Outcome {
    let baseline = Some(root.told_baseline().await);
    match changed {
        Changed::Before(result) => Outcome::Succeeded(ToolResult { baseline, ..result }),
        Changed::Now { changes, not_recorded, words } => {
            Outcome::Succeeded(ToolResult { changes, not_recorded, baseline, ..crate::output::result_of(&words) })
        }
    }
}

/// How a change came about.
enum Changed {
    /// By an earlier attempt of the same call.
    Before(ToolResult),
    Now {
        changes: Vec<FileChange>,
        not_recorded: Vec<NotRecorded>,
        words: String,
    },
}

/// What a wanted change would do, shown as a diff.
fn prepared(least: Risk, wanted: Result<Wanted, ToolError>) -> Prepared {
    let blank = Prepared {
        risk: least,
        risk_reason: String::new(),
        risk_said: Vec::new(),
        digests: BTreeMap::new(),
        preview: String::new(),
        directory: None,
        refusal: None,
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return Prepared { refusal: Some(error), ..blank },
    };
    let path = &wanted.path;
    let (risk, risk_said) = match path.acts_later() {
        Some((how, why)) => {
            let text = format!("'{path}' acts later, outside the sandbox: {why}.");
            (least.max(Risk::Sensitive), vec![Said::new(&format!("acts_later.{how}"), text).naming("path", path.as_str())])
        }
        None => (least, Vec::new()),
    };
    let preview = make_visible(&diff(&wanted));
    let preview = if risk == Risk::Safe && preview.len() > MAX_PREVIEW_BYTES { summary(&wanted) } else { preview };
    let digests = BTreeMap::from([(path.as_str().to_owned(), wanted.before.as_ref().map(|content| content.digest.clone()))]);
    Prepared { risk, risk_reason: all_said(&risk_said), risk_said, digests, preview, ..blank }.within_limits()
}

fn diff(wanted: &Wanted) -> String {
    let old = wanted.before.as_ref().map_or(&[][..], |content| &content.bytes);
    let new = wanted.after.as_deref().unwrap_or_default();
    let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return summary(wanted) };
    let name = |there: bool, prefix: &str| if there { format!("{prefix}/{}", wanted.path) } else { "/dev/null".to_owned() };
    let (from, to) = (name(wanted.before.is_some(), "a"), name(wanted.after.is_some(), "b"));
    let diff = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(old, new);
    diff.unified_diff().context_radius(3).header(&from, &to).to_string()
}

/// A change in one line.
fn summary(wanted: &Wanted) -> String {
    let old = wanted.before.as_ref().map_or(&[][..], |content| &content.bytes);
    let new = wanted.after.as_deref().unwrap_or_default();
    let (added, removed) = line_counts(old, new);
    let verb = match (&wanted.before, &wanted.after) {
        (None, _) => "create",
        (Some(_), Some(_)) => "change",
        (Some(_), None) => "delete",
    };
    format!("{verb} {}: {} bytes become {}, {}", wanted.path, old.len(), new.len(), lines(added, removed))
}

/// How many lines a change added and removed, in words.
fn lines(added: u32, removed: u32) -> String {
    format!("{added} {} added, {removed} removed", if added == 1 { "line" } else { "lines" })
}
