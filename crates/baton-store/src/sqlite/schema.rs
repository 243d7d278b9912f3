//! The database file: how it is opened, checked, migrated, and made durable.

use super::fault::from_sqlite;
use crate::error::StoreError;
use baton_proto::Timestamp;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Marks the file as Baton's ("Batn"), so that another program's database isn't taken for an old one of ours.
const APPLICATION_ID: u32 = 0x4261_746e;

/// Bytes of a page of a new file. A commit writes whole pages to the log, and a lone step touches one in each of its tables: of half the usual
/// size they make a step's bytes fall by two fifths, while a group of steps takes no more time. A file keeps the size that it was made with;
/// every size is read alike.
const PAGE_BYTES: u32 = 2048;

/// Each entry lifts the format by one. An entry that was released is never changed.
///
/// Payloads lie in the order of their arrival, so that a group of appends to many streams fills few pages; `event` is
/// the narrow table that finds them by stream and number, and filters by kind without touching a payload. A stream's
/// number is found only through its head row, by the user's id.
///
/// `word` is an index without the texts themselves, which lie in the payloads; its rows are numbered like them, and `text` leads from there to
/// stream and number. Its `owner` keeps one user's search from looking at another's texts. What had been written before is `unread`.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE hub (one INTEGER PRIMARY KEY CHECK (one = 1), incarnation INTEGER NOT NULL);
    INSERT INTO hub VALUES (1, 0);

    CREATE TABLE head (
        stream INTEGER PRIMARY KEY,
        user BLOB NOT NULL,
        kind TEXT NOT NULL,
        id BLOB NOT NULL,
        seq INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        active INTEGER NOT NULL,
        wake_at INTEGER,
        updated_at INTEGER NOT NULL,
        summary BLOB NOT NULL
    );
    CREATE UNIQUE INDEX head_by_id ON head (user, kind, id);
    CREATE INDEX head_by_update ON head (user, kind, updated_at, id);
    CREATE INDEX head_owing ON head (kind) WHERE active = 1 OR wake_at IS NOT NULL;

    CREATE TABLE event (
        stream INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        payload INTEGER NOT NULL,
        PRIMARY KEY (stream, seq)
    ) WITHOUT ROWID;
    CREATE TABLE payload (number INTEGER PRIMARY KEY, event BLOB NOT NULL, upserts BLOB NOT NULL);

    CREATE TABLE operation (
        user BLOB NOT NULL,
        id BLOB NOT NULL,
        digest TEXT NOT NULL,
        reply BLOB NOT NULL,
        PRIMARY KEY (user, id)
    ) WITHOUT ROWID;

    CREATE TABLE state (stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL, format INTEGER NOT NULL, bytes BLOB NOT NULL);
    CREATE TABLE blob (user BLOB NOT NULL, digest TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (user, digest));
",
    "
    CREATE TABLE text (number INTEGER PRIMARY KEY, stream INTEGER NOT NULL, seq INTEGER NOT NULL);
    CREATE VIRTUAL TABLE word USING fts5
        (owner, words, content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 0');
    CREATE TABLE unread (one INTEGER PRIMARY KEY CHECK (one = 1), stream INTEGER NOT NULL, seq INTEGER NOT NULL, until INTEGER NOT NULL);
    INSERT INTO unread SELECT 1, 0, 0, max(number) FROM payload HAVING max(number) IS NOT NULL;
",
];

/// The newest format that this version reads and writes.
#[expect(clippy::cast_possible_truncation, reason = "there will not be four billion migrations")]
pub(super) const fn supported() -> u32 {
    MIGRATIONS.len() as u32
}

/// Looks at an existing file without changing it: is it ours, whole enough to be opened, and not newer than we are?
pub(super) fn inspect(path: &Path) -> Result<(), StoreError> {
    if !std::fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    recognise(&open_untouched(path)?, path)
}

/// Whether a database is ours, or none's yet, and not newer than we are.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: u32 = number(connection, "PRAGMA user_version")?;
    let mark: u32 = number(connection, "PRAGMA application_id")?;
    let tables: u32 = number(connection, "SELECT count(*) FROM sqlite_schema")?;
    if mark != APPLICATION_ID && (mark != 0 || tables > 0) {
        return Err(StoreError::Corrupt(format!("{} is the database of another program", path.display())));
    }
    if found > supported() {
        return Err(StoreError::NewerVersion { found, supported: supported() });
    }
    Ok(())
}

