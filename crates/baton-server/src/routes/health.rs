use crate::app::App;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::{ErrorBody, ErrorCode};
use futures::FutureExt;
use serde_json::{Value, json};

/// `GET /healthz`: the process answers.
pub(crate) async fn alive() -> Json<Value> {
    Json(json!({"status": "alive"}))
}

/// `GET /readyz`: the hub takes work.
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    if *app.stopping.borrow() {
        return Err(ErrorBody::new(ErrorCode::ShuttingDown, "The hub is stopping.", "Try again in a moment.").into());
    }
    // The reason is for whoever runs the hub, and is in its log; this answer is public.
    if app.hub.failed().now_or_never().is_some() {
        return Err(ErrorBody::new(ErrorCode::StorageFailed, "The hub can't go on.", "Look at the hub's log.").into());
    }
    Ok(Json(json!({"status": "ready"})))
}
