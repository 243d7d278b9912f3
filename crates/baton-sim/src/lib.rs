//! Development only: what stands in for the outside world in tests and when trying Baton by hand.
//!
//! Nothing here is shipped. The rooms may use every crate, and no other crate may use them outside its tests.

pub mod bench;
pub mod ledger;
pub mod ledger_tools;
pub mod scripted_model;
pub mod world;
