//! Changing files with a record: images kept, intent written, file replaced, outcome written. A crash at any instant leaves
//! something that a lookup can judge.

use super::{Content, MAX_RECORDED_BYTES, RelativePath, WorkspaceRoot, shown};
use crate::history::{Change, ChangeSet, HistoryError, State};
use crate::tool::refused;
use baton_proto::{CallId, Digest, FileChange, Finding, StateModified, Timestamp, ToolError, ToolResult};
use similar::{ChangeTag, TextDiff};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a file is to become.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) path: RelativePath,
    /// What was found there by whoever decided on the change.
    pub(crate) before: Option<Content>,
    /// `None`: no file.
    pub(crate) after: Option<Vec<u8>>,
    /// Permission bits that it is to have; those it has, or the usual ones, where they aren't given.
    pub(crate) mode: Option<u32>,
}

/// Permission bits recorded for a file that gets the usual ones.
const USUAL_MODE: u32 = 0o644;

impl Wanted {
    /// The permission bits to set, where they are to be set.
    fn mode(&self) -> Option<u32> {
        self.mode.or_else(|| self.before.as_ref().map(|content| content.mode))
    }

    /// The way back.
    fn reversed(&self, there: Option<Content>) -> Self {
        let mode = self.before.as_ref().map(|content| content.mode);
        let after = self.before.as_ref().map(|content| content.bytes.clone());
        Self { path: self.path.clone(), before: there, after, mode }
    }
}

impl WorkspaceRoot {
    /// Makes one change durable, with its record. The caller holds `acting`.
    pub(crate) fn change(&self, call_id: CallId, wanted: &Wanted) -> Result<FileChange, ToolError> {
        let changes = self.change_all(call_id, &[], std::slice::from_ref(wanted))?;
        changes.into_iter().next().ok_or_else(|| refused("nothing_to_do", "There is nothing to change.", "Nothing is left to do."))
    }

    /// Makes several changes, or none: where one of them can't be made, those before it are taken back. After a crash in between they are
    /// finished when the device starts again. The caller holds `acting`.
    pub(crate) fn change_all(&self, call_id: CallId, undoes: &[CallId], wanted: &[Wanted]) -> Result<Vec<FileChange>, ToolError> {
        let mut changes = Vec::with_capacity(wanted.len());
        for Wanted { path, before, after, mode } in wanted {
            if let Some(content) = before {
                self.history.keep(&content.bytes).map_err(history_error)?;
            }
            let kept = after.as_ref().map(|bytes| self.history.keep(bytes)).transpose().map_err(history_error)?;
            let mode_before = before.as_ref().map(|content| content.mode);
            let mode = mode.or(mode_before).unwrap_or(USUAL_MODE);
            changes.push(Change {
                path: path.as_str().to_owned(),
                before: digest_of(before.as_ref()),
                after: kept,
                mode,
                mode_before: mode_before.filter(|before| *before != mode),
            });
        }
        self.history.intend(call_id, undoes, changes.clone(), now()).map_err(history_error)?;
        // What goes first makes room for names that differ in case only, where a file system takes them for one.
        let (going, staying): (Vec<_>, Vec<_>) = wanted.iter().partition(|wanted| wanted.after.is_none());
        let mut made: Vec<&Wanted> = Vec::new();
        for wanted in going.into_iter().chain(staying) {
            match self.make(wanted, call_id) {
                Ok(()) => made.push(wanted),
                Err(error) => return Err(self.take_back(call_id, &made, error)),
            }
        }
        self.history.done(call_id).map_err(history_error)?;
        self.history.settled(undoes, &changes).map_err(history_error)?;
        let described = wanted.iter().zip(changes).map(|(wanted, change)| {
            let before = wanted.before.as_ref().map(|content| content.bytes.as_slice());
            file_change(wanted.path.as_str(), change.before, before, change.after, wanted.after.as_deref())
        });
        Ok(described.collect())
    }

