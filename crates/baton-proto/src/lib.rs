//! The contract between Baton's hub and everything that talks to it or is stored by it (D3, D4, D13).
//!
//! This crate owns every type that crosses the wire or reaches the disk: identifiers, operations, versioned events,
//! entity views, frames, snapshots, tool and device descriptions, error codes. JSON Schema and TypeScript are generated
//! from it. It knows nothing of how anything is done: no IO, no clock, no randomness.

mod archive;
mod changes;
mod device;
mod digest;
mod entity;
mod error;
mod event;
mod frame;
mod id;
mod limits;
mod model;
mod operation;
mod origin;
mod pairing;
mod read;
mod redact;
mod rule;
mod said;
mod searched;
mod snapshot;
mod time;
mod tool;
mod visible;
mod workspace;

pub use archive::*;
pub use changes::*;
pub use device::*;
pub use digest::*;
pub use entity::*;
pub use error::*;
pub use event::*;
pub use frame::*;
pub use id::*;
pub use limits::*;
pub use model::*;
pub use operation::*;
pub use origin::*;
pub use pairing::*;
pub use read::*;
pub use redact::redact;
pub use rule::*;
pub use said::*;
pub use searched::*;
pub use snapshot::*;
pub use time::*;
pub use tool::*;
pub use visible::*;
pub use workspace::*;

/// The version of the wire and of the envelope. A hub refuses what names another one (`unsupported_version`).
pub const PROTOCOL_VERSION: u32 = 1;
