//! The values that go into a store and come out of it.

use baton_proto::{Digest, OperationId, Timestamp, UserId};
use std::fmt;
use uuid::Uuid;

/// The kinds of stream that share one way of being appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamKind {
    /// A session's events.
    Session,
    /// A workspace's lock and queue.
    Workspace,
    /// A user's devices, trust, budgets and memory.
    User,
}

impl StreamKind {
    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Workspace => "workspace",
            Self::User => "user",
        }
    }

    /// The kind that a stored word names.
    pub fn from_stored(word: &str) -> Option<Self> {
        [Self::Session, Self::Workspace, Self::User].into_iter().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names one stream of a user. The same name under another user is another stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub kind: StreamKind,
    pub id: Uuid,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// An event on its way in; its number follows from its place in the append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// The event's type, such as `message_added`; [`crate::Store::read_back`] selects by it.
    pub kind: String,
    /// The event as JSON.
    pub event: Vec<u8>,
    /// The entity views that travel with it, as JSON.
    pub upserts: Vec<u8>,
}

/// An event as it was stored. Numbers of a stream start at 1 and have no gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: u64,
    pub kind: String,
    pub event: Vec<u8>,
    pub upserts: Vec<u8>,
}

/// Texts that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundTexts {
    pub texts: Vec<FoundText>,
    /// Not everything that was written before texts were indexed has been read yet.
    pub incomplete: bool,
}

/// An event whose text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundText {
    pub stream: StreamId,
    pub seq: u64,
    pub kind: String,
    /// The event as JSON.
    pub event: Vec<u8>,
    /// The summary of its stream's head row.
    pub summary: Vec<u8>,
}

/// An operation with its final reply, kept so that a repetition is answered and not performed (E1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRow {
    pub operation_id: OperationId,
    /// What was asked, so that the same id with another content is noticed by whoever compares.
    pub digest: Digest,
    /// The reply as JSON.
    pub reply: Vec<u8>,
}

/// What an append writes into the head row beside the sequence number and the fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadWrite {
    pub epoch: u64,
    /// Whether something is owed to the world, so that the stream is loaded at start-up.
    pub active: bool,
    /// When something is owed next, at the latest.
    pub wake_at: Option<Timestamp>,
    /// Orders listings; the caller's clock, never the store's.
    pub updated_at: Timestamp,
    /// What a listing shows, as JSON.
    pub summary: Vec<u8>,
}

/// The head row: all that listing and starting need to know of a stream without reading its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub stream: StreamId,
    pub user: UserId,
    /// The number of the last event.
    pub seq: u64,
    pub epoch: u64,
    /// The incarnation of the hub that wrote last.
    pub fence: u64,
    pub active: bool,
    pub wake_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    pub summary: Vec<u8>,
}

/// One transaction: events, head row and operation become durable together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    pub stream: StreamId,
    pub user: UserId,
    /// The number of the last event that the caller has seen; 0 for a stream that doesn't exist yet.
    pub expected_seq: u64,
    /// The incarnation of the hub that drives the stream ([`crate::Store::incarnation`]).
    pub fence: u64,
    /// May be empty, when only the head row or an operation is to be written.
    pub rows: Vec<EventRow>,
    pub head: HeadWrite,
    pub operation: Option<OperationRow>,
}

/// Says that an append is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The number of the stream's last event.
    pub seq: u64,
}

/// A folded state, kept to spare folding again. It may vanish at any time; the log is the truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateCache {
    /// The last event that is folded in.
    pub seq: u64,
    /// The version of the state's format; another version's bytes are of no use.
    pub format: u32,
    pub bytes: Vec<u8>,
}
