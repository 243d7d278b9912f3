//! The arguments of a tool call, read from what a model wrote (R2).
//!
//! Strict JSON is taken as it is. What is nearly JSON is repaired when the repair leaves nothing to guess, and the result
//! always has to fit the tool's schema. A repair that may have changed a value is said to have done so
//! ([`Repair::Values`]), so that nothing with side effects runs on a guess. Everything else is an error in words that the
//! model can act on. Pure.

mod schema;
mod tolerant;

pub use schema::{SchemaError, compile};

use baton_proto::{MAX_ARGUMENTS_BYTES, MAX_JSON_DEPTH};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};
use std::fmt;

/// Arguments that fit their schema, with what had to be done for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedArguments {
    /// Always an object.
    pub value: Value,
    pub repaired: Repair,
}

/// What was changed to make JSON of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing.
    None,
    /// Commas, brackets, quotes around names and the like; every value is as it was written.
    Syntax,
    /// Some value may not be what the model meant. A tool with side effects must not run on it.
    Values,
}

/// Why arguments can't be used, as it is told to the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    #[error("The arguments are {bytes} bytes long; at most {MAX_ARGUMENTS_BYTES} are allowed. Do it in several smaller calls.")]
    TooLarge { bytes: usize },
    #[error("The arguments are nested more than {MAX_JSON_DEPTH} levels deep.")]
    TooDeep,
    #[error(
        "The arguments are not valid JSON: {reason}. Write one JSON object, with line breaks in strings as \\n and backslashes as \\\\."
    )]
    NotJson { reason: String },
    #[error("The arguments must be one JSON object, not {found}.")]
    NotAnObject { found: &'static str },
    #[error("The arguments do not fit the tool: {}{}.", join(.problems), more(*.further))]
    Mismatch { problems: Vec<Problem>, further: usize },
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// One place where arguments don't fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, such as `arguments.edits[0].path`.
    pub path: String,
    /// What is there and what was expected.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.expected)
    }
}

const MAX_PROBLEMS: usize = 5;
const LONGEST_SHOWN_VALUE: usize = 100;

/// Reads arguments against a schema that hasn't been compiled.
pub fn parse_arguments(raw: &str, schema: &Value) -> Result<ParsedArguments, ArgumentsError> {
    parse_arguments_with(raw, &compile(schema)?)
}

/// Reads arguments against a compiled schema. An empty text is an object without members.
pub fn parse_arguments_with(raw: &str, schema: &Validator) -> Result<ParsedArguments, ArgumentsError> {
    if raw.len() > MAX_ARGUMENTS_BYTES {
        return Err(ArgumentsError::TooLarge { bytes: raw.len() });
    }
    if raw.trim().is_empty() {
        return fitting(Value::Object(Map::new()), Repair::None, schema);
    }
    let reason = match serde_json::from_str::<Value>(raw) {
        // Some models write the object into a string once more.
        Ok(Value::String(inner)) => match serde_json::from_str::<Value>(&inner) {
            Ok(value @ Value::Object(_)) => return fitting(value, Repair::Syntax, schema),
            _ => return Err(ArgumentsError::NotAnObject { found: "a string" }),
        },
        Ok(value) => return fitting(value, Repair::None, schema),
        Err(error) => error.to_string(),
    };
    match repair(raw) {
        Some((value @ Value::Object(_), repaired)) => fitting(value, repaired, schema),
        _ => Err(ArgumentsError::NotJson { reason }),
    }
}

/// Reads a text that isn't quite JSON, and tells whether a value may have been changed by it.
pub(crate) fn repair(raw: &str) -> Option<(Value, Repair)> {
    let unfenced = without_fence(raw.trim().trim_start_matches('\u{feff}'));
    if let Ok(value) = serde_json::from_str::<Value>(unfenced) {
        return Some((value, Repair::Syntax));
    }
    tolerant::read(unfenced)
}

fn fitting(value: Value, repaired: Repair, schema: &Validator) -> Result<ParsedArguments, ArgumentsError> {
    if is_deeper(&value, MAX_JSON_DEPTH) {
        return Err(ArgumentsError::TooDeep);
    }
    let found = match &value {
        Value::Object(_) => None,
        Value::Null => Some("null"),
        Value::Bool(_) => Some("a boolean"),
        Value::Number(_) => Some("a number"),
        Value::String(_) => Some("a string"),
        Value::Array(_) => Some("a list"),
    };
    if let Some(found) = found {
        return Err(ArgumentsError::NotAnObject { found });
    }
    let mut errors = schema.iter_errors(&value);
    let problems: Vec<_> = errors.by_ref().take(MAX_PROBLEMS).map(|error| problem(&error)).collect();
    let further = errors.count();
    if problems.is_empty() { Ok(ParsedArguments { value, repaired }) } else { Err(ArgumentsError::Mismatch { problems, further }) }
}

pub(crate) fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| is_deeper(field, levels - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn problem(error: &ValidationError<'_>) -> Problem {
    let mut path = "arguments".to_owned();
    for part in error.instance_path().as_str().split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.parse::<usize>().is_ok() {
            path = format!("{path}[{part}]");
        } else {
            path = format!("{path}.{part}");
        }
    }
    // A long value is known to whoever wrote it; what was expected is not.
    let whole = error.to_string();
    let expected = if error.instance().to_string().len() > LONGEST_SHOWN_VALUE { error.masked().to_string() } else { whole };
    Problem { path, expected: expected.chars().take(400).collect() }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn more(further: usize) -> String {
    if further == 0 { String::new() } else { format!("; and {further} more") }
}

/// The inside of a text that is one code fence.
fn without_fence(text: &str) -> &str {
    let Some(fenced) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    fenced.strip_prefix("json").unwrap_or(fenced).trim()
}

#[cfg(test)]
mod tests;