    fn make(&self, wanted: &Wanted, call_id: CallId) -> Result<(), ToolError> {
        let Wanted { path, before, after, .. } = wanted;
        match (before, after) {
            (_, Some(bytes)) => self.files.replace(path, before.as_ref(), bytes, wanted.mode(), call_id),
            (Some(content), None) => self.files.remove(path, &content.digest, call_id),
            (None, None) => Ok(()),
        }
    }

    /// One of several changes failed. After a failure of the system the outcome is for a lookup to find out; otherwise what was made is
    /// taken back, so that nothing has happened.
    fn take_back(&self, call_id: CallId, made: &[&Wanted], error: ToolError) -> ToolError {
        if error.state_modified != StateModified::No {
            return error;
        }
        for wanted in made.iter().rev() {
            let there = match self.files.read(&wanted.path, MAX_RECORDED_BYTES) {
                Ok(there) if there.as_ref().map(|content| &content.bytes) == wanted.after.as_ref() => there,
                _ => return half_made(error, &wanted.path),
            };
            if self.make(&wanted.reversed(there), call_id).is_err() {
                return half_made(error, &wanted.path);
            }
        }
        match self.history.abandoned(call_id) {
            Ok(()) => error,
            Err(failed) => history_error(failed),
        }
    }

    /// The result of a call that acted before, or `None` if it has to act yet. An intent whose outcome is open is settled here.
    pub(crate) fn settled(&self, call_id: CallId) -> Result<Option<ToolResult>, ToolError> {
        match self.look_up(call_id) {
            Finding::Happened { result } => Ok(Some(result)),
            Finding::NotHappened => Ok(None),
            Finding::Unclear { known } => Err(ToolError {
                code: "unclear".to_owned(),
                message: known,
                hint: "Read the file and decide on what is there now.".to_owned(),
                state_modified: StateModified::Unknown,
            }),
        }
    }

    /// Whether the changes of a call were made: by the record where it says so, else by what the files are now.
    pub(crate) fn look_up(&self, call_id: CallId) -> Finding {
        let Some(set) = self.history.find(call_id) else { return Finding::NotHappened };
        match set.state {
            State::Done => Finding::Happened { result: self.result_of(&set) },
            State::Abandoned => Finding::NotHappened,
            State::Intended => self.judge(&set),
            State::Running => Finding::Unclear { known: "the command had begun, and nobody saw it end".to_owned() },
        }
    }

    /// Finds out what became of an announced change. Of several that belong together, those that a crash left over are made now.
    fn judge(&self, set: &ChangeSet) -> Finding {
        let unclear = |error: ToolError| Finding::Unclear { known: error.message };
        let mut left_over = Vec::new();
        let (mut made, mut odd) = (Vec::new(), Vec::new());
        for change in &set.changes {
            let current = RelativePath::parse(&change.path).and_then(|path| Ok((self.files.read(&path, MAX_RECORDED_BYTES)?, path)));
            let (current, path) = match current {
                Ok(current) => current,
                Err(error) => return unclear(error),
            };
            let digest = digest_of(current.as_ref());
            // A change of the permission bits alone leaves the content as it was.
            let has_mode = current.as_ref().is_none_or(|content| change.mode_before.is_none() || content.mode == change.mode);
            if digest == change.after && has_mode {
                made.push(shown(&change.path));
            } else if digest == change.before {
                left_over.push((change, path, current));
            } else {
                odd.push(shown(&change.path));
            }
        }
        if !odd.is_empty() {
            let rest = match (made.len(), left_over.len()) {
                (0, 0) => String::new(),
                (made, left) => format!("; of the other files of that call {made} are as it would have left them, and {left} as before"),
            };
            return Finding::Unclear {
                known: format!("{} is neither as it was before the call nor as the call would have left it{rest}", odd.join(", ")),
            };
        }
        if made.is_empty() && !left_over.is_empty() {
            return match self.history.abandoned(set.call_id) {
                Ok(()) => Finding::NotHappened,
                Err(error) => Finding::Unclear { known: error.to_string() },
            };
        }
        for (change, path, before) in left_over {
            let after = match &change.after {
                None => None,
                Some(digest) => match self.history.image(digest) {
                    Some(bytes) => Some(bytes),
                    None => return Finding::Unclear { known: format!("what '{path}' was to become is no longer kept") },
                },
            };
            let wanted = Wanted { path, before, after, mode: Some(change.mode) };
            if let Err(error) = self.make(&wanted, set.call_id) {
                return unclear(error);
            }
        }
        match self.history.done(set.call_id).and_then(|()| self.history.settled(&set.undoes, &set.changes)) {
            Ok(()) => Finding::Happened { result: self.result_of(set) },
            Err(error) => Finding::Unclear { known: error.to_string() },
        }
    }

