//! Tools of a test device that act on the outside ledger: one that can look up what became of a call, and one that can't.

use async_trait::async_trait;
use baton_device::tool::{Run, Tool};
use baton_proto::{CallId, Effect, Finding, Outcome, Risk, StateModified, ToolError, ToolResult, ToolSpec};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

/// Writes an entry under the call's id, which travels along as the idempotency key.
#[derive(Debug)]
pub struct RecordEntry {
    ledger: String,
    client: Client,
    lookup: bool,
}

impl RecordEntry {
    /// `lookup`: whether this one can find out later what became of a call.
    pub fn new(ledger: &str, client: Client, lookup: bool) -> Self {
        Self { ledger: ledger.to_owned(), client, lookup }
    }
}

#[async_trait]
impl Tool for RecordEntry {
    fn spec(&self) -> ToolSpec {
        let (name, description) = if self.lookup {
            ("record_entry", "Write an entry into the outside ledger. It can be looked up later by its key.")
        } else {
            ("append_entry", "Write an entry into the outside ledger, which can't be looked up.")
        };
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object", "additionalProperties": false, "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}),
            effect: Effect::Once,
            risk: Risk::Safe,
            prepare: false,
            lookup: self.lookup,
            lasting: true,
            timeout_s: 30,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        let text = run.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        let key = run.call_id.to_string();
        let sent = self.client.post(format!("{}/entries", self.ledger)).json(&json!({"key": key, "text": text})).send().await;
        match sent {
            Ok(answer) if answer.status() == StatusCode::CREATED => {
                let content = format!("recorded under {key}");
                Outcome::Succeeded(ToolResult { bytes: content.len() as u64, content, outside_id: Some(key), ..ToolResult::default() })
            }
            Ok(answer) => failed(format!("The ledger answered {}.", answer.status())),
            Err(error) => failed(format!("The ledger can't be reached: {error}.")),
        }
    }

    async fn lookup(&self, call_id: CallId, _: &Value) -> Finding {
        match self.client.get(format!("{}/entries/{call_id}", self.ledger)).send().await.map(|answer| answer.status()) {
            Ok(StatusCode::OK) => {
                let content = format!("recorded under {call_id}, as a lookup found");
                Finding::Happened {
                    result: ToolResult {
                        bytes: content.len() as u64,
                        content,
                        outside_id: Some(call_id.to_string()),
                        ..ToolResult::default()
                    },
                }
            }
            Ok(StatusCode::NOT_FOUND) => Finding::NotHappened,
            other => Finding::Unclear { known: format!("the ledger gave no clear answer: {other:?}") },
        }
    }
}

fn failed(message: String) -> Outcome {
    let error = ToolError {
        code: "ledger_failed".to_owned(),
        message,
        hint: "Look the entry up.".to_owned(),
        state_modified: StateModified::Unknown,
    };
    Outcome::Failed { error, result: None }
}
