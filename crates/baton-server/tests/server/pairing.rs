use crate::support::{Device, Server, assert_refused, fresh};
use baton_proto::{ClientType, ErrorCode, Trust};
use serde_json::{Value, json};

async fn start(server: &Server, name: &str) -> Value {
    let request = json!({"name": name, "client_type": "web", "capabilities": {"inputs": ["touch"]}});
    let response = server.post("/v1/pairings", request).await;
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

async fn claim(server: &Server, started: &Value, cookie: bool) -> reqwest::Response {
    let path = format!("/v1/pairings/{}/claim", started["pairing_id"].as_str().unwrap());
    server.post(&path, json!({"secret": started["secret"], "cookie": cookie})).await
}

async fn approve(server: &Server, by: &Device, code: &str, trust: &str) -> reqwest::Response {
    server
        .request("POST", &format!("/v1/pairings/{code}/approve"))
        .bearer_auth(&by.token)
        .json(&json!({"trust": trust}))
        .send()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_device_is_paired_by_code_once_a_trusted_one_saw_what_asks() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let started = start(&server, "kitchen tablet").await;
    let code = started["code"].as_str().unwrap();
    let waiting: Value = claim(&server, &started, false).await.json().await.unwrap();
    assert_eq!(waiting["state"], "waiting");

    let preview = server.get(&phone, &format!("/v1/pairings/{}", code.to_lowercase().replace('-', ""))).await;
    assert_eq!((&preview["name"], &preview["client_type"], &preview["code"]), (&json!("kitchen tablet"), &json!("web"), &json!(code)));
    assert_eq!(approve(&server, &phone, code, "standard").await.status(), 200);

    let approved: Value = claim(&server, &started, false).await.json().await.unwrap();
    assert_eq!((&approved["state"], &approved["trust"]), (&json!("approved"), &json!("standard")));
    let token = approved["token"].as_str().unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(server.request("GET", "/v1/hub").bearer_auth(token).send().await.unwrap().status(), 200);
    // The token is given once.
    assert_refused(claim(&server, &started, false).await, 404, ErrorCode::NotFound, "a second claim").await;
}

#[tokio::test]
async fn a_code_or_a_secret_alone_lets_nobody_in() {
    let server = Server::start().await;
    let standard = server.pair(server.user, Trust::Standard, ClientType::Phone).await;
    let guest = server.pair(server.user, Trust::Guest, ClientType::Phone).await;
    let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
    let started = start(&server, "stranger").await;
    let code = started["code"].as_str().unwrap();
    for device in [&standard, &guest, &machine] {
        assert_refused(approve(&server, device, code, "trusted").await, 403, ErrorCode::TrustTooLow, "approve").await;
        let look = server.request("GET", &format!("/v1/pairings/{code}")).bearer_auth(&device.token).send().await.unwrap();
        assert_refused(look, 403, ErrorCode::TrustTooLow, "look").await;
        let invite =
            server.request("POST", "/v1/invitations").bearer_auth(&device.token).json(&json!({"trust": "guest"})).send().await.unwrap();
        assert_refused(invite, 403, ErrorCode::TrustTooLow, "invite").await;
        let raise =
            server.request("PATCH", &format!("/v1/devices/{}", device.id)).bearer_auth(&device.token).json(&json!({"trust": "trusted"}));
        assert_refused(raise.send().await.unwrap(), 403, ErrorCode::TrustTooLow, "raise itself").await;
    }
    let waiting: Value = claim(&server, &started, false).await.json().await.unwrap();
    assert_eq!(waiting["state"], "waiting");
    let path = format!("/v1/pairings/{}/claim", started["pairing_id"].as_str().unwrap());
    assert_refused(server.post(&path, json!({"secret": code})).await, 404, ErrorCode::NotFound, "the code is not the secret").await;
}

#[tokio::test]
async fn a_browser_gets_its_token_as_a_cookie_and_nowhere_else() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let started = start(&server, "tab").await;
    approve(&server, &phone, started["code"].as_str().unwrap(), "trusted").await;
    let by_code = claim(&server, &started, true).await;
    let made = server.request("POST", "/v1/invitations").bearer_auth(&phone.token).json(&json!({"trust": "trusted"})).send().await.unwrap();
    let made: Value = made.json().await.unwrap();
    assert_eq!(made["url"], format!("{}/#invite={}", server.origin(), made["secret"].as_str().unwrap()));
    let by_link =
        server.post("/v1/invitations/claim", json!({"secret": made["secret"], "name": "tab", "client_type": "web", "cookie": true})).await;
    for response in [by_code, by_link] {
        assert_eq!(response.status(), 200);
        let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/; Max-Age=34560000");
        let token = pair.strip_prefix("baton_token=").unwrap();
        assert_eq!(token.len(), 64);
        let body = response.text().await.unwrap();
        assert!(!body.contains(token) && !body.contains("\"token\""), "{body}");
        let read = server.request("GET", "/v1/devices").header("cookie", pair).send().await.unwrap();
        assert_eq!(read.status(), 200);

        let signout = server.request("POST", "/v1/signout").header("cookie", pair).header("origin", server.origin()).send().await.unwrap();
        assert_eq!(signout.status(), 204);
        assert!(
            signout.headers()["set-cookie"].to_str().unwrap().starts_with("baton_token=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
        );
        let after = server.request("GET", "/v1/devices").header("cookie", pair).send().await.unwrap();
        assert_refused(after, 401, ErrorCode::Unauthenticated, "signed out").await;
    }
    assert_eq!(server.get(&phone, "/v1/devices").await["devices"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_link_works_once() {
    let server = Server::start().await;
    let made = server.hub.invite(server.user, None, Trust::Guest).await.unwrap();
    let claim = json!({"secret": made.secret, "name": "a visitor", "client_type": "phone"});
    let first: Value = server.post("/v1/invitations/claim", claim.clone()).await.json().await.unwrap();
    assert_eq!(first["trust"], "guest", "what the link says, not what its holder wants");
    assert_refused(server.post("/v1/invitations/claim", claim).await, 404, ErrorCode::NotFound, "again").await;
}

#[tokio::test]
async fn guessing_is_limited_also_from_loopback_and_whatever_is_forwarded() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut statuses = Vec::new();
    for attempt in 0..12 {
        let request = server
            .request("GET", "/v1/pairings/AAAA-AAAA")
            .bearer_auth(&phone.token)
            .header("x-forwarded-for", format!("10.0.0.{attempt}"));
        statuses.push(request.send().await.unwrap().status().as_u16());
    }
    assert_eq!(statuses[..10], [404; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    // Each way of guessing is closed by then, the right secret's too.
    let made = server.hub.invite(server.user, None, Trust::Trusted).await.unwrap();
    let claim = json!({"secret": made.secret, "name": "late", "client_type": "phone"});
    assert_refused(server.post("/v1/invitations/claim", claim).await, 429, ErrorCode::RateLimited, "a link").await;
    let path = format!("/v1/pairings/{}/claim", fresh());
    assert_refused(server.post(&path, json!({"secret": "x"})).await, 429, ErrorCode::RateLimited, "a secret").await;
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_last_forwarded_address_is_the_one_that_is_limited() {
    let server = Server::start_with(|config| config.trusted_proxy = true).await;
    let phone = server.phone().await;
    let guess = async |forwarded: &str| {
        let request = server.request("GET", "/v1/pairings/AAAA-AAAA").bearer_auth(&phone.token).header("x-forwarded-for", forwarded);
        request.send().await.unwrap().status().as_u16()
    };
    for attempt in 0..10 {
        assert_eq!(guess(&format!("10.0.0.{attempt}, 192.0.2.1")).await, 404);
    }
    assert_eq!(guess("10.0.0.99, 192.0.2.1").await, 429);
    assert_eq!(guess("192.0.2.1, 192.0.2.2").await, 404);
}

#[tokio::test]
async fn malformed_pairing_requests_are_named() {
    let server = Server::start().await;
    let rows = [
        ("/v1/pairings", json!({})),
        ("/v1/pairings", json!({"name": "x", "client_type": "toaster"})),
        ("/v1/pairings", json!({"name": "", "client_type": "web"})),
        ("/v1/pairings", json!({"name": "x".repeat(81), "client_type": "web"})),
        ("/v1/pairings", json!({"name": "a\u{202e}b", "client_type": "web"})),
        ("/v1/pairings", json!([])),
        ("/v1/invitations/claim", json!({"secret": 5, "name": "x", "client_type": "web"})),
        ("/v1/invitations/claim", json!({"secret": "s", "name": "x"})),
    ];
    for (path, body) in rows {
        let case = format!("{path} {body}");
        assert_refused(server.post(path, body).await, 400, ErrorCode::Invalid, &case).await;
    }
}