    /// A recorded change as a result tells it.
    pub(crate) fn described(&self, change: &Change) -> FileChange {
        let image = |digest: &Option<Digest>| digest.as_ref().and_then(|digest| self.history.image(digest));
        let (before, after) = (image(&change.before), image(&change.after));
        file_change(&change.path, change.before.clone(), before.as_deref(), change.after.clone(), after.as_deref())
    }

    fn result_of(&self, set: &ChangeSet) -> ToolResult {
        let changes: Vec<_> = set.changes.iter().map(|change| self.described(change)).collect();
        let names: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
        ToolResult { changes: changes.clone(), ..crate::output::result_of(&format!("Changed {}.", names.join(", "))) }
    }

    /// Finishes or clears what was interrupted: files that were left beside their targets, changes that were made in part, and commands
    /// whose changes nobody has looked for.
    pub(super) fn settle_interrupted(&self) {
        // First, since what is recorded of others below would hide that nothing was recorded since a command began.
        if let Err(error) = self.history.settle_commands(&self.files) {
            tracing::warn!(error = error.message, "what an interrupted command changed can't be recorded");
        }
        let interrupted: Vec<_> = self.history.list().into_iter().filter(|set| set.state == State::Intended).collect();
        for set in &interrupted {
            for change in &set.changes {
                let after = change.after.as_ref().and_then(|digest| self.history.image(digest));
                let known: Vec<_> = set.changes.iter().flat_map(|change| [change.before.clone(), change.after.clone()]).collect();
                let cleared = RelativePath::parse(&change.path)
                    .and_then(|path| self.files.clear_beside(&path, set.call_id, &known, after.as_deref()));
                if !matches!(cleared, Ok(false)) {
                    tracing::warn!(path = shown(&change.path), call = %set.call_id, "something was left beside a file by an interrupted change");
                }
            }
            if let Finding::Unclear { known } = self.judge(set) {
                tracing::warn!(call = %set.call_id, known, "what became of an interrupted change isn't known");
            }
        }
    }
}

/// Some of several changes were made and can't be taken back.
fn half_made(error: ToolError, path: &RelativePath) -> ToolError {
    ToolError {
        message: format!("{} Some files were changed by then, and '{path}' can't be brought back to what it was.", error.message),
        state_modified: StateModified::Unknown,
        ..error
    }
}

pub(crate) fn history_error(error: HistoryError) -> ToolError {
    ToolError {
        code: "device_error".to_owned(),
        message: format!("The device can't record changes: {error}."),
        hint: "Check free space and permissions of the device's data directory, then try again.".to_owned(),
        state_modified: StateModified::Unknown,
    }
}

/// Lines added and removed between two texts; zero where one of them is not text.
pub(crate) fn line_counts(before: &[u8], after: &[u8]) -> (u32, u32) {
    let (Ok(before), Ok(after)) = (std::str::from_utf8(before), std::str::from_utf8(after)) else { return (0, 0) };
    let diff = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(before, after);
    let count = |tag: ChangeTag| u32::try_from(diff.iter_all_changes().filter(|change| change.tag() == tag).count()).unwrap_or(u32::MAX);
    (count(ChangeTag::Insert), count(ChangeTag::Delete))
}

fn file_change(path: &str, before: Option<Digest>, old: Option<&[u8]>, after: Option<Digest>, new: Option<&[u8]>) -> FileChange {
    let (added, removed) = line_counts(old.unwrap_or_default(), new.unwrap_or_default());
    FileChange { path: shown(path), before, after, added, removed }
}

fn digest_of(content: Option<&Content>) -> Option<Digest> {
    content.map(|content| content.digest.clone())
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
