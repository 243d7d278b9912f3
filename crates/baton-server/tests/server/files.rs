use crate::support::{Device, Server, Socket, assert_refused, fresh};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{ClientType, Digest, ErrorCode, SessionId, Trust};
use reqwest::Response;
use serde_json::{Value, json};

/// A device with a workspace, played by the test, and a session in it.
struct House {
    server: Server,
    phone: Device,
    hands: Socket,
    session: SessionId,
}

impl House {
    async fn build() -> Self {
        let server = Server::start().await;
        let phone = server.phone().await;
        let machine = server.pair(server.user, Trust::Trusted, ClientType::Device).await;
        let workspace = fresh();
        let offered = json!({"workspaces": [{"workspace_id": workspace, "name": "site", "baseline": {"path": "/srv/site"}}]});
        let hands = server.connect_with(&machine, offered).await;
        let new = json!({"v": 1, "operation_id": fresh(), "intent": "new_session", "payload": {"workspace": workspace}});
        let session = server.operate(&phone, &new).await["session_id"].as_str().unwrap().parse().unwrap();
        Self { server, phone, hands, session }
    }

    async fn ask(&self, path: &str) -> Response {
        let url = format!("/v1/sessions/{}/file?path={path}", self.session);
        self.server.request("GET", &url).bearer_auth(&self.phone.token).send().await.unwrap()
    }

    /// Asks for a file, and has the device answer each question for a part of it.
    async fn fetch(&mut self, path: &str, answer: impl Fn(&Value) -> Value) -> (Response, u32) {
        let url = format!("/v1/sessions/{}/file?path={path}", self.session);
        let asked = self.server.request("GET", &url).bearer_auth(&self.phone.token).send();
        let mut asked = std::pin::pin!(asked);
        let mut parts = 0;
        loop {
            tokio::select! {
                response = &mut asked => return (response.unwrap(), parts),
                question = self.hands.until("show_file") => {
                    parts += 1;
                    assert_eq!(question["path"], path);
                    self.hands.send(&json!({"type": "file_shown", "question": question["question"], "shown": answer(&question)})).await;
                }
            }
        }
    }
}

/// The part of `bytes` that is asked for.
fn part_of(bytes: &[u8], question: &Value) -> Value {
    let start = usize::try_from(question["offset"].as_u64().unwrap()).unwrap();
    let end = bytes.len().min(start + 100_000);
    let content = BASE64_STANDARD.encode(&bytes[start..end]);
    json!({"status": "part", "digest": Digest::of_bytes(bytes), "bytes": bytes.len(), "offset": start, "content": content})
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

#[tokio::test]
async fn c33_s13_a_file_comes_through_the_hub_as_text_as_a_picture_or_to_be_saved_and_nothing_of_it_runs() {
    let mut house = House::build().await;
    let html = b"<script>alert(1)</script>".to_vec();
    let (response, _) = house.fetch("page.html", |question| part_of(&html, question)).await;
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), "text/plain; charset=utf-8");
    assert_eq!(header(&response, "x-content-type-options"), "nosniff");
    assert_eq!(header(&response, "content-disposition"), "inline; filename=\"page.html\"; filename*=UTF-8''page.html");
    let policy = header(&response, "content-security-policy");
    assert!(policy.starts_with("default-src 'none'; sandbox;") && !policy.contains("script"), "{policy}");
    assert_eq!(header(&response, "cache-control"), "no-store");
    let tag = header(&response, "etag").to_owned();
    assert_eq!(response.bytes().await.unwrap(), html);
    assert_eq!(tag, format!("\"{}\"", Digest::of_bytes(&html)));

    let long: Vec<u8> = (0..1_000_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let (response, parts) = house.fetch("a/long.bin", |question| part_of(&long, question)).await;
    assert_eq!((header(&response, "content-type"), parts), ("application/octet-stream", 10));
    assert!(header(&response, "content-disposition").starts_with("attachment; filename=\"long.bin\""));
    assert_eq!(response.bytes().await.unwrap(), long);

    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    let (response, _) = house.fetch("lies.html", |question| part_of(&picture, question)).await;
    assert_eq!(header(&response, "content-type"), "image/png", "by what it consists of");
    let (response, _) = house.fetch("empty", |question| part_of(b"", question)).await;
    assert_eq!((response.status().as_u16(), header(&response, "content-length")), (200, "0"));
}

