//! What a device writes down before it acts and after, so that a call survives the device, the link and the hub (F7, E3).
//!
//! ```text
//! receive → begin → finish → acknowledge
//! ```
//!
//! Each step is on disk before what follows from it is done or said: nothing acts unrecorded, no result is told that a
//! crash could take back, and none is dropped before the hub has it. A call that had begun when the device died is
//! `interrupted`; one that had not is forgotten, so that the hub may hand it over again. This room touches one directory
//! and knows neither tools nor the wire's connection.

mod calls;

use baton_client::record_file::{RecordFile, RecordFileError};
use baton_proto::{CallId, DeviceId, DispatchedCall, JournalId, Outcome, RunningCall, SessionId};
use calls::{Calls, Record};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Below this size the file isn't written anew.
const COMPACT_BYTES: u64 = 64 * 1024;

/// One attempt of one call: what a result is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct AttemptId {
    pub call_id: CallId,
    pub attempt: u32,
}

/// A result that the hub hasn't acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub session_id: SessionId,
    pub id: AttemptId,
    pub outcome: Outcome,
}

/// How far the journal knows an attempt to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Received or begun in the life of this journal.
    Underway,
    Finished(Box<Outcome>),
    /// Its result was acknowledged and isn't kept any more.
    Acknowledged,
}

/// What to do with a call that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Receipt {
    /// It is written down, and is to be run.
    New,
    /// It came before; nothing was written and nothing runs again.
    Known(Standing),
    /// Another attempt of the same call is underway here. This one is written down, and has that one's outcome.
    Joins(AttemptId),
    /// A later attempt of the same call is known; this one is to be refused.
    Superseded,
    /// An older hub sent it, and nobody is to be answered.
    StaleFence { newest: u64 },
}

/// Why the journal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the device's journal: {0}")]
    File(#[from] RecordFileError),
    #[error("the device's directory {} can't be made: {source}. Check that its parent exists and belongs to you", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// The program is ending.
    #[error("the journal wasn't written because the program is ending")]
    Ending,
}

/// The open journal of one device. One process has it at a time.
#[derive(Debug)]
pub struct Journal {
    file: RecordFile,
    calls: Calls,
    identity: JournalId,
    /// Size after the last time it was written anew.
    compacted: u64,
}

impl Journal {
    /// Opens the journal in the device's directory, and settles what an earlier life left behind.
    pub fn open(directory: &Path) -> Result<Self, JournalError> {
        Self::open_or_make(directory, fresh_identity())
    }

    /// The same; a journal that has none yet gets this identity, which must never have been another's.
    pub fn open_or_make(directory: &Path, fresh: JournalId) -> Result<Self, JournalError> {
        make_private(directory).map_err(|source| JournalError::Directory { path: directory.to_owned(), source })?;
        let (file, records) = RecordFile::open(&directory.join("journal"))?;
        let mut calls = Calls::default();
        for record in records {
            calls.apply(record);
        }
        let (identity, is_new) = calls.identity().map_or((fresh, true), |known| (known, false));
        let mut journal = Self { file, calls, identity, compacted: 0 };
        if is_new {
            journal.write(Record::Named { journal_id: identity })?;
        }
        for record in journal.calls.left_behind() {
            journal.file.append(&record)?;
            journal.calls.apply(record);
        }
        if journal.file.bytes() > COMPACT_BYTES {
            journal.compact()?;
        }
        Ok(journal)
    }

    /// Says which device this is for the hub. Under another pairing nothing of the former one counts: its calls are
    /// dropped, how many is returned, and fences begin anew.
    pub fn adopt(&mut self, device_id: DeviceId) -> Result<usize, JournalError> {
        if self.calls.device() == Some(device_id) {
            return Ok(0);
        }
        let dropped = if self.calls.device().is_some() { self.calls.len() } else { 0 };
        let known_to_another = self.calls.device().is_some();
        self.write(Record::Adopted { device_id })?;
        if known_to_another {
            // It has forgotten, so it is another journal, should the device come back to the former hub.
            self.identity = fresh_identity();
            self.write(Record::Named { journal_id: self.identity })?;
        }
        Ok(dropped)
    }

