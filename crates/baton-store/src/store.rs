//! The one door to durable state.

use crate::error::StoreError;
use crate::stream::{Append, Appended, FoundTexts, Head, OperationRow, StateCache, StoredEvent, StreamId, StreamKind};
use async_trait::async_trait;
use baton_proto::{Digest, OperationId, Timestamp, UserId};
use std::fmt::Debug;
use uuid::Uuid;

/// Durable streams, operations, blobs and disposable state caches.
///
/// Every call that names a user sees that user's things only; another's are as if they were not there (O3). A write
/// resolves only after its durable commit. A write whose future is dropped may still happen, as one whose
/// acknowledgement was lost.
#[async_trait]
pub trait Store: Send + Sync + Debug + 'static {
    /// A number that grows with each opening of the store, and is greater after a restore than before it. It is the fence of the hub
    /// that opened it.
    fn incarnation(&self) -> u64;

    /// Whether another hub may write to this store while it is open. Where a lock keeps others out, nobody has to look for what they
    /// wrote.
    fn may_be_shared(&self) -> bool {
        true
    }

    /// Appends events, head row and operation as one transaction.
    ///
    /// An operation that is known is reported before anything else, so that a repetition gets its first answer even
    /// though the stream has moved on. Then come the fence and the compare-and-set.
    async fn append(&self, append: Append) -> Result<Appended, StoreError>;

    /// Keeps a final reply that has no events, such as a rejection.
    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError>;

    /// The kept reply to an operation.
    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError>;

    /// The head row of one stream.
    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError>;

    /// Head rows of a user, newest first, ties by id downwards; `before` is the time and id of the last one seen.
    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError>;

    /// Head rows of all users that are active or have a time to wake at: what a starting hub has to look at.
    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError>;

    /// All head rows of a kind, of all users.
    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError>;

    /// At most `limit` events with numbers above `after`, ascending.
    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError>;

    /// At most `limit` events of the given kinds with numbers below `before` (`u64::MAX`: from the end), descending.
    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;

    /// Events of a user's whose text ([`baton_proto::searched_text`]) holds all of the words, each by its beginning, the newest first. In
    /// scripts that don't part their words any piece of a text is found. A text is found from the commit of its event on.
    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError>;

    /// The cached state of a stream, if there is one.
    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError>;

    /// Replaces the cached state of a stream. A state that is ahead of the stream is a conflict.
    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError>;

    /// Keeps bytes under their digest. Keeping the same again changes nothing.
    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError>;

    /// The bytes with this digest.
    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError>;

    /// Finishes what is waiting and closes the store. Later calls fail with [`StoreError::Closed`].
    async fn close(&self) -> Result<(), StoreError>;
}
