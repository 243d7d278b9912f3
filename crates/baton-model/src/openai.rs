//! The client of every server that speaks chat completions: one request, one stream, bounded in time and memory.

use crate::address::{CarefulResolver, is_forbidden};
use crate::answer::{Assembly, MAX_ANSWER_BYTES, PieceError, Progress};
use crate::config::ModelConfig;
use crate::dialect;
use crate::failure::{Redaction, error};
use crate::model::{DeltaSink, Model};
use async_trait::async_trait;
use baton_proto::{ModelAnswer, ModelError, ModelErrorKind, ModelRequest};
use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures::{Stream, StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// However steadily a model writes, it is not listened to for longer.
const LONGEST_ANSWER: Duration = Duration::from_mins(30);
/// After the last word of an answer only the token counts may follow.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);
/// Of an error's body no more is read.
const MAX_ERROR_BYTES: usize = 8 * 1024;
/// Of an answer that doesn't stream, in bytes as they are sent.
const MAX_WHOLE_BYTES: usize = 2 * MAX_ANSWER_BYTES;
/// Between two events of a stream, in bytes as they are sent. The parser looks at an unfinished event anew with each piece
/// that arrives, so a larger bound would cost more in time than in memory.
const MAX_EVENT_BYTES: usize = 256 * 1024;

/// A model at an OpenAI-compatible address.
pub struct OpenAi {
    config: ModelConfig,
    endpoint: Url,
    client: Client,
    redaction: Redaction,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenAi").field("model", &self.config.model).field("address", &self.address()).finish_non_exhaustive()
    }
}

