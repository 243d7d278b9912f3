use crate::app::App;
use crate::auth::Caller;
use axum::Json;
use axum::extract::State;
use baton_proto::Workspace;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Workspaces {
    workspaces: Vec<Workspace>,
}

/// `GET /v1/workspaces`.
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Json<Workspaces> {
    Json(Workspaces { workspaces: app.hub.workspaces(who) })
}