    /// Whether a frame with this fence may count; a newer one is kept first.
    pub fn admit(&mut self, fence: u64) -> Result<bool, JournalError> {
        if fence > self.calls.fence() {
            self.write(Record::Fence { fence })?;
        }
        Ok(fence == self.calls.fence())
    }

    /// Takes in a call. Nothing may act on it before this has returned.
    pub fn receive(&mut self, call: &DispatchedCall) -> Result<Receipt, JournalError> {
        let receipt = self.calls.receipt(call);
        if matches!(receipt, Receipt::New | Receipt::Joins(_)) {
            self.write(Record::Received { call: call.clone() })?;
        } else if call.fence > self.calls.fence() {
            self.write(Record::Fence { fence: call.fence })?;
        }
        Ok(receipt)
    }

    /// The call is about to act.
    pub fn begin(&mut self, id: AttemptId) -> Result<(), JournalError> {
        self.write(Record::Begun { id })
    }

    /// The call has ended. Its result may be told once this has returned.
    pub fn finish(&mut self, finished: Finished) -> Result<(), JournalError> {
        self.write(Record::Finished { session_id: finished.session_id, id: finished.id, outcome: finished.outcome })
    }

    /// The hub has the result.
    pub fn acknowledge(&mut self, id: AttemptId) -> Result<(), JournalError> {
        // What is underway can't be acknowledged, whatever is said.
        if matches!(self.calls.standing(id), Some(Standing::Finished(_))) {
            self.write(Record::Acknowledged { id })?;
        }
        Ok(())
    }

    /// Told at each connection. Another one than before shows that what was written down before is lost.
    pub const fn identity(&self) -> JournalId {
        self.identity
    }

    pub fn standing(&self, id: AttemptId) -> Option<Standing> {
        self.calls.standing(id)
    }

    /// What a device tells of its calls when it connects.
    pub fn running(&self) -> Vec<RunningCall> {
        self.calls.running()
    }

    /// Results to be told until they are acknowledged, in the order in which the calls ended.
    pub fn unacknowledged(&self) -> Vec<Finished> {
        self.calls.unacknowledged()
    }

    fn write(&mut self, record: Record) -> Result<(), JournalError> {
        self.file.append(&record)?;
        self.calls.apply(record);
        // What is needed is written anew once most of the file isn't; sooner while nothing is open and that is cheap.
        let floor = if self.calls.is_empty() { COMPACT_BYTES } else { 16 * COMPACT_BYTES };
        if self.file.bytes() > floor.max(2 * self.compacted) {
            self.compact()?;
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<(), JournalError> {
        self.file.replace(&self.calls.records())?;
        self.compacted = self.file.bytes();
        Ok(())
    }
}

fn fresh_identity() -> JournalId {
    JournalId(uuid::Uuid::now_v7())
}

/// The journal as asynchronous code uses it: the disk is waited for on a thread of its own.
#[derive(Clone, Debug)]
pub struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    pub async fn open(directory: PathBuf) -> Result<Self, JournalError> {
        let journal = tokio::task::spawn_blocking(move || Journal::open(&directory)).await.map_err(|_| JournalError::Ending)??;
        Ok(Self(Arc::new(Mutex::new(journal))))
    }

    /// Does something with the journal. It is done as a whole even when nobody awaits it any more.
    pub async fn with<T: Send + 'static>(
        &self,
        action: impl FnOnce(&mut Journal) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let journal = Arc::clone(&self.0);
        // A panic in an action leaves the journal as its last write left it, which is whole.
        let act = move || action(&mut journal.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(act).await.map_err(|_| JournalError::Ending)?
    }
}

fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

#[cfg(test)]
mod tests;
