//! Anthropic's Messages. Pure: requests are built and answers read here, and sent elsewhere.
//!
//! Reasoning isn't asked for: what a model thought would have to go back to it signed, and only the dialogue is kept. Where a server
//! sends reasoning all the same, it is shown to people.

mod answer;
mod request;

pub(crate) use answer::Message;
pub(crate) use request::body;

/// The version of the interface that is spoken; Anthropic wants it named in each request.
pub(crate) const VERSION: &str = "2023-06-01";
