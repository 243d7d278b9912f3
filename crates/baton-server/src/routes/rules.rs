use crate::app::App;
use crate::auth::Caller;
use crate::body::PathId;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use baton_proto::{Rule, RuleId};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
}

/// `GET /v1/rules`: remembered approvals, the oldest first.
pub(crate) async fn list(State(app): State<App>, Caller(who): Caller) -> Json<Rules> {
    Json(Rules { rules: app.hub.rules(who) })
}

/// `DELETE /v1/rules/{id}`: calls like it are asked about again.
pub(crate) async fn remove(State(app): State<App>, Caller(who): Caller, PathId(rule): PathId<RuleId>) -> Result<StatusCode, ApiError> {
    app.hub.remove_rule(who, rule).await?;
    Ok(StatusCode::NO_CONTENT)
}
