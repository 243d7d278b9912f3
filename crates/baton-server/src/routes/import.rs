use crate::app::App;
use crate::auth::Caller;
use crate::body::JsonBody;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::{Reply, SessionImport};

/// `POST /v1/sessions/import`: an uploaded file becomes a session.
pub(crate) async fn import(
    State(app): State<App>,
    Caller(who): Caller,
    JsonBody(import): JsonBody<SessionImport>,
) -> Result<Json<Reply>, ApiError> {
    Ok(Json(app.hub.import(who, import).await?))
}
