use crate::app::App;
use crate::auth::{Caller, Peer};
use crate::body::{JsonBody, PathId};
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{PairingApproval, PairingClaim, PairingId, PairingPreview, PairingRequest, PairingStarted, PairingState};

/// `POST /v1/pairings`, by a new device.
pub(crate) async fn start(
    State(app): State<App>,
    Peer(from): Peer,
    JsonBody(request): JsonBody<PairingRequest>,
) -> Result<Json<PairingStarted>, ApiError> {
    Ok(Json(app.hub.start_pairing(from, request)?))
}

/// `GET /v1/pairings/{code}`, by a trusted device.
pub(crate) async fn preview(
    State(app): State<App>,
    Caller(who): Caller,
    Peer(from): Peer,
    PathId(code): PathId<String>,
) -> Result<Json<PairingPreview>, ApiError> {
    Ok(Json(app.hub.preview_pairing(who, from, &code)?))
}

/// `POST /v1/pairings/{code}/approve`, by a trusted device.
pub(crate) async fn approve(
    State(app): State<App>,
    Caller(who): Caller,
    Peer(from): Peer,
    PathId(code): PathId<String>,
    JsonBody(approval): JsonBody<PairingApproval>,
) -> Result<Json<PairingPreview>, ApiError> {
    Ok(Json(app.hub.approve_pairing(who, from, &code, &approval)?))
}

/// `POST /v1/pairings/{pairing_id}/claim`, by the new device.
pub(crate) async fn claim(
    State(app): State<App>,
    Peer(from): Peer,
    PathId(id): PathId<PairingId>,
    JsonBody(claim): JsonBody<PairingClaim>,
) -> Result<Response, ApiError> {
    let mut state = app.hub.claim_pairing(from, id, &claim.secret).await?;
    let token = match &mut state {
        PairingState::Approved(credentials) if claim.cookie => Some(std::mem::take(&mut credentials.token)),
        _ => None,
    };
    let mut response = Json(state).into_response();
    if let Some(token) = token {
        app.cookie.set(&mut response, &token);
    }
    Ok(response)
}
