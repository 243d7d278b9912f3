//! The dialogue as the log has it, read back for the model and never kept in the state (H3).

use crate::session::Session;
use baton_proto::{Attachment, CallId, CalledTool, Event, MessageId, Role, Selection, SessionEvent, Timestamp};

/// Event types that the dialogue is made of, for reading them back.
pub const KINDS: [&str; 6] = ["message_added", "model_started", "model_finished", "tool_succeeded", "tool_failed", "tool_cancelled"];

/// One piece of dialogue, in the order of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Spoken {
    User {
        message_id: MessageId,
        text: String,
        selection: Option<Selection>,
        attachments: Vec<Attachment>,
        at: Timestamp,
    },
    /// From here on the model has read these.
    Read {
        messages: Vec<MessageId>,
    },
    Agent {
        text: String,
        calls: Vec<CalledTool>,
    },
    Result {
        call_id: CallId,
        text: String,
        failed: bool,
    },
}

/// What the agent's context holds of events, given with their sequence numbers: nothing from before the latest reset (D7).
pub fn seen<'a>(state: &Session, events: impl IntoIterator<Item = (u64, &'a Event)>) -> Vec<Spoken> {
    events.into_iter().filter(|(seq, _)| *seq > state.context_from()).filter_map(|(_, event)| spoken(event)).collect()
}

/// What an event adds to the dialogue, if anything.
fn spoken(event: &Event) -> Option<Spoken> {
    match &event.body {
        SessionEvent::MessageAdded { message_id, role: Role::User, text, selection, attachments, .. } => Some(Spoken::User {
            message_id: *message_id,
            text: text.clone(),
            selection: selection.clone(),
            attachments: attachments.clone(),
            at: event.at,
        }),
        SessionEvent::MessageAdded { role: Role::Agent, text, .. } => Some(Spoken::Agent { text: text.clone(), calls: Vec::new() }),
        SessionEvent::ModelStarted { read, .. } if !read.is_empty() => Some(Spoken::Read { messages: read.clone() }),
        SessionEvent::ModelFinished { text, calls, .. } => Some(Spoken::Agent { text: text.clone(), calls: calls.clone() }),
        SessionEvent::ToolSucceeded { call_id, result, .. } => {
            let text = if result.content.trim().is_empty() { "(done, no output)".to_owned() } else { result.content.clone() };
            Some(Spoken::Result { call_id: *call_id, text, failed: false })
        }
        SessionEvent::ToolFailed { call_id, error, result, .. } => {
            let output = result.as_ref().map(|result| format!("\n{}", result.content)).unwrap_or_default();
            Some(Spoken::Result {
                call_id: *call_id,
                text: format!("error {}: {} {}{output}", error.code, error.message, error.hint),
                failed: true,
            })
        }
        SessionEvent::ToolCancelled { call_id, reason, result } => {
            let output = result.as_ref().map(|result| format!("\n{}", result.content)).unwrap_or_default();
            Some(Spoken::Result { call_id: *call_id, text: format!("not finished: {reason}{output}"), failed: true })
        }
        _ => None,
    }
}
