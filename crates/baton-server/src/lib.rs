//! The hub's door (architecture.md): HTTP, WebSocket, tokens, the console's files.
//!
//! Whoever comes in is looked at in one order: its Host and Origin, the size and shape of what it brings, its token. What it asks is
//! then the runtime's to answer. This room knows nothing of SQL, nor of how anything is decided.

mod app;
mod assets;
mod auth;
mod body;
mod config;
mod cookie;
mod door;
mod error;
mod hosts;
mod problem;
mod proxies;
mod routes;
mod serve;
mod socket;
mod tls;

pub use assets::{Asset, Assets};
pub use config::{ServerConfig, ServerLimits};
pub use error::ServerError;
pub use proxies::{Network, NoNetwork};
pub use routes::{Access, RouteInfo, routes};
pub use serve::{bind, serve};
pub use tls::{Tls, TlsError};
