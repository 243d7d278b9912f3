use crate::app::App;
use axum::Json;
use axum::extract::State;
use baton_proto::HubInfo;

/// `GET /v1/hub`.
pub(crate) async fn info(State(app): State<App>) -> Json<HubInfo> {
    Json(app.hub.info())
}
