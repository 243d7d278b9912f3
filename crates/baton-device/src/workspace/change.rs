//! Changing files with a record: images kept, intent written, file replaced, outcome written. A crash at any instant leaves
//! something that a lookup can judge.

use super::{Content, MAX_RECORDED_BYTES, RelativePath, WorkspaceRoot};
use crate::history::{Change, ChangeSet, HistoryError, State};
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
}

/// Permission bits recorded for a file that gets the usual ones.
const USUAL_MODE: u32 = 0o644;

impl WorkspaceRoot {
    /// Makes one change durable, with its record. The caller holds `acting`.
    pub(crate) fn change(
        &self,
        call_id: CallId,
        undoes: Option<CallId>,
        wanted: &Wanted,
        mode: Option<u32>,
    ) -> Result<FileChange, ToolError> {
        let Wanted { path, before, after } = wanted;
        if let Some(content) = before {
            self.history.keep(&content.bytes).map_err(history_error)?;
        }
        let kept = after.as_ref().map(|bytes| self.history.keep(bytes)).transpose().map_err(history_error)?;
        let mode = before.as_ref().map(|content| content.mode).or(mode);
        let change = Change {
            path: path.as_str().to_owned(),
            before: digest_of(before.as_ref()),
            after: kept.clone(),
            mode: mode.unwrap_or(USUAL_MODE),
        };
        self.history.intend(call_id, undoes, vec![change], now()).map_err(history_error)?;
        let changed = match (before, after) {
            (_, Some(bytes)) => self.files.replace(path, before.as_ref(), bytes, mode, call_id),
            (Some(content), None) => self.files.remove(path, &content.digest, call_id),
            (None, None) => Ok(()),
        };
        if let Err(error) = changed {
            // After a failure of the system the outcome is for a lookup to find out; otherwise it is known that nothing happened.
            if error.state_modified == StateModified::No {
                self.history.abandoned(call_id).map_err(history_error)?;
            }
            return Err(error);
        }
        self.history.done(call_id).map_err(history_error)?;
        self.history.saw(path.as_str(), kept.as_ref()).map_err(history_error)?;
        Ok(file_change(path, digest_of(before.as_ref()), before.as_ref().map(|content| content.bytes.as_slice()), kept, after.as_deref()))
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
        }
    }

    fn judge(&self, set: &ChangeSet) -> Finding {
        let mut happened = true;
        let mut not_happened = true;
        for change in &set.changes {
            let current = RelativePath::parse(&change.path).and_then(|path| self.files.read(&path, MAX_RECORDED_BYTES));
            match current {
                Ok(content) => {
                    let digest = digest_of(content.as_ref());
                    happened &= digest == change.after;
                    not_happened &= digest == change.before;
                }
                Err(error) => return Finding::Unclear { known: error.message },
            }
        }
        let recorded = if happened {
            self.history.done(set.call_id)
        } else if not_happened {
            self.history.abandoned(set.call_id)
        } else {
            let names: Vec<_> = set.changes.iter().map(|change| change.path.as_str()).collect();
            return Finding::Unclear {
                known: format!("{} is neither as it was before the call nor as the call would have left it", names.join(", ")),
            };
        };
        if let Err(error) = recorded {
            return Finding::Unclear { known: error.to_string() };
        }
        if happened { Finding::Happened { result: self.result_of(set) } } else { Finding::NotHappened }
    }

    fn result_of(&self, set: &ChangeSet) -> ToolResult {
        let image = |digest: &Option<Digest>| digest.as_ref().and_then(|digest| self.history.image(digest));
        let changes: Vec<_> = set
            .changes
            .iter()
            .filter_map(|change| {
                let path = RelativePath::parse(&change.path).ok()?;
                let (before, after) = (image(&change.before), image(&change.after));
                Some(file_change(&path, change.before.clone(), before.as_deref(), change.after.clone(), after.as_deref()))
            })
            .collect();
        let names: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
        ToolResult { changes: changes.clone(), ..crate::output::result_of(&format!("Changed {}.", names.join(", "))) }
    }

    /// Takes away files that interrupted changes left beside their targets.
    pub(super) fn clear_interrupted(&self) {
        for set in self.history.list().iter().filter(|set| set.state == State::Intended) {
            for change in &set.changes {
                let after = change.after.as_ref().and_then(|digest| self.history.image(digest));
                let known = [change.before.clone(), change.after.clone()];
                let cleared = RelativePath::parse(&change.path)
                    .and_then(|path| self.files.clear_beside(&path, set.call_id, &known, after.as_deref()));
                if !matches!(cleared, Ok(false)) {
                    tracing::warn!(path = change.path, call = %set.call_id, "something was left beside a file by an interrupted change");
                }
            }
        }
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

fn file_change(path: &RelativePath, before: Option<Digest>, old: Option<&[u8]>, after: Option<Digest>, new: Option<&[u8]>) -> FileChange {
    let (added, removed) = line_counts(old.unwrap_or_default(), new.unwrap_or_default());
    FileChange { path: path.as_str().to_owned(), before, after, added, removed }
}

fn digest_of(content: Option<&Content>) -> Option<Digest> {
    content.map(|content| content.digest.clone())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
