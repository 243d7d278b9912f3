//! The statements of one write, run by the writer thread inside a transaction.
//!
//! Each write checks all that may refuse it before it changes anything. So a refusal leaves the transaction as it was,
//! and the writes that share it need no savepoint against each other.

use super::present::{Present, PresentHeads};
use super::query;
use crate::error::StoreError;
use crate::limits;
use crate::stream::{Append, OperationRow, StateCache, StreamId};
use crate::words;
use baton_proto::{Digest, UserId, searched_text};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

/// What the writer thread is asked to do.
#[derive(Debug)]
pub(super) enum Write {
    /// With what its texts are found by.
    Append(Append, Vec<WordsOf>),
    /// Texts that had been written before they were indexed, and how far that was read before.
    ReadUp {
        from: Unread,
        texts: Vec<UnreadText>,
    },
    Remember(UserId, OperationRow),
    State(UserId, StreamId, StateCache),
    Blob(UserId, Digest, Vec<u8>),
}

/// What the text of an append's event is found by.
#[derive(Debug)]
pub(super) struct WordsOf {
    /// The event's place in the append.
    row: usize,
    words: String,
}

/// How far texts of the log are indexed: up to that event of that stream, of those whose payload isn't beyond `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) stream: i64,
    pub(super) seq: u64,
    pub(super) until: i64,
}

/// An event of the log with what its text is found by, if it has one.
#[derive(Debug)]
pub(super) struct UnreadText {
    pub(super) stream: i64,
    pub(super) seq: u64,
    /// Of its payload.
    pub(super) number: i64,
    pub(super) user: Vec<u8>,
    pub(super) words: Option<String>,
}

/// What the texts of an append are found by; taken apart before the writer thread is kept busy with it.
pub(super) fn words_of(append: &Append) -> Vec<WordsOf> {
    let texts = append.rows.iter().enumerate().filter_map(|(row, event)| Some((row, searched_text(&event.kind, &event.event)?)));
    texts.map(|(row, text)| WordsOf { row, words: words::indexed(&text) }).collect()
}

/// Why a write was not done.
#[derive(Debug)]
pub(super) enum Failure {
    /// By its content; the transaction is as it was before.
    Refused(StoreError),
    /// By the database; the transaction is of no use any more.
    Database(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl Write {
    /// Refuses what is too large, before it waits in a queue.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Append(append, _) => {
                at_most("the number of events in one append", append.rows.len(), limits::APPEND_ROWS)?;
                for row in &append.rows {
                    at_most("an event", row.event.len(), limits::EVENT_BYTES)?;
                    at_most("the views of an event", row.upserts.len(), limits::UPSERTS_BYTES)?;
                }
                at_most("an append", self.size(), limits::APPEND_BYTES)?;
                at_most("the summary of a stream", append.head.summary.len(), limits::SUMMARY_BYTES)?;
                for (what, value) in [("an epoch", append.head.epoch), ("a fence", append.fence), ("an event number", append.expected_seq)]
                {
                    // The databases count with a sign; some room is left for the append itself.
                    let limit = i64::MAX.unsigned_abs() - limits::APPEND_ROWS as u64;
                    if value > limit {
                        return Err(StoreError::TooLarge { what, size: value, limit });
                    }
                }
                append.operation.as_ref().map_or(Ok(()), check_operation)
            }
            Self::Remember(_, operation) => check_operation(operation),
            Self::State(_, _, state) => at_most("a cached state", state.bytes.len(), limits::STATE_BYTES),
            Self::ReadUp { .. } => Ok(()),
            Self::Blob(_, _, bytes) => at_most("a blob", bytes.len(), limits::BLOB_BYTES),
        }
    }

    /// About how much memory and log it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Append(append, words) => {
                append.rows.iter().map(|row| row.event.len() + row.upserts.len()).sum::<usize>()
                    + append.head.summary.len()
                    + words.iter().map(|it| it.words.len()).sum::<usize>()
            }
            Self::Remember(_, operation) => operation.reply.len(),
            Self::State(_, _, state) => state.bytes.len(),
            Self::ReadUp { texts, .. } => texts.iter().filter_map(|text| text.words.as_ref()).map(String::len).sum(),
            Self::Blob(_, _, bytes) => bytes.len(),
        }
    }

    /// Does it, inside the transaction that is open. `heads` must be forgotten if that transaction comes to nothing.
    pub(super) fn perform(&self, connection: &Connection, heads: &mut PresentHeads) -> Result<(), Failure> {
        match self {
            Self::Append(append, words) => perform_append(connection, heads, append, words),
            Self::ReadUp { from, texts } => perform_read_up(connection, *from, texts),
            Self::Remember(user, operation) => insert_new_operation(connection, *user, operation),
            Self::State(user, stream, state) => perform_state(connection, heads, *user, *stream, state),
            Self::Blob(user, digest, bytes) => {
                let mut statement =
                    connection.prepare_cached("INSERT INTO blob (user, digest, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
                statement.execute(params![key(&user.0), digest.0, bytes])?;
                Ok(())
            }
        }
    }
}

