use crate::lenient::{ReadChange, UnknownChange, read_change, read_error, read_reply, read_view};
use baton_proto::{ErrorCode, HubFrame};
use serde::Deserialize;
use serde_json::Value;

/// A text from the hub, as far as it is understood.
#[derive(Debug)]
pub(super) enum Received {
    Frame(HubFrame),
    UnknownChange(UnknownChange),
    /// Of a kind or in a form that this version doesn't know. The connection goes on without it.
    Skipped(String),
}

pub(super) fn read(text: &str) -> Received {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Received::Skipped(format!("a frame isn't JSON: {error}")),
    };
    let read = match value.get("type").and_then(Value::as_str) {
        Some("change") => read_change(value).map(|change| match change {
            ReadChange::Known(change) => Received::Frame(HubFrame::Change(change)),
            ReadChange::Unknown(change) => Received::UnknownChange(change),
        }),
        Some("view") => read_view(value).map(|view| Received::Frame(HubFrame::View(Box::new(view)))),
        Some("ack") => read_reply(value).map(|reply| Received::Frame(HubFrame::Ack(reply))),
        Some("error") => Ok(read_error_frame(&value)),
        _ => HubFrame::deserialize(value).map(Received::Frame).map_err(|error| format!("a frame can't be read: {error}")),
    };
    read.unwrap_or_else(Received::Skipped)
}

fn read_error_frame(value: &Value) -> Received {
    let session_id = value.get("session_id").and_then(|id| Option::deserialize(id).ok()).flatten();
    match value.get("error").and_then(|error| read_error(error, ErrorCode::Internal)) {
        Some(error) => Received::Frame(HubFrame::Error { session_id, error }),
        None => Received::Skipped("an error without a code".to_owned()),
    }
}
