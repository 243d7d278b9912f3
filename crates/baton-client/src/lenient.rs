//! Reading what a newer hub sends: what is understood is used, what isn't is told apart from what is broken (C19).

use baton_proto::{Change, EntityView, ErrorBody, ErrorCode, Event, EventBody, Reply, ReplyStatus, SessionEvent, SessionId, SessionView};
use serde::Deserialize;
use serde_json::Value;

/// A change that is understood, or one whose type or entities are of a newer hub.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReadChange {
    Known(Box<Change>),
    Unknown(UnknownChange),
}

/// A change of a kind that this version doesn't know. Show a neutral line; the cursor has moved past it (C19).
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownChange {
    pub session_id: SessionId,
    pub seq: u64,
    /// The event type's name, as the hub calls it.
    pub event_type: String,
    /// Those of the touched entities that are understood.
    pub upserts: Vec<EntityView>,
}

/// What every change has, whatever its version.
#[derive(Deserialize)]
struct RawChange {
    session_id: SessionId,
    seq: u64,
    #[serde(default)]
    event: Value,
    #[serde(default)]
    upserts: Vec<Value>,
}

/// Reads a change, or says why it isn't one at all.
pub(crate) fn read_change(value: Value) -> Result<ReadChange, String> {
    let raw = RawChange::deserialize(value).map_err(|error| format!("a change can't be read: {error}"))?;
    let count = raw.upserts.len();
    let upserts = read_entities(raw.upserts);
    let event = Event::<SessionEvent>::deserialize(&raw.event);
    match event {
        Ok(event) if upserts.len() == count => {
            Ok(ReadChange::Known(Box::new(Change { session_id: raw.session_id, seq: raw.seq, event, upserts })))
        }
        other => {
            let named = raw.event.get("type").and_then(Value::as_str).map(str::to_owned);
            let event_type = named.or_else(|| other.ok().map(|event| event.body.name().to_owned())).unwrap_or_default();
            Ok(ReadChange::Unknown(UnknownChange { session_id: raw.session_id, seq: raw.seq, event_type, upserts }))
        }
    }
}

/// What every view has, whatever its version.
#[derive(Deserialize)]
struct RawView {
    session_id: SessionId,
    seq: u64,
    #[serde(default)]
    entities: Vec<Value>,
    #[serde(default)]
    history_before: Option<u64>,
}

/// Reads a view, leaving out entities of kinds that this version doesn't know.
pub(crate) fn read_view(value: Value) -> Result<SessionView, String> {
    let raw = RawView::deserialize(value).map_err(|error| format!("a view can't be read: {error}"))?;
    Ok(SessionView { session_id: raw.session_id, seq: raw.seq, entities: read_entities(raw.entities), history_before: raw.history_before })
}

fn read_entities(values: Vec<Value>) -> Vec<EntityView> {
    values.into_iter().filter_map(|value| EntityView::deserialize(value).ok()).collect()
}

/// Reads an error body or RFC 9457 problem. A code of a newer hub becomes `fallback`, and is named in the message.
pub(crate) fn read_error(value: &Value, fallback: ErrorCode) -> Option<ErrorBody> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let code = text("code")?;
    let message = text("detail").or_else(|| text("message")).or_else(|| text("title"))?;
    let hint = text("hint").unwrap_or_default();
    Some(match ErrorCode::deserialize(Value::from(code)) {
        Ok(code) => ErrorBody::new(code, message, hint),
        Err(_) => ErrorBody::new(fallback, format!("{message} (code '{code}', which this version doesn't know)"), hint),
    })
}

/// Reads a reply, so that an operation is settled even where the code of its error is new.
pub(crate) fn read_reply(mut value: Value) -> Result<Reply, String> {
    let error = value.get("error").and_then(|error| read_error(error, ErrorCode::Invalid));
    if let Some(object) = value.as_object_mut() {
        object.remove("error");
    }
    let mut reply = Reply::deserialize(value).map_err(|failure| format!("a reply can't be read: {failure}"))?;
    reply.error = error;
    if reply.status == ReplyStatus::Rejected && reply.error.is_none() {
        return Err("an operation was rejected without an error".to_owned());
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SESSION: &str = "01990000-0000-7000-8000-000000000001";

    fn change(kind: &str, data: Value, upserts: Value) -> Value {
        json!({
            "session_id": SESSION, "seq": 7,
            "event": {"type": kind, "v": 1, "at": "2026-11-30T10:00:00Z", "actor": {"kind": "agent"}, "data": data},
            "upserts": upserts,
        })
    }

    #[test]
    fn a_known_change_is_read_whole() {
        let note = json!({"key": "a", "value": "b"});
        let ReadChange::Known(known) = read_change(change("note_set", note, json!([]))).unwrap() else { panic!("known") };
        assert_eq!((known.seq, known.event.body.name()), (7, "note_set"));
    }

    #[test]
    fn c19_an_unknown_type_keeps_its_place_and_what_is_understood_of_it() {
        let note = json!({"kind": "note", "id": "a", "version": 7, "value": "b"});
        let odd = json!({"kind": "hologram", "id": "x", "version": 7});
        let ReadChange::Unknown(unknown) = read_change(change("hologram_shown", json!({}), json!([odd, note]))).unwrap() else {
            panic!("unknown")
        };
        assert_eq!((unknown.seq, unknown.event_type.as_str()), (7, "hologram_shown"));
        assert_eq!(unknown.upserts.len(), 1);
        // A known event that touches an entity of an unknown kind isn't shown as if nothing were missing.
        let known = change("note_set", json!({"key": "a", "value": "b"}), json!([{"kind": "hologram"}]));
        assert!(matches!(read_change(known).unwrap(), ReadChange::Unknown(it) if it.event_type == "note_set"));
        assert!(read_change(json!({"seq": 7})).is_err());
    }

    #[test]
    fn an_error_with_a_new_code_settles_its_operation() {
        let reply =
            json!({"operation_id": SESSION, "status": "rejected", "error": {"code": "moon_phase", "message": "Not now.", "hint": "Wait."}});
        let error = read_reply(reply).unwrap().error.unwrap();
        assert_eq!(error.code, ErrorCode::Invalid);
        assert!(error.message.contains("moon_phase"), "{error}");
        assert!(read_reply(json!({"operation_id": SESSION, "status": "rejected"})).is_err());
    }
}