/// Ids are stored as their sixteen bytes.
pub(super) fn key(id: &Uuid) -> &[u8] {
    id.as_bytes()
}

fn at_most(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { what, size: size as u64, limit: limit as u64 }) } else { Ok(()) }
}

fn check_operation(operation: &OperationRow) -> Result<(), StoreError> {
    at_most("a digest", operation.digest.0.len(), 64)?;
    at_most("a reply", operation.reply.len(), limits::REPLY_BYTES)
}

fn perform_append(connection: &Connection, heads: &mut PresentHeads, append: &Append, words: &[WordsOf]) -> Result<(), Failure> {
    let present = heads.find(connection, append.user, append.stream)?;
    let refusal = refusal(append, present.as_ref());
    match (&append.operation, refusal) {
        // The first change of all, and none if the operation is known: so nothing has to be taken back.
        (Some(operation), None) => insert_new_operation(connection, append.user, operation)?,
        (Some(operation), Some(refusal)) => {
            refuse_known(connection, append.user, operation)?;
            return Err(refusal.into());
        }
        (None, Some(refusal)) => return Err(refusal.into()),
        (None, None) => {}
    }

    let stream = match present {
        Some(head) => update_head(connection, append, &head)?,
        None => insert_head(connection, append)?,
    };
    if !append.rows.is_empty() {
        let mut payload = connection.prepare_cached("INSERT INTO payload (event, upserts) VALUES (?1, ?2)")?;
        let mut event = connection.prepare_cached("INSERT INTO event (stream, seq, kind, payload) VALUES (?1, ?2, ?3, ?4)")?;
        let mut words = words.iter().peekable();
        for ((place, row), seq) in append.rows.iter().enumerate().zip(append.expected_seq + 1..) {
            payload.execute(params![row.event, row.upserts])?;
            let number = connection.last_insert_rowid();
            event.execute(params![stream, seq, row.kind, number])?;
            if let Some(of_row) = words.next_if(|words| words.row == place) {
                insert_words(connection, number, (stream, seq), &query::owner(append.user), &of_row.words)?;
            }
        }
    }
    heads.put(append.user, append.stream, Present::after(append, stream));
    Ok(())
}

/// Makes a text findable, by the number of its payload.
fn insert_words(connection: &Connection, number: i64, (stream, seq): (i64, u64), owner: &str, words: &str) -> Result<(), Failure> {
    connection.prepare_cached("INSERT INTO word (rowid, owner, words) VALUES (?1, ?2, ?3)")?.execute(params![number, owner, words])?;
    connection.prepare_cached("INSERT INTO text (number, stream, seq) VALUES (?1, ?2, ?3)")?.execute(params![number, stream, seq])?;
    Ok(())
}

/// Takes in texts of the log, and writes down how far that has come. The end is where there is nothing more to read.
fn perform_read_up(connection: &Connection, from: Unread, texts: &[UnreadText]) -> Result<(), Failure> {
    let Some(last) = texts.last() else {
        connection.execute("DELETE FROM unread", [])?;
        return Ok(());
    };
    // The index takes rows fastest in the order of their numbers.
    let mut ordered: Vec<_> = texts.iter().collect();
    ordered.sort_by_key(|text| text.number);
    for text in ordered {
        let (Some(words), Ok(user)) = (&text.words, Uuid::from_slice(&text.user)) else { continue };
        insert_words(connection, text.number, (text.stream, text.seq), &query::owner(UserId(user)), words)?;
    }
    connection.execute("UPDATE unread SET stream = ?1, seq = ?2, until = ?3", params![last.stream, last.seq, from.until])?;
    Ok(())
}

