//! What tools changed in a workspace, kept outside of it: images of files before and after, a record of every change set, what each file
//! was like when it was last looked at, and which content of a file the agent knows (E7).
//!
//! A change set is recorded with its intent before anything is touched, so that after a crash a lookup can tell whether it happened. What
//! a command changes is found by looking at the workspace before it begins and after it has ended; what differs from the last look before
//! it begins is the user's own.

mod diff;
mod images;
mod index;
mod merge;
mod record;
mod seen;
mod segments;

pub use index::MAX_KEPT_FILE;
pub use record::{Change, ChangeSet, State, Yours};

pub(crate) use diff::recorded_changes;
pub(crate) use index::Differences;
pub(crate) use segments::{File, Reversed, of_calls};

use crate::workspace::{Beneath, history_error, now};
use baton_proto::{CallId, Digest, Timestamp, ToolError};
use images::Images;
use index::{Index, Was};
use record::{Line, Records};
use seen::Seen;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why the history couldn't be read or written. The call that needed it must not act.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The disk is full, or the directory is not the device's; the user has to look.
    #[error("the history in {path} can't be used: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    /// A line that was written whole can't be read; going on would forget changes.
    #[error("line {line} of {path} is damaged: {problem}")]
    Damaged { path: PathBuf, line: usize, problem: String },
}

impl HistoryError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// The history of one workspace.
#[derive(Debug)]
pub struct History {
    images: Images,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Records,
    seen: Seen,
    index: Index,
}

impl History {
    /// Opens the history kept in `directory`, creating it where there is none. A last line torn by a crash is dropped: it was
    /// never acted on.
    pub fn open(directory: &Path) -> Result<Self, HistoryError> {
        std::fs::create_dir_all(directory).map_err(HistoryError::io(directory))?;
        let images = Images::open(directory.join("images"))?;
        let records = Records::open(directory.join("changes.jsonl"))?;
        let seen = Seen::open(directory.join("seen.jsonl"))?;
        let index = Index::open(directory.join("index.json"), records.sets());
        let recorded = records.sets().iter().flat_map(|set| &set.changes).chain(records.yours().iter().flat_map(|yours| &yours.changes));
        images.keep_only(&index::named(&index, recorded)).map_err(HistoryError::io(directory))?;
        Ok(Self { images, inner: Mutex::new(Inner { records, seen, index }) })
    }

    /// Keeps an image of a file's content. Durable when it returns.
    pub fn keep(&self, bytes: &[u8]) -> Result<Digest, HistoryError> {
        self.images.put(bytes)
    }

    /// The content that has this digest, or `None` if it isn't kept or was damaged.
    pub fn image(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.images.get(digest)
    }

    /// Records what a call is about to change. Durable when it returns; only then may the change be made. Where a file isn't as it was
    /// last known, somebody else changed it, and that is recorded first.
    pub fn intend(&self, call_id: CallId, undoes: &[CallId], changes: Vec<Change>, at: Timestamp) -> Result<(), HistoryError> {
        let mut inner = self.lock();
        let foreign: Vec<_> = changes
            .iter()
            .filter_map(|change| {
                let before = match inner.index.was_other_than(&change.path, change.before.as_ref())? {
                    Was::Absent => None,
                    Was::Content(digest) => Some(digest),
                };
                let mode = change.mode_before();
                Some(Change { path: change.path.clone(), before, after: change.before.clone(), mode, mode_before: None })
            })
            .collect();
        if !foreign.is_empty() {
            inner.index.learn(&foreign);
            inner.records.append(Line::Found { call_id: None, changes: foreign, not_recorded: Vec::new(), at })?;
        }
        inner.records.append(Line::Intended { call_id, undoes: undoes.to_vec(), changes, at })
    }

    /// Records that the call's change was made.
    pub fn done(&self, call_id: CallId) -> Result<(), HistoryError> {
        let mut inner = self.lock();
        inner.records.append(Line::Done { call_id })?;
        let changes = inner.records.find(call_id).map(|set| set.changes.clone()).unwrap_or_default();
        inner.index.learn(&changes);
        Ok(())
    }

    /// Before a command: what changed since the last look is the user's. Then the command is recorded as begun, so that what it changes is
    /// put down to it even if the device dies meanwhile.
    pub(crate) fn command_begins(&self, call_id: CallId, files: &Beneath) -> Result<(), ToolError> {
        let inner = &mut *self.lock();
        let found = inner.index.look(files, &self.images)?;
        if !found.is_empty() {
            self.record(inner, None, found.clone()).map_err(history_error)?;
        }
        inner.index.save(inner.records.sets().len());
        inner.records.append(Line::Began { call_id, at: now() }).map_err(history_error)
    }

    /// After a command: what changed since it began is its own. Where that can't be found out, just this is recorded.
    pub(crate) fn command_ended(&self, call_id: CallId, files: &Beneath) -> Result<Differences, ToolError> {
        let inner = &mut *self.lock();
        let found = match inner.index.look(files, &self.images) {
            Ok(found) => found,
            Err(error) => Differences::not_found_out(error.message),
        };
        self.record(inner, Some(call_id), found.clone()).map_err(history_error)?;
        inner.index.save(inner.records.sets().len());
        Ok(found)
    }

