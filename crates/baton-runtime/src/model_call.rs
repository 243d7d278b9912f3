//! One call of the model: read the dialogue back, assemble the request, pass on what is written while it is written (R3, R5).

use crate::attachments;
use crate::live::Live;
use crate::tools::Checks;
use baton_core::dialogue::{KINDS, seen};
use baton_core::prompt::{DIALOGUE_EVENTS, assemble};
use baton_core::words::{json_excerpt, json_len};
use baton_core::{Command, Context, ModelOutcome, Session};
use baton_model::{DeltaSink, Model};
use baton_proto::{DeltaPart, Event, MessageId, ModelCallId, ModelError, ModelErrorKind, SessionEvent};
use baton_store::{Store, StoreError, StreamId, StreamKind};
use std::sync::Arc;

/// Bytes of reasoning, as JSON, that are kept of one answer. Together with its words and arguments it fits one event.
const MAX_THINKING_BYTES: usize = 4 * 1024;
/// Bytes of words that are kept of one answer.
const MAX_ANSWER_BYTES: usize = 20 * 1024;
/// Bytes of one answer's arguments in all, so that the event that keeps the answer stays within its limit.
const MAX_ALL_ARGUMENTS: usize = 36 * 1024;

/// What a model call needs; taken from the owner at the moment it starts.
pub(crate) struct ModelJob {
    pub(crate) model_call_id: ModelCallId,
    pub(crate) attempt: u32,
    pub(crate) message_id: MessageId,
    pub(crate) state: Session,
    pub(crate) at: Context,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) checks: Arc<Checks>,
    pub(crate) live: Arc<Live>,
}

struct Sink {
    live: Arc<Live>,
    message_id: MessageId,
    attempt: u32,
}

impl DeltaSink for Sink {
    fn text(&mut self, delta: &str) {
        self.live.add(self.message_id, self.attempt, DeltaPart::Text, delta);
    }
    fn thinking(&mut self, delta: &str) {
        self.live.add(self.message_id, self.attempt, DeltaPart::Thinking, delta);
    }
}

impl ModelJob {
    /// Runs to the end, or is dropped in the middle, which closes the connection to the provider.
    pub(crate) async fn run(self) -> Command {
        let (model_call_id, attempt) = (self.model_call_id, self.attempt);
        let outcome = match self.ask().await {
            Ok(outcome) => outcome,
            Err(error) => ModelOutcome::Failed(error),
        };
        Command::Model { model_call_id, attempt, outcome }
    }

    async fn ask(self) -> Result<ModelOutcome, ModelError> {
        let model = self
            .model
            .clone()
            .ok_or_else(|| failure(ModelErrorKind::Refused, "No model is configured.", "Start Baton with --model-url and --model."))?;
        let stream = StreamId { kind: StreamKind::Session, id: self.state.id.0 };
        let stored = self
            .store
            .read_back(self.state.user, stream, self.state.seq + 1, &KINDS, DIALOGUE_EVENTS)
            .await
            .map_err(|error| unreadable("dialogue", &error))?;
        let mut events = Vec::with_capacity(stored.len());
        for row in stored.iter().rev() {
            let event = Event::<SessionEvent>::decode(&row.event)
                .map_err(|error| failure(ModelErrorKind::Refused, error.to_string(), "Look at the hub's log."))?;
            events.push((row.seq, event));
        }
        let dialogue = seen(&self.state, events.iter().map(|(seq, event)| (*seq, event)));
        let mut request = assemble(&self.state, &dialogue, &self.at);
        attachments::read_images(&*self.store, self.state.user, &mut request).await.map_err(|error| unreadable("attachment", &error))?;
        tracing::debug!(session = %self.state.id, messages = request.messages.len(), "asking the model");
        let mut sink = Sink { live: Arc::clone(&self.live), message_id: self.message_id, attempt: self.attempt };
        let mut answer = model.complete(&request, &mut sink).await?;
        if json_len(&answer.text) > MAX_ANSWER_BYTES {
            answer.text = json_excerpt(&answer.text, MAX_ANSWER_BYTES);
            answer.truncated = true;
        }
        answer.thinking = json_excerpt(&answer.thinking, MAX_THINKING_BYTES);
        let holder = self.state.workspace.as_ref().and_then(|workspace| workspace.device_id);
        let mut left = MAX_ALL_ARGUMENTS;
        let calls = answer
            .calls
            .iter()
            .map(|call| {
                let fits = left.checked_sub(json_len(&call.arguments) + 128);
                left = fits.unwrap_or(left);
                self.checks.understand(call, fits.is_some(), &self.at.around, holder)
            })
            .collect();
        let mut outcome = ModelOutcome::Answered { model: model.name().to_owned(), answer, calls };
        attachments::read_wanted(&*self.store, &self.state, &mut outcome).await.map_err(|error| unreadable("attachment", &error))?;
        Ok(outcome)
    }
}

fn unreadable(what: &str, error: &StoreError) -> ModelError {
    failure(ModelErrorKind::Unavailable, format!("The {what} can't be read: {error}."), "Look at the hub's log.")
}

fn failure(kind: ModelErrorKind, message: impl Into<String>, hint: &str) -> ModelError {
    ModelError { kind, message: message.into(), hint: hint.to_owned(), retry_after_ms: None }
}
