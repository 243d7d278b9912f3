//! What is read, each as one query that begins with the user's id.

use super::fault::from_sqlite;
use super::reading_up;
use super::write::key;
use crate::error::StoreError;
use crate::stream::{FoundText, FoundTexts, Head, OperationRow, StateCache, StoredEvent, StreamId, StreamKind};
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params};
use uuid::Uuid;

const HEAD: &str = "user, kind, id, seq, epoch, fence, active, wake_at, updated_at, summary";

pub(super) fn head(connection: &Connection, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
    let query = format!("SELECT {HEAD} FROM head WHERE user = ?1 AND kind = ?2 AND id = ?3");
    one(connection, &query, params![key(&user.0), stream.kind.as_str(), key(&stream.id)], head_of)
}

pub(super) fn heads(
    connection: &Connection,
    user: UserId,
    kind: StreamKind,
    before: Option<(Timestamp, Uuid)>,
    limit: u32,
) -> Result<Vec<Head>, StoreError> {
    let order = "ORDER BY updated_at DESC, id DESC LIMIT ?3";
    match before {
        None => {
            let query = format!("SELECT {HEAD} FROM head WHERE user = ?1 AND kind = ?2 {order}");
            many(connection, &query, params![key(&user.0), kind.as_str(), limit], head_of)
        }
        Some((time, id)) => {
            let query = format!("SELECT {HEAD} FROM head WHERE user = ?1 AND kind = ?2 AND (updated_at, id) < (?4, ?5) {order}");
            many(connection, &query, params![key(&user.0), kind.as_str(), limit, time.0, key(&id)], head_of)
        }
    }
}

pub(super) fn active(connection: &Connection, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
    // The condition is that of the partial index, word for word.
    let query = format!("SELECT {HEAD} FROM head WHERE kind = ?1 AND (active = 1 OR wake_at IS NOT NULL) ORDER BY stream");
    many(connection, &query, params![kind.as_str()], head_of)
}

pub(super) fn all(connection: &Connection, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
    let query = format!("SELECT {HEAD} FROM head WHERE kind = ?1 ORDER BY stream");
    many(connection, &query, params![kind.as_str()], head_of)
}

pub(super) fn read(
    connection: &Connection,
    user: UserId,
    stream: StreamId,
    after: u64,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let query = "SELECT seq, kind, event, upserts FROM event JOIN payload ON number = payload
                 WHERE stream = (SELECT stream FROM head WHERE user = ?1 AND kind = ?2 AND id = ?3) AND seq > ?4
                 ORDER BY seq LIMIT ?5";
    many(connection, query, params![key(&user.0), stream.kind.as_str(), key(&stream.id), signed(after), limit], event_of)
}

pub(super) fn read_back(
    connection: &Connection,
    user: UserId,
    stream: StreamId,
    before: u64,
    kinds: &[String],
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let user = key(&user.0);
    let kind = stream.kind.as_str();
    let id = key(&stream.id);
    let before = signed(before);
    let mut values: Vec<&dyn ToSql> = vec![&user, &kind, &id, &before, &limit];
    values.extend(kinds.iter().map(|kind| kind as &dyn ToSql));
    let marks: Vec<String> = (6..=values.len()).map(|number| format!("?{number}")).collect();
    // The payloads are joined after the limit, so that what is passed over costs a narrow row only.
    let query = format!(
        "SELECT seq, kind, event, upserts FROM
             (SELECT seq, kind, payload FROM event
              WHERE stream = (SELECT stream FROM head WHERE user = ?1 AND kind = ?2 AND id = ?3) AND seq < ?4 AND kind IN ({})
              ORDER BY seq DESC LIMIT ?5)
         JOIN payload ON number = payload ORDER BY seq DESC",
        marks.join(", ")
    );
    many(connection, &query, values.as_slice(), event_of)
}

