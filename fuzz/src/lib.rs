//! What each fuzzer does with the bytes it is given, and what has to hold then. The same bodies run as ordinary property tests, with no
//! instrumented compiler (crates/baton-runtime/tests/fuzzing.rs).

pub mod archive;
pub mod arguments;
pub mod manifest;
pub mod operation;
pub mod stored_event;
