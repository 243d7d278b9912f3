//! Who is calling (S1, S5, S6). A token comes as a bearer token, or from a browser as a cookie that its scripts can't read; it is never
//! taken from a URL.

use crate::app::App;
use crate::cookie::Found;
use crate::problem::ApiError;
use crate::proxies;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use baton_proto::{Digest, ErrorBody, ErrorCode};
use baton_runtime::Identity;
use std::net::IpAddr;

/// The device whose token a request carries. Only private routes have one; the layer before them put it there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) Identity);

/// Where a connection comes from, for the limits on guessing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Lets only paired devices through.
pub(crate) async fn require_token(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match identify(&app, &request) {
        Ok((identity, found)) => {
            request.extensions_mut().insert(Caller(identity));
            let mut response = next.run(request).await;
            if let Some(found) = found {
                app.cookie.renew(&found, &mut response);
            }
            response
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

/// Whose token it is; and the cookie that it came in, where it did.
fn identify(app: &App, request: &Request) -> Result<(Identity, Option<Found>), ApiError> {
    let headers = request.headers();
    let unknown = || {
        ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't signed in.", "Pair it with a code or a link from a trusted device.")
    };
    if let Some(authorization) = headers.get(header::AUTHORIZATION) {
        let token =
            authorization.to_str().ok().and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let identity = token.and_then(|(_, token)| app.hub.authenticate(token.trim()));
        return identity.map(|identity| (identity, None)).ok_or_else(|| unknown().into());
    }
    let found = app.cookie.find(headers);
    let (identity, found) = found.into_iter().find_map(|found| Some((app.hub.authenticate(&found.token)?, found))).ok_or_else(unknown)?;
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
    Ok((identity, Some(found)))
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
        Ok(Self(proxies::caller(peer.0, &parts.headers, &app.trusted_proxies)))
    }
}
