use crate::support::{Server, Socket, assert_refused, fresh, raw};
use baton_proto::{ClientType, ErrorCode, Trust};
use serde_json::json;

const HANDSHAKE: &str =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn a_foreign_or_missing_host_is_refused_everywhere_even_with_a_token() {
    let server = Server::start_with(|config| config.allowed_hosts = vec!["hub.lan".to_owned()]).await;
    let token = server.phone().await.token;
    let port = server.address.port();
    let foreign = [
        String::new(),
        "Host: \r\n".to_owned(),
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: localhost.evil.example:{port}\r\n"),
        format!("Host: 0.0.0.0:{port}\r\n"),
        "Host: localhost\r\nHost: evil.example\r\n".to_owned(),
        "Host: x@localhost\r\n".to_owned(),
    ];
    for host in foreign {
        for path in ["/", "/healthz", "/v1/hub", "/nothing"] {
            let answer =
                raw(server.address, &format!("GET {path} HTTP/1.1\r\n{host}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"))
                    .await;
            assert_eq!(answer.status, 421, "{host:?} {path}: {answer:?}");
            assert!(answer.text.contains("\"forbidden\""), "{answer:?}");
        }
        let upgrade =
            raw(server.address, &format!("GET /v1/ws HTTP/1.1\r\n{host}Authorization: Bearer {token}\r\n{HANDSHAKE}\r\n")).await.status;
        assert_eq!(upgrade, 421, "{host:?}");
    }
    let whole_url =
        format!("GET http://evil.example/v1/hub HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    assert_eq!(raw(server.address, &whole_url).await.status, 421);
    for host in
        [format!("localhost:{port}"), "LOCALHOST".to_owned(), format!("127.0.0.1:{port}"), "[::1]".to_owned(), "hub.lan:80".to_owned()]
    {
        let answer = raw(
            server.address,
            &format!("GET /v1/hub HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"),
        )
        .await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn a_foreign_origin_is_refused_on_every_channel_even_with_a_token() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let address = server.address.to_string();
    let port = server.address.port();
    let foreign = [
        "null".to_owned(),
        String::new(),
        "http://evil.example".to_owned(),
        format!("http://{address}.evil.example"),
        format!("http://evil{address}"),
        format!("https://{address}"),
        "http://127.0.0.1".to_owned(),
        format!("http://127.0.0.1:{}", port.wrapping_add(1)),
        format!("http://localhost:{port}"),
    ];
    let bearer = format!("Bearer {}", phone.token);
    let cookie = format!("{}={}", server.cookie, phone.token);
    for origin in &foreign {
        for (name, value) in [("authorization", &bearer), ("cookie", &cookie)] {
            for (method, path) in
                [("GET", "/v1/hub"), ("POST", "/v1/ops"), ("POST", "/v1/pairings"), ("GET", "/"), ("POST", "/v1/invitations/claim")]
            {
                let response = server
                    .request(method, path)
                    .header(name, value.as_str())
                    .header("origin", origin.as_str())
                    .body("{}")
                    .send()
                    .await
                    .unwrap();
                assert_refused(response, 403, ErrorCode::Forbidden, &format!("{origin} {name} {path}")).await;
            }
            let dialled = Socket::try_dial(server.address, &[(name, value.as_str()), ("origin", origin.as_str())]).await;
            assert_eq!(dialled.err(), Some(403), "{origin} {name}");
        }
    }
    let own = server.origin();
    for (name, value) in [("authorization", &bearer), ("cookie", &cookie)] {
        let response = server.request("GET", "/v1/hub").header(name, value.as_str()).header("origin", &own).send().await.unwrap();
        assert_eq!(response.status(), 200, "{name}");
        assert!(Socket::try_dial(server.address, &[(name, value.as_str()), ("origin", own.as_str())]).await.is_ok(), "{name}");
    }
}

#[tokio::test]
async fn a_cookie_acts_only_for_the_hubs_own_page() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let cookie = format!("other=1; {}={}", server.cookie, phone.token);
    let operation = json!({"v": 1, "operation_id": fresh(), "intent": "new_session"});
    let bare = server.request("POST", "/v1/ops").header("cookie", &cookie).json(&operation).send().await.unwrap();
    assert_refused(bare, 403, ErrorCode::Forbidden, "no origin").await;
    assert_eq!(Socket::try_dial(server.address, &[("cookie", &cookie)]).await.err(), Some(403));
    assert_eq!(server.get(&phone, "/v1/sessions").await["sessions"], json!([]));

    let own = server
        .request("POST", "/v1/ops")
        .header("cookie", &cookie)
        .header("origin", server.origin())
        .json(&operation)
        .send()
        .await
        .unwrap();
    assert_eq!(own.status(), 200);
    // Reading needs none, since browsers don't send one along with their own pages' reads.
    let read = server.request("GET", "/v1/sessions").header("cookie", &cookie).send().await.unwrap();
    assert_eq!(read.json::<serde_json::Value>().await.unwrap()["sessions"].as_array().unwrap().len(), 1);
}

/// Every route that is asked by GET, and every route that changes something asked by GET all the same.
#[tokio::test]
async fn s2_no_get_changes_anything() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let session = server.session(&phone).await;
    let link = server.request("POST", "/v1/invitations").bearer_auth(&phone.token).json(&json!({"trust": "trusted"})).send().await.unwrap();
    let link: serde_json::Value = link.json().await.unwrap();
    let all = async || {
        let mut all = Vec::new();
        for path in ["/v1/devices", "/v1/sessions", "/v1/rules", "/v1/invitations", &format!("/v1/sessions/{session}/events")] {
            all.push(server.get(&phone, path).await.to_string());
        }
        // A device that asks was heard of.
        all.iter().map(|text| text.split("\"last_seen_at\"").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = all().await;
    let mut refused = 0;
    for route in baton_server::routes().iter().filter(|route| route.path != "/v1/ws" && !route.path.ends_with("/events")) {
        let path = route.path.replace("{session}", &session.to_string()).replace("{device}", &phone.id.to_string());
        let path = path.replace("{invitation}", link["invitation_id"].as_str().unwrap());
        let body =
            json!({"number": "000", "name": "changed", "trust": "guest", "secret": link["secret"], "client_type": "web"}).to_string();
        let response = server.request("GET", &path).bearer_auth(&phone.token).header("content-type", "application/json").body(body);
        let status = response.send().await.unwrap().status().as_u16();
        let also_read = baton_server::routes().iter().any(|other| other.method == "GET" && other.path == route.path);
        if route.method != "GET" && !also_read && status == 405 {
            refused += 1;
        }
    }
    assert!(refused > 8, "{refused}");
    assert_eq!(all().await, before);
}

#[tokio::test]
async fn only_json_changes_anything() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let operation = json!({"v": 1, "operation_id": fresh(), "intent": "new_session"}).to_string();
    for content_type in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonx",
    ] {
        let request = server
            .client
            .post(server.url("/v1/ops"))
            .bearer_auth(&phone.token)
            .header("content-type", content_type)
            .body(operation.clone());
        assert_refused(request.send().await.unwrap(), 415, ErrorCode::Invalid, content_type).await;
    }
    let without = server.client.post(server.url("/v1/ops")).bearer_auth(&phone.token).body(operation.clone()).send().await.unwrap();
    assert_refused(without, 415, ErrorCode::Invalid, "no content type").await;
    for encoding in ["gzip", "br", "deflate", "zstd", "identity, gzip"] {
        let request =
            server.request("POST", "/v1/ops").bearer_auth(&phone.token).header("content-encoding", encoding).body(operation.clone());
        assert_refused(request.send().await.unwrap(), 415, ErrorCode::Invalid, encoding).await;
    }
    assert_eq!(server.get(&phone, "/v1/sessions").await["sessions"], json!([]));
    let request =
        server.client.post(server.url("/v1/ops")).bearer_auth(&phone.token).header("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(request.body(operation).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn behind_a_public_url_its_origin_is_the_own_one_and_cookies_are_secure() {
    let server = Server::start_with(|config| config.public_url = Some("https://baton.example".to_owned())).await;
    let made = server.hub.invite(server.user, None, Trust::Trusted).await.unwrap();
    let claim = json!({"secret": made.secret, "name": "tab", "client_type": "web", "cookie": true});
    let request = server.request("POST", "/v1/invitations/claim").header("host", "baton.example").header("origin", "https://baton.example");
    let response = request.json(&claim).send().await.unwrap();
    assert_eq!(response.status(), 200);
    // The prefix has browsers see to it that only this host set it, and over TLS.
    let set = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.ends_with("; Path=/; Max-Age=34560000; Secure") && !set.contains("Domain"), "{set}");
    let pair = set.split(';').next().unwrap();
    assert!(pair.starts_with(&format!("__Host-{}=", server.cookie)), "{pair}");
    let mine = server.request("GET", "/v1/devices").header("host", "baton.example").header("cookie", pair).send().await.unwrap();
    assert_eq!(mine.status(), 200);
    // Who signed in before the hub had TLS stays signed in, under the new name.
    let plain = pair.trim_start_matches("__Host-");
    let before = server.request("GET", "/v1/devices").header("host", "baton.example").header("cookie", plain).send().await.unwrap();
    let renewed: Vec<_> = before.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    assert_eq!(renewed, [set.clone(), format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0; Secure", server.cookie)]);
    // A plain cookie that somebody on the way put beside it counts for nothing.
    let both = server.request("GET", "/v1/devices").header("host", "baton.example").header("cookie", format!("{plain}; {pair}x"));
    assert_refused(both.send().await.unwrap(), 401, ErrorCode::Unauthenticated, "a wrong one with the prefix").await;
    let response =
        server.request("GET", "/v1/hub").header("host", "baton.example").header("origin", "http://baton.example:81").send().await.unwrap();
    assert_refused(response, 403, ErrorCode::Forbidden, "another origin").await;

    let phone = server.pair(server.user, Trust::Trusted, ClientType::Phone).await;
    let invitation =
        server.request("POST", "/v1/invitations").bearer_auth(&phone.token).json(&json!({"trust": "standard"})).send().await.unwrap();
    let invitation: serde_json::Value = invitation.json().await.unwrap();
    assert!(invitation["url"].as_str().unwrap().starts_with("https://baton.example/#invite="), "{}", invitation["url"]);
}
