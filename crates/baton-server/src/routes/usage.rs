use crate::app::App;
use crate::auth::Caller;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::UsageReport;

/// `GET /v1/usage`: tokens by day, and the budgets that hold.
pub(crate) async fn report(State(app): State<App>, Caller(who): Caller) -> Result<Json<UsageReport>, ApiError> {
    Ok(Json(app.hub.usage(who).await?))
}
