//! The model of a world: answers as the scripts say, after some time, and checks each request as the strictest providers would.

use super::hubs::Life;
use super::plan::ModelTrouble;
use super::scripts::answer;
use super::shared::Shared;
use crate::scripted_model::check_dialogue;
use async_trait::async_trait;
use baton_model::{DeltaSink, Model};
use baton_proto::{ModelAnswer, ModelError, ModelErrorKind, ModelMessage, ModelRequest};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A provider's patience, after which a hanging call counts as timed out.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct SimModel {
    pub(crate) shared: Arc<Shared>,
    pub(crate) life: Arc<Life>,
}

#[async_trait]
impl Model for SimModel {
    fn name(&self) -> &'static str {
        "simulated"
    }

    async fn complete(&self, request: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        self.life.gate().await;
        if let Err(reason) = check_dialogue(&as_chat_completion(request)).and_then(|()| alternates(&request.messages)) {
            self.shared.violation(&format!("a strict provider refuses the request: {reason}"));
        }
        sleep(self.shared.draw("model", |draw| draw.wait(20, 600))).await;
        self.life.gate().await;
        let trouble = self.shared.model_trouble();
        match trouble {
            Some(ModelTrouble::Fails(kind)) => return Err(error(kind)),
            Some(ModelTrouble::Hangs) => {
                sleep(PATIENCE).await;
                return Err(error(ModelErrorKind::TimedOut));
            }
            Some(ModelTrouble::Empty) => return Ok(ModelAnswer::default()),
            _ => {}
        }
        let answer = answer(request, trouble);
        for part in answer.text.split_inclusive(' ') {
            sink.text(part);
            sleep(Duration::from_millis(3)).await;
            self.life.gate().await;
        }
        Ok(answer)
    }
}

fn error(kind: ModelErrorKind) -> ModelError {
    ModelError { kind, message: "A simulated failure.".to_owned(), hint: "Wait.".to_owned(), retry_after_ms: None }
}

/// The request as it would be sent to the many that speak chat completions.
fn as_chat_completion(request: &ModelRequest) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    messages.extend(request.messages.iter().map(|message| match message {
        ModelMessage::User { text, .. } => json!({"role": "user", "content": text}),
        ModelMessage::Result { call_id, text, .. } => json!({"role": "tool", "tool_call_id": call_id, "content": text}),
        ModelMessage::Agent { text, calls } if calls.is_empty() => json!({"role": "assistant", "content": text}),
        ModelMessage::Agent { text, calls } => {
            let calls: Vec<_> = calls
                .iter()
                .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}))
                .collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
    }));
    let tools: Vec<_> = request
        .tools
        .iter()
        .map(|tool| json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}))
        .collect();
    json!({"model": "simulated", "messages": messages, "tools": tools})
}

/// What Anthropic asks beyond that: it begins with the user, nobody speaks twice in a row, and the results of an answer's calls come
/// together, all of them and no others, before anything else is said.
pub(crate) fn alternates(messages: &[ModelMessage]) -> Result<(), String> {
    let mut agent_spoke_last = true;
    let mut owed: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        match message {
            ModelMessage::Agent { calls, .. } => {
                if agent_spoke_last {
                    return Err(format!("message {place}: the agent speaks first, or twice in a row"));
                }
                agent_spoke_last = true;
                owed = calls.iter().map(|call| call.id.as_str()).collect();
            }
            ModelMessage::Result { call_id, .. } => {
                let Some(found) = owed.iter().position(|id| id == call_id) else {
                    return Err(format!("message {place}: a result that nobody waits for"));
                };
                owed.remove(found);
                agent_spoke_last = false;
            }
            ModelMessage::User { .. } => {
                if !owed.is_empty() {
                    return Err(format!("message {place}: the user speaks before all results are there"));
                }
                agent_spoke_last = false;
            }
        }
    }
    if agent_spoke_last || !owed.is_empty() { Err("it ends with the agent".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::ModelToolCall;

    fn user() -> ModelMessage {
        ModelMessage::user("hello")
    }

    fn agent(ids: &[&str]) -> ModelMessage {
        let call = |id: &&str| ModelToolCall { id: (*id).to_owned(), name: "read_file".to_owned(), arguments: "{}".to_owned() };
        ModelMessage::Agent { text: "I look.".to_owned(), calls: ids.iter().map(call).collect() }
    }

    fn result(id: &str) -> ModelMessage {
        ModelMessage::Result { call_id: id.to_owned(), tool: "read_file".to_owned(), text: "ok".to_owned(), failed: false }
    }

    #[test]
    fn who_may_speak_when() {
        for (messages, fine) in [
            (vec![user()], true),
            (vec![user(), agent(&["a", "b"]), result("b"), result("a")], true),
            (vec![user(), agent(&["a"]), result("a"), user(), agent(&[]), user()], true),
            (vec![agent(&["a"]), result("a")], false),
            (vec![user(), agent(&[])], false),
            (vec![user(), agent(&[]), agent(&["a"]), result("a")], false),
            (vec![user(), agent(&["a"]), user()], false),
            (vec![user(), agent(&["a"]), result("a"), result("a")], false),
        ] {
            assert_eq!(alternates(&messages).is_ok(), fine, "{messages:?}");
        }
    }
}
