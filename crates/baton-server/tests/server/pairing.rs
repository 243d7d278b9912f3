use crate::support::{Device, Server, Socket, assert_refused, fresh};
use baton_proto::{ClientType, ErrorCode, Timestamp, Trust};
use baton_runtime::{Clock, SystemClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

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

async fn act(server: &Server, by: &Device, path: &str, body: Value) -> reqwest::Response {
    server.request("POST", path).bearer_auth(&by.token).json(&body).send().await.unwrap()
}

/// Approves with the number that the new device shows.
async fn approve(server: &Server, by: &Device, started: &Value, trust: &str) -> reqwest::Response {
    let path = format!("/v1/pairings/{}/approve", started["code"].as_str().unwrap());
    act(server, by, &path, json!({"trust": trust, "number": started["number"]})).await
}

/// A link made by a device.
async fn link(server: &Server, by: &Device, trust: &str) -> Value {
    let made = act(server, by, "/v1/invitations", json!({"trust": trust})).await;
    assert_eq!(made.status(), 200);
    made.json().await.unwrap()
}

async fn open(server: &Server, made: &Value, name: &str) -> reqwest::Response {
    server.post("/v1/invitations/claim", json!({"secret": made["secret"], "name": name, "client_type": "phone"})).await
}

/// Decides about a link, and answers with how it stands.
async fn decide(server: &Server, by: &Device, made: &Value, decision: &str, body: Value) -> reqwest::Response {
    act(server, by, &format!("/v1/invitations/{}/{decision}", made["invitation_id"].as_str().unwrap()), body).await
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
    assert_eq!((&preview["number"], &preview["from"]), (&started["number"], &json!("127.0.0.1")));
    assert_eq!(approve(&server, &phone, &started, "standard").await.status(), 200);

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
        assert_refused(approve(&server, device, &started, "trusted").await, 403, ErrorCode::TrustTooLow, "approve").await;
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
    approve(&server, &phone, &started, "trusted").await;
    let by_code = claim(&server, &started, true).await;
    let made = link(&server, &phone, "trusted").await;
    assert_eq!(made["url"], format!("{}/#invite={}", server.origin(), made["secret"].as_str().unwrap()));
    let asking: Value = open(&server, &made, "tab").await.json().await.unwrap();
    decide(&server, &phone, &made, "approve", json!({"number": asking["number"]})).await;
    let by_link = claim(&server, &asking, true).await;
    let owners = server.hub.invite(server.user, None, Trust::Trusted).await.unwrap().secret;
    let by_owners_link =
        server.post("/v1/invitations/claim", json!({"secret": owners, "name": "tab", "client_type": "web", "cookie": true})).await;
    for response in [by_code, by_link, by_owners_link] {
        assert_eq!(response.status(), 200);
        let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/; Max-Age=34560000");
        let (name, token) = pair.split_once('=').unwrap();
        assert_eq!((name, token.len()), (&*server.cookie, 64));
        let body = response.text().await.unwrap();
        assert!(!body.contains(token) && !body.contains("\"token\""), "{body}");
        let read = server.request("GET", "/v1/devices").header("cookie", pair).send().await.unwrap();
        assert_eq!(read.status(), 200);

        let signout = server.request("POST", "/v1/signout").header("cookie", pair).header("origin", server.origin()).send().await.unwrap();
        assert_eq!(signout.status(), 204);
        assert!(
            signout.headers()["set-cookie"]
                .to_str()
                .unwrap()
                .starts_with(&format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", server.cookie))
        );
        let after = server.request("GET", "/v1/devices").header("cookie", pair).send().await.unwrap();
        assert_refused(after, 401, ErrorCode::Unauthenticated, "signed out").await;
    }
    assert_eq!(server.get(&phone, "/v1/devices").await["devices"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_owners_link_works_once() {
    let server = Server::start().await;
    let made = server.hub.invite(server.user, None, Trust::Guest).await.unwrap();
    let claim = json!({"secret": made.secret, "name": "a visitor", "client_type": "phone"});
    let first: Value = server.post("/v1/invitations/claim", claim.clone()).await.json().await.unwrap();
    assert_eq!((&first["state"], &first["trust"]), (&json!("approved"), &json!("guest")), "what the link says, not what its holder wants");
    assert_refused(server.post("/v1/invitations/claim", claim).await, 404, ErrorCode::NotFound, "again").await;
}

/// What a browser keeps for a host, whatever the port, and sends to each hub there.
#[derive(Debug, Default)]
struct Jar(BTreeMap<String, String>);

impl Jar {
    fn take(&mut self, response: &reqwest::Response) {
        for set in response.headers().get_all("set-cookie") {
            let (name, value) = set.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            if value.is_empty() {
                self.0.remove(name)
            } else {
                self.0.insert(name.to_owned(), value.to_owned())
            };
        }
    }

    async fn send(&mut self, server: &Server, method: &str, path: &str, body: Value) -> reqwest::Response {
        let cookies: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = server.request(method, path).header("cookie", cookies.join("; ")).header("origin", server.origin());
        let response = if method == "GET" { request.send() } else { request.json(&body).send() }.await.unwrap();
        self.take(&response);
        response
    }

    /// The name of the device that this browser is for a hub.
    async fn own_name(&mut self, server: &Server) -> Option<String> {
        let response = self.send(server, "GET", "/v1/devices", Value::Null).await;
        (response.status() == 200).then_some(())?;
        let listed: Value = response.json().await.unwrap();
        let own = listed["devices"].as_array().unwrap().iter().find(|device| device["own"] == true).unwrap();
        Some(own["name"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
async fn a_browser_is_signed_in_at_two_hubs_of_one_host() {
    let (one, two) = (Server::start().await, Server::start().await);
    assert_ne!(one.cookie, two.cookie);
    let mut jar = Jar::default();
    for (server, name) in [(&one, "at one"), (&two, "at two")] {
        let made = server.hub.invite(server.user, None, Trust::Trusted).await.unwrap();
        let claim = json!({"secret": made.secret, "name": name, "client_type": "web", "cookie": true});
        assert_eq!(jar.send(server, "POST", "/v1/invitations/claim", claim).await.status(), 200);
    }
    assert_eq!(jar.own_name(&one).await.as_deref(), Some("at one"));
    assert_eq!(jar.own_name(&two).await.as_deref(), Some("at two"));
    assert_eq!(jar.send(&one, "POST", "/v1/signout", json!({})).await.status(), 204);
    assert_eq!(jar.own_name(&one).await, None);
    assert_eq!(jar.own_name(&two).await.as_deref(), Some("at two"), "leaving one hub leaves the other alone");
}

#[tokio::test]
async fn a_cookie_of_the_old_name_is_read_once_and_replaced() {
    let (one, two) = (Server::start().await, Server::start().await);
    let device = one.phone().await;
    let mut jar = Jar::default();
    jar.0.insert("baton_token".to_owned(), device.token.clone());
    // Another hub's it isn't, and there it stays as it is.
    assert_eq!(jar.own_name(&two).await, None);
    assert_eq!(jar.0.keys().collect::<Vec<_>>(), ["baton_token"]);
    assert_eq!(jar.own_name(&one).await.as_deref(), Some("a phone"));
    assert_eq!(jar.0, BTreeMap::from([(one.cookie.clone(), device.token.clone())]));
    assert_eq!(jar.own_name(&one).await.as_deref(), Some("a phone"));
    // Signing out takes back both.
    let mut jar = Jar::default();
    jar.0.insert("baton_token".to_owned(), device.token.clone());
    assert_eq!(jar.send(&one, "POST", "/v1/signout", json!({})).await.status(), 204);
    assert_eq!(jar.0, BTreeMap::new());
}

/// Waits for the word that somebody opened or tried a link.
async fn told(socket: &mut Socket) {
    while socket.until("changed").await["what"] != "invitations" {}
}

/// A clock that is set by hand.
#[derive(Debug)]
struct ByHand(AtomicI64);

impl ByHand {
    fn forward(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ByHand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn random(&self) -> u64 {
        SystemClock.random()
    }
}

#[tokio::test]
async fn s4_an_open_link_lets_nobody_in_before_its_maker_compared_the_number() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = server.connect(&phone).await;
    let made = link(&server, &phone, "standard").await;
    let early = decide(&server, &phone, &made, "approve", json!({"number": "000"})).await;
    assert_refused(early, 409, ErrorCode::IllegalTransition, "nobody has opened it").await;

    let asking: Value = open(&server, &made, "new phone").await.json().await.unwrap();
    assert_eq!((&asking["state"], &asking.get("token")), (&json!("asking"), &None));
    // The maker's screen is told at once, and shows what asks with the same number.
    told(&mut socket).await;
    let listed = server.get(&phone, "/v1/invitations").await;
    let shown = &listed["invitations"][0];
    assert_eq!(
        (&shown["standing"], &shown["asking"]),
        (&json!("asking"), &json!({"name": "new phone", "client_type": "phone", "from": "127.0.0.1", "number": asking["number"]}))
    );
    let text = listed.to_string();
    assert!(!text.contains(made["secret"].as_str().unwrap()) && !text.contains(asking["secret"].as_str().unwrap()), "{text}");
    let waiting: Value = claim(&server, &asking, false).await.json().await.unwrap();
    assert_eq!(waiting["state"], "waiting");

    let wrong = if asking["number"] == "111" { "112" } else { "111" };
    let refused = decide(&server, &phone, &made, "approve", json!({"number": wrong})).await;
    assert_refused(refused, 400, ErrorCode::Invalid, "another number").await;
    let waiting: Value = claim(&server, &asking, false).await.json().await.unwrap();
    assert_eq!(waiting["state"], "waiting");

    assert_eq!(decide(&server, &phone, &made, "approve", json!({"number": asking["number"]})).await.status(), 200);
    let entered: Value = claim(&server, &asking, false).await.json().await.unwrap();
    assert_eq!((&entered["state"], &entered["trust"], &entered["name"]), (&json!("approved"), &json!("standard"), &json!("new phone")));
    assert_refused(claim(&server, &asking, false).await, 404, ErrorCode::NotFound, "the token is given once").await;
}

#[tokio::test]
async fn s4_a_second_claimer_is_refused_and_the_maker_is_told() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let mut socket = server.connect(&phone).await;
    let made = link(&server, &phone, "trusted").await;
    let first: Value = open(&server, &made, "mine").await.json().await.unwrap();
    told(&mut socket).await;
    assert_refused(open(&server, &made, "mine").await, 404, ErrorCode::NotFound, "the same name helps nobody").await;
    told(&mut socket).await;
    let shown = server.get(&phone, "/v1/invitations").await;
    assert_eq!((&shown["invitations"][0]["others"], &shown["invitations"][0]["asking"]["number"]), (&json!(1), &first["number"]));
    // Once it was used it is dead too, and that somebody tried is still told.
    decide(&server, &phone, &made, "approve", json!({"number": first["number"]})).await;
    claim(&server, &first, false).await;
    assert_refused(open(&server, &made, "late").await, 404, ErrorCode::NotFound, "a used one").await;
    assert_eq!(server.get(&phone, "/v1/invitations").await["invitations"][0]["others"], 2);
}

#[tokio::test]
async fn s4_only_the_device_that_made_a_link_decides_and_a_refusal_is_final() {
    let server = Server::start().await;
    let (phone, other) = (server.phone().await, server.phone().await);
    let stranger = server.pair(server.hub.create_user("bob").await.unwrap(), Trust::Trusted, ClientType::Phone).await;
    let made = link(&server, &phone, "trusted").await;
    let asking: Value = open(&server, &made, "new").await.json().await.unwrap();
    let number = json!({"number": asking["number"]});
    for device in [&other, &stranger] {
        assert_eq!(server.get(device, "/v1/invitations").await["invitations"], json!([]));
        assert_refused(decide(&server, device, &made, "approve", number.clone()).await, 404, ErrorCode::NotFound, "approve").await;
        assert_refused(decide(&server, device, &made, "refuse", json!({})).await, 404, ErrorCode::NotFound, "refuse").await;
    }
    let refused: Value = decide(&server, &phone, &made, "refuse", json!({})).await.json().await.unwrap();
    assert_eq!(refused["standing"], "refused");
    assert_refused(claim(&server, &asking, false).await, 403, ErrorCode::Forbidden, "it is told").await;
    assert_refused(decide(&server, &phone, &made, "approve", number).await, 409, ErrorCode::IllegalTransition, "afterwards").await;
    // A link that nobody has opened is withdrawn in the same way.
    let made = link(&server, &phone, "trusted").await;
    decide(&server, &phone, &made, "refuse", json!({})).await;
    assert_refused(open(&server, &made, "new").await, 404, ErrorCode::NotFound, "withdrawn").await;
}

#[tokio::test]
async fn s4_three_wrong_numbers_or_secrets_kill_a_request() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let wrong = |number: &Value| json!({"trust": "trusted", "number": if number == "111" { "112" } else { "111" }});
    // By code.
    let started = start(&server, "tablet").await;
    let path = format!("/v1/pairings/{}/approve", started["code"].as_str().unwrap());
    assert_refused(act(&server, &phone, &path, json!({"trust": "trusted"})).await, 400, ErrorCode::Invalid, "no number").await;
    for _ in 0..3 {
        assert_refused(act(&server, &phone, &path, wrong(&started["number"])).await, 400, ErrorCode::Invalid, "wrong").await;
    }
    assert_refused(approve(&server, &phone, &started, "trusted").await, 404, ErrorCode::NotFound, "dead").await;
    assert_refused(claim(&server, &started, false).await, 404, ErrorCode::NotFound, "dead").await;
    // By link.
    let made = link(&server, &phone, "trusted").await;
    let asking: Value = open(&server, &made, "new").await.json().await.unwrap();
    for _ in 0..3 {
        let refused = decide(&server, &phone, &made, "approve", wrong(&asking["number"])).await;
        assert_refused(refused, 400, ErrorCode::Invalid, "wrong").await;
    }
    assert_refused(claim(&server, &asking, false).await, 403, ErrorCode::Forbidden, "dead").await;
    // By secrets that are guessed.
    let started = start(&server, "tablet").await;
    let guess = json!({"pairing_id": started["pairing_id"], "secret": "guessed"});
    for _ in 0..3 {
        assert_refused(claim(&server, &guess, false).await, 404, ErrorCode::NotFound, "guessed").await;
    }
    assert_refused(claim(&server, &started, false).await, 404, ErrorCode::NotFound, "dead").await;
}

#[tokio::test]
async fn s4_links_and_what_asks_end_after_five_minutes_and_with_their_maker() {
    let clock = Arc::new(ByHand(AtomicI64::new(SystemClock.now().0)));
    let server = Server::start_at(Arc::clone(&clock) as Arc<dyn Clock>).await;
    let phone = server.phone().await;
    let made = link(&server, &phone, "trusted").await;
    clock.forward(299_000);
    let asking: Value = open(&server, &made, "at the last moment").await.json().await.unwrap();
    assert_eq!(asking["state"], "asking");
    clock.forward(299_000);
    let waiting: Value = claim(&server, &asking, false).await.json().await.unwrap();
    assert_eq!(waiting["state"], "waiting", "a person has five minutes to compare");
    clock.forward(2_000);
    assert_refused(claim(&server, &asking, false).await, 404, ErrorCode::NotFound, "too late").await;
    let late = decide(&server, &phone, &made, "approve", json!({"number": asking["number"]})).await;
    assert_refused(late, 404, ErrorCode::NotFound, "too late").await;
    let made = link(&server, &phone, "trusted").await;
    clock.forward(301_000);
    assert_refused(open(&server, &made, "late").await, 404, ErrorCode::NotFound, "an old link").await;

    // What a device began ends with its trust: its links, and what it approved and nobody collected.
    let (open_one, approved) = (link(&server, &phone, "trusted").await, link(&server, &phone, "trusted").await);
    let asking: Value = open(&server, &approved, "approved").await.json().await.unwrap();
    assert_eq!(decide(&server, &phone, &approved, "approve", json!({"number": asking["number"]})).await.status(), 200);
    let revoke = server.request("DELETE", &format!("/v1/devices/{}", phone.id)).bearer_auth(&phone.token);
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    assert_refused(open(&server, &open_one, "late").await, 404, ErrorCode::NotFound, "its maker is revoked").await;
    assert_refused(claim(&server, &asking, false).await, 401, ErrorCode::Unauthenticated, "its maker is revoked").await;
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
    let server =
        Server::start_with(|config| config.trusted_proxies = vec!["127.0.0.1".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]).await;
    let phone = server.phone().await;
    let guess = async |forwarded: &str| {
        let request = server.request("GET", "/v1/pairings/AAAA-AAAA").bearer_auth(&phone.token).header("x-forwarded-for", forwarded);
        request.send().await.unwrap().status().as_u16()
    };
    for attempt in 0..10 {
        assert_eq!(guess(&format!("198.51.100.{attempt}, 192.0.2.1")).await, 404);
    }
    assert_eq!(guess("198.51.100.99, 192.0.2.1").await, 429);
    assert_eq!(guess("192.0.2.1, 192.0.2.2").await, 404);
    // Proxies behind one another are passed over, and what a caller says of proxies before it isn't.
    assert_eq!(guess("192.0.2.2, 192.0.2.1, 10.1.2.3").await, 429);
    assert_eq!(guess("10.1.2.3, 192.0.2.3").await, 404);
}

#[tokio::test]
async fn s3_whoever_is_no_configured_proxy_cannot_say_who_is_calling() {
    let server = Server::start_with(|config| config.trusted_proxies = vec!["192.0.2.0/24".parse().unwrap()]).await;
    let phone = server.phone().await;
    for attempt in 0..12 {
        let request = server.request("GET", "/v1/pairings/AAAA-AAAA").bearer_auth(&phone.token);
        let status = request.header("x-forwarded-for", format!("203.0.113.{attempt}, 192.0.2.7")).send().await.unwrap().status();
        assert_eq!(status.as_u16(), if attempt < 10 { 404 } else { 429 }, "{attempt}");
    }
    let started = start(&server, "tablet").await;
    assert!(started["code"].is_string());
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
