use crate::app::App;
use crate::auth::{Caller, Peer, set_cookie};
use crate::body::JsonBody;
use crate::door::CalledBy;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_proto::{Invitation, InvitationClaim, InvitationRequest};

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

/// `POST /v1/invitations/claim`, by whoever holds the link.
pub(crate) async fn claim(
    State(app): State<App>,
    Peer(from): Peer,
    JsonBody(claim): JsonBody<InvitationClaim>,
) -> Result<Response, ApiError> {
    let mut credentials = app.hub.claim_invitation(from, &claim).await?;
    let token = claim.cookie.then(|| std::mem::take(&mut credentials.token));
    let mut response = Json(credentials).into_response();
    if let Some(token) = token {
        set_cookie(&app, &mut response, &token);
    }
    Ok(response)
}
