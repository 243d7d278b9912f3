//! The store as the hub uses it: one that can't go on stops the hub, whoever met it first. A hub that stayed up over it would only refuse.

use async_trait::async_trait;
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use baton_store::{Append, Appended, FoundTexts, Head, OperationRow, StateCache, Store, StoreError, StoredEvent, StreamId, StreamKind};
use std::sync::Arc;
use tokio::sync::watch;
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct Guarded {
    inner: Arc<dyn Store>,
    failure: watch::Sender<Option<String>>,
}

impl Guarded {
    pub(crate) fn over(inner: Arc<dyn Store>, failure: watch::Sender<Option<String>>) -> Arc<dyn Store> {
        Arc::new(Self { inner, failure })
    }

    fn seen<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ (StoreError::Poisoned(_) | StoreError::Fenced { .. })) = &result {
            self.failure.send_if_modified(|failure| failure.is_none().then(|| *failure = Some(error.to_string())).is_some());
        }
        result
    }
}

#[async_trait]
impl Store for Guarded {
    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn may_be_shared(&self) -> bool {
        self.inner.may_be_shared()
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        self.seen(self.inner.append(append).await)
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.seen(self.inner.remember(user, operation).await)
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.seen(self.inner.operation(user, id).await)
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        self.seen(self.inner.head(user, stream).await)
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        self.seen(self.inner.heads(user, kind, before, limit).await)
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.seen(self.inner.active(kind).await)
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.seen(self.inner.all(kind).await)
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.seen(self.inner.read(user, stream, after, limit).await)
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.seen(self.inner.read_back(user, stream, before, kinds, limit).await)
    }

    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        self.seen(self.inner.search(user, words, limit).await)
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.seen(self.inner.state(user, stream).await)
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.seen(self.inner.put_state(user, stream, state).await)
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.seen(self.inner.put_blob(user, bytes).await)
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.seen(self.inner.blob(user, digest).await)
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}
