//! The Rust end of Baton's wire (D13): HTTP requests, the live connection with its cursors and heartbeat, and the outbox.
//!
//! Everything here speaks the types of `baton-proto` and nothing else. It must never know how the hub decides, what a tool
//! does, or what an end shows.

mod address;
mod connection;
mod error;
mod http;
mod lenient;
mod outbox;
pub mod record_file;
mod tls;
mod token;
mod uploads;

pub use address::{AddressError, HubUrl};
pub use connection::{Connection, ConnectionConfig, ConnectionHandle, Greeting, Hello, Incoming, SendError, Timing, UrlSource, Welcome};
pub use error::ClientError;
pub use http::{ChangeEntry, ChangePage, Http};
pub use lenient::UnknownChange;
pub use outbox::{Outbox, OutboxError, Settled};
pub use tls::{Authority, AuthorityError, Fingerprint};
pub use token::{Token, TokenError};