impl OpenAi {
    /// Checks the configuration. Nothing is sent yet.
    pub fn new(config: ModelConfig) -> Result<Self, ModelError> {
        let endpoint = endpoint(&config.base_url)?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &config.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| {
                error(
                    ModelErrorKind::Refused,
                    "The model's key has characters that no key has",
                    "Enter the key again, in plain letters and on one line.",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let redaction = Redaction(config.api_key.clone());
        let client = client(&endpoint, headers).map_err(|failure| {
            error(
                ModelErrorKind::Refused,
                format!("The connection to the model can't be prepared: {}", redaction.causes(failure)),
                "Check that the system's root certificates are installed.",
            )
        })?;
        Ok(Self { config, endpoint, client, redaction })
    }

    /// The address as people may see it: without path and query.
    fn address(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }

    async fn ask(&self, request: &ModelRequest, sink: &mut (dyn DeltaSink + Send)) -> Result<ModelAnswer, ModelError> {
        let first_token = Instant::now() + self.config.first_token_timeout;
        let body = dialect::body(&self.config, request);
        let sending = self.client.post(self.endpoint.clone()).header(ACCEPT, "text/event-stream, application/json").json(&body).send();
        let response = match timeout_at(first_token, sending).await {
            Err(_) => return Err(self.silent(true)),
            Ok(Err(failure)) => return Err(self.unsent(failure)),
            Ok(Ok(response)) => response,
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let assembly = Assembly::new(request.tools.iter().map(|tool| tool.name.clone()).collect());
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

    async fn read_whole(
        &self,
        response: Response,
        mut assembly: Assembly,
        sink: &mut (dyn DeltaSink + Send),
    ) -> Result<ModelAnswer, ModelError> {
        let (body, is_whole) = read_at_most(response, MAX_WHOLE_BYTES).await.map_err(|failure| self.broken(failure))?;
        if !is_whole {
            return Err(Self::too_large());
        }
        let answer = serde_json::from_slice::<Value>(&body).map_err(|_| self.unreadable("broken JSON"))?;
        if answer["error"].is_null() && !answer["choices"][0]["message"].is_object() {
            return Err(self.unreadable("JSON without an answer in it"));
        }
        assembly.take(&answer, sink).map_err(|failure| self.bad_piece(failure))?;
        Ok(assembly.finish(sink))
    }

    async fn read_stream(
        &self,
        response: Response,
        first_token: Instant,
        mut assembly: Assembly,
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
                Ok(None) => {
                    return Err(error(
                        ModelErrorKind::Unavailable,
                        "The model's answer ended in the middle",
                        "It is asked again after a pause.",
                    ));
                }
                Ok(Some(Err(failure))) => return Err(self.bad_event(failure)),
                Ok(Some(Ok(event))) => event,
            };
            since_event.store(0, Ordering::Relaxed);
            if event.data.trim() == "[DONE]" {
                break;
            }
            let was_finished = assembly.is_finished();
            let piece = serde_json::from_str::<Value>(&event.data).map_err(|_| self.unreadable("broken JSON"))?;
            let progress = assembly.take(&piece, sink).map_err(|failure| self.bad_piece(failure))?;
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

    fn unreadable(&self, what: &str) -> ModelError {
        error(
            ModelErrorKind::Malformed,
            format!("The model's server at {} sent {what}", self.address()),
            "Check that the base URL is that of an OpenAI-compatible server (most end in /v1).",
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
impl Model for OpenAi {
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

fn endpoint(base_url: &str) -> Result<Url, ModelError> {
    let refused = |why: &str| {
        Err(error(
            ModelErrorKind::Refused,
            format!("The model's base URL {why}"),
            "Write it like https://api.example.com/v1, with the key apart.",
        ))
    };
    let Ok(mut url) = Url::parse(base_url.trim()) else { return refused("is no URL") };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return refused("is neither http nor https");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("has a name or password in it");
    }
    if host_address(&url).is_some_and(is_forbidden) {
        return refused("leads to an address that no model has");
    }
    let path = url.path().trim_end_matches('/').trim_end_matches("/chat/completions").to_owned();
    url.set_path(&format!("{path}/chat/completions"));
    url.set_fragment(None);
    Ok(url)
}

/// The address, where the URL has one in place of a name.
fn host_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn client(endpoint: &Url, headers: HeaderMap) -> reqwest::Result<Client> {
    // Fails where one is installed already, which is just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .default_headers(headers)
        .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
        // A redirect would carry the dialogue, and perhaps the key, to where nobody configured (S22).
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .dns_resolver(CarefulResolver)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(30));
    if endpoint.scheme() == "http" {
        // Without TLS no root certificates are needed, and small containers have none.
        builder = builder.tls_backend_preconfigured(
            rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
        );
    }
    let is_loopback = endpoint.host_str() == Some("localhost") || host_address(endpoint).is_some_and(|address| address.is_loopback());
    if is_loopback {
        builder = builder.no_proxy();
    }
    builder.build()
}

#[derive(Debug, thiserror::Error)]
enum BodyError {
    #[error("the connection broke")]
    Http(#[source] reqwest::Error),
    #[error("an event without end")]
    TooLarge,
}

/// The body, which ends with an error where too much comes without an event. The counter is reset by whoever reads events.
fn bounded(response: Response, since_event: Arc<AtomicUsize>) -> impl Stream<Item = Result<Bytes, BodyError>> {
    response.bytes_stream().map_err(BodyError::Http).and_then(move |bytes| {
        let before = since_event.fetch_add(bytes.len(), Ordering::Relaxed);
        let result = if before > MAX_EVENT_BYTES { Err(BodyError::TooLarge) } else { Ok(bytes) };
        std::future::ready(result)
    })
}

/// So much of the body, and whether that is all of it.
async fn read_at_most(mut response: Response, limit: usize) -> reqwest::Result<(Vec<u8>, bool)> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        let room = limit - body.len();
        if bytes.len() > room {
            body.extend_from_slice(&bytes[..room]);
            return Ok((body, false));
        }
        body.extend_from_slice(&bytes);
    }
    Ok((body, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        for (base_url, expected) in [
            ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/chat/completions"),
            (" https://api.example.com/v1/ ", "https://api.example.com/v1/chat/completions"),
            ("https://api.example.com", "https://api.example.com/chat/completions"),
            ("https://api.example.com/v1/chat/completions", "https://api.example.com/v1/chat/completions"),
            ("https://x.example.com/deployments/m?api-version=1", "https://x.example.com/deployments/m/chat/completions?api-version=1"),
            ("ftp://api.example.com", "neither http nor https"),
            ("api.example.com/v1", "is no URL"),
            ("", "is no URL"),
            ("https://me:canary@api.example.com", "name or password"),
            ("http://169.254.169.254/v1", "no model has"),
            ("http://[fe80::1]/v1", "no model has"),
            ("http://[::ffff:169.254.169.254]/v1", "no model has"),
        ] {
            match endpoint(base_url) {
                Ok(url) => assert_eq!(url.as_str(), expected),
                Err(failure) => assert!(failure.message.contains(expected) && !failure.message.contains("canary"), "{failure:?}"),
            }
        }
    }

    #[test]
    fn keys_that_no_header_can_carry_are_refused_without_being_shown() {
        let key = crate::Secret::new("sk-can\nary");
        let failure = OpenAi::new(ModelConfig { api_key: Some(key), ..ModelConfig::new("https://api.example.com/v1", "m") }).unwrap_err();
        assert_eq!(failure.kind, ModelErrorKind::Refused);
        assert!(!format!("{failure:?}").contains("can\\nary"), "{failure:?}");
    }
}
