//! The acting side of Baton: a device performs tool calls in its user's workspaces and tells the hub how they ended.
//!
//! It may use the protocol and the client's end of the wire; it must never know how the hub decides.

pub mod backup;
pub mod device;
pub mod history;
pub mod journal;
mod link;
pub mod output;
pub mod sandbox;
pub mod tool;
mod tools;
pub mod workspace;
