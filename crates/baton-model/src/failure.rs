//! Failures of a model call as [`ModelError`]s: what happened and what to do, never the key (S6).

use crate::config::Secret;
use baton_proto::{ModelError, ModelErrorKind};
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;
use std::error::Error;

const EXCERPT_CHARS: usize = 300;

pub(crate) fn error(kind: ModelErrorKind, message: impl Into<String>, hint: impl Into<String>) -> ModelError {
    ModelError { kind, message: message.into(), hint: hint.into(), retry_after_ms: None }
}

/// Knows the key, so as to strike it out of whatever a provider sends back.
#[derive(Clone, Debug)]
pub(crate) struct Redaction(pub(crate) Option<Secret>);

impl Redaction {
    /// A short, single-line excerpt without the key and without control characters.
    pub(crate) fn excerpt(&self, text: &str) -> String {
        let text = match &self.0 {
            Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "***"),
            _ => text.to_owned(),
        };
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut excerpt: String = words.chars().filter(|letter| !letter.is_control()).take(EXCERPT_CHARS).collect();
        if words.chars().count() > EXCERPT_CHARS {
            excerpt.push('…');
        }
        excerpt
    }

    /// What went wrong underneath, with each cause, without the address (it may carry a query).
    pub(crate) fn causes(&self, failure: reqwest::Error) -> String {
        let failure = failure.without_url();
        let mut text = failure.to_string();
        let mut cause = failure.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        self.excerpt(&text)
    }

    /// A status other than 2xx.
    pub(crate) fn status(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> ModelError {
        let said = self.excerpt(&said_in(body));
        let kind = kind_of(status.as_u16());
        let mut failure = self.said(kind, &format!("HTTP {}", status.as_u16()), &said);
        if status.is_redirection() {
            "Redirects are not followed. Configure the address that the model really has.".clone_into(&mut failure.hint);
        } else if status == StatusCode::NOT_FOUND {
            "Check the model's name and the base URL (most end in /v1).".clone_into(&mut failure.hint);
        }
        failure.retry_after_ms = retry_after_ms(headers);
        failure
    }

    /// An error that came inside a stream that had begun well.
    pub(crate) fn in_stream(&self, failure: &Value) -> ModelError {
        let code = failure["code"].as_u64().or_else(|| failure["code"].as_str()?.parse().ok()).or_else(|| failure["status"].as_u64());
        let name = format!("{} {}", failure["type"].as_str().unwrap_or_default(), failure["code"].as_str().unwrap_or_default());
        let kind = match code.and_then(|code| u16::try_from(code).ok()).filter(|code| (300..600).contains(code)) {
            Some(code) => kind_of(code),
            None => kind_named(&name),
        };
        let said = failure["message"].as_str().or_else(|| failure.as_str()).map_or_else(|| failure.to_string(), str::to_owned);
        self.said(kind, "an error in its answer", &self.excerpt(&said))
    }

    fn said(&self, kind: ModelErrorKind, how: &str, said: &str) -> ModelError {
        let said_so = if said.is_empty() { String::new() } else { format!(": {said}") };
        let lower = said.to_lowercase();
        let (what, hint) = match kind {
            ModelErrorKind::Unauthorized if self.0.is_none() => ("The model's provider wants a key", "Configure a key for this model."),
            ModelErrorKind::Unauthorized => {
                ("The model's provider refused the key", "Check that the key is complete, belongs to this address and may use this model.")
            }
            ModelErrorKind::Refused if lower.contains("declined to answer") => {
                ("The model declined to answer this", "Say it in another way, or choose another model.")
            }
            ModelErrorKind::RateLimited | ModelErrorKind::Refused
                if lower.contains("quota") || lower.contains("balance") || lower.contains("billing") =>
            {
                ("The model's provider has used up what was paid for", "Check the account at the provider, or choose another model.")
            }
            ModelErrorKind::RateLimited => ("The model's provider is asked too often", "It is tried again after a pause."),
            ModelErrorKind::Refused if lower.contains("not support") && lower.contains("tool") => {
                ("The model can't call tools", "Choose a model that can call tools.")
            }
            ModelErrorKind::Refused
                if lower.contains("prompt is too long")
                    || (lower.contains("context") && (lower.contains("length") || lower.contains("window"))) =>
            {
                ("The request is longer than the model can read", "Choose a model with a larger context, or start a new session.")
            }
            ModelErrorKind::Refused => {
                ("The model's provider refused the request", "The same request would fail again. Check the model's name and settings.")
            }
            ModelErrorKind::TimedOut => ("The model's provider gave up waiting", "It is tried again after a pause."),
            ModelErrorKind::Unreachable | ModelErrorKind::Unavailable | ModelErrorKind::Malformed | ModelErrorKind::Cancelled => {
                ("The model's provider is out of order", "It is tried again after a pause.")
            }
        };
        error(kind, format!("{what} ({how}){said_so}"), hint)
    }
}

