//! Baton's decisions (requirements H, T, R, E).
//!
//! A session is a log of events; its state is the fold of that log; what has to happen next is a pure function of the state.
//! This room owns those functions and nothing else: it does no IO, reads no clock, draws no randomness, and looks nothing up.
//! Time, ids, devices and tools come in as a [`Context`]; the dialogue is handed to [`prompt::assemble`] by whoever keeps it.

pub mod brief;
mod command;
mod context;
mod decide;
pub mod dialogue;
mod draft;
mod fold;
mod hub_tools;
mod machine;
mod pending;
mod policy;
pub mod prompt;
mod rules;
mod session;
mod slash;
pub mod snapshot;
pub mod user;
mod views;
pub mod words;

pub use command::{Command, ModelOutcome, ProposedCall};
pub use context::{ActingDevice, Budgets, Context, Ids, OfferedTool, SoFar, Surroundings};
pub use decide::{Decided, MAX_ATTACHMENTS, MAX_CALLS, Rejection, decide, needs_workspace};
pub use hub_tools::{hub_tools, part_of, wanted_blob};
pub use machine::origins::Reading;
pub use machine::phase::{TRANSITIONS, may_follow};
pub use machine::tool_call::{CallStage, ToolCall, Waiting};
pub use machine::{Approval, Fact, Holder, ModelCall, ModelStage, Note, Question, Step, Stop, Task, Transfer, Turn, TurnEnd};
pub use pending::{Effect, pending};
pub use policy::may_approve;
pub use rules::rule_of;
pub use session::Session;
pub use slash::{NamedWork, commands, named_work};
pub use views::{entities, summary, upserts};

/// Changes with the shape of [`Session`]: a cached state with another number is folded anew.
pub const STATE_FORMAT: u32 = 9;
