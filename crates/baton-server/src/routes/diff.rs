use crate::app::App;
use crate::auth::Caller;
use crate::body::{Parameters, PathId};
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::{CallId, SessionId, TaskId, WorkspaceDiff};
use baton_runtime::DiffOf;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Of {
    task: Option<TaskId>,
    step: Option<String>,
    call: Option<CallId>,
}

/// `GET /v1/sessions/{id}/diff`: what the agent changed in the workspace, asked of the device that holds it.
pub(crate) async fn diff(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
    Parameters(Of { task, step, call }): Parameters<Of>,
) -> Result<Json<WorkspaceDiff>, ApiError> {
    Ok(Json(app.hub.diff(who, id, DiffOf { task, step, call }).await?))
}
