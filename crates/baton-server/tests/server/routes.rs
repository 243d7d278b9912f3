use crate::support::{Server, assert_refused};
use baton_proto::ErrorCode;
use baton_server::{Access, routes};
use std::fmt::Write;

/// A path with something in each of its places.
fn filled(path: &str) -> String {
    path.replace("{*name}", "index-1a2b.js")
        .split('/')
        .map(|part| if part.starts_with('{') { uuid::Uuid::nil().to_string() } else { part.to_owned() })
        .collect::<Vec<_>>()
        .join("/")
}

#[test]
fn the_public_routes_are_these_and_no_others() {
    let mut text = String::new();
    for access in [Access::Public, Access::Private] {
        writeln!(text, "{access:?}").unwrap();
        for route in routes().iter().filter(|route| route.access == access) {
            writeln!(text, "  {:6} {}", route.method, route.path).unwrap();
        }
    }
    insta::assert_snapshot!(text, @r"
    Public
      GET    /
      GET    /assets/{*name}
      GET    /icons/{name}
      GET    /manifest.webmanifest
      GET    /service_worker.js
      GET    /healthz
      GET    /readyz
      POST   /v1/pairings
      POST   /v1/pairings/{pairing}/claim
      POST   /v1/invitations/claim
    Private
      GET    /v1/pairings/{pairing}
      POST   /v1/pairings/{pairing}/approve
      POST   /v1/invitations
      GET    /v1/invitations
      POST   /v1/invitations/{invitation}/approve
      POST   /v1/invitations/{invitation}/refuse
      GET    /v1/hub
      GET    /v1/devices
      PATCH  /v1/devices/{device}
      DELETE /v1/devices/{device}
      POST   /v1/signout
      GET    /v1/rules
      DELETE /v1/rules/{rule}
      GET    /v1/usage
      GET    /v1/workspaces
      GET    /v1/search
      GET    /v1/sessions
      POST   /v1/sessions/import
      GET    /v1/sessions/{session}
      GET    /v1/sessions/{session}/snapshot
      GET    /v1/sessions/{session}/brief
      GET    /v1/sessions/{session}/history
      GET    /v1/sessions/{session}/diff
      GET    /v1/sessions/{session}/file
      GET    /v1/sessions/{session}/paths
      GET    /v1/sessions/{session}/events
      OPTIONS /v1/uploads
      POST   /v1/uploads
      HEAD   /v1/uploads/{upload}
      PATCH  /v1/uploads/{upload}
      DELETE /v1/uploads/{upload}
      GET    /v1/blobs/{digest}
      POST   /v1/ops
      GET    /v1/ws
    ");
}

#[tokio::test]
async fn every_private_route_answers_401_without_a_token_and_with_a_wrong_one() {
    let server = Server::start().await;
    let own = format!("{}=00", server.cookie);
    let mut tried = 0;
    for route in routes().iter().filter(|route| route.access == Access::Private) {
        let path = filled(route.path);
        let case = format!("{} {path}", route.method);
        let bare = server.request(route.method, &path).send().await.unwrap();
        // An answer to it has no body.
        if route.method == "HEAD" {
            assert_eq!(bare.status(), 401, "{case}");
            continue;
        }
        assert_refused(bare, 401, ErrorCode::Unauthenticated, &case).await;
        for (name, value) in [
            ("authorization", "Bearer 00"),
            ("authorization", "Basic 00"),
            ("authorization", ""),
            ("cookie", "baton_token=00"),
            ("cookie", "baton_token="),
            ("cookie", &own),
        ] {
            let wrong = server.request(route.method, &path).header(name, value).send().await.unwrap();
            assert_refused(wrong, 401, ErrorCode::Unauthenticated, &format!("{case} {name}: {value}")).await;
        }
        tried += 1;
    }
    assert!(tried > 10);
}

#[tokio::test]
async fn no_public_route_asks_for_a_token() {
    let server = Server::start().await;
    for route in routes().iter().filter(|route| route.access == Access::Public) {
        let response = server.request(route.method, &filled(route.path)).send().await.unwrap();
        assert_ne!(response.status(), 401, "{route:?}");
    }
}

#[tokio::test]
async fn a_token_in_the_url_counts_for_nothing() {
    let server = Server::start().await;
    let phone = server.phone().await;
    for query in ["token", "access_token", "baton_token"] {
        let response = server.request("GET", &format!("/v1/hub?{query}={}", phone.token)).send().await.unwrap();
        assert_refused(response, 401, ErrorCode::Unauthenticated, query).await;
    }
}

#[tokio::test]
async fn files_of_the_console_go_compressed_to_whoever_takes_that() {
    let server = Server::start().await;
    let rows = [
        ("/assets/index-1a2b.js", Some("br, gzip"), true),
        ("/assets/index-1a2b.js", Some("gzip;q=0.5"), true),
        ("/assets/index-1a2b.js", Some("gzip;q=0, br"), false),
        ("/assets/index-1a2b.js", Some("br"), false),
        ("/assets/index-1a2b.js", None, false),
        ("/", Some("gzip"), false),
    ];
    for (path, takes, small) in rows {
        let mut request = server.request("GET", path);
        if let Some(takes) = takes {
            request = request.header("accept-encoding", takes);
        }
        let response = request.send().await.unwrap();
        let encoding = response.headers().get("content-encoding").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(
            (encoding.as_deref(), response.headers()["vary"].to_str().unwrap()),
            (small.then_some("gzip"), "accept-encoding"),
            "{path}"
        );
        assert_eq!(response.text().await.unwrap() == "squeezed", small, "{path} {takes:?}");
    }
}

#[tokio::test]
async fn every_answer_tells_browsers_what_they_may_do() {
    let server = Server::start().await;
    let phone = server.phone().await;
    for (path, status) in
        [("/", 200), ("/assets/index-1a2b.js", 200), ("/healthz", 200), ("/v1/hub", 200), ("/v1/nothing", 404), ("/v1/ops", 405)]
    {
        let response = server.request("GET", path).bearer_auth(&phone.token).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path}");
        let headers = response.headers();
        assert_eq!(
            headers["content-security-policy"],
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "{path}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(headers["cross-origin-opener-policy"], "same-origin", "{path}");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin", "{path}");
        assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{path}");
        let caching = headers["cache-control"].to_str().unwrap();
        let wanted = match path {
            "/" => "no-cache",
            "/assets/index-1a2b.js" => "public, max-age=31536000, immutable",
            _ => "no-store",
        };
        assert_eq!(caching, wanted, "{path}");
    }
}

