use crate::app::App;
use crate::auth::{Caller, Peer};
use crate::body::{JsonBody, PathId};
use crate::door::CalledBy;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{Invitation, InvitationApproval, InvitationClaim, InvitationId, InvitationRequest, InvitationState, InvitationView};
use serde_json::{Value, json};

/// `POST /v1/invitations`, by a trusted device.
pub(crate) async fn invite(
    State(app): State<App>,
    Caller(who): Caller,
    CalledBy(host): CalledBy,
    JsonBody(request): JsonBody<InvitationRequest>,
) -> Result<Json<Invitation>, ApiError> {
    let made = app.hub.invite(who.user_id, Some(who), request.trust).await?;
    // What follows the `#` never leaves the browser, so the secret is in no log and no referrer.
    let url = format!("{}/#invite={}", app.hosts.base(&host), made.secret);
    Ok(Json(Invitation { invitation_id: made.invitation_id, secret: made.secret, url, expires_at: made.expires_at }))
}

/// `GET /v1/invitations`: the links that the asking device made, and who opened them.
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Json<Value> {
    Json(json!({"invitations": app.hub.invitations(who)}))
}

/// `POST /v1/invitations/{invitation_id}/approve`, by the device that made the link.
pub(crate) async fn approve(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<InvitationId>,
    JsonBody(approval): JsonBody<InvitationApproval>,
) -> Result<Json<InvitationView>, ApiError> {
    Ok(Json(app.hub.approve_invitation(who, id, &approval)?))
}

/// `POST /v1/invitations/{invitation_id}/refuse`, by the device that made the link.
pub(crate) async fn refuse(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<InvitationId>,
) -> Result<Json<InvitationView>, ApiError> {
    Ok(Json(app.hub.refuse_invitation(who, id)?))
}

/// `POST /v1/invitations/claim`, by whoever holds the link.
pub(crate) async fn claim(
    State(app): State<App>,
    Peer(from): Peer,
    JsonBody(claim): JsonBody<InvitationClaim>,
) -> Result<Response, ApiError> {
    let mut state = app.hub.open_invitation(from, &claim).await?;
    let token = match &mut state {
        InvitationState::Approved(credentials) if claim.cookie => Some(std::mem::take(&mut credentials.token)),
        _ => None,
    };
    let mut response = Json(state).into_response();
    if let Some(token) = token {
        app.cookie.set(&mut response, &token);
    }
    Ok(response)
}
