use super::{Done, read, refusal};
use crate::decide::check_note;
use crate::draft::Draft;
use crate::machine::tool_call::ToolCall;
use baton_proto::{FactScope, ModelTool, SessionEvent, ToolError};
use serde::Deserialize;
use serde_json::json;

pub(super) fn record_fact() -> ModelTool {
    ModelTool {
        name: "record_fact".to_owned(),
        description: "Keep a fact that later work must rest on, such as a value the user chose or one that you found in a file. Use scope session when it matters beyond this task, such as a style that other pages should share. A fact with the same key is replaced.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["key", "value"], "properties": {
            "key": {"type": "string", "minLength": 1, "maxLength": 100, "description": "such as button.corner_radius"},
            "value": {"type": "string", "minLength": 1, "maxLength": 1000},
            "scope": {"type": "string", "enum": ["task", "session"], "default": "session"},
            "source": {"type": "string", "maxLength": 200, "description": "where it comes from: the user, a path, a tool"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1}}}),
    }
}

pub(super) fn note() -> ModelTool {
    ModelTool {
        name: "note".to_owned(),
        description: "Keep a working note for yourself in this session. An empty value removes it.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["key", "value"], "properties": {
            "key": {"type": "string", "minLength": 1, "maxLength": 100}, "value": {"type": "string", "maxLength": 2000}}}),
    }
}

#[derive(Deserialize)]
struct Given {
    key: String,
    value: String,
    #[serde(default)]
    scope: Option<FactScope>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    confidence: Option<f64>,
}

pub(super) fn perform_record_fact(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let fact: Given = read(&call.arguments)?;
    let scope = fact.scope.unwrap_or(FactScope::Session);
    draft.emit(SessionEvent::FactRecorded {
        fact_id: draft.at.ids.fresh(),
        key: fact.key.clone(),
        value: fact.value,
        scope,
        task_id: call.task_id,
        source: fact.source.unwrap_or_else(|| "agent".to_owned()),
        confidence: fact.confidence,
        origins: draft.state.reading.of(call.task_id),
    });
    Ok(Done::Now(format!("Kept '{}'.", fact.key)))
}

#[derive(Deserialize)]
struct GivenNote {
    key: String,
    value: String,
}

pub(super) fn perform_note(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let note: GivenNote = read(&call.arguments)?;
    if note.value.is_empty() {
        if draft.state.notes.contains_key(&note.key) {
            draft.emit(SessionEvent::NoteForgotten { key: note.key });
        }
        return Ok(Done::Now("Removed.".to_owned()));
    }
    check_note(draft, &note.key, &note.value).map_err(|error| refusal(error.code.as_str(), error.message, error.hint))?;
    draft.emit(SessionEvent::NoteSet { key: note.key, value: note.value });
    Ok(Done::Now("Noted.".to_owned()))
}