pub(super) fn search(connection: &Connection, user: UserId, asked: Option<&str>, limit: u32) -> Result<FoundTexts, StoreError> {
    let incomplete = reading_up::unread(connection)?.is_some();
    let Some(asked) = asked else { return Ok(FoundTexts { texts: Vec::new(), incomplete }) };
    // The numbers are those of the payloads, so the newest are the largest. Whose they are is asked once more at the head row.
    let query = "SELECT head.kind, head.id, text.seq, event.kind, payload.event, head.summary FROM
                     (SELECT rowid AS found FROM word WHERE word MATCH ?1 ORDER BY rowid DESC LIMIT ?3)
                 JOIN text ON text.number = found JOIN head ON head.stream = text.stream AND head.user = ?2
                 JOIN event ON event.stream = text.stream AND event.seq = text.seq JOIN payload ON payload.number = found
                 ORDER BY found DESC";
    let asked = format!("owner : \"{}\" AND words : ({asked})", owner(user));
    let texts = many(connection, query, params![asked, key(&user.0), limit], |row| {
        let word: String = row.get(0)?;
        let kind = StreamKind::from_stored(&word).unwrap_or(StreamKind::Session);
        Ok(FoundText {
            stream: StreamId { kind, id: id_of(row, 1)? },
            seq: row.get(2)?,
            kind: row.get(3)?,
            event: row.get(4)?,
            summary: row.get(5)?,
        })
    })?;
    Ok(FoundTexts { texts, incomplete })
}

/// A user as a word of the index.
pub(super) fn owner(user: UserId) -> String {
    format!("u{}", user.0.simple())
}

pub(super) fn state(connection: &Connection, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
    let query = "SELECT seq, format, bytes FROM state
                 WHERE stream = (SELECT stream FROM head WHERE user = ?1 AND kind = ?2 AND id = ?3)";
    one(connection, query, params![key(&user.0), stream.kind.as_str(), key(&stream.id)], |row| {
        Ok(StateCache { seq: row.get(0)?, format: row.get(1)?, bytes: row.get(2)? })
    })
}

pub(super) fn operation(connection: &Connection, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
    let query = "SELECT digest, reply FROM operation WHERE user = ?1 AND id = ?2";
    one(connection, query, params![key(&user.0), key(&id.0)], |row| {
        Ok(OperationRow { operation_id: id, digest: Digest(row.get(0)?), reply: row.get(1)? })
    })
}

pub(super) fn blob(connection: &Connection, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
    let query = "SELECT bytes FROM blob WHERE user = ?1 AND digest = ?2";
    let bytes: Option<Vec<u8>> = one(connection, query, params![key(&user.0), digest.0], |row| row.get(0))?;
    match bytes {
        Some(bytes) if Digest::of_bytes(&bytes) != *digest => {
            Err(StoreError::Corrupt(format!("blob {digest} has other bytes than its name says")))
        }
        other => Ok(other),
    }
}

/// A limit such as `u64::MAX` means "from the end", and no number of an event is as large as that.
fn signed(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn one<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    row: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(query).map_err(from_sqlite)?;
    statement.query_row(values, row).optional().map_err(from_sqlite)
}

fn many<T>(
    connection: &Connection,
    query: &str,
    values: impl Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(query).map_err(from_sqlite)?;
    let rows = statement.query_map(values, row).map_err(from_sqlite)?;
    rows.collect::<Result<Vec<T>, _>>().map_err(from_sqlite)
}

fn head_of(row: &Row<'_>) -> rusqlite::Result<Head> {
    let word: String = row.get(1)?;
    let kind = StreamKind::from_stored(&word)
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, format!("unknown kind of stream {word:?}").into()))?;
    Ok(Head {
        stream: StreamId { kind, id: id_of(row, 2)? },
        user: UserId(id_of(row, 0)?),
        seq: row.get(3)?,
        epoch: row.get(4)?,
        fence: row.get(5)?,
        active: row.get(6)?,
        wake_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        updated_at: Timestamp(row.get(8)?),
        summary: row.get(9)?,
    })
}

fn event_of(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    Ok(StoredEvent { seq: row.get(0)?, kind: row.get(1)?, event: row.get(2)?, upserts: row.get(3)? })
}

fn id_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get::<_, [u8; 16]>(column).map(Uuid::from_bytes)
}
