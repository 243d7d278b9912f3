//! The console's files, which are part of the binary: nothing is read from the disk, so no path leads out (S13).

use crate::app::App;
use crate::problem::ApiError;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use baton_proto::ErrorBody;
use std::borrow::Cow;

/// One embedded file.
#[derive(Clone, Debug)]
pub struct Asset {
    pub bytes: Cow<'static, [u8]>,
    pub content_type: Cow<'static, str>,
}

/// Finds an embedded file by its name, such as `index.html` or `assets/index-1a2b3c4d.js`. Its name with `.gz` behind it finds a copy that is
/// compressed, where there is one.
pub type Assets = fn(&str) -> Option<Asset>;

/// The names below `assets/` carry a digest of what is in them, so they never change.
const UNCHANGING: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

pub(crate) async fn index(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, "index.html", ASK_AGAIN)
}

pub(crate) async fn asset(State(app): State<App>, Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, &format!("assets/{name}"), UNCHANGING)
}

/// What the console is called and looks like as an app.
pub(crate) async fn manifest(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, "manifest.webmanifest", ASK_AGAIN)
}

pub(crate) async fn icon(State(app): State<App>, Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, &format!("icons/{name}"), ASK_AGAIN)
}

/// What lets the console open offline. Browsers look for a newer one each time, so that an upgraded hub's is taken at once. Its place says
/// which pages it may act for: all of this hub's.
pub(crate) async fn service_worker(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    answer(&app, &headers, "service_worker.js", ASK_AGAIN)
}

fn answer(app: &App, asked: &HeaderMap, name: &str, caching: HeaderValue) -> Result<Response, ApiError> {
    let asset = (app.assets)(name).ok_or_else(|| ErrorBody::not_found("file in the console"))?;
    let content_type = HeaderValue::from_str(&asset.content_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    // Files hold nothing that is secret, so their length when compressed tells nothing.
    let small = takes_gzip(asked).then(|| (app.assets)(&format!("{name}.gz"))).flatten();
    let is_small = small.is_some();
    let mut response = small.unwrap_or(asset).bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, caching);
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_small {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// Whether a browser says that it takes what is compressed by gzip, and not that it would rather not.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let listed =
        asked.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    listed.map(|coding| coding.split(';').map(str::trim)).any(|mut coding| {
        coding.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"))
            && !coding.any(|weight| weight.strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0)))
    })
}
