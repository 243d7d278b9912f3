//! What is looked at before anything else of a request (S2, S7, S8), and what every answer says to browsers.

use crate::app::App;
use crate::problem::ApiError;
use crate::routes::{PIECE, UPLOADS};
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_proto::{ErrorBody, ErrorCode};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Where on this machine a connection came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CameInAt(pub(crate) IpAddr);

/// The name by which the hub was called, which is one of its own.
#[derive(Clone, Debug)]
pub(crate) struct CalledBy(pub(crate) Arc<str>);

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; \
    manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// `Strict-Transport-Security` isn't among these. It would forbid going on past a warning, and hold for every port of the name: a device
// that doesn't trust the hub's own authority yet couldn't open the page that helps it to, and other programs on `localhost` would become
// unreachable. A proxy with a public certificate may add it.
const SAID_TO_BROWSERS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

pub(crate) async fn door(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    // Neither the path nor the query is logged: a caller may have put a secret there (S6).
    let route = request.extensions().get::<MatchedPath>().map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let mut response = match look(&app, &request) {
        Ok(host) => {
            request.extensions_mut().insert(CalledBy(host));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    for (name, value) in SAID_TO_BROWSERS {
        // A route may be stricter than the rest, and says so itself.
        response.headers_mut().entry(name).or_insert(value);
    }
    // What the hub answers is a user's own, unless it said otherwise.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    tracing::debug!(%method, route, status = response.status().as_u16(), elapsed = ?begun.elapsed(), "answered");
    response
}

fn look(app: &App, request: &Request) -> Result<Arc<str>, ApiError> {
    let headers = request.headers();
    let host = host(request).filter(|host| app.hosts.knows(host) || is_where_it_came_in(request, host)).ok_or_else(|| {
        let error = ErrorBody::new(
            ErrorCode::Forbidden,
            "The hub isn't known by the name that it was called by.",
            "Use localhost, or add the name to the hub's allowed hosts.",
        );
        ApiError::with_status(error, StatusCode::MISDIRECTED_REQUEST)
    })?;
    if headers.contains_key(header::ORIGIN) && !only(headers, &header::ORIGIN).is_some_and(|origin| app.hosts.is_own(origin, host)) {
        return Err(ErrorBody::new(
            ErrorCode::Forbidden,
            "A page of another origin may not talk to the hub.",
            "Open the hub's own page. If something stands before the hub, set its public URL.",
        )
        .into());
    }
    let encoded =
        headers.get_all(header::CONTENT_ENCODING).into_iter().any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if encoded {
        let error = ErrorBody::invalid("A compressed body isn't accepted.");
        return Err(ApiError::with_status(error, StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    // A form or plain text can be sent by any page without asking; JSON can't, and neither can a header of the protocol of uploads.
    let changes = matches!(*request.method(), Method::POST | Method::PATCH | Method::PUT);
    if changes && !is_json(headers) && !is_upload(request) {
        let error = ErrorBody::invalid("The content type of a request that changes something is `application/json`.");
        return Err(ApiError::with_status(error, StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(host.into())
}

/// Whether the hub was called by the very address that it was reached at: a machine may get another one while the hub runs. No name
/// leads here, so no page can pretend by one (S2).
pub(crate) fn is_where_it_came_in(request: &Request, host: &str) -> bool {
    let called = host
        .parse::<Authority>()
        .ok()
        .filter(|_| !host.contains('@'))
        .and_then(|called| called.host().trim_matches(['[', ']']).parse::<IpAddr>().ok());
    let at = request.extensions().get::<CameInAt>().map(|CameInAt(address)| *address);
    called.is_some_and(|called| at == Some(called.to_canonical()))
}

/// The one `Host` of a request. A target that is a whole URL has to name the same one.
fn host(request: &Request) -> Option<&str> {
    let host = only(request.headers(), &header::HOST)?;
    let target = request.uri().authority();
    target.is_none_or(|target| target.as_str().eq_ignore_ascii_case(host)).then_some(host)
}

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).into_iter();
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = only(headers, &header::CONTENT_TYPE).and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether it is a piece of an upload, or the beginning of one, which has no body.
fn is_upload(request: &Request) -> bool {
    let below = |path: &MatchedPath| path.as_str() == UPLOADS || path.as_str().starts_with("/v1/uploads/");
    let headers = request.headers();
    let kind = headers.contains_key(header::CONTENT_TYPE);
    let piece = only(headers, &header::CONTENT_TYPE).is_some_and(|kind| kind.eq_ignore_ascii_case(PIECE));
    request.extensions().get::<MatchedPath>().is_some_and(below) && headers.contains_key("tus-resumable") && (piece || !kind)
}

impl<S: Sync> FromRequestParts<S> for CalledBy {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let missing = || ErrorBody::new(ErrorCode::Internal, "This route doesn't know its own name.", "Report this.");
        parts.extensions.get::<Self>().cloned().ok_or_else(|| missing().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn the_address_that_a_connection_came_in_at_is_the_hubs_own_and_no_name_is() {
        let mut request = Request::new(Body::empty());
        assert!(!is_where_it_came_in(&request, "192.168.1.9:7440"), "nothing is known of the connection");
        request.extensions_mut().insert(CameInAt("192.168.1.9".parse().unwrap()));
        for own in ["192.168.1.9", "192.168.1.9:7440", "[::ffff:192.168.1.9]:7440"] {
            assert!(is_where_it_came_in(&request, own), "{own}");
        }
        for foreign in ["192.168.1.8", "192.168.1.9.evil.example", "evil.example", "x@192.168.1.9", "3232235785", ""] {
            assert!(!is_where_it_came_in(&request, foreign), "{foreign}");
        }
        request.extensions_mut().insert(CameInAt("fd00::9".parse().unwrap()));
        assert!(is_where_it_came_in(&request, "[fd00::9]:7440") && !is_where_it_came_in(&request, "[fd00::8]"));
    }
}
