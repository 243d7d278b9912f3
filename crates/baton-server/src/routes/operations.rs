use crate::app::App;
use crate::auth::Caller;
use crate::body::JsonBody;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::{Operation, Reply};
use serde_json::Value;

/// `POST /v1/ops`. What was understood is answered with a reply, whatever became of it; what can't be read is an error.
pub(crate) async fn operate(State(app): State<App>, Caller(who): Caller, JsonBody(body): JsonBody<Value>) -> Result<Json<Reply>, ApiError> {
    let operation = Operation::decode(body)?;
    Ok(Json(app.hub.submit(who, operation).await))
}