/// A connection that leaves no trace. Without a log the file is taken as it is; else even a reader would start one. A log
/// that is there has to be read, and is left there. Nobody else has the files open: the directory is locked.
pub(super) fn open_untouched(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let log = path.with_extension("db-wal");
    match path.to_str() {
        Some(text) if !log.exists() => {
            let escaped = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            let name = format!("file:{escaped}?immutable=1");
            Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI).map_err(from_sqlite)
        }
        _ => Connection::open_with_flags(path, flags).map_err(from_sqlite),
    }
}

/// A connection that writes, with the durability that is promised and was seen to be in force.
pub(super) fn open_writing(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(from_sqlite)?;
    // Before the first thing is written: it counts for an empty file only.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(from_sqlite)?;
    make_durable(&connection)?;
    // Pages that many streams and operations come back to (16 MiB at most, taken as they are used).
    connection.pragma_update(None, "cache_size", -16_384).map_err(from_sqlite)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// A connection that can only read.
pub(crate) fn open_reading(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(from_sqlite)?;
    connection.busy_timeout(Duration::from_secs(10)).map_err(from_sqlite)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Brings the file to the newest format and counts this opening, in one transaction. Returns the incarnation.
///
/// The incarnation is the time in milliseconds, or one more than the last where the clock isn't ahead of it. Devices refuse a hub that
/// is older than one they have seen; a backup knows nothing of the incarnations that came after it, and still has to be the newest hub
/// when it is restored.
pub(super) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<u64, StoreError> {
    let found: u32 = number(connection, "PRAGMA user_version")?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(from_sqlite)?;
    for step in MIGRATIONS.iter().skip(found as usize) {
        transaction.execute_batch(step).map_err(from_sqlite)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(from_sqlite)?;
    transaction.pragma_update(None, "user_version", supported()).map_err(from_sqlite)?;
    let incarnation: i64 = transaction
        .query_row("UPDATE hub SET incarnation = max(incarnation + 1, ?1) RETURNING incarnation", [now.0], |row| row.get(0))
        .map_err(from_sqlite)?;
    transaction.commit().map_err(from_sqlite)?;
    u64::try_from(incarnation).map_err(|_| StoreError::Corrupt("the incarnation number is negative".into()))
}

/// Sets what a commit means, and reads it back: SQLite ignores a wrong pragma in silence.
pub(crate) fn make_durable(connection: &Connection) -> Result<(), StoreError> {
    connection.busy_timeout(Duration::from_secs(10)).map_err(from_sqlite)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(from_sqlite)?;
    if mode != "wal" {
        return Err(StoreError::Io(format!("this file system allows no write-ahead log (journal mode is {mode})")));
    }
    // The last two matter on macOS only, where a plain fsync does not reach the disk.
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;").map_err(from_sqlite)?;
    let level: u32 = number(connection, "PRAGMA synchronous")?;
    if level != 2 {
        return Err(StoreError::Io(format!("SQLite would not synchronise each commit (level {level})")));
    }
    Ok(())
}

fn number<T: rusqlite::types::FromSql>(connection: &Connection, query: &str) -> Result<T, StoreError> {
    connection.query_row(query, [], |row| row.get(0)).map_err(from_sqlite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writing_connection_synchronises_each_commit() {
        let directory = tempfile::tempdir().unwrap();
        let connection = open_writing(&directory.path().join("baton.db")).unwrap();
        assert_eq!(number::<u32>(&connection, "PRAGMA synchronous").unwrap(), 2);
        assert_eq!(number::<String>(&connection, "PRAGMA journal_mode").unwrap(), "wal");
        connection.execute_batch("PRAGMA synchronous = NORMAL").unwrap();
        make_durable(&connection).unwrap();
        assert_eq!(number::<u32>(&connection, "PRAGMA synchronous").unwrap(), 2);
    }

    #[test]
    fn a_file_system_without_a_log_is_refused() {
        // A database in memory can't have a write-ahead log, as some network file systems can't.
        let error = make_durable(&Connection::open_in_memory().unwrap()).unwrap_err();
        assert!(error.to_string().contains("write-ahead log"), "{error}");
    }

    #[test]
    fn each_opening_has_a_greater_incarnation_whatever_the_clock_says() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = open_writing(&directory.path().join("baton.db")).unwrap();
        let openings = [(-5, 1), (1_000, 1_000), (1_000, 1_001), (10, 1_002), (5_000, 5_000)];
        for (now, incarnation) in openings {
            assert_eq!(migrate(&mut connection, Timestamp(now)).unwrap(), incarnation, "at {now}");
        }
        assert_eq!(number::<u32>(&connection, "PRAGMA user_version").unwrap(), supported());
    }
}