    fn record(&self, inner: &mut Inner, call_id: Option<CallId>, found: Differences) -> Result<(), HistoryError> {
        let Differences { changes, not_recorded, .. } = found;
        self.images.settle(changes.iter().flat_map(|change| [&change.before, &change.after]).flatten())?;
        inner.records.append(Line::Found { call_id, changes, not_recorded, at: now() })
    }

    /// Commands that had begun when the device died.
    pub(crate) fn running(&self) -> Vec<CallId> {
        self.lock().records.sets().iter().filter(|set| set.state == State::Running).map(|set| set.call_id).collect()
    }

    /// Records that the call's change was not made after all.
    pub fn abandoned(&self, call_id: CallId) -> Result<(), HistoryError> {
        self.lock().records.append(Line::Abandoned { call_id })
    }

    pub fn find(&self, call_id: CallId) -> Option<ChangeSet> {
        self.lock().records.find(call_id).cloned()
    }

    /// The newest change set that was made, is not undone, and is not an undo itself.
    pub fn newest_to_undo(&self) -> Option<ChangeSet> {
        self.lock().records.sets().iter().rev().find(|set| set.can_be_undone()).cloned()
    }

    /// Change sets in the order of their intents, oldest first.
    pub fn list(&self) -> Vec<ChangeSet> {
        self.lock().records.sets().to_vec()
    }

    /// What the user changed between the agent's calls, as far as it was noticed, oldest first.
    pub fn yours(&self) -> Vec<Yours> {
        self.lock().records.yours().to_vec()
    }

    /// Remembers that the agent knows this content of a file; `None` when it knows that there is no file.
    pub fn saw(&self, path: &str, digest: Option<&Digest>) -> Result<(), HistoryError> {
        self.lock().seen.put(path, digest)
    }

    /// The content that the agent last read or wrote at `path`.
    pub fn seen(&self, path: &str) -> Option<Digest> {
        self.lock().seen.get(path)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each append leaves the state whole or fails before changing it, so a panic elsewhere doesn't spoil it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn call(number: u8) -> CallId {
        format!("00000000-0000-7000-8000-0000000000{number:02x}").parse().unwrap()
    }

    fn change(before: Option<&Digest>, after: Option<&Digest>) -> Vec<Change> {
        vec![Change { path: "a".into(), before: before.cloned(), after: after.cloned(), mode: 0o644, mode_before: None }]
    }

    #[test]
    fn all_that_was_recorded_is_there_after_a_restart_and_a_torn_line_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::open(directory.path()).unwrap();
        let (one, two) = (history.keep(b"one").unwrap(), history.keep(b"two").unwrap());
        history.intend(call(1), &[], change(None, Some(&one)), Timestamp(1)).unwrap();
        history.done(call(1)).unwrap();
        history.intend(call(2), &[], change(Some(&one), Some(&two)), Timestamp(2)).unwrap();
        history.saw("a", Some(&one)).unwrap();
        history.saw("a", Some(&two)).unwrap();
        history.saw("b", Some(&one)).unwrap();
        history.saw("b", None).unwrap();
        drop(history);
        for file in ["changes.jsonl", "seen.jsonl"] {
            let mut file = std::fs::OpenOptions::new().append(true).open(directory.path().join(file)).unwrap();
            file.write_all(b"{\"kind\":\"do").unwrap();
        }

        let history = History::open(directory.path()).unwrap();
        assert_eq!(history.find(call(1)).unwrap().state, State::Done);
        assert_eq!(history.find(call(2)).unwrap().state, State::Intended);
        assert_eq!(history.newest_to_undo().unwrap().call_id, call(1));
        assert_eq!((history.seen("a"), history.seen("b")), (Some(two.clone()), None));
        assert_eq!(history.image(&two).unwrap(), b"two");

        // Appending after a torn line must not join both.
        history.done(call(2)).unwrap();
        drop(history);
        assert_eq!(History::open(directory.path()).unwrap().newest_to_undo().unwrap().call_id, call(2));
    }

    #[test]
    fn an_undone_set_and_an_undo_are_not_undone_again() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::open(directory.path()).unwrap();
        let one = history.keep(b"one").unwrap();
        for (number, undoes) in [(1, &[][..]), (2, &[]), (3, &[call(2)])] {
            history.intend(call(number), undoes, change(None, Some(&one)), Timestamp(1)).unwrap();
            history.done(call(number)).unwrap();
        }
        assert_eq!(history.newest_to_undo().unwrap().call_id, call(1));
        assert_eq!(history.find(call(2)).unwrap().undone_by, Some(call(3)));
        history.intend(call(4), &[], change(None, Some(&one)), Timestamp(1)).unwrap();
        history.abandoned(call(4)).unwrap();
        assert_eq!(history.newest_to_undo().unwrap().call_id, call(1));
        assert_eq!(history.list().len(), 4);
    }

    #[test]
    fn a_damaged_line_or_image_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::open(directory.path()).unwrap();
        let one = history.keep(b"one").unwrap();
        std::fs::write(directory.path().join("images").join(&one.0), "forged").unwrap();
        assert_eq!(history.image(&one), None);
        assert_eq!(history.keep(b"one").unwrap(), one);
        assert_eq!(history.image(&one).unwrap(), b"one");
        drop(history);
        std::fs::write(directory.path().join("changes.jsonl"), "nonsense\n").unwrap();
        assert!(matches!(History::open(directory.path()), Err(HistoryError::Damaged { line: 1, .. })));
    }
}
