//! A store that remembers how long each append took, so that a bench can tell the commit's share of a latency from the hub's own.

use async_trait::async_trait;
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use baton_store::{Append, Appended, FoundTexts, Head, OperationRow, StateCache, Store, StoreError, StoredEvent, StreamId, StreamKind};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use uuid::Uuid;

/// Passes everything on.
#[derive(Debug)]
pub(super) struct Timed<S> {
    store: Arc<S>,
    /// Milliseconds of the append that an operation came with.
    appends: Mutex<BTreeMap<OperationId, f64>>,
}

impl<S> Timed<S> {
    pub(super) fn new(store: Arc<S>) -> Self {
        Self { store, appends: Mutex::default() }
    }

    /// What was measured since the last look.
    pub(super) fn take(&self) -> BTreeMap<OperationId, f64> {
        std::mem::take(&mut *self.appends.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl<S: Store> Store for Timed<S> {
    fn incarnation(&self) -> u64 {
        self.store.incarnation()
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let operation = append.operation.as_ref().map(|operation| operation.operation_id);
        let started = Instant::now();
        let appended = self.store.append(append).await;
        if let Some(id) = operation {
            let took = started.elapsed().as_secs_f64() * 1000.0;
            self.appends.lock().unwrap_or_else(PoisonError::into_inner).insert(id, took);
        }
        appended
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.store.remember(user, operation).await
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.store.operation(user, id).await
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        self.store.head(user, stream).await
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        self.store.heads(user, kind, before, limit).await
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.store.active(kind).await
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.store.all(kind).await
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read(user, stream, after, limit).await
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read_back(user, stream, before, kinds, limit).await
    }

    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        self.store.search(user, words, limit).await
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.store.state(user, stream).await
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.store.put_state(user, stream, state).await
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.store.put_blob(user, bytes).await
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.blob(user, digest).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
