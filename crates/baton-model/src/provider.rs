//! The client of every server of models: one request, one stream, bounded in time and memory, in whichever dialect.

use crate::assembly::{Assembly, PieceError, Progress};
use crate::config::{Dialect, ModelConfig};
use crate::failure::{Redaction, error, is_about_images, is_about_one_image};
use crate::model::{DeltaSink, Model};
use crate::phrase::Sight;
use crate::transport::{BodyError, CONNECT_TIMEOUT, MAX_ERROR_BYTES, MAX_WHOLE_BYTES, bounded, client, endpoint, headers, read_at_most};
use crate::{anthropic, openai};
use async_trait::async_trait;
use baton_proto::{ModelAnswer, ModelError, ModelErrorKind, ModelMessage, ModelRequest};
use eventsource_stream::{EventStreamError, Eventsource};
use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// However steadily a model writes, it is not listened to for longer.
const LONGEST_ANSWER: Duration = Duration::from_mins(30);
/// After the last word of an answer only the token counts may follow.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);

/// A model on a server that somebody provides, at whatever address.
pub struct Provider {
    config: ModelConfig,
    endpoint: Url,
    client: Client,
    redaction: Redaction,
    /// Set once the model has refused an image, so that only one request is sent in vain.
    is_blind: AtomicBool,
}

