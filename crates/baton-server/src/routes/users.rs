use crate::app::App;
use crate::body::JsonBody;
use crate::problem::ApiError;
use axum::Json;
use axum::extract::State;
use baton_proto::{AddedUser, NewUser, Trust};

/// `POST /v1/admin/users`: adds a user, with the secret of a link that pairs the user's first device.
pub(crate) async fn add(State(app): State<App>, JsonBody(user): JsonBody<NewUser>) -> Result<Json<AddedUser>, ApiError> {
    let user_id = app.hub.create_user(&user.name).await?;
    let made = app.hub.invite(user_id, None, Trust::Trusted).await?;
    Ok(Json(AddedUser { user_id, name: user.name, secret: made.secret, expires_at: made.expires_at }))
}
