use crate::hub_tools;
use crate::machine::tool_call::ToolCall;
use crate::session::Session;
use baton_proto::{CallId, Effect, OriginKind, SessionEvent};
use serde_json::Value;

impl Session {
    /// Keeps in mind what comes before the agent's eyes besides the user's own words (S21).
    pub(super) fn note_origins(&mut self, body: &SessionEvent) {
        match body {
            SessionEvent::MessageAdded { task_id, selection, attachments, .. } => {
                if let Some(selection) = selection {
                    self.reading.add(*task_id, OriginKind::Path, &selection.path);
                }
                for attachment in attachments {
                    self.reading.add(*task_id, OriginKind::Attachment, &attachment.name);
                }
            }
            SessionEvent::ToolSucceeded { call_id, .. }
            | SessionEvent::ToolFailed { call_id, result: Some(_), .. }
            | SessionEvent::ToolCancelled { call_id, result: Some(_), .. } => self.note_result(*call_id),
            SessionEvent::ContextReset {} => self.reading.forget(),
            SessionEvent::ContextRestored {} => self.reading.remember(),
            _ => {}
        }
    }

    fn note_result(&mut self, call_id: CallId) {
        let Some(call) = self.calls.get(&call_id) else { return };
        let Some((kind, name)) = origin(call) else { return };
        self.reading.add(call.task_id, kind, &name);
    }
}

/// What a call's result shows to the agent. What it wrote itself tells it nothing that it didn't know.
fn origin(call: &ToolCall) -> Option<(OriginKind, String)> {
    let text = |key: &str| call.arguments.get(key).and_then(Value::as_str);
    if hub_tools::knows(&call.tool) {
        return hub_tools::named_attachment(&call.tool, &call.arguments).map(|name| (OriginKind::Attachment, name.to_owned()));
    }
    if let Some(argv) = call.arguments.get("argv").and_then(Value::as_array) {
        let words: Vec<_> = argv.iter().filter_map(Value::as_str).collect();
        return Some((OriginKind::Command, words.join(" ")));
    }
    match (text("path"), call.terms.effect) {
        (Some(path), Effect::Read) => Some((OriginKind::Path, path.to_owned())),
        (Some(_), _) => None,
        (None, _) => Some((OriginKind::Tool, call.tool.clone())),
    }
}
