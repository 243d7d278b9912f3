//! How a server of models is reached: where its door is, what is sent along, and how much of what it says is read.

use crate::address::{CarefulResolver, is_forbidden};
use crate::anthropic;
use crate::assembly::MAX_ANSWER_BYTES;
use crate::config::{Dialect, ModelConfig};
use crate::failure::error;
use baton_proto::{ModelError, ModelErrorKind};
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of an error's body no more is read.
pub(crate) const MAX_ERROR_BYTES: usize = 8 * 1024;
/// Of an answer that doesn't stream, in bytes as they are sent.
pub(crate) const MAX_WHOLE_BYTES: usize = 2 * MAX_ANSWER_BYTES;
/// Between two events of a stream, in bytes as they are sent. The parser looks at an unfinished event anew with each piece
/// that arrives, so a larger bound would cost more in time than in memory.
const MAX_EVENT_BYTES: usize = 256 * 1024;

/// Where requests go.
pub(crate) fn endpoint(base_url: &str, dialect: Dialect) -> Result<Url, ModelError> {
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
    let path = url.path().trim_end_matches('/');
    let path = match dialect {
        Dialect::OpenAi => format!("{}/chat/completions", path.trim_end_matches("/chat/completions")),
        // Their own clients are configured without /v1, and ours with it.
        Dialect::Anthropic => format!("{}/v1/messages", path.trim_end_matches("/messages").trim_end_matches("/v1")),
    };
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// The address, where the URL has one in place of a name.
fn host_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether a server stands on this machine, where no proxy has a place and a model may be slow.
pub(crate) fn is_on_this_machine(url: &Url) -> bool {
    url.host_str() == Some("localhost") || host_address(url).is_some_and(|address| address.is_loopback())
}

/// What goes with every request: the key, where there is one, and the interface's version.
pub(crate) fn headers(config: &ModelConfig) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    if config.dialect == Dialect::Anthropic {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(anthropic::VERSION));
    }
    if let Some(key) = &config.api_key {
        let (name, text) = match config.dialect {
            Dialect::OpenAi => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            Dialect::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            error(
                ModelErrorKind::Refused,
                "The model's key has characters that no key has",
                "Enter the key again, in plain letters and on one line.",
            )
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

pub(crate) fn client(endpoint: &Url, headers: HeaderMap) -> reqwest::Result<Client> {
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
    if is_on_this_machine(endpoint) {
        builder = builder.no_proxy();
    }
    builder.build()
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the connection broke")]
    Http(#[source] reqwest::Error),
    #[error("an event without end")]
    TooLarge,
}

/// The body, which ends with an error where too much comes without an event. The counter is reset by whoever reads events.
pub(crate) fn bounded(response: Response, since_event: Arc<AtomicUsize>) -> impl Stream<Item = Result<Bytes, BodyError>> {
    response.bytes_stream().map_err(BodyError::Http).and_then(move |bytes| {
        let before = since_event.fetch_add(bytes.len(), Ordering::Relaxed);
        let result = if before > MAX_EVENT_BYTES { Err(BodyError::TooLarge) } else { Ok(bytes) };
        std::future::ready(result)
    })
}

/// So much of the body, and whether that is all of it.
pub(crate) async fn read_at_most(mut response: Response, limit: usize) -> reqwest::Result<(Vec<u8>, bool)> {
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
    fn s22_base_urls() {
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
            ("http://[64:ff9b::169.254.169.254]/v1", "no model has"),
            // One address in other spellings.
            ("http://2852039166/v1", "no model has"),
            ("http://0xa9fea9fe/v1", "no model has"),
            ("http://0251.0376.0251.0376/v1", "no model has"),
            ("http://169.254.43518/v1", "no model has"),
            ("http://169\u{3002}254\u{3002}169\u{3002}254/v1", "no model has"),
        ] {
            match endpoint(base_url, Dialect::OpenAi) {
                Ok(url) => assert_eq!(url.as_str(), expected),
                Err(failure) => assert!(failure.message.contains(expected) && !failure.message.contains("canary"), "{failure:?}"),
            }
        }
    }

    #[test]
    fn base_urls_of_messages() {
        for (base_url, expected) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
            ("http://127.0.0.1:4000/anthropic", "http://127.0.0.1:4000/anthropic/v1/messages"),
            ("https://example.com/gate?team=7", "https://example.com/gate/v1/messages?team=7"),
        ] {
            assert_eq!(endpoint(base_url, Dialect::Anthropic).unwrap().as_str(), expected);
        }
        assert!(endpoint("http://169.254.169.254", Dialect::Anthropic).is_err());
    }

    #[test]
    fn keys_that_no_header_can_carry_are_refused_without_being_shown() {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
            let key = crate::Secret::new("sk-can\nary");
            let config = ModelConfig { dialect, api_key: Some(key), ..ModelConfig::new("https://api.example.com/v1", "m") };
            let failure = crate::Provider::new(config).unwrap_err();
            assert_eq!(failure.kind, ModelErrorKind::Refused);
            assert!(!format!("{failure:?}").contains("can\\nary"), "{failure:?}");
        }
    }
}
