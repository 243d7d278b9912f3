//! A few connections that only read, each used by one thread at a time.

use super::schema::open_reading;
use crate::error::StoreError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// As many reads run at once; others wait for their turn.
const READERS: u32 = 4;

#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    /// Opens the first connection, so that what can't be read is known at once; the others follow when they are needed.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let first = open_reading(path)?;
        let permits = Arc::new(Semaphore::new(READERS as usize));
        Ok(Self { path: path.to_owned(), idle: Mutex::new(vec![first]), permits })
    }

    /// Runs a query on a thread where waiting for the disk keeps nobody else.
    pub(super) async fn run<T, F>(self: &Arc<Self>, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        // The permit goes with the query: it ends with it, even if whoever asked has gone.
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let idle = readers.idle().pop();
            let connection = match idle {
                Some(connection) => connection,
                None => open_reading(&readers.path)?,
            };
            let answer = query(&connection);
            readers.idle().push(connection);
            drop(permit);
            answer
        });
        task.await.map_err(|error| StoreError::Io(format!("a query came to no end: {error}")))?
    }

    /// Waits for the queries that run, lets go of all connections, and takes no more queries.
    pub(super) async fn close(&self) {
        let _all = self.permits.acquire_many(READERS).await;
        self.permits.close();
        self.idle().clear();
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
