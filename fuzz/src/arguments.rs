//! What a model writes as the arguments of a call.

use baton_model::{Repair, Validator, compile, parse_arguments_with};
use baton_proto::MAX_JSON_DEPTH;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Schemas of tools as they are offered; the first byte of an input chooses one.
static SCHEMAS: LazyLock<Vec<Validator>> = LazyLock::new(|| {
    [
        json!({"type": "object"}),
        json!({
            "type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {"path": {"type": "string", "minLength": 1}, "from": {"type": "integer", "minimum": 1}, "whole": {"type": "boolean"}},
        }),
        json!({
            "type": "object", "required": ["edits"],
            "properties": {"edits": {"type": "array", "maxItems": 20, "items": {
                "type": "object", "required": ["old", "new"], "properties": {"old": {"type": "string"}, "new": {"type": ["string", "null"]}},
            }}},
        }),
    ]
    .iter()
    .map(|schema| compile(schema).expect("a schema"))
    .collect()
});

/// Nothing panics or takes for ever; what comes out is an object of the schema, no deeper and not much longer than what went in; and
/// what is called untouched is what a strict reader reads.
pub fn check(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let Ok(raw) = std::str::from_utf8(bytes) else { return };
    let schema = &SCHEMAS[usize::from(*choice) % SCHEMAS.len()];
    match parse_arguments_with(raw, schema) {
        Ok(parsed) => {
            assert!(parsed.value.is_object() && schema.is_valid(&parsed.value), "it doesn't fit its schema: {}", parsed.value);
            assert!(depth(&parsed.value) <= MAX_JSON_DEPTH, "it is too deep");
            let written = parsed.value.to_string();
            // A control character of one byte is written in six, and a number like 1e15 in its digits.
            assert!(written.len() <= 24 * raw.len() + 2, "{} bytes became {}", raw.len(), written.len());
            assert!(serde_json::from_str::<Value>(&written).is_ok(), "it is no JSON: {written}");
            if parsed.repaired == Repair::None && !raw.trim().is_empty() {
                assert_eq!(serde_json::from_str::<Value>(raw).ok().as_ref(), Some(&parsed.value), "it was changed, and nothing says so");
            }
        }
        Err(error) => {
            let words = error.to_string();
            assert!(!words.is_empty() && words.len() <= 16 * 1024, "{} bytes of words", words.len());
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
