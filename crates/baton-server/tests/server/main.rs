//! The hub's door as its ends meet it: real TCP, a real hub, a real store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a helper of a test fails as the test does")]

mod calls;
mod canary;
mod device;
mod door;
mod files;
mod floods;
mod import;
mod isolation;
mod limits;
mod list;
mod log;
mod operations;
mod pairing;
mod people;
mod proxy;
mod routes;
mod search;
mod shutdown;
mod socket;
mod stream;
mod support;
mod tls;
mod uploads;
mod whole;
