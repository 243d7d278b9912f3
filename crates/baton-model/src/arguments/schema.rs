use super::is_deeper;
use baton_proto::{MAX_EVENT_BYTES, MAX_JSON_DEPTH};
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Why a tool's parameter schema is refused when the tool is registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("The parameters' schema must be an object with \"type\": \"object\".")]
    NotOfAnObject,
    #[error("The parameters' schema is {bytes} bytes long; at most {MAX_EVENT_BYTES} are allowed.")]
    TooLarge { bytes: usize },
    #[error("The parameters' schema is nested more than {MAX_JSON_DEPTH} levels deep.")]
    TooDeep,
    #[error("The parameters' schema is wrong at {path}: {reason}")]
    Invalid { path: String, reason: String },
}

/// Compiles a tool's parameter schema. References lead nowhere outside of it, and patterns are matched in linear time,
/// since tools come from devices and servers that may mean harm.
pub fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    if schema["type"] != "object" {
        return Err(SchemaError::NotOfAnObject);
    }
    if is_deeper(schema, MAX_JSON_DEPTH) {
        return Err(SchemaError::TooDeep);
    }
    let bytes = schema.to_string().len();
    if bytes > MAX_EVENT_BYTES {
        return Err(SchemaError::TooLarge { bytes });
    }
    jsonschema::options().offline().with_pattern_options(PatternOptions::regex()).build(schema).map_err(|error| {
        let place = error.instance_path().as_str();
        SchemaError::Invalid {
            path: if place.is_empty() { "/".to_owned() } else { place.to_owned() },
            reason: error.to_string().chars().take(300).collect(),
        }
    })
}