fn kind_of(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Unauthorized,
        408 => ModelErrorKind::TimedOut,
        429 => ModelErrorKind::RateLimited,
        500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Refused,
    }
}

/// The kind that a provider's own name for an error stands for.
fn kind_named(name: &str) -> ModelErrorKind {
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["rate_limit"]) {
        ModelErrorKind::RateLimited
    } else if has(&["authentication", "permission"]) {
        ModelErrorKind::Unauthorized
    } else if has(&["invalid_request", "not_found", "too_large", "billing", "refusal"]) {
        ModelErrorKind::Refused
    } else if has(&["timeout"]) {
        ModelErrorKind::TimedOut
    } else {
        ModelErrorKind::Unavailable
    }
}

/// Whether a server refused a request because its model can't see. One that finds an image too large means something else.
pub(crate) fn is_about_images(refusal: &ModelError) -> bool {
    let said = refusal.message.to_lowercase();
    let names_them = ["image", "vision", "multimodal", "multi-modal"].iter().any(|name| said.contains(name));
    let means_never = ["support", "unknown variant", "mmproj", "not a multimodal", "only text", "text only"];
    names_them && means_never.iter().any(|words| said.contains(words)) && !is_about_one_image(refusal)
}

/// Whether a server refused a request for what one of its images is, which says nothing of the others.
pub(crate) fn is_about_one_image(refusal: &ModelError) -> bool {
    let said = refusal.message.to_lowercase();
    let blames = [
        "unsupported image",
        "image format",
        "valid image",
        "invalid image",
        "media type",
        "media_type",
        "corrupt",
        "image exceeds",
        "image too",
        "process image",
    ];
    said.contains("image") && blames.iter().any(|words| said.contains(words))
}

/// The sentence in an error body, whichever of the usual shapes it has.
fn said_in(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else {
        return body.to_owned();
    };
    let places = [&value["error"]["message"], &value["error"], &value["message"], &value["detail"], &value[0]["error"]["message"]];
    places.iter().find_map(|place| place.as_str()).map_or_else(|| body.to_owned(), str::to_owned)
}

/// How long the provider asks to wait. A date is compared with the provider's own clock, never with ours.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return milliseconds(wait / 1_000.0);
    }
    let asked = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return milliseconds(seconds);
    }
    let until = rfc2822::parse(asked).ok()?.timestamp();
    let now = rfc2822::parse(text(DATE.as_str())?).ok()?.timestamp();
    u64::try_from(until.as_millisecond().saturating_sub(now.as_millisecond())).ok()
}

