use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_proto::ErrorBody;
use uuid::Uuid;

/// A refusal, which is its own answer: RFC 9457 with the status of its code. The one place where codes become statuses.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    body: ErrorBody,
    /// Where HTTP has a word of its own for what the code says in general.
    status: Option<StatusCode>,
}

impl ApiError {
    pub(crate) const fn with_status(body: ErrorBody, status: StatusCode) -> Self {
        Self { body, status: Some(status) }
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self { body, status: None }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let of_code = || StatusCode::from_u16(self.body.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let status = self.status.unwrap_or_else(of_code);
        // The path isn't repeated, since what a caller puts there may be a secret. The name leads from an answer to the log.
        let instance = Uuid::now_v7().urn().to_string();
        if status.is_server_error() {
            tracing::warn!(%instance, code = %self.body.code, message = %self.body.message, "a request failed");
        } else {
            tracing::debug!(%instance, code = %self.body.code, "a request was refused");
        }
        let mut problem = self.body.problem(&instance);
        problem.status = status.as_u16();
        let mut response = (status, Json(problem)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
