//! The one thread that writes. It takes all that waits, commits it as one group, and only then answers.

use super::checkpoint::{Checkpointer, LogLength};
use super::fault::{from_sqlite, is_poisonous};
use super::figures::Counters;
use super::health::Health;
use super::present::PresentHeads;
use super::write::{Failure, Write};
use crate::error::StoreError;
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::sync::{mpsc, oneshot};

/// Writes that wait at most; whoever comes later waits for room, so that memory is bounded and nobody is turned away.
const QUEUE: usize = 1024;
/// Writes of one group at most, so that the first of them isn't kept waiting for the last.
const GROUP: usize = 512;
/// Bytes of one group, about, for the same reason.
const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// A write and whom to tell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) write: Write,
    pub(super) reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Starts the thread. It ends when every sender is gone and all that waited is done, leaving no log behind.
pub(super) fn start(
    connection: Connection,
    log: Arc<LogLength>,
    checkpointer: Checkpointer,
    health: Arc<Health>,
    counters: Arc<Counters>,
) -> Result<(mpsc::Sender<Job>, JoinHandle<()>), StoreError> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let writer = Writer { connection, heads: PresentHeads::default(), log, checkpointer, health, counters };
    let thread = thread::Builder::new()
        .name("store-writer".into())
        .spawn(move || writer.run(receiver))
        .map_err(|error| StoreError::Io(error.to_string()))?;
    Ok((sender, thread))
}

struct Writer {
    connection: Connection,
    heads: PresentHeads,
    log: Arc<LogLength>,
    checkpointer: Checkpointer,
    health: Arc<Health>,
    counters: Arc<Counters>,
}

/// Why a group as a whole came to nothing. The transaction is undone.
enum Undone {
    /// Nothing of it is on the disk.
    Nothing(rusqlite::Error),
    /// What is on the disk is unknown.
    Unknown(rusqlite::Error),
}

impl Writer {
    fn run(mut self, mut receiver: mpsc::Receiver<Job>) {
        while let Some(first) = receiver.blocking_recv() {
            let mut bytes = first.write.size();
            let mut group = vec![first];
            while group.len() < GROUP && bytes < GROUP_BYTES {
                let Ok(job) = receiver.try_recv() else { break };
                bytes += job.write.size();
                group.push(job);
            }
            self.commit(group);
            self.checkpointer.look();
        }
        self.checkpointer.stop();
        if self.health.check().is_ok() {
            // A failure here loses nothing: the log is read again at the next opening.
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    /// Commits a group and answers each of its writes.
    fn commit(&mut self, group: Vec<Job>) {
        if let Err(error) = self.health.check() {
            return answer_all(group, &error);
        }
        match self.attempt(&group) {
            Ok(outcomes) => {
                self.counters.committed(group.len());
                for (job, outcome) in group.into_iter().zip(outcomes) {
                    // Whoever no longer listens has lost its acknowledgement, as over a broken wire.
                    let _ = job.reply.send(outcome);
                }
            }
            Err(Undone::Unknown(error)) => {
                let error = self.health.poison(&error.to_string());
                answer_all(group, &error);
            }
            // One write that the database can't take must not spoil the others: each gets its own transaction.
            Err(Undone::Nothing(_)) if group.len() > 1 => {
                for job in group {
                    self.commit(vec![job]);
                }
            }
            Err(Undone::Nothing(error)) => answer_all(group, &from_sqlite(error)),
        }
    }

    /// Performs all writes of a group in one transaction. Each outcome holds only because the commit has returned.
    fn attempt(&mut self, group: &[Job]) -> Result<Vec<Result<(), StoreError>>, Undone> {
        let log = Arc::clone(&self.log);
        let _turn = log.lock();
        self.batch("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            match job.write.perform(&self.connection, &mut self.heads) {
                Ok(()) => outcomes.push(Ok(())),
                Err(Failure::Refused(error)) => outcomes.push(Err(error)),
                Err(Failure::Database(error)) => return Err(self.undo(error)),
            }
        }
        self.batch("COMMIT")?;
        Ok(outcomes)
    }

    fn batch(&mut self, statement: &str) -> Result<(), Undone> {
        let run = || self.connection.prepare_cached(statement)?.execute([]).map(drop);
        run().map_err(|error| self.undo(error))
    }

    fn undo(&mut self, error: rusqlite::Error) -> Undone {
        self.heads.forget();
        // SQLite may have undone it by itself already.
        let undone = self.connection.is_autocommit() || self.connection.execute_batch("ROLLBACK").is_ok();
        if undone && !is_poisonous(&error) { Undone::Nothing(error) } else { Undone::Unknown(error) }
    }
}

fn answer_all(group: Vec<Job>, error: &StoreError) {
    for job in group {
        let _ = job.reply.send(Err(error.clone()));
    }
}
