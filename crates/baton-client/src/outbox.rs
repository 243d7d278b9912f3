use crate::record_file::{RecordFile, RecordFileError};
use baton_proto::{ErrorBody, ErrorCode, Operation, OperationId, Reply, ReplyStatus};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Operations that the hub hasn't settled, kept on disk so that what is typed offline is sent exactly once (H12, D13).
///
/// ```text
/// put → due → (sent) → settle ─ accepted, duplicate, finally refused → gone
///                             ├ may be tried again                   → due
///                             └ needs the user's eyes                → needing_user → confirm | replace | discard
/// ```
///
/// A lost reply leaves the operation due; sent again with the same id, the hub answers `duplicate` with its first outcome.
#[derive(Debug)]
pub struct Outbox {
    file: RecordFile,
    /// In the order in which they were put.
    entries: Vec<Entry>,
}

/// What a reply did to the outbox.
#[derive(Clone, Debug, PartialEq)]
pub enum Settled {
    /// The hub has it; it is gone from here.
    Done,
    /// Refused for good; it is gone from here, and what was typed is handed back.
    Refused { operation: Box<Operation>, error: ErrorBody },
    /// Kept, and to be sent again after a while.
    TryAgain(ErrorBody),
    /// Kept, and not sent again before the user has said so.
    NeedsUser(ErrorBody),
    /// The reply is for nothing that is kept here.
    NotHere,
}

