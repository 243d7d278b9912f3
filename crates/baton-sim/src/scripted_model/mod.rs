//! A model that says what a script tells it to, over real HTTP: in the dialect of chat completions, and in that of
//! Anthropic's Messages.
//!
//! The answer is a pure function of the request's messages: the same request after a crash gets the same answer, so a test
//! can kill a hub anywhere and still know what the model will say. The one exception is a fault with `times`, which has to
//! remember how often it has struck. The server is as strict as the strictest provider: a dialogue that breaks the rules is
//! refused with 400 (see [`check_dialogue`] and [`check_messages`]), so that a mistake of the hub's shows here and not at a customer's.

mod messages;
mod script;
mod server;
mod strict;
mod wire;

pub use messages::check_messages;
pub use script::{Fault, Reply, Rule, Script, ScriptedCall, When, Words};
pub use server::{RecordedRequest, ScriptedModel};
pub use strict::check_dialogue;
