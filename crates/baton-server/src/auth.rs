//! Who is calling (S1, S5, S6). A token comes as a bearer token, or from a browser as a cookie that its scripts can't read; it is never
//! taken from a URL.

use crate::app::App;
use crate::problem::ApiError;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_proto::{Digest, ErrorBody, ErrorCode};
use baton_runtime::Identity;
use std::net::IpAddr;

const COOKIE: &str = "baton_token";
/// Browsers keep a cookie for at most 400 days.
const COOKIE_AGE_S: u32 = 400 * 24 * 60 * 60;

/// The device whose token a request carries. Only private routes have one; the layer before them put it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) Identity);

/// Where a connection comes from, for the limits on guessing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Lets only paired devices through.
pub(crate) async fn require_token(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, &request) {
        Ok(identity) => {
            request.extensions_mut().insert(Caller(identity));
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// Lets only the owner of the hub's data directory through, who can read the token that the hub left there.
pub(crate) async fn require_admin(State(app): State<App>, request: Request, next: Next) -> Response {
    let given =
        request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.strip_prefix("Bearer "));
    let known = given.is_some_and(|token| app.admin.as_ref() == Some(&Digest::of_bytes(token.as_bytes())));
    if known {
        return next.run(request).await;
    }
    let error = ErrorBody::new(
        ErrorCode::Unauthenticated,
        "This is for the owner of the hub's data directory.",
        "Run the command on the hub's machine, as its user.",
    );
    ApiError::from(error).into_response()
}

fn identify(app: &App, request: &Request) -> Result<Identity, ApiError> {
    let headers = request.headers();
    let unknown = || {
        ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't signed in.", "Pair it with a code or a link from a trusted device.")
    };
    if let Some(authorization) = headers.get(header::AUTHORIZATION) {
        let token =
            authorization.to_str().ok().and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        return token.and_then(|(_, token)| app.hub.authenticate(token.trim())).ok_or_else(|| unknown().into());
    }
    let identity = cookie(headers).and_then(|token| app.hub.authenticate(token)).ok_or_else(unknown)?;
    // A browser sends the cookie by itself, so it also has to say which page asks; that it is the hub's own was seen at the door.
    let acts = !matches!(*request.method(), Method::GET | Method::HEAD) || headers.contains_key(header::UPGRADE);
    if acts && !headers.contains_key(header::ORIGIN) {
        return Err(ErrorBody::new(
            ErrorCode::Forbidden,
            "A request that is signed in by cookie doesn't say which page it comes from.",
            "Send it from the hub's own page, or use a bearer token.",
        )
        .into());
    }
    Ok(identity)
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('=')).find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// Gives a browser its token, or takes it back with an empty one.
pub(crate) fn set_cookie(app: &App, response: &mut Response, token: &str) {
    let age = if token.is_empty() { 0 } else { COOKIE_AGE_S };
    let secure = if app.hosts.secure() { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}");
    if let Ok(mut value) = HeaderValue::from_str(&cookie) {
        value.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let missing = || ErrorBody::new(ErrorCode::Internal, "This route doesn't know who is calling.", "Report this.");
        parts.extensions.get::<Self>().copied().ok_or_else(|| missing().into())
    }
}

impl FromRequestParts<App> for Peer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let missing = || ErrorBody::new(ErrorCode::Internal, "This connection has no address.", "Report this.");
        let peer = parts.extensions.get::<Self>().copied().ok_or_else(missing)?;
        Ok(if app.trusted_proxy { forwarded(&parts.headers).unwrap_or(peer) } else { peer })
    }
}

/// The last address is the one that the proxy itself saw; those before it are the caller's word.
fn forwarded(headers: &HeaderMap) -> Option<Peer> {
    let last = headers.get_all("x-forwarded-for").into_iter().next_back()?.to_str().ok()?.rsplit(',').next()?;
    last.trim().parse::<IpAddr>().ok().map(|address| Peer(address.to_canonical()))
}
