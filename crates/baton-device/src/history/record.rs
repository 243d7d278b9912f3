//! The append-only record of change sets.

use super::HistoryError;
use baton_proto::{CallId, Digest, NotRecorded, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What one call changed: files that belong together and are undone together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    pub call_id: CallId,
    /// The calls whose changes this one takes back.
    pub undoes: Vec<CallId>,
    pub changes: Vec<Change>,
    /// What it changed, or may have changed, beside that.
    pub not_recorded: Vec<NotRecorded>,
    pub at: Timestamp,
    pub state: State,
    /// The call that took these changes back.
    pub undone_by: Option<CallId>,
}

/// What somebody else changed between two calls: the user, in all likelihood. Never shown or undone as the agent's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yours {
    pub changes: Vec<Change>,
    pub not_recorded: Vec<NotRecorded>,
    /// When it was found.
    pub at: Timestamp,
}

/// One file of a change set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the workspace. Bytes that are not UTF-8 are characters of a private range.
    pub path: String,
    /// `None`: there was no file.
    pub before: Option<Digest>,
    /// `None`: the file is deleted.
    pub after: Option<Digest>,
    /// Permission bits of the file, after the change and, unless `mode_before` says otherwise, before it.
    pub mode: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<u32>,
}

impl Change {
    pub(crate) fn mode_before(&self) -> u32 {
        self.mode_before.unwrap_or(self.mode)
    }
}

/// How far a change set got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A command has begun; what it changed is found out when it has ended.
    Running,
    /// Announced; whether it happened is for a lookup to find out.
    Intended,
    Done,
    /// Given up before anything was changed.
    Abandoned,
}

impl ChangeSet {
    pub(crate) fn can_be_undone(&self) -> bool {
        self.state == State::Done && self.undoes.is_empty() && self.undone_by.is_none() && !self.changes.is_empty()
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Line {
    Intended {
        call_id: CallId,
        #[serde(default, deserialize_with = "one_or_several")]
        undoes: Vec<CallId>,
        changes: Vec<Change>,
        at: Timestamp,
    },
    Done {
        call_id: CallId,
    },
    Abandoned {
        call_id: CallId,
    },
    /// A command is about to run.
    Began {
        call_id: CallId,
        at: Timestamp,
    },
    /// What a look at the workspace found changed: by that call, or by the user where it names none.
    Found {
        #[serde(default)]
        call_id: Option<CallId>,
        changes: Vec<Change>,
        #[serde(default)]
        not_recorded: Vec<NotRecorded>,
        at: Timestamp,
    },
}

/// Lines of earlier versions name one call, or none.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CallId>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Undoes {
        Several(Vec<CallId>),
        One(Option<CallId>),
    }
    Ok(match Undoes::deserialize(deserializer)? {
        Undoes::Several(calls) => calls,
        Undoes::One(call) => call.into_iter().collect(),
    })
}

#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    file: File,
    sets: Vec<ChangeSet>,
    yours: Vec<Yours>,
    by_call: HashMap<CallId, usize>,
    /// The command whose beginning is the last thing that was recorded.
    begun_last: Option<CallId>,
}

impl Records {
    pub(super) fn open(path: PathBuf) -> Result<Self, HistoryError> {
        let mut lines = Vec::new();
        let file = open_lines(&path, |line| {
            lines.push(serde_json::from_str::<Line>(line).map_err(|error| error.to_string())?);
            Ok(())
        })?;
        let mut records = Self { path, file, sets: Vec::new(), yours: Vec::new(), by_call: HashMap::new(), begun_last: None };
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

    pub(super) fn yours(&self) -> &[Yours] {
        &self.yours
    }

    /// Commands that began and whose end isn't recorded, each with whether nothing was recorded since it began.
    pub(super) fn running(&self) -> Vec<(CallId, bool)> {
        let sets = self.by_call.values().map(|index| &self.sets[*index]);
        let running = sets.filter(|set| set.state == State::Running);
        running.map(|set| (set.call_id, self.begun_last == Some(set.call_id))).collect()
    }

    fn apply(&mut self, line: Line) {
        self.begun_last = match &line {
            Line::Began { call_id, .. } => Some(*call_id),
            _ => None,
        };
        match line {
            Line::Intended { call_id, undoes, changes, at } => {
                self.add(ChangeSet { call_id, undoes, changes, not_recorded: Vec::new(), at, state: State::Intended, undone_by: None });
            }
            Line::Began { call_id, at } => {
                let (undoes, changes, not_recorded) = (Vec::new(), Vec::new(), Vec::new());
                self.add(ChangeSet { call_id, undoes, changes, not_recorded, at, state: State::Running, undone_by: None });
            }
            Line::Found { call_id: Some(call_id), changes, not_recorded, at } => {
                let Some(index) = self.by_call.get(&call_id).copied() else { return };
                let set = &mut self.sets[index];
                *set = ChangeSet { changes, not_recorded, at, state: State::Done, ..set.clone() };
            }
            Line::Found { call_id: None, changes, not_recorded, at } => self.yours.push(Yours { changes, not_recorded, at }),
            Line::Done { call_id } => {
                let Some(set) = self.by_call.get(&call_id).map(|index| &mut self.sets[*index]) else { return };
                set.state = State::Done;
                let undone = set.undoes.clone();
                if !undone.is_empty() {
                    let undone = |set: &&mut ChangeSet| set.can_be_undone() && undone.contains(&set.call_id);
                    self.sets.iter_mut().filter(undone).for_each(|set| set.undone_by = Some(call_id));
                }
            }
            Line::Abandoned { call_id } => {
                if let Some(index) = self.by_call.get(&call_id) {
                    self.sets[*index].state = State::Abandoned;
                }
            }
        }
    }

    fn add(&mut self, set: ChangeSet) {
        // A later attempt of a call is the one that is asked about; what earlier ones did stays in the list.
        self.by_call.insert(set.call_id, self.sets.len());
        self.sets.push(set);
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
