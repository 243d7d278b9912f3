//! What the writer remembers of head rows, so that an append needs no look at the disk to be checked.
//!
//! Nobody but the writer changes a head row while it holds the directory, so what it wrote last is what is there.

use super::write::{key, last_seq};
use crate::stream::{Append, StreamId};
use baton_proto::UserId;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

/// Head rows that are remembered; when there are more, all are forgotten and read again as they are needed. Few hundred bytes each.
const KEPT: usize = 16 * 1024;

/// What an append needs to know of the head row that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) stream: i64,
    pub(super) seq: u64,
    pub(super) fence: u64,
    pub(super) active: bool,
    pub(super) wake_at: Option<i64>,
}

impl Present {
    /// The head row that an append leaves behind.
    pub(super) fn after(append: &Append, stream: i64) -> Self {
        let head = &append.head;
        Self { stream, seq: last_seq(append), fence: append.fence, active: head.active, wake_at: head.wake_at.map(|time| time.0) }
    }
}

/// Head rows as the open transaction sees them.
#[derive(Debug, Default)]
pub(super) struct PresentHeads {
    known: HashMap<(UserId, StreamId), Present>,
}

impl PresentHeads {
    /// The head row of a stream, if there is one.
    pub(super) fn find(&mut self, connection: &Connection, user: UserId, stream: StreamId) -> rusqlite::Result<Option<Present>> {
        if let Some(present) = self.known.get(&(user, stream)) {
            return Ok(Some(*present));
        }
        let mut statement =
            connection.prepare_cached("SELECT stream, seq, fence, active, wake_at FROM head WHERE user = ?1 AND kind = ?2 AND id = ?3")?;
        let found = statement
            .query_row(params![key(&user.0), stream.kind.as_str(), key(&stream.id)], |row| {
                Ok(Present { stream: row.get(0)?, seq: row.get(1)?, fence: row.get(2)?, active: row.get(3)?, wake_at: row.get(4)? })
            })
            .optional()?;
        if let Some(present) = found {
            self.put(user, stream, present);
        }
        Ok(found)
    }

    /// Remembers what was written.
    pub(super) fn put(&mut self, user: UserId, stream: StreamId, present: Present) {
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        self.known.insert((user, stream), present);
    }

    /// Forgets all: the transaction that these head rows belong to came to nothing.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}