fn milliseconds(seconds: f64) -> Option<u64> {
    let wait = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ModelErrorKind::{RateLimited, Refused, TimedOut, Unauthorized, Unavailable};
    use serde_json::json;

    #[test]
    fn statuses() {
        for (status, kind) in [
            (302, Refused),
            (400, Refused),
            (401, Unauthorized),
            (403, Unauthorized),
            (404, Refused),
            (408, TimedOut),
            (413, Refused),
            (422, Refused),
            (429, RateLimited),
            (500, Unavailable),
            (503, Unavailable),
            (529, Unavailable),
        ] {
            let failure = Redaction(None).status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), "");
            assert_eq!(failure.kind, kind, "{status}");
            assert!(failure.message.contains(&status.to_string()) && !failure.hint.is_empty(), "{failure:?}");
        }
    }

    #[test]
    fn bodies_are_quoted_briefly_and_without_the_key() {
        let redaction = Redaction(Some(Secret::new("sk-canary")));
        for (body, expected) in [
            (r#"{"error":{"message":"bad key sk-canary here"}}"#, "bad key *** here"),
            (r#"{"error":"plain sk-canary"}"#, "plain ***"),
            (r#"{"detail":"a\u001b[31mb"}"#, "a[31mb"),
            ("<html>sk-canary\n\n down</html>", "<html>*** down</html>"),
        ] {
            let failure = redaction.status(StatusCode::UNAUTHORIZED, &HeaderMap::new(), body);
            assert!(failure.message.ends_with(&format!(": {expected}")), "{failure:?}");
        }
        let failure = redaction.status(StatusCode::BAD_REQUEST, &HeaderMap::new(), &"sk-canary ".repeat(800));
        assert!(failure.message.len() < 400 && !failure.message.contains("canary"), "{failure:?}");
    }

    #[test]
    fn waits_that_are_asked_for() {
        for (headers, expected) in [
            (vec![], None),
            (vec![("retry-after", "7")], Some(7_000)),
            (vec![("retry-after", "0.5")], Some(500)),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after-ms", "250"), ("retry-after", "7")], Some(250)),
            (vec![("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], None),
            (vec![("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), ("date", "Wed, 21 Oct 2026 07:28:00 GMT")], Some(30_000)),
            (vec![("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), ("date", "Wed, 21 Oct 2026 07:28:30 GMT")], None),
        ] {
            let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            assert_eq!(retry_after_ms(&map), expected, "{headers:?}");
        }
    }

    #[test]
    fn errors_inside_a_stream() {
        for (failure, kind) in [
            (json!({"message": "overloaded"}), Unavailable),
            (json!({"message": "slow down", "code": 429}), RateLimited),
            (json!({"message": "slow down", "type": "rate_limit_exceeded"}), RateLimited),
            (json!({"message": "no", "code": "invalid_request_error"}), Refused),
            (json!({"message": "gone", "code": "502"}), Unavailable),
            (json!({"message": "Overloaded", "type": "overloaded_error"}), Unavailable),
            (json!({"message": "Internal", "type": "api_error"}), Unavailable),
            (json!({"message": "slow down", "type": "rate_limit_error"}), RateLimited),
            (json!({"message": "bad key", "type": "authentication_error"}), Unauthorized),
            (json!({"message": "not yours", "type": "permission_error"}), Unauthorized),
            (json!({"message": "no such model", "type": "not_found_error"}), Refused),
            (json!({"message": "too big", "type": "request_too_large"}), Refused),
            (json!({"message": "too slow", "type": "timeout_error"}), TimedOut),
            (json!({"message": "declined", "type": "refusal"}), Refused),
            (json!("just words"), Unavailable),
        ] {
            let error = Redaction(None).in_stream(&failure);
            assert_eq!(error.kind, kind, "{failure}");
        }
    }

    #[test]
    fn refusals_of_images() {
        for (said, about_images, about_one) in [
            ("this model does not support image input", true, false),
            ("Invalid content type. image_url is only supported by certain models.", true, false),
            ("image input is not supported - hint: you may need to provide the mmproj", true, false),
            ("Failed to deserialize: unknown variant `image_url`, expected `text`", true, false),
            ("No endpoints found that support image input", true, false),
            ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", false, true),
            ("You uploaded an unsupported image. Please make sure your image is valid.", false, true),
            ("Could not process image", false, true),
            ("this model does not support tools", false, false),
            ("the request is too large", false, false),
        ] {
            let refusal = Redaction(None).status(StatusCode::BAD_REQUEST, &HeaderMap::new(), said);
            assert_eq!((is_about_images(&refusal), is_about_one_image(&refusal)), (about_images, about_one), "{said}");
        }
    }
}
