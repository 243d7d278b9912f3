//! Faulty parts for the proof that the simulator sees what it should: each does one thing wrong, wrapped around the real part.

use super::disk::Disk;
use async_trait::async_trait;
use baton_proto::{ClientFrame, Digest, HubFrame, OperationId, Timestamp, UserId};
use baton_store::{Append, Appended, FoundTexts, Head, OperationRow, StateCache, Store, StoreError, StoredEvent, StreamId, StreamKind};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// What is wrong with a world's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    #[default]
    Honest,
    /// A drive that says that it synced and didn't: acknowledged, then lost.
    AckBeforeCommit,
    /// The store takes whatever any hub writes.
    NoFencing,
    /// A device that runs once more what it had begun when it died.
    RepeatsUnknown,
    /// What runs isn't what was approved.
    ApprovalNotBound,
    /// A follower goes on one change too far.
    CursorOffByOne,
    /// The store answers first and commits later, so that effects come before what they follow from.
    EffectsBeforeAppend,
    /// The store doesn't look whose a stream is.
    UsersNotKeptApart,
}

impl Habit {
    pub const BROKEN: [Self; 7] = [
        Self::AckBeforeCommit,
        Self::NoFencing,
        Self::RepeatsUnknown,
        Self::ApprovalNotBound,
        Self::CursorOffByOne,
        Self::EffectsBeforeAppend,
        Self::UsersNotKeptApart,
    ];

    pub(crate) fn hello(self, frame: ClientFrame) -> ClientFrame {
        match frame {
            ClientFrame::Hello { protocol, client_type, capabilities, tools, workspaces, mut cursors, running, journal }
                if self == Self::CursorOffByOne =>
            {
                for cursor in cursors.values_mut() {
                    *cursor += 1;
                }
                ClientFrame::Hello { protocol, client_type, capabilities, tools, workspaces, cursors, running, journal }
            }
            other => other,
        }
    }

    pub(crate) fn deliver(self, frame: HubFrame) -> HubFrame {
        match frame {
            HubFrame::ToolCall(mut call) if self == Self::ApprovalNotBound && call.tool == "send_message" => {
                call.arguments["text"] = json!("something else");
                HubFrame::ToolCall(call)
            }
            other => other,
        }
    }

    pub(crate) fn store(self, disk: &Arc<Disk>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        match self {
            Self::AckBeforeCommit | Self::NoFencing | Self::EffectsBeforeAppend | Self::UsersNotKeptApart => {
                Arc::new(Faulty { habit: self, disk: Arc::clone(disk), inner, written: Arc::default() })
            }
            _ => inner,
        }
    }
}

#[derive(Debug)]
struct Faulty {
    habit: Habit,
    disk: Arc<Disk>,
    inner: Arc<dyn Store>,
    written: Arc<AtomicU64>,
}

impl Faulty {
    /// Under whose key a stream is looked up.
    fn whose(&self, user: UserId, stream: StreamId) -> UserId {
        let owner = || self.disk.sessions().into_iter().find(|(_, known)| *known == stream).map(|(owner, _)| owner);
        if self.habit == Habit::UsersNotKeptApart { owner().unwrap_or(user) } else { user }
    }
}

#[async_trait]
impl Store for Faulty {
    fn incarnation(&self) -> u64 {
        self.inner.incarnation()
    }

    fn may_be_shared(&self) -> bool {
        self.inner.may_be_shared()
    }

    async fn append(&self, mut append: Append) -> Result<Appended, StoreError> {
        match self.habit {
            Habit::NoFencing => {
                let head = self.disk.head(append.user, append.stream);
                append.expected_seq = head.as_ref().map_or(0, |head| head.seq);
                append.fence = head.map_or(append.fence, |head| head.fence.max(append.fence));
                self.inner.append(append).await
            }
            Habit::EffectsBeforeAppend if append.stream.kind == StreamKind::Session => {
                let seq = append.expected_seq + append.rows.len() as u64;
                let inner = Arc::clone(&self.inner);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    let _ = inner.append(append).await;
                });
                Ok(Appended { seq })
            }
            Habit::AckBeforeCommit => {
                // The cache of such a drive is written out now and then.
                if self.written.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
                    self.disk.synced();
                }
                self.disk.lies();
                self.inner.append(append).await
            }
            _ => self.inner.append(append).await,
        }
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.inner.remember(user, operation).await
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.inner.operation(user, id).await
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        self.inner.head(self.whose(user, stream), stream).await
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        self.inner.heads(user, kind, before, limit).await
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.inner.active(kind).await
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.inner.all(kind).await
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner.read(self.whose(user, stream), stream, after, limit).await
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.inner.read_back(user, stream, before, kinds, limit).await
    }

    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        self.inner.search(user, words, limit).await
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.inner.state(self.whose(user, stream), stream).await
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.inner.put_state(user, stream, state).await
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        self.inner.put_blob(user, bytes).await
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.blob(user, digest).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.inner.close().await
    }
}
