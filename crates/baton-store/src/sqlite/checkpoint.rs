//! Moves what is committed from the log into the database file, beside the writer and not in its way.

use super::fault::is_poisonous;
use super::figures::Counters;
use super::health::Health;
use crate::error::StoreError;
use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The log is moved each time it has grown by this many bytes.
const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// From this many bytes on the writer is kept waiting for the last bit, so that the log can begin anew. The longest log bounds the disk
/// space and the time that the next opening takes.
const LONG_BYTES: u64 = 32 * 1024 * 1024;

/// Bytes that a page takes in the log besides itself.
const PAGE_HEADER_BYTES: u64 = 24;

/// How long the log is, and whose turn it is to touch it.
#[derive(Debug, Default)]
pub(super) struct LogLength {
    bytes: Arc<AtomicU64>,
    turn: Mutex<()>,
}

impl LogLength {
    /// Follows the commits of the connection that writes.
    pub(super) fn follow(&self, connection: &mut Connection, counters: Arc<Counters>) -> rusqlite::Result<()> {
        // The hook takes the place of SQLite's own checkpoints, which would run inside a commit.
        let bytes = Arc::clone(&self.bytes);
        // A file keeps the size of pages that it was made with.
        let page: u64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            let length = u64::try_from(pages).unwrap_or(0) * (page + PAGE_HEADER_BYTES);
            let before = bytes.swap(length, Ordering::Relaxed);
            // A log that is shorter than before began anew with this commit.
            counters.logged(length.checked_sub(before).unwrap_or(length));
            Ok(())
        }))
    }

    /// Keeps the other side waiting while the guard lives. The lock protects no value, so a panic can't have spoilt one.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The thread that moves the log, seen from the writer.
#[derive(Debug)]
pub(super) struct Checkpointer {
    log: Arc<LogLength>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The length at which it was woken last.
    woken_at: u64,
}

impl Checkpointer {
    pub(super) fn start(connection: Connection, log: Arc<LogLength>, health: Arc<Health>) -> Result<Self, StoreError> {
        let (wake, woken) = sync_channel(1);
        let of_thread = Arc::clone(&log);
        let thread = thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || run(&connection, &of_thread, &health, &woken))
            .map_err(|error| StoreError::Io(error.to_string()))?;
        Ok(Self { log, wake: Some(wake), thread: Some(thread), woken_at: 0 })
    }

    /// Wakes the thread if the log has grown enough. Never waits.
    pub(super) fn look(&mut self) {
        let length = self.log.bytes();
        if length < self.woken_at {
            // The log began anew.
            self.woken_at = 0;
        }
        if length >= self.woken_at + STEP_BYTES {
            self.woken_at = length;
            if let Some(wake) = &self.wake {
                // A full channel means that it is about to look anyway.
                let _ = wake.try_send(());
            }
        }
    }

    /// Waits until the thread has ended.
    pub(super) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, log: &LogLength, health: &Health, woken: &Receiver<()>) {
    while woken.recv().is_ok() {
        let mut outcome = move_log(connection);
        if outcome.is_ok() && log.bytes() >= LONG_BYTES {
            // Little is left after the pass above; once all is moved the writer begins the log anew.
            let _turn = log.lock();
            outcome = move_log(connection);
        }
        // A full disk or a busy reader leaves the log as it is; the next pass tries again.
        if let Err(error) = outcome
            && is_poisonous(&error)
        {
            health.poison(&error.to_string());
        }
    }
}

fn move_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?.query_row([], |_| Ok(()))
}
