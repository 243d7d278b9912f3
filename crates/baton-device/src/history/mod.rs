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
pub(crate) use index::{Differences, LOOKS_WITHIN};
pub(crate) use segments::{File, Reversed, of_calls};

use crate::workspace::{Beneath, history_error, now};
use baton_proto::{CallId, Digest, Timestamp, ToolError};
use images::Images;
use index::{Index, Look, Was};
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
    /// Held for as long as a look at the workspace takes, and taken before `inner`, which is never held for long: who only reads
    /// doesn't wait for a look.
    known: Mutex<Known>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Records,
    seen: Seen,
}

/// What the workspace is known to look like.
#[derive(Debug)]
struct Known {
    index: Index,
    /// What a command was found to have changed, while that can't be recorded.
    unrecorded: Option<Ended>,
}

/// The end of a command.
#[derive(Debug)]
struct Ended {
    call_id: CallId,
    found: Differences,
    /// `None` where nothing could be found out.
    look: Option<Look>,
}

/// Said of a command whose changes can't be told from the user's any more.
const NOT_TOLD_APART: &str = "nobody saw the command end, and other changes were recorded before its own were looked for; what it changed \
                              isn't recorded, or counts as the user's";

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
        let known = Mutex::new(Known { index, unrecorded: None });
        Ok(Self { images, known, inner: Mutex::new(Inner { records, seen }) })
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
        let mut known = self.known();
        let mut inner = self.lock();
        let foreign: Vec<_> = changes
            .iter()
            .filter_map(|change| {
                let before = match known.index.was_other_than(&change.path, change.before.as_ref())? {
                    Was::Absent => None,
                    Was::Content(digest) => Some(digest),
                };
                let mode = change.mode_before();
                Some(Change { path: change.path.clone(), before, after: change.before.clone(), mode, mode_before: None })
            })
            .collect();
        if !foreign.is_empty() {
            inner.records.append(Line::Found { call_id: None, changes: foreign.clone(), not_recorded: Vec::new(), at })?;
            known.index.learn(&foreign);
        }
        inner.records.append(Line::Intended { call_id, undoes: undoes.to_vec(), changes, at })
    }

    /// Records that the call's change was made.
    pub fn done(&self, call_id: CallId) -> Result<(), HistoryError> {
        let mut known = self.known();
        let mut inner = self.lock();
        inner.records.append(Line::Done { call_id })?;
        let changes = inner.records.find(call_id).map(|set| set.changes.clone()).unwrap_or_default();
        known.index.learn(&changes);
        Ok(())
    }

    /// Before a command: what changed since the last look is the user's. Then the command is recorded as begun, so that what it changes is
    /// put down to it even if the device dies meanwhile.
    pub(crate) fn command_begins(&self, call_id: CallId, files: &Beneath) -> Result<(), ToolError> {
        let known = &mut *self.known();
        let (found, look) = known.index.look(files, &self.images)?;
        if !found.is_empty() {
            self.record(None, found).map_err(history_error)?;
        }
        self.take_in(known, look);
        self.lock().records.append(Line::Began { call_id, at: now() }).map_err(history_error)
    }

    /// After a command: what changed since it began is its own. Where that can't be found out, just this is recorded.
    pub(crate) fn command_ended(&self, call_id: CallId, files: &Beneath) -> Result<Differences, ToolError> {
        let known = &mut *self.known();
        let (found, look) = match known.index.look(files, &self.images) {
            Ok((found, look)) => (found, Some(look)),
            Err(error) => (Differences::not_found_out(error.message), None),
        };
        self.record_end(known, Ended { call_id, found, look })
    }

    /// Closes commands whose end wasn't recorded: the device died, or couldn't write. The caller knows that none of them runs. What changed
    /// is put down to a command only where nothing was recorded since it began; otherwise it could be the user's work, which an undo would
    /// then take back.
    pub(crate) fn settle_commands(&self, files: &Beneath) -> Result<(), ToolError> {
        let running = self.lock().records.running();
        for (call_id, nothing_since) in running {
            if nothing_since {
                let unrecorded = self.known().unrecorded.take_if(|ended| ended.call_id == call_id);
                match unrecorded {
                    Some(ended) => drop(self.record_end(&mut self.known(), ended)?),
                    None => drop(self.command_ended(call_id, files)?),
                }
            } else {
                tracing::warn!(call = %call_id, "what an interrupted command changed can't be told from other changes");
                self.record(Some(call_id), Differences::not_found_out(NOT_TOLD_APART.to_owned())).map_err(history_error)?;
            }
        }
        Ok(())
    }

    /// What was found is what is known only once it is recorded: otherwise nobody would ever find it again.
    fn record_end(&self, known: &mut Known, ended: Ended) -> Result<Differences, ToolError> {
        if let Err(error) = self.record(Some(ended.call_id), ended.found.clone()) {
            known.unrecorded = Some(ended);
            return Err(history_error(error));
        }
        if let Some(look) = ended.look {
            self.take_in(known, look);
        }
        Ok(ended.found)
    }

    fn record(&self, call_id: Option<CallId>, found: Differences) -> Result<(), HistoryError> {
        let Differences { changes, not_recorded, .. } = found;
        self.images.settle(changes.iter().flat_map(|change| [&change.before, &change.after]).flatten())?;
        self.lock().records.append(Line::Found { call_id, changes, not_recorded, at: now() })
    }

    fn take_in(&self, known: &mut Known, look: Look) {
        known.index.take_in(look);
        // What is written down names only contents that the disk has.
        match self.images.settle_all() {
            Ok(()) => {
                let sets = self.lock().records.sets().len();
                known.index.save(sets);
            }
            Err(error) => tracing::warn!(%error, "what the workspace looked like isn't written down"),
        }
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

    /// Remembers of files that a call has changed what the agent knows of them now. What comes of taking calls back is known only as far as
    /// it was before: it may hold lines that the agent has never read.
    pub(crate) fn settled(&self, undoes: &[CallId], changes: &[Change]) -> Result<(), HistoryError> {
        let seen = &mut self.lock().seen;
        for Change { path, before, after, .. } in changes {
            if undoes.is_empty() {
                seen.changed(path, before.as_ref(), after.as_ref())?;
            } else {
                seen.restored(path, after.as_ref())?;
            }
        }
        Ok(())
    }

    /// The last call that is recorded to have made a file what it is, where it was one.
    pub(crate) fn made_by(&self, path: &str, digest: &Digest) -> Option<ChangeSet> {
        let inner = self.lock();
        let (set, change) = inner.records.sets().iter().rev().filter(|set| set.state == State::Done).find_map(|set| {
            let change = set.changes.iter().find(|change| change.path == path)?;
            Some((set, change))
        })?;
        (change.after.as_ref() == Some(digest)).then(|| set.clone())
    }

    /// The content that the agent last read or wrote at `path`.
    pub fn seen(&self, path: &str) -> Option<Digest> {
        self.lock().seen.get(path)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A workspace of its own, and the history of it.
    fn place() -> (tempfile::TempDir, Beneath) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("work")).unwrap();
        let files = Beneath::open_root(&directory.path().join("work")).unwrap();
        (directory, files)
    }

    fn paths(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| change.path.as_str()).collect()
    }

    #[test]
    fn what_a_command_changed_is_not_forgotten_while_it_cannot_be_recorded() {
        let (directory, files) = place();
        let (work, kept) = (directory.path().join("work"), directory.path().join("history"));
        let history = History::open(&kept).unwrap();
        std::fs::write(work.join("a"), "one").unwrap();
        history.command_begins(call(1), &files).unwrap();
        std::fs::remove_file(work.join("a")).unwrap();
        // A record needs its images to be durable, and there is no place where they are.
        std::fs::rename(kept.join("images"), kept.join("elsewhere")).unwrap();
        history.command_ended(call(1), &files).unwrap_err();
        std::fs::rename(kept.join("elsewhere"), kept.join("images")).unwrap();

        std::fs::write(work.join("mine"), "the user's").unwrap();
        history.settle_commands(&files).unwrap();
        history.command_begins(call(2), &files).unwrap();
        history.command_ended(call(2), &files).unwrap();
        for history in [history, History::open(&kept).unwrap()] {
            history.settle_commands(&files).unwrap();
            let (one, two) = (history.find(call(1)).unwrap(), history.find(call(2)).unwrap());
            assert_eq!((one.state, paths(&one.changes)), (State::Done, vec!["a"]));
            assert_eq!((two.state, paths(&two.changes)), (State::Done, vec![]));
            assert_eq!(paths(&history.yours()[0].changes), ["mine"]);
        }
    }

    #[test]
    fn the_users_work_is_not_put_down_to_a_command_that_was_left_open_long_ago() {
        let (directory, files) = place();
        let (work, kept) = (directory.path().join("work"), directory.path().join("history"));
        let history = History::open(&kept).unwrap();
        history.command_begins(call(1), &files).unwrap();
        let one = history.keep(b"one").unwrap();
        std::fs::write(work.join("a"), "one").unwrap();
        history.intend(call(2), &[], change(None, Some(&one)), Timestamp(1)).unwrap();
        history.done(call(2)).unwrap();
        drop(history);
        std::fs::write(work.join("mine"), "the user's").unwrap();

        let history = History::open(&kept).unwrap();
        history.settle_commands(&files).unwrap();
        let left = history.find(call(1)).unwrap();
        assert_eq!((left.state, paths(&left.changes)), (State::Done, vec![]));
        assert!(left.not_recorded[0].reason.contains("nobody saw the command end"), "{:?}", left.not_recorded);
        history.command_begins(call(3), &files).unwrap();
        assert_eq!(paths(&history.yours()[0].changes), ["mine"]);
    }

    #[test]
    fn who_reads_does_not_wait_for_a_look_at_the_workspace() {
        let (directory, _) = place();
        let history = History::open(&directory.path().join("history")).unwrap();
        let _looking = history.known();
        history.saw("a", None).unwrap();
        assert_eq!((history.seen("a"), history.list().len()), (None, 0));
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