#[tokio::test]
async fn c33_what_a_device_refuses_or_gets_wrong_is_told_in_words() {
    let mut house = House::build().await;
    for (code, status, told) in [
        ("not_found", 404, ErrorCode::NotFound),
        ("outside_workspace", 400, ErrorCode::Invalid),
        ("not_a_file", 400, ErrorCode::Invalid),
        ("too_large", 413, ErrorCode::TooLarge),
        ("no_permission", 403, ErrorCode::Forbidden),
    ] {
        let refusal = json!({"status": "refused", "error": {"code": code, "message": "It isn't.", "hint": "x", "state_modified": "no"}});
        let (response, _) = house.fetch("x", |_| refusal.clone()).await;
        assert_eq!(assert_refused(response, status, told, code).await["detail"], "It isn't.");
    }
    // Another file each time it goes on: tried three times, then told. Never two halves of different files.
    let whole = vec![b'x'; 150_000];
    let changed =
        json!({"status": "refused", "error": {"code": "changed_since", "message": "It changed.", "hint": "x", "state_modified": "no"}});
    let answer = |question: &Value| if question["offset"] == 0 { part_of(&whole, question) } else { changed.clone() };
    let (response, parts) = house.fetch("x", answer).await;
    assert_eq!(parts, 6);
    assert_refused(response, 409, ErrorCode::StaleVersion, "changed").await;
    // A device that announces too much, sends nothing, or something else than it named.
    let wrong = [
        json!({"bytes": 9_000_000}),
        json!({"content": ""}),
        json!({"content": "no base64"}),
        json!({"content": BASE64_STANDARD.encode(b"s")}),
        json!({"offset": 7}),
        json!({"digest": Digest::of_bytes(b"another")}),
    ];
    for (number, wrong) in wrong.iter().enumerate() {
        let short = b"short".to_vec();
        let answer = |question: &Value| {
            let mut part = part_of(&short, question);
            for (name, value) in wrong.as_object().unwrap() {
                part[name] = value.clone();
            }
            part
        };
        let (response, _) = house.fetch("x", answer).await;
        let (status, code) = if number == 0 { (413, ErrorCode::TooLarge) } else { (409, ErrorCode::DeviceOffline) };
        assert_refused(response, status, code, &wrong.to_string()).await;
    }
    assert_refused(
        house.server.request("GET", &format!("/v1/sessions/{}/file", house.session)).bearer_auth(&house.phone.token).send().await.unwrap(),
        400,
        ErrorCode::Invalid,
        "no path",
    )
    .await;
}

#[tokio::test]
async fn c33_a_device_that_is_away_is_named_with_the_time_since_when() {
    let House { server, phone, hands, session } = House::build().await;
    drop(hands);
    let mut screen = server.connect(&phone).await;
    while server.get(&phone, "/v1/devices").await["devices"]
        .as_array()
        .unwrap()
        .iter()
        .any(|device| device["name"] == "a device" && device["online"] == true)
    {
        screen.until("changed").await;
    }
    let house = House { hands: screen, server, phone, session };
    let problem = assert_refused(house.ask("note.txt").await, 409, ErrorCode::DeviceOffline, "away").await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("'a device', is offline since 20"), "{detail}");
    let paths = format!("/v1/sessions/{session}/paths?q=a");
    let response = house.server.request("GET", &paths).bearer_auth(&house.phone.token).send().await.unwrap();
    assert_refused(response, 409, ErrorCode::DeviceOffline, "paths").await;
    // A guest isn't told even that.
    let guest = house.server.pair(house.server.user, Trust::Guest, ClientType::Phone).await;
    for path in [format!("/v1/sessions/{session}/file?path=a"), paths] {
        let response = house.server.request("GET", &path).bearer_auth(&guest.token).send().await.unwrap();
        assert_refused(response, 403, ErrorCode::TrustTooLow, &path).await;
    }
    // Nor is another user.
    let stranger = house.server.pair(house.server.hub.create_user("eve").await.unwrap(), Trust::Trusted, ClientType::Phone).await;
    let response =
        house.server.request("GET", &format!("/v1/sessions/{session}/file?path=a")).bearer_auth(&stranger.token).send().await.unwrap();
    assert_refused(response, 404, ErrorCode::NotFound, "another user").await;
}

#[tokio::test]
async fn paths_are_those_that_the_device_finds_and_no_more_than_were_asked_for() {
    let mut house = House::build().await;
    let url = format!("/v1/sessions/{}/paths?q=%E6%96%87&limit=2", house.session);
    let asked = house.server.request("GET", &url).bearer_auth(&house.phone.token).send();
    let answered = async {
        let question = house.hands.until("find_paths").await;
        assert_eq!((&question["query"], &question["limit"]), (&json!("文"), &json!(2)));
        let paths: Vec<_> = ["文字", "文档", "文"].iter().map(|path| json!({"path": path, "directory": false})).collect();
        house
            .hands
            .send(&json!({"type": "paths_found", "question": question["question"], "found": {"paths": paths, "more": true, "listed": 9}}))
            .await;
    };
    let (response, ()) = tokio::join!(asked, answered);
    let found: Value = response.unwrap().error_for_status().unwrap().json().await.unwrap();
    assert_eq!((found["paths"].as_array().unwrap().len(), &found["more"], &found["listed"]), (2, &json!(true), &json!(9)));
}
