//! The yardstick of the bench: what SQLite itself does with the statements of a durable step, and nothing around them.

use crate::error::StoreError;
use crate::sqlite::schema::{make_durable, open_reading};
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Instant;
use uuid::Uuid;

/// What one step of the measured kind writes: the sizes that a fair yardstick has to write too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BareStep {
    /// Bytes of the event with its views.
    pub event: usize,
    /// Bytes that are kept with the operation's id: its digest and its reply.
    pub operation: usize,
    /// Bytes of the head row's summary.
    pub summary: usize,
    /// Streams that the steps go to in turn.
    pub streams: usize,
    /// Steps in one commit.
    pub batch: usize,
}

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

/// Runs steps on one thread for about `seconds` in the database `bare.db` in `dir`; a later call goes on where the last one ended.
///
/// A step inserts an event, inserts the operation, and writes the head row, as a program would that uses SQLite
/// directly: the plain tables, prepared statements, the store's own pragmas. Checkpoints are left to SQLite, which
/// makes them inside a commit from 1,000 pages on.
pub fn bare_baseline(dir: &Path, seconds: f64, step: BareStep) -> Result<BareFigures, StoreError> {
    run(&dir.join("bare.db"), seconds, step).map_err(|error| StoreError::Io(error.to_string()))?
}

fn run(path: &Path, seconds: f64, step: BareStep) -> rusqlite::Result<Result<BareFigures, StoreError>> {
    let connection = Connection::open(path)?;
    if let Err(error) = make_durable(&connection) {
        return Ok(Err(error));
    }
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS event (stream INTEGER, seq INTEGER, event BLOB, PRIMARY KEY (stream, seq));
         CREATE TABLE IF NOT EXISTS operation (id BLOB PRIMARY KEY, reply BLOB) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS head (stream INTEGER PRIMARY KEY, seq INTEGER, summary BLOB);",
    )?;
    let mut insert_event = connection.prepare("INSERT INTO event VALUES (?1, ?2, ?3)")?;
    let mut insert_operation = connection.prepare("INSERT INTO operation VALUES (?1, ?2)")?;
    let mut upsert_head = connection
        .prepare("INSERT INTO head VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seq = excluded.seq, summary = excluded.summary")?;
    let (event, reply, summary) = (vec![b'x'; step.event], vec![b'r'; step.operation], vec![b's'; step.summary]);
    let streams = step.streams.max(1) as u64;
    let earlier: u64 = connection.query_row("SELECT count(*) FROM operation", [], |row| row.get(0))?;

    let mut commits = Vec::new();
    let mut n = 0;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds || commits.is_empty() {
        let commit = Instant::now();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..step.batch.max(1) {
            let (stream, seq) = ((earlier + n) % streams, (earlier + n) / streams + 1);
            insert_event.execute(params![stream, seq, event])?;
            insert_operation.execute(params![Uuid::now_v7().as_bytes(), reply])?;
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

/// What a scan did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScanFigures {
    pub ms: f64,
    pub hits: usize,
}

/// The yardstick of a search: the newest messages with that piece of text, by a scan with `LIKE` over all of them in the store that lies in `dir`,
/// whoever they belong to.
pub fn scan_baseline(dir: &Path, piece: &str, limit: u32) -> Result<ScanFigures, StoreError> {
    let connection = open_reading(&dir.join("baton.db"))?;
    let started = Instant::now();
    let scan = || -> rusqlite::Result<usize> {
        let mut statement = connection.prepare(
            "SELECT event FROM event JOIN payload ON number = payload
             WHERE kind IN ('message_added', 'model_finished') AND CAST(payload.event AS TEXT) LIKE ?1 ORDER BY number DESC LIMIT ?2",
        )?;
        let rows = statement.query_map(params![format!("%{piece}%"), limit], |row| row.get::<_, Vec<u8>>(0))?;
        rows.collect::<Result<Vec<_>, _>>().map(|found| found.len())
    };
    let hits = scan().map_err(|error| StoreError::Io(error.to_string()))?;
    Ok(ScanFigures { ms: started.elapsed().as_secs_f64() * 1e3, hits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measured_step_is_in_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let step = BareStep { event: 100, operation: 50, summary: 20, streams: 3, batch: 7 };
        let mut n = 0;
        for _ in 0..2 {
            let figures = bare_baseline(directory.path(), 0.05, step).unwrap();
            assert!(figures.n.is_multiple_of(7) && figures.per_second > 0.0 && figures.p50_ms <= figures.p99_ms);
            n += figures.n;
        }
        let connection = Connection::open(directory.path().join("bare.db")).unwrap();
        let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, u64>(0)).unwrap();
        for table in ["event", "operation"] {
            assert_eq!(count(&format!("SELECT count(*) FROM {table}")), n, "{table}");
        }
        assert_eq!(count("SELECT sum(seq) FROM head"), n, "each stream's head is at its last event");
    }
}
