//! Uploads in pieces that go on where they stopped (D6): tus 1.0 with creation, checksum, expiration and termination. And the blobs that
//! they become.

use crate::app::App;
use crate::auth::Caller;
use crate::body::PathId;
use crate::problem::ApiError;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{Digest, ErrorBody, ErrorCode};
use baton_runtime::{MAX_UPLOAD_BYTES, Piece, PieceError, UploadId, UploadState};
use futures::StreamExt as _;
use futures::stream::unfold;
use std::fmt::Display;

/// Where uploads begin.
pub(crate) const UPLOADS: &str = "/v1/uploads";
/// The content type of a piece.
pub(crate) const PIECE: &str = "application/offset+octet-stream";

const VERSION: &str = "1.0.0";
const EXTENSIONS: &str = "creation,checksum,expiration,termination";
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_CHECKSUM: HeaderName = HeaderName::from_static("upload-checksum");
/// The status of a piece whose digest isn't the one announced (tus).
const CHECKSUM_MISMATCH: u16 = 460;
/// A blob is handed over in pieces of this size.
const SENT_BYTES: usize = 64 * 1024;

/// A request that speaks the protocol of uploads in the version that the hub speaks.
pub(crate) struct Tus;

impl<S: Sync> FromRequestParts<S> for Tus {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        if parts.headers.get(TUS_RESUMABLE).is_some_and(|version| version.as_bytes() == VERSION.as_bytes()) {
            return Ok(Self);
        }
        let error = ErrorBody::new(
            ErrorCode::UnsupportedVersion,
            format!("Uploads are spoken in version {VERSION} of tus, named in `Tus-Resumable`."),
            "Name that version, or use a client that speaks it.",
        );
        Err(tus(ApiError::with_status(error, StatusCode::PRECONDITION_FAILED).into_response(), &[(TUS_VERSION, &VERSION)]))
    }
}

/// `OPTIONS /v1/uploads`: what the hub can do.
pub(crate) async fn options() -> Response {
    tus(
        StatusCode::NO_CONTENT.into_response(),
        &[
            (TUS_VERSION, &VERSION),
            (HeaderName::from_static("tus-extension"), &EXTENSIONS),
            (HeaderName::from_static("tus-max-size"), &MAX_UPLOAD_BYTES),
            (HeaderName::from_static("tus-checksum-algorithm"), &"sha256"),
        ],
    )
}

/// `POST /v1/uploads`.
pub(crate) async fn begin(State(app): State<App>, Caller(who): Caller, _: Tus, headers: HeaderMap) -> Response {
    let begun = async {
        let length = number(&headers, &UPLOAD_LENGTH)?;
        Ok::<_, ApiError>(app.hub.begin_upload(who, length).await?)
    };
    match begun.await {
        Ok(state) => {
            let location = format!("{UPLOADS}/{}", state.id);
            tus(with_state(StatusCode::CREATED.into_response(), &state), &[(header::LOCATION, &location)])
        }
        Err(error) => tus(error.into_response(), &[]),
    }
}

/// `HEAD /v1/uploads/{id}`: how far it has come.
pub(crate) async fn state(State(app): State<App>, Caller(who): Caller, _: Tus, PathId(id): PathId<UploadId>) -> Response {
    match app.hub.upload(who, id).await {
        Ok(state) => tus(with_state(StatusCode::OK.into_response(), &state), &[(UPLOAD_LENGTH, &state.length)]),
        Err(error) => tus(ApiError::from(error).into_response(), &[]),
    }
}

/// `PATCH /v1/uploads/{id}`: one more piece. What arrives of a piece that breaks off is kept, unless its digest was announced.
pub(crate) async fn piece(
    State(app): State<App>,
    Caller(who): Caller,
    _: Tus,
    PathId(id): PathId<UploadId>,
    request: Request<Body>,
) -> Response {
    let (parts, body) = request.into_parts();
    let taken = async {
        let offset = number(&parts.headers, &UPLOAD_OFFSET).map_err(IntoResponse::into_response)?;
        let announced = announced(&parts.headers).map_err(IntoResponse::into_response)?;
        if !parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(PIECE.as_bytes())) {
            let error = ErrorBody::invalid(format!("The content type of a piece is `{PIECE}`."));
            return Err(ApiError::with_status(error, StatusCode::UNSUPPORTED_MEDIA_TYPE).into_response());
        }
        let mut piece = app.hub.take_piece(who, id, offset).await.map_err(refused)?;
        let broken = receive(&app, &mut piece, body).await;
        if broken.is_some() && announced.is_some() {
            return Err(broken.map(IntoResponse::into_response).unwrap_or_default());
        }
        let state = piece.keep(announced.as_deref()).await.map_err(refused)?;
        match broken {
            None => Ok(state),
            Some(error) => Err(with_state(error.into_response(), &state)),
        }
    };
    match taken.await {
        Ok(state) => tus(with_state(StatusCode::NO_CONTENT.into_response(), &state), &[]),
        Err(response) => tus(response, &[]),
    }
}