#[tokio::test]
async fn only_embedded_files_are_served() {
    let server = Server::start().await;
    let index = server.request("GET", "/").send().await.unwrap();
    assert_eq!(index.headers()["content-type"], "text/html; charset=utf-8");
    assert!(index.text().await.unwrap().contains("<title>Baton</title>"));
    let worker = server.request("GET", "/service_worker.js").send().await.unwrap();
    assert_eq!((worker.status().as_u16(), worker.headers()["cache-control"].to_str().unwrap()), (200, "no-cache"));
    for path in [
        "/icons/..%2findex.html",
        "/icons/none.png",
        "/assets/none.js",
        "/assets/index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/index.html",
        "/index.html",
        "/etc/passwd",
        "/assets/",
    ] {
        let response = server.request("GET", path).send().await.unwrap();
        assert_refused(response, 404, ErrorCode::NotFound, path).await;
    }
}

#[tokio::test]
async fn the_console_and_health_answer_by_their_own_words() {
    let server = Server::start().await;
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        let answer: serde_json::Value = server.request("GET", path).send().await.unwrap().json().await.unwrap();
        assert_eq!(answer, serde_json::json!({"status": status}));
    }
    let wrong = server.request("DELETE", "/healthz").send().await.unwrap();
    assert_refused(wrong, 405, ErrorCode::Invalid, "a method that isn't taken").await;
    // GET changes nothing: there is no such route.
    let phone = server.phone().await;
    for path in ["/v1/ops", "/v1/signout", "/v1/invitations/claim", &format!("/v1/devices/{}", phone.id)] {
        let response = server.request("GET", path).bearer_auth(&phone.token).send().await.unwrap();
        assert!(matches!(response.status().as_u16(), 404 | 405), "{path}: {}", response.status());
    }
    assert_eq!(server.request("GET", "/v1/hub").bearer_auth(&phone.token).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_what_to_do() {
    let server = Server::start().await;
    let error = baton_server::bind(server.address).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&server.address.to_string()) && text.contains("in use") && text.contains("another port"), "{text}");
}
