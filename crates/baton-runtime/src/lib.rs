//! The hub's engine (architecture.md): load the state, let the core decide, append, perform what is owed, and take the outcomes back.
//!
//! One owner task a session, so that nothing needs a lock across an await. The log is the truth; channels are hints. This room knows
//! nothing of HTTP, nor of what is inside a device.

mod attachments;
mod clock;
mod diff;
mod directory;
mod error;
mod files;
mod fit;
mod guarded;
mod hub;
mod import;
mod invitations;
mod link;
mod listing;
mod live;
mod model_call;
mod owner;
mod pairing;
mod questions;
mod reading;
mod rules;
mod search;
mod secret;
mod seen;
mod spending;
mod subscription;
mod take_up;
mod tools;
mod uploads;
mod workspaces;

pub use clock::{Clock, SystemClock};
pub use diff::DiffOf;
pub use directory::Identity;
pub use error::HubError;
pub use files::ShownFile;
pub use hub::{Hub, HubConfig};
pub use import::examine_export;
pub use link::{Link, LinkFrame, LinkFrames};
pub use pairing::MadeInvitation;
pub use secret::random_token;
pub use subscription::{Subscription, SubscriptionItem};
pub use uploads::{MAX_UPLOAD_BYTES, Piece, PieceError, UploadId, UploadState};
