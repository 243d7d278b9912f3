//! What a request brings: a JSON body, parameters of the query, ids in the path. Each is bounded before it is understood (S8).

use crate::app::App;
use crate::problem::ApiError;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use baton_proto::{ErrorBody, ErrorCode, MAX_BODY_BYTES, MAX_JSON_DEPTH, make_visible};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;

/// What is read and thrown away of a body that is too large, so that its sender gets to read why.
const DISCARDED_BYTES: usize = 8 * MAX_BODY_BYTES;

/// Characters of a reader's complaint that are passed on.
const SHOWN_CHARS: usize = 300;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > DISCARDED_BYTES) {
            return Err(too_large().into());
        }
        let bytes = tokio::time::timeout(app.limits.body, read(request.into_body())).await.map_err(|_| {
            let error = ErrorBody::invalid(format!("The body didn't arrive within {} s.", app.limits.body.as_secs()));
            ApiError::with_status(error, StatusCode::REQUEST_TIMEOUT)
        })??;
        check_depth(&bytes)?;
        Ok(Self(
            serde_json::from_slice(&bytes).map_err(|error| ErrorBody::invalid(format!("The body can't be read: {}.", in_short(&error))))?,
        ))
    }
}

async fn read(body: Body) -> Result<Vec<u8>, ErrorBody> {
    let mut pieces = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut length = 0_usize;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| ErrorBody::invalid("The body broke off."))?;
        length = length.saturating_add(piece.len());
        if length <= MAX_BODY_BYTES {
            bytes.extend_from_slice(&piece);
        } else if length > DISCARDED_BYTES {
            break;
        } else {
            bytes = Vec::new();
        }
    }
    if length > MAX_BODY_BYTES { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> ErrorBody {
    ErrorBody::new(
        ErrorCode::TooLarge,
        format!("The body is larger than {MAX_BODY_BYTES} bytes."),
        format!("Send at most {MAX_BODY_BYTES} bytes at once."),
    )
}

/// What a reader of JSON says of it, which may repeat what it was given: bounded, and with nothing that deceives the eye.
pub(crate) fn in_short(reason: &impl Display) -> String {
    let shown: String = reason.to_string().chars().take(SHOWN_CHARS).collect();
    make_visible(&shown)
}

/// Refuses JSON that is nested too deep, before anything follows it down.
pub(crate) fn check_depth(json: &[u8]) -> Result<(), ErrorBody> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut escaped = false;
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                if depth > MAX_JSON_DEPTH {
                    return Err(ErrorBody::invalid(format!("The JSON is nested more than {MAX_JSON_DEPTH} levels deep.")));
                }
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// The query's parameters.
#[derive(Debug)]
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(error) => Err(ErrorBody::invalid(format!("The query can't be read: {}.", in_short(&error.body_text()))).into()),
        }
    }
}

/// The id in a path. What isn't an id names nothing, as an id of somebody else's does (S5).
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

impl<T: FromStr> FromRequestParts<App> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let absent = || ErrorBody::not_found("id");
        let Path(text) = Path::<String>::from_request_parts(parts, app).await.map_err(|_| absent())?;
        text.parse().map(Self).map_err(|_| absent().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_brackets_outside_of_text_only() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check_depth(nested(MAX_JSON_DEPTH).as_bytes()).is_ok());
        assert!(check_depth(nested(MAX_JSON_DEPTH + 1).as_bytes()).is_err());
        assert!(check_depth(nested(100_000).as_bytes()).is_err());
        let in_text = format!(r#"{{"a":"{}\"{}"}}"#, "[".repeat(1000), "{".repeat(1000));
        assert!(check_depth(in_text.as_bytes()).is_ok());
        let after_text = format!(r#"["\\",{}]"#, nested(MAX_JSON_DEPTH));
        assert!(check_depth(after_text.as_bytes()).is_err());
        let beside = format!("[{}]", vec!["{}"; 1000].join(","));
        assert!(check_depth(beside.as_bytes()).is_ok());
    }
}
