//! The console's files, which are part of the binary: nothing is read from the disk, so no path leads out (S13).

use crate::app::App;
use crate::problem::ApiError;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use baton_proto::ErrorBody;
use std::borrow::Cow;

/// One embedded file.
#[derive(Clone, Debug)]
pub struct Asset {
    pub bytes: Cow<'static, [u8]>,
    pub content_type: Cow<'static, str>,
}

/// Finds an embedded file by its name, such as `index.html` or `assets/index-1a2b3c4d.js`.
pub type Assets = fn(&str) -> Option<Asset>;

/// The names below `assets/` carry a digest of what is in them, so they never change.
const UNCHANGING: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

pub(crate) async fn index(State(app): State<App>) -> Result<Response, ApiError> {
    answer(&app, "index.html", ASK_AGAIN)
}

pub(crate) async fn asset(State(app): State<App>, Path(name): Path<String>) -> Result<Response, ApiError> {
    answer(&app, &format!("assets/{name}"), UNCHANGING)
}

/// What the console is called and looks like as an app.
pub(crate) async fn manifest(State(app): State<App>) -> Result<Response, ApiError> {
    answer(&app, "manifest.webmanifest", ASK_AGAIN)
}

pub(crate) async fn icon(State(app): State<App>, Path(name): Path<String>) -> Result<Response, ApiError> {
    answer(&app, &format!("icons/{name}"), ASK_AGAIN)
}

/// What lets the console open offline. Browsers look for a newer one each time, so that an upgraded hub's is taken at once. Its place says
/// which pages it may act for: all of this hub's.
pub(crate) async fn service_worker(State(app): State<App>) -> Result<Response, ApiError> {
    answer(&app, "service_worker.js", ASK_AGAIN)
}

fn answer(app: &App, name: &str, caching: HeaderValue) -> Result<Response, ApiError> {
    let asset = (app.assets)(name).ok_or_else(|| ErrorBody::not_found("file in the console"))?;
    let content_type = HeaderValue::from_str(&asset.content_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut response = asset.bytes.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    Ok(response)
}
