//! The embedded store (O2): one SQLite file, one writer thread with group commit, a few readers.
//!
//! `DIR/baton.db` holds everything, `DIR/lock` keeps other processes out. This room knows SQL and files, and nothing of
//! what the bytes mean.

mod backup;
mod checkpoint;
mod fault;
mod figures;
mod health;
mod lock;
mod present;
mod query;
mod readers;
mod reading_up;
pub(crate) mod schema;
mod write;
mod writer;

use crate::error::StoreError;
use crate::store::Store;
use crate::stream::{Append, Appended, FoundTexts, Head, OperationRow, StateCache, StoredEvent, StreamId, StreamKind};
use async_trait::async_trait;
pub use backup::{BackupFigures, back_up};
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use checkpoint::{Checkpointer, LogLength};
use figures::Counters;
pub use figures::StoreFigures;
use health::Health;
use lock::DirectoryLock;
use readers::Readers;
use reading_up::ReadingUp;
use std::fs::{DirBuilder, File, OpenOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;
use write::Write;
use writer::Job;

/// A directory of durable data, held by this process alone.
#[derive(Debug)]
pub struct SqliteStore {
    incarnation: u64,
    health: Arc<Health>,
    counters: Arc<Counters>,
    readers: Arc<Readers>,
    /// Nothing once the store is closed.
    writer: Mutex<Option<WriterThread>>,
}

#[derive(Debug)]
struct WriterThread {
    sender: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
    /// It asks the writer, so it ends first.
    reading_up: Option<ReadingUp>,
    lock: DirectoryLock,
}

impl WriterThread {
    /// Waits until all that was asked is done, then lets go of the directory. Tells whether the thread came to a good end.
    fn finish(self) -> bool {
        if let Some(reading_up) = self.reading_up {
            reading_up.stop();
        }
        drop(self.sender);
        let joined = self.thread.join();
        drop(self.lock);
        joined.is_ok()
    }
}

impl SqliteStore {
    /// Opens the data directory, or makes it. Takes milliseconds; blocks.
    ///
    /// Refuses a directory that another process holds, data of a newer version, and files that are damaged or not ours;
    /// in these cases nothing in it is changed.
    pub fn open(dir: &Path) -> Result<Arc<Self>, StoreError> {
        let failed = |error: std::io::Error| StoreError::Io(format!("{}: {error}", dir.display()));
        make_private_directory(dir).map_err(failed)?;
        let lock = DirectoryLock::take(dir)?;
        let path = dir.join("baton.db");
        schema::inspect(&path)?;
        make_private_file(&path).map_err(failed)?;

        let mut connection = schema::open_writing(&path)?;
        let incarnation = schema::migrate(&mut connection, now())?;
        // New names in a directory are durable only when the directory itself is.
        File::open(dir).and_then(|directory| directory.sync_all()).map_err(failed)?;

        let log = Arc::new(LogLength::default());
        let counters = Arc::<Counters>::default();
        log.follow(&mut connection, Arc::clone(&counters)).map_err(fault::from_sqlite)?;
        let health = Arc::new(Health::default());
        let checkpointer = Checkpointer::start(schema::open_writing(&path)?, Arc::clone(&log), Arc::clone(&health))?;
        let readers = Arc::new(Readers::open(&path)?);
        let unread = schema::open_reading(&path)?;
        let (sender, thread) = writer::start(connection, log, checkpointer, Arc::clone(&health), Arc::clone(&counters))?;
        let reading_up = ReadingUp::start(&path, &unread, &sender)?;
        let writer = Mutex::new(Some(WriterThread { sender, thread, reading_up, lock }));
        Ok(Arc::new(Self { incarnation, health, counters, readers, writer }))
    }

    /// What this opening of the store has done so far.
    pub fn figures(&self) -> StoreFigures {
        self.counters.read()
    }

    async fn write(&self, write: Write) -> Result<(), StoreError> {
        write.check()?;
        self.health.check()?;
        let sender = self.writer().as_ref().map(|writer| writer.sender.clone()).ok_or(StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        sender.send(Job { write, reply }).await.map_err(|_| self.ended())?;
        answer.await.map_err(|_| self.ended())?
    }

    async fn query<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&rusqlite::Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.health.check()?;
        self.readers.run(query).await
    }

    fn writer(&self) -> MutexGuard<'_, Option<WriterThread>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the writer thread is gone. If it left without a word, what it was doing is unknown.
    fn ended(&self) -> StoreError {
        self.health.check().err().unwrap_or_else(|| self.health.poison("the thread that writes has ended"))
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The lock on the directory keeps other hubs out.
    fn may_be_shared(&self) -> bool {
        false
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let seq = append.expected_seq.saturating_add(append.rows.len() as u64);
        let words = write::words_of(&append);
        self.write(Write::Append(append, words)).await?;
        Ok(Appended { seq })
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.write(Write::Remember(user, operation)).await
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.query(move |connection| query::operation(connection, user, id)).await
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        self.query(move |connection| query::head(connection, user, stream)).await
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        self.query(move |connection| query::heads(connection, user, kind, before, limit)).await
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.query(move |connection| query::active(connection, kind)).await
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.query(move |connection| query::all(connection, kind)).await
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.query(move |connection| query::read(connection, user, stream, after, limit)).await
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let kinds: Vec<String> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        self.query(move |connection| query::read_back(connection, user, stream, before, &kinds, limit)).await
    }

    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        let asked = crate::words::asked(words);
        self.query(move |connection| query::search(connection, user, asked.as_deref(), limit)).await
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.query(move |connection| query::state(connection, user, stream)).await
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.write(Write::State(user, stream, state)).await
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        let digest = Digest::of_bytes(&bytes);
        self.write(Write::Blob(user, digest.clone(), bytes)).await?;
        Ok(digest)
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let digest = digest.clone();
        self.query(move |connection| query::blob(connection, user, &digest)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let writer = self.writer().take();
        let Some(writer) = writer else { return Ok(()) };
        let finished = tokio::task::spawn_blocking(move || writer.finish()).await;
        let health = self.health.check();
        self.health.close();
        self.readers.close().await;
        if finished.unwrap_or(false) { health } else { Err(StoreError::Poisoned("the thread that writes has ended".into())) }
    }
}

impl Drop for SqliteStore {
    /// Finishes what waits, so that the directory can be opened again as soon as this returns. At most one group commit
    /// and one checkpoint long.
    fn drop(&mut self) {
        if let Some(writer) = self.writer().take() {
            writer.finish();
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(0))
}

/// What a user says to an agent is nobody else's business on a shared machine.
fn make_private_directory(path: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// SQLite gives its log the permissions of the file that it finds.
fn make_private_file(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
