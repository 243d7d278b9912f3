//! Where Baton's truth lies: streams of opaque event bytes, appended by compare-and-set, never lost once acknowledged.
//!
//! This room owns durability, order, uniqueness of operations, fencing and blobs. It does not know what a session
//! means: events, summaries, states and replies are bytes to it, and which text of an event people look for is said by the protocol. Every key begins with the user who owns it, or with a
//! number that only a lookup by the user yields (O3); what belongs to another user looks as if it were not there.
//!
//! [`Store`] is what the runtime uses, [`SqliteStore`] the embedded implementation (O2), and [`contract`] the story
//! that every implementation is told and has to agree with.

mod bare;
pub mod contract;
mod error;
mod sqlite;
mod store;
mod stream;
mod words;

pub use bare::{BareFigures, BareStep, ScanFigures, bare_baseline, scan_baseline};
pub use error::{Decision, StoreError};
pub use sqlite::{BackupFigures, SqliteStore, StoreFigures, back_up};
pub use store::Store;
pub use stream::{
    Append, Appended, EventRow, FoundText, FoundTexts, Head, HeadWrite, OperationRow, StateCache, StoredEvent, StreamId, StreamKind,
};
pub use words::{holds, is_unparted};

/// Sizes that the store accepts, in bytes. The runtime keeps well below them; they bound memory and the time that one
/// write keeps the others waiting.
pub mod limits {
    /// One event: the largest payload of the protocol and room for its envelope.
    pub const EVENT_BYTES: usize = baton_proto::MAX_EVENT_BYTES + 4 * 1024;
    /// The entity views that travel with one event.
    pub const UPSERTS_BYTES: usize = 1024 * 1024;
    /// The summary of a head row.
    pub const SUMMARY_BYTES: usize = 64 * 1024;
    /// The final reply to an operation.
    pub const REPLY_BYTES: usize = 256 * 1024;
    /// A cached state.
    pub const STATE_BYTES: usize = 64 * 1024 * 1024;
    /// A blob.
    pub const BLOB_BYTES: usize = 64 * 1024 * 1024;
    /// Events of one append: a whole session comes in at once or not at all.
    pub const APPEND_ROWS: usize = 256 * 1024;
    /// All that one append writes.
    pub const APPEND_BYTES: usize = 192 * 1024 * 1024;
}
