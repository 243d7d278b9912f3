use crate::app::App;
use crate::auth::Caller;
use crate::body::Parameters;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::SearchResults;
use serde::Deserialize;

/// Hits when nothing else is asked for.
const HITS: u32 = 20;

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    q: String,
    limit: Option<u32>,
}

/// `GET /v1/search`.
pub(crate) async fn search(
    State(app): State<App>,
    Caller(who): Caller,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<SearchResults>, ApiError> {
    Ok(Json(app.hub.search(who, &wanted.q, wanted.limit.unwrap_or(HITS)).await?))
}
