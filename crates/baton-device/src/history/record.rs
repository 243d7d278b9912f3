//! The append-only record of change sets.

use super::HistoryError;
use baton_proto::{CallId, Digest, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What one call changed: files that belong together and are undone together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    pub call_id: CallId,
    /// The call whose changes this one takes back.
    pub undoes: Option<CallId>,
    pub changes: Vec<Change>,
    pub at: Timestamp,
    pub state: State,
    /// The call that took these changes back.
    pub undone_by: Option<CallId>,
}

/// One file of a change set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace.
    pub path: String,
    /// `None`: there was no file.
    pub before: Option<Digest>,
    /// `None`: the file is deleted.
    pub after: Option<Digest>,
    /// Permission bits of the file, before and after.
    pub mode: u32,
}

/// How far a change set got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Announced; whether it happened is for a lookup to find out.
    Intended,
    Done,
    /// Given up before anything was changed.
    Abandoned,
}

impl ChangeSet {
    pub(super) fn can_be_undone(&self) -> bool {
        self.state == State::Done && self.undoes.is_none() && self.undone_by.is_none()
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Intended {
        call_id: CallId,
        #[serde(default)]
        undoes: Option<CallId>,
        changes: Vec<Change>,
        at: Timestamp,
    },
    Done {
        call_id: CallId,
    },
    Abandoned {
        call_id: CallId,
    },
}

#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    file: File,
    sets: Vec<ChangeSet>,
    by_call: HashMap<CallId, usize>,
}

impl Records {
    pub(super) fn open(path: PathBuf) -> Result<Self, HistoryError> {
        let mut lines = Vec::new();
        let file = open_lines(&path, |line| {
            lines.push(serde_json::from_str::<Line>(line).map_err(|error| error.to_string())?);
            Ok(())
        })?;
        let mut records = Self { path, file, sets: Vec::new(), by_call: HashMap::new() };
        for line in lines {
            records.apply(line);
        }
        Ok(records)
    }

    pub(super) fn append(&mut self, line: Line) -> Result<(), HistoryError> {
        append_line(&mut self.file, &self.path, &line)?;
        self.file.sync_data().map_err(HistoryError::io(&self.path))?;
        self.apply(line);
        Ok(())
    }

    pub(super) fn find(&self, call_id: CallId) -> Option<&ChangeSet> {
        self.by_call.get(&call_id).map(|index| &self.sets[*index])
    }

    pub(super) fn sets(&self) -> &[ChangeSet] {
        &self.sets
    }

    fn apply(&mut self, line: Line) {
        match line {
            Line::Intended { call_id, undoes, changes, at } => {
                // A later attempt of a call takes the place of the one that was given up.
                self.by_call.insert(call_id, self.sets.len());
                self.sets.push(ChangeSet { call_id, undoes, changes, at, state: State::Intended, undone_by: None });
            }
            Line::Done { call_id } => {
                let Some(set) = self.by_call.get(&call_id).map(|index| &mut self.sets[*index]) else { return };
                set.state = State::Done;
                if let Some(undone) = set.undoes.and_then(|undone| self.by_call.get(&undone)).copied() {
                    self.sets[undone].undone_by = Some(call_id);
                }
            }
            Line::Abandoned { call_id } => {
                if let Some(index) = self.by_call.get(&call_id) {
                    self.sets[*index].state = State::Abandoned;
                }
            }
        }
    }
}

/// Reads whole lines, drops a torn last one, and leaves the file open for appending.
pub(super) fn open_lines(path: &Path, mut line: impl FnMut(&str) -> Result<(), String>) -> Result<File, HistoryError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(HistoryError::io(path)(error)),
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
    for (index, text) in bytes[..whole].split(|byte| *byte == b'\n').enumerate() {
        if text.is_empty() {
            continue;
        }
        let damaged = |problem: String| HistoryError::Damaged { path: path.to_owned(), line: index + 1, problem };
        line(std::str::from_utf8(text).map_err(|error| damaged(error.to_string()))?).map_err(damaged)?;
    }
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(HistoryError::io(path))?;
    if whole < bytes.len() {
        file.set_len(whole as u64).map_err(HistoryError::io(path))?;
    }
    if bytes.is_empty()
        && let Some(parent) = path.parent()
    {
        // The name itself has to survive, too.
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(HistoryError::io(parent))?;
    }
    Ok(file)
}

pub(super) fn append_line(file: &mut File, path: &Path, line: &impl Serialize) -> Result<(), HistoryError> {
    let mut text = serde_json::to_vec(line).map_err(|error| HistoryError::io(path)(error.into()))?;
    text.push(b'\n');
    let start = file.metadata().map_err(HistoryError::io(path))?.len();
    file.write_all(&text).map_err(|error| {
        // Half a line must not stay in front of the next one.
        let _ = file.set_len(start);
        HistoryError::io(path)(error)
    })
}
