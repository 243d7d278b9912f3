//! Files of a workspace for ends that are elsewhere (C33). What a file says about itself counts for nothing: a browser is told that it is
//! text, one of a few kinds of picture, or bytes to be saved, and that nothing in it runs (S7, S13).

use crate::app::App;
use crate::auth::Caller;
use crate::body::{Parameters, PathId};
use crate::problem::ApiError;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_proto::{ErrorBody, ErrorCode, FoundPaths, SessionId, make_visible};
use futures::stream::unfold;
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Duration;

/// A file is handed over in pieces of this size.
const SENT_BYTES: usize = 64 * 1024;

/// A device that sends a file more slowly holds a place that others wait for.
const FETCHED_WITHIN: Duration = Duration::from_mins(1);

/// Also of what a browser shows by itself, nothing runs and nothing is fetched.
const POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    path: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Sought {
    #[serde(default)]
    q: String,
    limit: Option<u32>,
}

/// `GET /v1/sessions/{id}/file?path=`: a file of the session's workspace as its device shows it.
pub(crate) async fn file(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
    Parameters(Named { path }): Parameters<Named>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.hub.may_look_into(who, id).await?;
    let place = std::sync::Arc::clone(&app.files)
        .try_acquire_owned()
        .map_err(|_| ErrorBody::new(ErrorCode::RateLimited, "Too many files are being fetched at the moment.", "Try again in a moment."))?;
    let shown = tokio::time::timeout(FETCHED_WITHIN, app.hub.file(who, id, &path)).await.map_err(|_| {
        let message = format!("The device didn't send the file within {} s.", FETCHED_WITHIN.as_secs());
        ErrorBody::new(ErrorCode::DeviceOffline, message, "Look whether it is well, then try again.")
    })??;
    let entity_tag = format!("\"{}\"", shown.digest);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes() == entity_tag.as_bytes());
    let kind = Kind::of(&shown.bytes);
    let bytes = if known { Bytes::new() } else { Bytes::from(shown.bytes) };
    let length = bytes.len();
    // The place is given up with the last piece, or with the connection.
    let body = Body::from_stream(unfold((bytes, place), |(mut rest, place)| async move {
        let next = rest.split_to(rest.len().min(SENT_BYTES));
        (!next.is_empty()).then_some((Ok::<_, std::convert::Infallible>(next), (rest, place)))
    }));
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { body.into_response() };
    let headers = response.headers_mut();
    if !known {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind.media_type()));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let (Ok(tag), Ok(disposition)) = (HeaderValue::from_str(&entity_tag), HeaderValue::from_str(&disposition(kind, &path))) {
        headers.insert(header::ETAG, tag);
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    Ok(response)
}

/// `GET /v1/sessions/{id}/paths?q=`: paths of the session's workspace that fit what somebody began to write.
pub(crate) async fn paths(
    State(app): State<App>,
    Caller(who): Caller,
    PathId(id): PathId<SessionId>,
    Parameters(Sought { q, limit }): Parameters<Sought>,
) -> Result<Json<FoundPaths>, ApiError> {
    Ok(Json(app.hub.paths(who, id, &q, limit).await?))
}

/// What a browser may take a file for, by what it consists of and not by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Png,
    Jpeg,
    Gif,
    Webp,
    /// Saved, never shown.
    Bytes,
}

impl Kind {
    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Webp,
            // Markup is text too, SVG included.
            _ if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => Self::Text,
            _ => Self::Bytes,
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Bytes => "application/octet-stream",
        }
    }
}

/// Whether it is shown or saved, and under which name: the last part of its path, with what deceives made visible.
fn disposition(kind: Kind, path: &str) -> String {
    let name = make_visible(path.rsplit('/').next().unwrap_or(path));
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ') { c } else { '_' }).collect();
    let mut whole = String::new();
    for byte in name.bytes() {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => write!(whole, "{}", char::from(byte)),
            other => write!(whole, "%{other:02X}"),
        };
    }
    let how = if kind == Kind::Bytes { "attachment" } else { "inline" };
    format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{whole}")
}

#[cfg(test)]
mod tests {
    use super::{Kind, disposition};

    #[test]
    fn a_file_is_what_it_consists_of_and_markup_is_text() {
        for (bytes, kind) in [
            (&b"<script>alert(1)</script>"[..], Kind::Text),
            (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", Kind::Text),
            (b"", Kind::Text),
            ("文字".as_bytes(), Kind::Text),
            (b"caf\xe9", Kind::Bytes),
            (b"%PDF-1.7\0", Kind::Bytes),
            (b"\x89PNG\r\n\x1a\n\0\0", Kind::Png),
            (b"\xff\xd8\xff\xe0", Kind::Jpeg),
            (b"GIF89a", Kind::Gif),
            (b"RIFF\0\0\0\0WEBPVP8 ", Kind::Webp),
        ] {
            assert_eq!(Kind::of(bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn a_name_can_break_out_of_no_header() {
        assert_eq!(
            disposition(Kind::Bytes, "a/b\"\r\nx: 文.bin"),
            "attachment; filename=\"b__U_000D__x_ _.bin\"; filename*=UTF-8''b%22%E2%9F%A8U%2B000D%E2%9F%A9%0Ax%3A%20%E6%96%87.bin"
        );
        assert_eq!(disposition(Kind::Text, "src/main.rs"), "inline; filename=\"main.rs\"; filename*=UTF-8''main.rs");
    }
}
