use crate::app::App;
use crate::auth::Caller;
use crate::body::{Parameters, PathId};
use crate::problem::ApiError;
use crate::routes::stream;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use baton_proto::{Brief, Change, History, SessionFilter, SessionId, SessionList, SessionView, Snapshot};
use serde::{Deserialize, Serialize};

/// Entries of a page when nothing else is asked for.
const PAGE: u32 = 50;
const PAGE_OF_EVENTS: u32 = 200;

#[derive(Debug, Deserialize)]
pub(crate) struct ListPage {
    before: Option<String>,
    limit: Option<u32>,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    waiting: bool,
    #[serde(default)]
    pinned: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HistoryPage {
    before: Option<u64>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EventsPage {
    after: Option<u64>,
    limit: Option<u32>,
}

/// One page of a session's log.
#[derive(Debug, Serialize)]
pub(crate) struct Events {
    changes: Vec<Change>,
    /// The last sequence number there is.
    head: u64,
}

/// `GET /v1/sessions`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(who): Caller,
    Parameters(page): Parameters<ListPage>,
) -> Result<Json<SessionList>, ApiError> {
    let ListPage { before, limit, archived, waiting, pinned } = page;
    let filter = SessionFilter { archived, waiting, pinned };
    Ok(Json(app.hub.sessions_that(who, filter, before.as_deref(), limit.unwrap_or(PAGE)).await?))
}

/// `GET /v1/sessions/{id}`.
pub(crate) async fn view(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
) -> Result<Json<SessionView>, ApiError> {
    Ok(Json(app.hub.view(who, id).await?))
}

/// `GET /v1/sessions/{id}/snapshot`.
pub(crate) async fn snapshot(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(app.hub.snapshot(who, id).await?))
}

/// `GET /v1/sessions/{id}/brief`.
pub(crate) async fn brief(State(app): State<App>, Caller(who): Caller, PathId(id): PathId<SessionId>) -> Result<Json<Brief>, ApiError> {
    Ok(Json(app.hub.brief(who, id).await?))
}

/// `GET /v1/sessions/{id}/history`.
pub(crate) async fn history(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
    Parameters(page): Parameters<HistoryPage>,
) -> Result<Json<History>, ApiError> {
    Ok(Json(app.hub.history(who, id, page.before, page.limit.unwrap_or(PAGE as usize)).await?))
}

/// `GET /v1/sessions/{id}/events`: a page of the log, or the session followed live for whoever accepts that.
pub(crate) async fn events(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
    Parameters(page): Parameters<EventsPage>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if stream::is_asked_for(&headers) {
        return stream::follow(&app, who, id, stream::last_seen(&headers)?.or(page.after)).await;
    }
    let (changes, head) = app.hub.changes(who, id, page.after.unwrap_or(0), page.limit.unwrap_or(PAGE_OF_EVENTS)).await?;
    Ok(Json(Events { changes, head }).into_response())
}