impl fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Provider").field("model", &self.config.model).field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Provider {
    /// Checks the configuration. Nothing is sent yet.
    pub fn new(config: ModelConfig) -> Result<Self, ModelError> {
        let endpoint = endpoint(&config.base_url, config.dialect)?;
        let headers = headers(&config)?;
        let redaction = Redaction(config.api_key.clone());
        let client = client(&endpoint, headers).map_err(|failure| {
            error(
                ModelErrorKind::Refused,
                format!("The connection to the model can't be prepared: {}", redaction.causes(failure)),
                "Check that the system's root certificates are installed.",
            )
        })?;
        let is_blind = AtomicBool::new(config.images == Some(false));
        Ok(Self { config, endpoint, client, redaction, is_blind })
    }

    /// The address as people may see it: without path and query.
    fn address(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }

    fn sight(&self) -> Sight {
        if self.is_blind.load(Ordering::Relaxed) { Sight::Blind } else { Sight::Sees }
    }

    async fn ask(&self, request: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        let first_token = Instant::now() + self.config.first_token_timeout;
        let sight = self.sight();
        let has_images = request.messages.iter().any(|message| matches!(message, ModelMessage::User { images, .. } if !images.is_empty()));
        let response = match self.send(request, sight, first_token).await? {
            Ok(response) => response,
            // Nobody knew whether it sees images. Now it is known, and the question is put in words.
            Err(refusal) if has_images && sight == Sight::Sees && self.config.images.is_none() && is_about_images(&refusal) => {
                self.is_blind.store(true, Ordering::Relaxed);
                self.send(request, Sight::Blind, first_token).await??
            }
            // An image that this server can't take would be in each later request too: this one is put in words, and the next is tried again.
            Err(refusal) if has_images && sight == Sight::Sees && is_about_one_image(&refusal) => {
                self.send(request, Sight::Blind, first_token).await??
            }
            Err(refusal) => return Err(refusal),
        };
        let assembly: Box<dyn Assembly> = match self.config.dialect {
            Dialect::OpenAi => Box::new(openai::Completion::new(request.tools.iter().map(|tool| tool.name.clone()).collect())),
            Dialect::Anthropic => Box::new(anthropic::Message::default()),
        };
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_lowercase();
        if content_type.contains("json") {
            match timeout_at(first_token, self.read_whole(response, assembly, sink)).await {
                Err(_) => Err(self.silent(true)),
                Ok(answer) => answer,
            }
        } else if content_type.contains("html") {
            Err(self.unreadable("a web page"))
        } else {
            self.read_stream(response, first_token, assembly, sink).await
        }
    }

    /// The response, once the server has begun one; or inside it, why the server refused. An error outside is of the way there.
    async fn send(&self, request: &ModelRequest, sight: Sight, first_token: Instant) -> Result<Result<Response, ModelError>, ModelError> {
        let body = match self.config.dialect {
            Dialect::OpenAi => openai::body(&self.config, request, sight),
            Dialect::Anthropic => anthropic::body(&self.config, request, sight),
        };
        let sending = self.client.post(self.endpoint.clone()).header(ACCEPT, "text/event-stream, application/json").json(&body).send();
        match timeout_at(first_token, sending).await {
            Err(_) => Err(self.silent(true)),
            Ok(Err(failure)) => Err(self.unsent(failure)),
            Ok(Ok(response)) if response.status().is_success() => Ok(Ok(response)),
            Ok(Ok(response)) => Ok(Err(self.refused(response).await)),
        }
    }

    async fn read_whole(
        &self,
        response: Response,
        mut assembly: Box<dyn Assembly>,
        sink: &mut (dyn DeltaSink + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let (body, is_whole) = read_at_most(response, MAX_WHOLE_BYTES).await.map_err(|failure| self.broken(failure))?;
        if !is_whole {
            return Err(Self::too_large());
        }
        let answer = serde_json::from_slice::<Value>(&body).map_err(|_| self.unreadable("broken JSON"))?;
        if answer["error"].is_null() && !assembly.is_whole(&answer) {
            return Err(self.unreadable("JSON without an answer in it"));
        }
        assembly.take(&answer, sink).map_err(|failure| self.bad_piece(failure))?;
        Ok(assembly.finish(sink))
    }

    async fn read_stream(
        &self,
        response: Response,
        first_token: Instant,
        mut assembly: Box<dyn Assembly>,
        sink: &mut (dyn DeltaSink + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let since_event = Arc::new(AtomicUsize::new(0));
        let mut events = bounded(response, since_event.clone()).eventsource().boxed();
        let mut deadline = first_token;
        let mut is_first = true;
        loop {
            let event = match timeout_at(deadline, events.next()).await {
                // What was still to come after the last word is not worth failing for.
                Err(_) | Ok(None | Some(Err(_))) if assembly.is_finished() => break,
                Err(_) => return Err(self.silent(is_first)),
                Ok(None) => return Err(Self::torn()),
                Ok(Some(Err(failure))) => return Err(self.bad_event(failure)),
                Ok(Some(Ok(event))) => event,
            };
            since_event.store(0, Ordering::Relaxed);
            if event.data.trim() == "[DONE]" {
                if self.config.dialect == Dialect::Anthropic && !assembly.is_finished() {
                    return Err(Self::torn());
                }
                break;
            }
            let was_finished = assembly.is_finished();
            let piece = match serde_json::from_str::<Value>(&event.data) {
                Ok(piece) => piece,
                Err(_) if was_finished => break,
                Err(_) => return Err(self.unreadable("broken JSON")),
            };
            let progress = assembly.take(&piece, sink).map_err(|failure| self.bad_piece(failure))?;
            if progress == Progress::Over {
                if !assembly.is_finished() {
                    return Err(Self::torn());
                }
                break;
            }
            if assembly.is_finished() {
                if !was_finished {
                    deadline = Instant::now() + self.config.idle_timeout.min(LONGEST_FAREWELL);
                }
            } else if progress == Progress::Words {
                is_first = false;
                deadline = Instant::now() + self.config.idle_timeout;
            }
        }
        Ok(assembly.finish(sink))
    }

    async fn refused(&self, response: Response) -> ModelError {
        let (status, headers) = (response.status(), response.headers().clone());
        // A body that doesn't come is no reason to forget the status.
        let body = match timeout(CONNECT_TIMEOUT.min(self.config.idle_timeout), read_at_most(response, MAX_ERROR_BYTES)).await {
            Ok(Ok((body, _))) => String::from_utf8_lossy(&body).into_owned(),
            _ => String::new(),
        };
        self.redaction.status(status, &headers, &body)
    }

    fn unsent(&self, failure: reqwest::Error) -> ModelError {
        if failure.is_connect() || failure.is_timeout() {
            error(
                ModelErrorKind::Unreachable,
                format!("Nothing answers at {}: {}", self.address(), self.redaction.causes(failure)),
                "Check that the model's server is running and that the base URL is right.",
            )
        } else {
            self.broken(failure)
        }
    }

    fn broken(&self, failure: reqwest::Error) -> ModelError {
        error(
            ModelErrorKind::Unavailable,
            format!("The connection to the model broke: {}", self.redaction.causes(failure)),
            "It is asked again after a pause.",
        )
    }

    fn silent(&self, is_first: bool) -> ModelError {
        let (wait, what) = if is_first {
            (self.config.first_token_timeout, "said nothing")
        } else {
            (self.config.idle_timeout, "fell silent in the middle of its answer")
        };
        error(
            ModelErrorKind::TimedOut,
            format!("The model {what} for {} s", wait.as_secs_f32()),
            "It is asked again after a pause. For a slow model, configure a longer wait.",
        )
    }

    fn torn() -> ModelError {
        error(ModelErrorKind::Unavailable, "The model's answer ended in the middle", "It is asked again after a pause.")
    }

    fn unreadable(&self, what: &str) -> ModelError {
        error(
            ModelErrorKind::Malformed,
            format!("The model's server at {} sent {what}", self.address()),
            format!("Check that the base URL is that of {}.", self.config.dialect.name()),
        )
    }

    fn too_large() -> ModelError {
        error(
            ModelErrorKind::Refused,
            format!("The model's answer has no end: {}", PieceError::TooLarge),
            "Limit the tokens of an answer, or choose another model.",
        )
    }

    fn bad_piece(&self, failure: PieceError) -> ModelError {
        match failure {
            PieceError::Shapeless => self.unreadable("JSON that is no piece of an answer"),
            PieceError::TooLarge => Self::too_large(),
            PieceError::Failed(said) => self.redaction.in_stream(&said),
        }
    }

    fn bad_event(&self, failure: EventStreamError<BodyError>) -> ModelError {
        match failure {
            EventStreamError::Utf8(_) | EventStreamError::Parser(_) => self.unreadable("something that is no stream of events"),
            EventStreamError::Transport(BodyError::TooLarge) => Self::too_large(),
            EventStreamError::Transport(BodyError::Http(failure)) => self.broken(failure),
        }
    }
}

#[async_trait]
impl Model for Provider {
    fn name(&self) -> &str {
        &self.config.model
    }

    async fn complete(&self, request: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        timeout(LONGEST_ANSWER, self.ask(request, sink)).await.unwrap_or_else(|_| {
            Err(error(
                ModelErrorKind::TimedOut,
                format!("The model wrote for {} minutes without an end", LONGEST_ANSWER.as_secs() / 60),
                "Limit the tokens of an answer, or choose another model.",
            ))
        })
    }
}
