//! What the strictest provider demands of a dialogue, written down independently of the code that builds one (E4).

use baton_proto::{ModelMessage, ModelRequest};
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) fn check(request: &ModelRequest) -> Result<(), String> {
    if request.system.trim().is_empty() {
        return Err("no system prompt".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(double) = request.tools.iter().find(|tool| !names.insert(&tool.name)) {
        return Err(format!("the tool {} is offered twice", double.name));
    }
    let Some(ModelMessage::User { .. }) = request.messages.first() else { return Err("the first message isn't the user's".to_owned()) };
    if let Some(ModelMessage::Agent { .. }) = request.messages.last() {
        return Err("the last message is the agent's".to_owned());
    }
    let mut owed: Vec<&str> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut before = "";
    for (place, message) in request.messages.iter().enumerate() {
        let wrong = |what: &str| Err(format!("message {place}: {what}"));
        if !matches!(message, ModelMessage::Result { .. }) && !owed.is_empty() {
            return wrong("a call has no result before the dialogue goes on");
        }
        match message {
            ModelMessage::User { text, .. } => {
                if text.trim().is_empty() {
                    return wrong("an empty message of the user's");
                }
                if before == "user" {
                    return wrong("two messages of the user's in a row");
                }
                before = "user";
            }
            ModelMessage::Agent { text, calls } => {
                if text.trim().is_empty() && calls.is_empty() {
                    return wrong("an empty answer");
                }
                if before == "agent" {
                    return wrong("two answers in a row");
                }
                for call in calls {
                    if !ids.insert(call.id.as_str()) {
                        return wrong("a call's id is used twice");
                    }
                    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    if call.name.is_empty() || call.name.len() > 64 || !call.name.chars().all(plain) {
                        return wrong("a call of something that is no tool's name");
                    }
                    if !serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object()) {
                        return wrong("arguments that aren't an object");
                    }
                    owed.push(&call.id);
                }
                before = "agent";
            }
            ModelMessage::Result { call_id, text, .. } => {
                if owed.first() != Some(&call_id.as_str()) {
                    return wrong("a result that isn't the next one owed");
                }
                owed.remove(0);
                if text.trim().is_empty() {
                    return wrong("an empty result");
                }
                before = "result";
            }
        }
    }
    if owed.is_empty() { Ok(()) } else { Err("the last calls have no results".to_owned()) }
}
