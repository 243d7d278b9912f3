use crate::app::App;
use crate::auth::Caller;
use crate::body::{JsonBody, PathId};
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_proto::{DeviceId, DevicePatch, DeviceView, ErrorBody};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Devices {
    devices: Vec<DeviceView>,
}

/// `GET /v1/devices`.
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Json<Devices> {
    Json(Devices { devices: app.hub.devices(who) })
}

/// `PATCH /v1/devices/{id}`; answered with the device as it is now.
pub(crate) async fn change(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(device): PathId<DeviceId>,
    JsonBody(patch): JsonBody<DevicePatch>,
) -> Result<Json<DeviceView>, ApiError> {
    app.hub.change_device(who, device, patch).await?;
    let changed = app.hub.devices(who).into_iter().find(|view| view.device_id == device);
    Ok(Json(changed.ok_or_else(|| ErrorBody::not_found("device"))?))
}

/// `DELETE /v1/devices/{id}`: its token is dead from then on.
pub(crate) async fn revoke(State(app): State<App>, Caller(who): Caller, PathId(device): PathId<DeviceId>) -> Result<StatusCode, ApiError> {
    app.hub.revoke(who, device).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/signout`: a device gives its own token up.
pub(crate) async fn sign_out(State(app): State<App>, Caller(who): Caller) -> Result<Response, ApiError> {
    app.hub.revoke(who, who.device_id).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    app.cookie.set(&mut response, "");
    Ok(response)
}
