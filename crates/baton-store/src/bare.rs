//! The yardstick of the bench: what SQLite itself does with the statements of a durable step, and nothing around them.

use crate::error::StoreError;
use crate::sqlite::schema::make_durable;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Instant;
use uuid::Uuid;

/// Streams that the steps go to in turn.
const STREAMS: u64 = 50;

/// What bare SQLite did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BareFigures {
    /// Steps in a second.
    pub per_second: f64,
    /// Half of the commits took at most this long, in milliseconds, from `BEGIN` until `COMMIT` returned.
    pub p50_ms: f64,
    /// All but one in a hundred of the commits took at most this long, in milliseconds.
    pub p99_ms: f64,
    /// Steps that were measured.
    pub n: u64,
}

/// Runs steps on one thread for about `seconds`, `batch` of them in each commit, in a new database in `dir`.
///
/// A step inserts an event of `event_bytes`, inserts the operation's id, and writes the head row, as a program would
/// that uses SQLite directly: the plain tables, prepared statements, the store's own pragmas. Checkpoints are left to
/// SQLite, which makes them inside a commit from 1,000 pages on.
pub fn bare_baseline(dir: &Path, seconds: f64, batch: usize, event_bytes: usize) -> Result<BareFigures, StoreError> {
    let path = dir.join(format!("bare-{}.db", Uuid::now_v7()));
    run(&path, seconds, batch.max(1), event_bytes).map_err(|error| StoreError::Io(error.to_string()))?
}

fn run(path: &Path, seconds: f64, batch: usize, event_bytes: usize) -> rusqlite::Result<Result<BareFigures, StoreError>> {
    let connection = Connection::open(path)?;
    if let Err(error) = make_durable(&connection) {
        return Ok(Err(error));
    }
    connection.execute_batch(
        "CREATE TABLE event (stream INTEGER, seq INTEGER, event BLOB, PRIMARY KEY (stream, seq));
         CREATE TABLE operation (id BLOB PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE head (stream INTEGER PRIMARY KEY, seq INTEGER, summary BLOB);",
    )?;
    let mut insert_event = connection.prepare("INSERT INTO event VALUES (?1, ?2, ?3)")?;
    let mut insert_operation = connection.prepare("INSERT INTO operation VALUES (?1)")?;
    let mut upsert_head = connection
        .prepare("INSERT INTO head VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seq = excluded.seq, summary = excluded.summary")?;
    let event = vec![b'x'; event_bytes];
    let summary = vec![b's'; 200];

    let mut commits = Vec::new();
    let mut n = 0;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds || commits.is_empty() {
        let commit = Instant::now();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..batch {
            let (stream, seq) = (n % STREAMS, n / STREAMS + 1);
            insert_event.execute(params![stream, seq, event])?;
            insert_operation.execute(params![Uuid::now_v7().as_bytes()])?;
            upsert_head.execute(params![stream, seq, summary])?;
            n += 1;
        }
        connection.execute_batch("COMMIT")?;
        commits.push(commit.elapsed().as_secs_f64() * 1e3);
    }
    #[expect(clippy::cast_precision_loss, reason = "nobody counts 2^53 steps")]
    let per_second = n as f64 / start.elapsed().as_secs_f64();
    commits.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| commits[(commits.len() - 1) * percent / 100];
    Ok(Ok(BareFigures { per_second, p50_ms: at(50), p99_ms: at(99), n }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measured_step_is_in_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let figures = bare_baseline(directory.path(), 0.05, 7, 100).unwrap();
        let path = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|end| end == "db"));
        let connection = Connection::open(path.unwrap()).unwrap();
        for table in ["event", "operation"] {
            let rows: u64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
            assert_eq!(rows, figures.n, "{table}");
        }
        assert!(figures.n.is_multiple_of(7) && figures.per_second > 0.0 && figures.p50_ms <= figures.p99_ms);
    }
}
