//! What the port answers without encryption: how a device comes to trust the hub, and the certificate for it. Nothing here is secret, and
//! nothing of the hub is reached from here. Whoever sits between could change the page, which is why people compare the fingerprint.

use crate::app::App;
use crate::door::is_where_it_came_in;
use crate::problem::ApiError;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_proto::{ErrorBody, ErrorCode};
use std::sync::Arc;

use super::Tls;

const ENGLISH: &str = include_str!("en.html");
const CHINESE: &str = include_str!("zh.html");
const STYLE: &str = include_str!("style.css");
const PROFILE: &str = include_str!("profile.xml");

const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Everything that is answered without encryption on a port that speaks HTTPS.
pub(crate) fn router(app: &App, tls: &Arc<Tls>) -> Router {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/trust") }))
        .route("/trust", get(page))
        .route("/trust/style.css", get(|| async { ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE) }))
        .route("/trust/baton-hub.crt", get(certificate))
        .route("/trust/baton-hub.mobileconfig", get(profile))
        .fallback(https_only)
        .method_not_allowed_fallback(https_only)
        .layer(from_fn_with_state(app.clone(), look))
        .with_state(Arc::clone(tls))
}

async fn look(State(app): State<App>, request: Request, next: Next) -> Response {
    let known = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .is_some_and(|host| app.hosts.knows(host) || is_where_it_came_in(&request, host));
    let mut response = if known {
        next.run(request).await
    } else {
        let error = ErrorBody::new(
            ErrorCode::Forbidden,
            "The hub isn't known by the name that it was called by.",
            "Use an address that the hub printed, or add the name with --host.",
        );
        ApiError::with_status(error, StatusCode::MISDIRECTED_REQUEST).into_response()
    };
    let said = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in said {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// For programs that speak to the port as if it weren't encrypted. Nothing they sent was looked at.
async fn https_only() -> ApiError {
    let error = ErrorBody::new(
        ErrorCode::Forbidden,
        "This hub speaks HTTPS only.",
        "Use its https:// address, with the fingerprint that it printed when it was started.",
    );
    ApiError::with_status(error, StatusCode::UPGRADE_REQUIRED)
}

async fn page(State(tls): State<Arc<Tls>>, headers: HeaderMap) -> Response {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let agent = text(header::USER_AGENT);
    let template = if prefers_chinese(text(header::ACCEPT_LANGUAGE)) { CHINESE } else { ENGLISH };
    let mut html = template
        .replace("{{rows}}", &tls.fingerprint_rows().join("\n"))
        .replace("{{fingerprint}}", &tls.fingerprint_rows().join(" "))
        .replace("{{name}}", tls.authority_name())
        // One of the hub's own names; what follows it as a port is looked at here.
        .replace("{{host}}", &text(header::HOST).replace(|sign: char| !sign.is_ascii_alphanumeric() && !".-:[]".contains(sign), ""));
    let own = system_of(agent);
    for system in ["iphone", "android", "windows", "macos", "linux"] {
        html = html.replace(&format!("{{{{{system}}}}}"), if own == Some(system) { " open" } else { "" });
    }
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::VARY, "accept-language, user-agent")], html).into_response()
}

async fn certificate(State(tls): State<Arc<Tls>>) -> Response {
    let said =
        [(header::CONTENT_TYPE, "application/x-x509-ca-cert"), (header::CONTENT_DISPOSITION, "attachment; filename=\"baton-hub.crt\"")];
    (said, tls.certificate_pem().to_owned()).into_response()
}

/// The certificate as iPhones and iPads take it.
async fn profile(State(tls): State<Arc<Tls>>) -> Response {
    let fingerprint = tls.fingerprint();
    let profile = PROFILE
        .replace("{{name}}", tls.authority_name())
        .replace("{{certificate}}", &STANDARD.encode(tls.certificate_der()))
        .replace("{{payload}}", &uuid_like(&fingerprint[..32]))
        .replace("{{profile}}", &uuid_like(&fingerprint[32..]));
    let said = [
        (header::CONTENT_TYPE, "application/x-apple-aspen-config"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"baton-hub.mobileconfig\""),
    ];
    (said, profile).into_response()
}

/// Which kind of device asks, so that its steps are open at once. All others are there too.
fn system_of(agent: &str) -> Option<&'static str> {
    // Phones name the systems of desks as well, so they are looked for first.
    let known = [
        ("iPhone", "iphone"),
        ("iPad", "iphone"),
        ("Android", "android"),
        ("Windows", "windows"),
        ("Macintosh", "macos"),
        ("Linux", "linux"),
    ];
    known.into_iter().find_map(|(word, system)| agent.contains(word).then_some(system))
}

/// Whether Chinese comes before English in what a browser accepts.
fn prefers_chinese(accepted: &str) -> bool {
    let mut wanted: Vec<(f32, bool)> = accepted
        .split(',')
        .filter_map(|entry| {
            let mut parts = entry.trim().split(';');
            let language = parts.next()?.split('-').next()?.to_ascii_lowercase();
            let quality = parts.find_map(|part| part.trim().strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
            matches!(language.as_str(), "zh" | "en").then_some((quality, language == "zh"))
        })
        .collect();
    wanted.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    wanted.first().is_some_and(|(_, chinese)| *chinese)
}

/// Digits in the shape that profiles are named by. The same hub has the same, so that installing it again replaces it.
fn uuid_like(digits: &str) -> String {
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..32]).to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_the_one_that_the_browser_likes_more() {
        for (accepted, chinese) in [
            ("", false),
            ("zh-CN,zh;q=0.9,en;q=0.8", true),
            ("en-US,en;q=0.9,zh;q=0.8", false),
            ("de,zh;q=0.5,en;q=0.4", true),
            ("fr", false),
            ("zh;q=0.1, en", false),
        ] {
            assert_eq!(prefers_chinese(accepted), chinese, "{accepted}");
        }
    }

    #[test]
    fn the_steps_of_the_device_that_asks_are_open() {
        for (agent, system) in [
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)", Some("iphone")),
            ("Mozilla/5.0 (Linux; Android 15; Pixel 9)", Some("android")),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)", Some("macos")),
            ("Mozilla/5.0 (X11; Linux x86_64)", Some("linux")),
            ("curl/8.5", None),
        ] {
            assert_eq!(system_of(agent), system, "{agent}");
        }
    }
}
