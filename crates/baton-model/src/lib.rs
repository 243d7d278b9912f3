//! The models Baton speaks to (R3), and the reading of what they write (R2).
//!
//! A [`ModelRequest`](baton_proto::ModelRequest) in no provider's dialect goes in, text and thinking come out while they
//! are written, and a [`ModelAnswer`](baton_proto::ModelAnswer) or a [`ModelError`](baton_proto::ModelError) that says what
//! to do at the end. This crate knows nothing of sessions. It doesn't retry: when to try again is a time in a session's
//! state, which the core sets.

mod address;
mod anthropic;
mod arguments;
mod assembly;
mod config;
mod failure;
mod local;
mod model;
mod openai;
mod phrase;
mod provider;
mod transport;

pub use arguments::{ArgumentsError, ParsedArguments, Problem, Repair, SchemaError, compile, parse_arguments, parse_arguments_with};
pub use config::{Dialect, ModelConfig, Secret};
pub use jsonschema::Validator;
pub use local::{FoundModel, FoundServer, LocalKind, LocalServer, NoLocalServer, choose_local_model, find_local_servers};
pub use model::{DeltaSink, Model};
pub use provider::Provider;