/// Why the head row that is there, or is missing, does not let this append pass.
fn refusal(append: &Append, present: Option<&Present>) -> Option<StoreError> {
    let found = present.map_or(0, |head| head.seq);
    match present {
        Some(head) if head.fence > append.fence => Some(StoreError::Fenced { own: append.fence, found: head.fence }),
        _ if found != append.expected_seq => Some(StoreError::Conflict { expected: append.expected_seq, found }),
        _ => None,
    }
}

fn insert_head(connection: &Connection, append: &Append) -> Result<i64, Failure> {
    let head = &append.head;
    connection
        .prepare_cached(
            "INSERT INTO head (user, kind, id, seq, epoch, fence, active, wake_at, updated_at, summary)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            key(&append.user.0),
            append.stream.kind.as_str(),
            key(&append.stream.id),
            last_seq(append),
            head.epoch,
            append.fence,
            head.active,
            head.wake_at.map(|time| time.0),
            head.updated_at.0,
            head.summary,
        ])?;
    Ok(connection.last_insert_rowid())
}

/// Leaves out the columns that rarely change, since naming them would rewrite a page of their index each time.
fn update_head(connection: &Connection, append: &Append, present: &Present) -> Result<i64, Failure> {
    let head = &append.head;
    connection
        .prepare_cached("UPDATE head SET seq = ?2, epoch = ?3, fence = ?4, updated_at = ?5, summary = ?6 WHERE stream = ?1")?
        .execute(params![present.stream, last_seq(append), head.epoch, append.fence, head.updated_at.0, head.summary,])?;
    let wake_at = head.wake_at.map(|time| time.0);
    if (head.active, wake_at) != (present.active, present.wake_at) {
        connection.prepare_cached("UPDATE head SET active = ?2, wake_at = ?3 WHERE stream = ?1")?.execute(params![
            present.stream,
            head.active,
            wake_at
        ])?;
    }
    Ok(present.stream)
}

/// The number of the stream's last event after an append.
pub(super) fn last_seq(append: &Append) -> u64 {
    append.expected_seq + append.rows.len() as u64
}

fn refuse_known(connection: &Connection, user: UserId, operation: &OperationRow) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached("SELECT digest, reply FROM operation WHERE user = ?1 AND id = ?2")?;
    let known = statement
        .query_row(params![key(&user.0), key(&operation.operation_id.0)], |row| {
            Ok(OperationRow { operation_id: operation.operation_id, digest: Digest(row.get(0)?), reply: row.get(1)? })
        })
        .optional()?;
    known.map_or(Ok(()), |row| Err(StoreError::OperationExists(row).into()))
}

/// Keeps an operation, or changes nothing and says what was kept before.
fn insert_new_operation(connection: &Connection, user: UserId, operation: &OperationRow) -> Result<(), Failure> {
    let inserted = connection
        .prepare_cached("INSERT INTO operation (user, id, digest, reply) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING")?
        .execute(params![key(&user.0), key(&operation.operation_id.0), operation.digest.0, operation.reply])?;
    if inserted == 0 { refuse_known(connection, user, operation) } else { Ok(()) }
}

fn perform_state(
    connection: &Connection,
    heads: &mut PresentHeads,
    user: UserId,
    stream: StreamId,
    state: &StateCache,
) -> Result<(), Failure> {
    match heads.find(connection, user, stream)? {
        Some(head) if state.seq <= head.seq => {
            connection
                .prepare_cached("INSERT OR REPLACE INTO state (stream, seq, format, bytes) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![head.stream, state.seq, state.format, state.bytes])?;
            Ok(())
        }
        behind => Err(StoreError::Conflict { expected: state.seq, found: behind.map_or(0, |head| head.seq) }.into()),
    }
}