/// Why the outbox didn't take something.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error(transparent)]
    File(#[from] RecordFileError),
    /// Two different operations have one id; make a new id.
    #[error("the operation id {0} is already used for something else; use a new one")]
    IdTaken(OperationId),
    /// It was settled or discarded.
    #[error("the outbox has no operation {0}")]
    NotHere(OperationId),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    operation: Operation,
    /// Why it waits for the user, if it does.
    #[serde(default)]
    held: Option<ErrorBody>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record {
    Put(Entry),
    Held {
        operation_id: OperationId,
        error: ErrorBody,
    },
    Gone {
        operation_id: OperationId,
    },
    /// The user took `old` up again as `entry`, which may have an id of its own.
    Replaced {
        old: OperationId,
        entry: Entry,
    },
}

impl Outbox {
    /// Opens or makes the outbox in `path`. One process has it at a time.
    pub fn open(path: &Path) -> Result<Self, OutboxError> {
        let (file, records) = RecordFile::open(path)?;
        let mut outbox = Self { file, entries: Vec::new() };
        for record in records {
            outbox.apply(record);
        }
        Ok(outbox)
    }

    /// Keeps an operation until it is settled; it is on disk when this returns. Putting it twice changes nothing.
    pub fn put(&mut self, operation: Operation) -> Result<(), OutboxError> {
        if let Some(kept) = self.find(operation.operation_id) {
            let same = kept.operation.intent == operation.intent && kept.operation.session_id == operation.session_id;
            return if same { Ok(()) } else { Err(OutboxError::IdTaken(operation.operation_id)) };
        }
        self.record(Record::Put(Entry { operation, held: None }))
    }

    /// What is to be sent, in this order.
    pub fn due(&self) -> impl Iterator<Item = &Operation> {
        self.entries.iter().filter(|entry| entry.held.is_none()).map(|entry| &entry.operation)
    }

    /// What the hub refused in a way that the user has to see, with the reason: shown for one-tap sending.
    pub fn needing_user(&self) -> impl Iterator<Item = (&Operation, &ErrorBody)> {
        self.entries.iter().filter_map(|entry| entry.held.as_ref().map(|error| (&entry.operation, error)))
    }

    /// Takes in what the hub answered.
    pub fn settle(&mut self, reply: &Reply) -> Result<Settled, OutboxError> {
        let operation_id = reply.operation_id;
        let Some(kept) = self.find(operation_id) else { return Ok(Settled::NotHere) };
        // A duplicate carries the first outcome, which may have been a refusal.
        let refusal = reply.error.clone().filter(|_| reply.status != ReplyStatus::Accepted);
        let Some(error) = refusal else {
            self.record(Record::Gone { operation_id })?;
            return Ok(Settled::Done);
        };
        if needs_user(error.code) {
            self.record(Record::Held { operation_id, error: error.clone() })?;
            return Ok(Settled::NeedsUser(error));
        }
        if !error.code.is_final() {
            return Ok(Settled::TryAgain(error));
        }
        let operation = Box::new(kept.operation.clone());
        self.record(Record::Gone { operation_id })?;
        Ok(Settled::Refused { operation, error })
    }

    /// The user confirmed: the same operation is due again, marked as confirmed.
    pub fn confirm(&mut self, id: OperationId) -> Result<(), OutboxError> {
        let kept = self.find(id).ok_or(OutboxError::NotHere(id))?;
        let operation = Operation { confirmed: true, ..kept.operation.clone() };
        self.record(Record::Replaced { old: id, entry: Entry { operation, held: None } })
    }

    /// The user sends it after all: `operation` says the same with what is known now. After a final refusal, such as
    /// `stale_epoch`, it needs an id of its own, since the hub remembers the old one's outcome.
    pub fn replace(&mut self, old: OperationId, operation: Operation) -> Result<(), OutboxError> {
        self.find(old).ok_or(OutboxError::NotHere(old))?;
        if operation.operation_id != old && self.find(operation.operation_id).is_some() {
            return Err(OutboxError::IdTaken(operation.operation_id));
        }
        self.record(Record::Replaced { old, entry: Entry { operation, held: None } })
    }

    /// The user doesn't want it any more; what it was is handed back.
    pub fn discard(&mut self, id: OperationId) -> Result<Operation, OutboxError> {
        let operation = self.find(id).ok_or(OutboxError::NotHere(id))?.operation.clone();
        self.record(Record::Gone { operation_id: id })?;
        Ok(operation)
    }

    fn find(&self, id: OperationId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.operation.operation_id == id)
    }

    /// Writes first, so that memory never knows more than the disk.
    fn record(&mut self, record: Record) -> Result<(), OutboxError> {
        self.file.append(&record)?;
        self.apply(record);
        if self.entries.is_empty() && self.file.bytes() > COMPACT_BYTES {
            self.file.replace::<Record>(&[])?;
        }
        Ok(())
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Put(entry) => self.entries.push(entry),
            Record::Held { operation_id, error } => {
                if let Some(entry) = self.entries.iter_mut().find(|entry| entry.operation.operation_id == operation_id) {
                    entry.held = Some(error);
                }
            }
            Record::Gone { operation_id } => self.entries.retain(|entry| entry.operation.operation_id != operation_id),
            Record::Replaced { old, entry } => {
                if let Some(kept) = self.entries.iter_mut().find(|kept| kept.operation.operation_id == old) {
                    *kept = entry;
                }
            }
        }
    }
}

/// An empty outbox is written anew once its file is larger than this.
const COMPACT_BYTES: u64 = 64 * 1024;