/// `DELETE /v1/uploads/{id}`.
pub(crate) async fn end(State(app): State<App>, Caller(who): Caller, _: Tus, PathId(id): PathId<UploadId>) -> Response {
    match app.hub.end_upload(who, id).await {
        Ok(()) => tus(StatusCode::NO_CONTENT.into_response(), &[]),
        Err(error) => tus(ApiError::from(error).into_response(), &[]),
    }
}

/// `GET /v1/blobs/{sha256}`: bytes that a browser saves and never shows.
pub(crate) async fn blob(State(app): State<App>, Caller(who): Caller, PathId(digest): PathId<String>) -> Result<Response, ApiError> {
    if digest.len() != 64 || !digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(ErrorBody::not_found("blob").into());
    }
    let place = std::sync::Arc::clone(&app.blobs)
        .try_acquire_owned()
        .map_err(|_| ErrorBody::new(ErrorCode::RateLimited, "Too many blobs are being fetched at the moment.", "Try again in a moment."))?;
    let digest = Digest(digest);
    let bytes = Bytes::from(app.hub.blob(who, &digest).await?);
    let length = bytes.len();
    // The place is given up with the last piece, or with the connection.
    let body = Body::from_stream(unfold((bytes, place), |(mut rest, place)| async move {
        let next = rest.split_to(rest.len().min(SENT_BYTES));
        (!next.is_empty()).then_some((Ok::<_, std::convert::Infallible>(next), (rest, place)))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{digest}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// Takes the bytes of a piece; what kept it from being whole is returned.
async fn receive(app: &App, piece: &mut Piece, body: Body) -> Option<ApiError> {
    let mut bytes = body.into_data_stream();
    let mut superseded = std::pin::pin!(piece.superseded());
    loop {
        let next = tokio::select! {
            biased;
            () = &mut superseded => {
                let error = ErrorBody::new(ErrorCode::RateLimited, "Another connection goes on with this upload.", "Ask how far it has come.");
                return Some(ApiError::with_status(error, StatusCode::LOCKED));
            }
            next = tokio::time::timeout(app.limits.body, bytes.next()) => next,
        };
        let error = match next {
            Ok(None) => return None,
            Ok(Some(Ok(bytes))) => match piece.write(&bytes).await {
                Ok(()) => continue,
                Err(error) => error.into(),
            },
            Ok(Some(Err(_))) => ErrorBody::invalid("The piece broke off.").into(),
            Err(_) => {
                let error = ErrorBody::invalid(format!("Nothing of the piece came for {} s.", app.limits.body.as_secs()));
                ApiError::with_status(error, StatusCode::REQUEST_TIMEOUT)
            }
        };
        return Some(error);
    }
}

fn refused(error: PieceError) -> Response {
    match error {
        PieceError::Refused(error) => ApiError::from(error).into_response(),
        PieceError::Elsewhere(offset) => {
            let error = ErrorBody::new(
                ErrorCode::StaleVersion,
                format!("The upload stands at byte {offset}, and the piece begins elsewhere."),
                "Go on from there.",
            );
            with_header(ApiError::from(error).into_response(), UPLOAD_OFFSET, &offset)
        }
        PieceError::Damaged => {
            let error = ErrorBody::invalid("The piece isn't what its `Upload-Checksum` says; nothing of it was kept.");
            let status = StatusCode::from_u16(CHECKSUM_MISMATCH).unwrap_or(StatusCode::BAD_REQUEST);
            ApiError::with_status(error, status).into_response()
        }
    }
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Result<u64, ApiError> {
    let given = headers.get(name).and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
    given.ok_or_else(|| ErrorBody::invalid(format!("`{name}` is missing or isn't a number of bytes.")).into())
}

/// The digest that a piece has to have, where one is given.
fn announced(headers: &HeaderMap) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(given) = headers.get(UPLOAD_CHECKSUM) else { return Ok(None) };
    let digest = given.to_str().ok().and_then(|value| value.strip_prefix("sha256 ")).and_then(|text| BASE64_STANDARD.decode(text).ok());
    match digest.filter(|digest| digest.len() == 32) {
        Some(digest) => Ok(Some(digest)),
        None => Err(ErrorBody::invalid("`Upload-Checksum` is `sha256`, a space, and the digest in base64.").into()),
    }
}

fn with_state(response: Response, state: &UploadState) -> Response {
    let mut response = with_header(response, UPLOAD_OFFSET, &state.offset);
    if let Ok(ends) = jiff::Timestamp::from_millisecond(state.expires_at.0)
        && let Ok(text) = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&ends)
    {
        response = with_header(response, HeaderName::from_static("upload-expires"), &text);
    }
    match &state.blob {
        Some(digest) => with_header(response, HeaderName::from_static("upload-blob"), digest),
        None => response,
    }
}

fn tus(mut response: Response, headers: &[(HeaderName, &dyn Display)]) -> Response {
    for (name, value) in headers {
        response = with_header(response, name.clone(), *value);
    }
    with_header(response, TUS_RESUMABLE, &VERSION)
}

fn with_header(mut response: Response, name: HeaderName, value: &dyn Display) -> Response {
    if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
        response.headers_mut().insert(name, value);
    }
    response
}
