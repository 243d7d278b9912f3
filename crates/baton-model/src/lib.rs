//! The models Baton speaks to (R3), and the reading of what they write (R2).
//!
//! A [`ModelRequest`](baton_proto::ModelRequest) in no provider's dialect goes in, text and thinking come out while they
//! are written, and a [`ModelAnswer`](baton_proto::ModelAnswer) or a [`ModelError`](baton_proto::ModelError) that says what
//! to do at the end. This crate knows nothing of sessions. It doesn't retry: when to try again is a time in a session's
//! state, which the core sets.

mod address;
mod answer;
mod arguments;
mod config;
mod dialect;
mod failure;
mod model;
mod openai;
mod text_calls;
mod thinking;

pub use arguments::{ArgumentsError, ParsedArguments, Problem, Repair, SchemaError, compile, parse_arguments, parse_arguments_with};
pub use config::{ModelConfig, Secret};
pub use jsonschema::Validator;
pub use model::{DeltaSink, Model};
pub use openai::OpenAi;