/// Refusals after which the session has moved on, so that sending again without a look would be blind (H12).
const fn needs_user(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::StaleEpoch | ErrorCode::Transferring | ErrorCode::NotHolder | ErrorCode::NeedsConfirmation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::{Delivery, Intent, SessionId};
    use uuid::Uuid;

    fn say(number: u128, text: &str) -> Operation {
        let intent = Intent::Say { text: text.into(), selection: None, attachments: Vec::new(), delivery: Delivery::Steer };
        Operation::new(OperationId(Uuid::from_u128(number)), Some(SessionId(Uuid::from_u128(99))), intent)
    }

    fn reply(number: u128, status: ReplyStatus, code: Option<ErrorCode>) -> Reply {
        let error = code.map(|code| ErrorBody::new(code, "No.", "Wait."));
        let rejected = Reply::rejected(OperationId(Uuid::from_u128(number)), None, ErrorBody::invalid(""));
        Reply { status, error, ..rejected }
    }

    fn due(outbox: &Outbox) -> Vec<u128> {
        outbox.due().map(|operation| operation.operation_id.0.as_u128()).collect()
    }

    /// What each kind of reply leaves due and held, in memory and after opening anew.
    #[test]
    fn a_reply_settles_its_operation_for_good() {
        use ErrorCode::{NeedsConfirmation, RateLimited, StaleEpoch, TooLarge, Transferring};
        use ReplyStatus::{Accepted, Duplicate, Rejected};
        for (status, code, still_due, held) in [
            (Accepted, None, false, false),
            (Duplicate, None, false, false),
            (Duplicate, Some(StaleEpoch), false, true),
            (Rejected, Some(StaleEpoch), false, true),
            (Rejected, Some(Transferring), false, true),
            (Rejected, Some(NeedsConfirmation), false, true),
            (Rejected, Some(RateLimited), true, false),
            (Rejected, Some(TooLarge), false, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("outbox");
            let mut outbox = Outbox::open(&path).unwrap();
            outbox.put(say(1, "first")).unwrap();
            outbox.put(say(2, "second")).unwrap();
            outbox.settle(&reply(1, status, code)).unwrap();
            for opened_anew in [false, true] {
                assert_eq!(due(&outbox), if still_due { vec![1, 2] } else { vec![2] }, "{status:?} {code:?} {opened_anew}");
                assert_eq!(outbox.needing_user().count(), usize::from(held), "{status:?} {code:?} {opened_anew}");
                drop(outbox);
                outbox = Outbox::open(&path).unwrap();
            }
        }
    }

    #[test]
    fn what_is_refused_for_good_is_handed_back() {
        let directory = tempfile::tempdir().unwrap();
        let mut outbox = Outbox::open(&directory.path().join("outbox")).unwrap();
        outbox.put(say(1, "long")).unwrap();
        let refused = outbox.settle(&reply(1, ReplyStatus::Rejected, Some(ErrorCode::TooLarge))).unwrap();
        assert!(matches!(refused, Settled::Refused { operation, .. } if *operation == say(1, "long")));
        assert_eq!(outbox.settle(&reply(1, ReplyStatus::Accepted, None)).unwrap(), Settled::NotHere);
    }

    #[test]
    fn the_user_confirms_sends_anew_or_discards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox");
        let mut outbox = Outbox::open(&path).unwrap();
        for number in 1..=3 {
            outbox.put(say(number, "text")).unwrap();
            outbox.settle(&reply(number, ReplyStatus::Rejected, Some(ErrorCode::StaleEpoch))).unwrap();
        }
        outbox.confirm(say(1, "").operation_id).unwrap();
        outbox.replace(say(2, "").operation_id, Operation { epoch: Some(4), ..say(20, "text") }).unwrap();
        assert_eq!(outbox.discard(say(3, "").operation_id).unwrap(), say(3, "text"));
        drop(outbox);
        let outbox = Outbox::open(&path).unwrap();
        let due: Vec<_> = outbox.due().map(|it| (it.operation_id.0.as_u128(), it.confirmed, it.epoch)).collect();
        assert_eq!(due, [(1, true, None), (20, false, Some(4))]);
        assert_eq!(outbox.needing_user().count(), 0);
    }

    #[test]
    fn an_id_names_one_operation() {
        let directory = tempfile::tempdir().unwrap();
        let mut outbox = Outbox::open(&directory.path().join("outbox")).unwrap();
        outbox.put(say(1, "text")).unwrap();
        outbox.put(say(1, "text")).unwrap();
        assert_eq!(due(&outbox), [1]);
        assert!(matches!(outbox.put(say(1, "other")), Err(OutboxError::IdTaken(_))));
    }

    #[test]
    fn an_empty_outbox_does_not_grow() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox");
        let mut outbox = Outbox::open(&path).unwrap();
        for number in 0..12 {
            outbox.put(say(number, &"x".repeat(16 * 1024))).unwrap();
            outbox.settle(&reply(number, ReplyStatus::Accepted, None)).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= COMPACT_BYTES + 20 * 1024);
    }
}
