//! Uploads in pieces, as a client of tus speaks them.

use crate::support::{Device, Server, assert_refused};
use baton_proto::{ClientType, Digest, ErrorCode, Trust};
use reqwest::{RequestBuilder, Response};
use std::io::{Read, Write};
use std::net::TcpStream;

fn tus(server: &Server, by: &Device, method: &str, path: &str) -> RequestBuilder {
    server.client.request(method.parse().unwrap(), server.url(path)).bearer_auth(&by.token).header("tus-resumable", "1.0.0")
}

async fn begin(server: &Server, by: &Device, length: u64) -> String {
    let response = tus(server, by, "POST", "/v1/uploads").header("upload-length", length).send().await.unwrap();
    assert_eq!(response.status(), 201, "{response:?}");
    assert!(response.headers()["upload-expires"].to_str().unwrap().ends_with(" GMT"));
    response.headers()["location"].to_str().unwrap().to_owned()
}

async fn send(server: &Server, by: &Device, path: &str, offset: u64, bytes: &[u8]) -> Response {
    let request = tus(server, by, "PATCH", path).header("upload-offset", offset).header("content-type", "application/offset+octet-stream");
    request.body(bytes.to_vec()).send().await.unwrap()
}

async fn offset(server: &Server, by: &Device, path: &str) -> u64 {
    let response = tus(server, by, "HEAD", path).send().await.unwrap();
    assert_eq!(response.status(), 200);
    number(&response, "upload-offset")
}

fn number(response: &Response, name: &str) -> u64 {
    response.headers()[name].to_str().unwrap().parse().unwrap()
}

async fn blob(server: &Server, by: &Device, digest: &str) -> Response {
    server.request("GET", &format!("/v1/blobs/{digest}")).bearer_auth(&by.token).send().await.unwrap()
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|index| u8::try_from(index * 7 % 251).unwrap()).collect()
}

/// D6.
#[tokio::test]
async fn c37_an_upload_goes_on_where_it_stopped_under_the_next_hub_and_becomes_a_blob() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let whole = bytes(3_000_000);
    let path = begin(&server, &phone, 3_000_000).await;
    let first = send(&server, &phone, &path, 0, &whole[..1_000_000]).await;
    assert_eq!((first.status().as_u16(), number(&first, "upload-offset")), (204, 1_000_000));
    assert!(first.headers().get("upload-blob").is_none());

    // Cut in the middle of the next piece: what came is kept.
    let mut line = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 1000000\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 2000000\r\n\r\n",
        phone.token
    );
    line.write_all(head.as_bytes()).unwrap();
    line.write_all(&whole[1_000_000..1_400_000]).unwrap();
    line.shutdown(std::net::Shutdown::Write).unwrap();
    let ended = tokio::task::spawn_blocking(move || line.read_to_end(&mut Vec::new()));
    let _ = ended.await.unwrap();
    let mut came = offset(&server, &phone, &path).await;
    assert_eq!(came, 1_400_000);
    let elsewhere = send(&server, &phone, &path, 7, &whole[7..100]).await;
    assert_eq!(number(&elsewhere, "upload-offset"), came);
    assert_refused(elsewhere, 409, ErrorCode::StaleVersion, "another place").await;

    let server = server.restarted().await;
    assert_eq!(offset(&server, &phone, &path).await, came);
    let mut last = None;
    while came < 3_000_000 {
        let end = (came + 700_000).min(3_000_000);
        let response = send(&server, &phone, &path, came, &whole[usize::try_from(came).unwrap()..usize::try_from(end).unwrap()]).await;
        assert_eq!(response.status(), 204);
        came = end;
        last = Some(response);
    }
    let digest = Digest::of_bytes(&whole).0;
    assert_eq!(last.unwrap().headers()["upload-blob"].to_str().unwrap(), digest);
    let found = blob(&server, &phone, &digest).await;
    let headers = found.headers().clone();
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
    assert!(found.bytes().await.unwrap() == whole);

    // Who missed the last answer asks again, also under another hub, and the pieces are gone from the disk.
    let server = server.restarted().await;
    let state = tus(&server, &phone, "HEAD", &path).send().await.unwrap();
    assert_eq!((state.headers()["upload-blob"].to_str().unwrap(), number(&state, "upload-offset")), (digest.as_str(), 3_000_000));
    let left: u64 = std::fs::read_dir(server.uploads()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(left < 10_000, "{left}");
    assert_eq!(tus(&server, &phone, "DELETE", &path).send().await.unwrap().status(), 204);
    assert_eq!(tus(&server, &phone, "HEAD", &path).send().await.unwrap().status(), 404);
    assert_eq!(blob(&server, &phone, &digest).await.status(), 200);
}

#[tokio::test]
async fn a_damaged_piece_is_refused_whole_and_a_sound_one_taken() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let path = begin(&server, &phone, 5).await;
    let hello = |checksum: &'static str| {
        let request = tus(&server, &phone, "PATCH", &path).header("upload-offset", 0).header("upload-checksum", checksum);
        request.header("content-type", "application/offset+octet-stream").body("hello").send()
    };
    // Of "hello", as `sha256sum` and `base64` say it.
    let sound = "sha256 LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
    let other = "sha256 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert_refused(hello(other).await.unwrap(), 460, ErrorCode::Invalid, "another digest").await;
    assert_eq!(offset(&server, &phone, &path).await, 0);
    assert_refused(hello("md5 AAAA").await.unwrap(), 400, ErrorCode::Invalid, "another algorithm").await;
    let taken = hello(sound).await.unwrap();
    assert_eq!(taken.status(), 204);
    assert_eq!(taken.headers()["upload-blob"].to_str().unwrap(), Digest::of_bytes(b"hello").0);
}

#[tokio::test]
async fn every_limit_of_uploads_is_named() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let most = 64 * 1024 * 1024_u64;
    let too_long = tus(&server, &phone, "POST", "/v1/uploads").header("upload-length", most + 1).send().await.unwrap();
    let problem = assert_refused(too_long, 413, ErrorCode::TooLarge, "too long").await;
    assert!(problem["detail"].as_str().unwrap().contains(&most.to_string()), "{problem}");
    let unsaid = tus(&server, &phone, "POST", "/v1/uploads").send().await.unwrap();
    assert_refused(unsaid, 400, ErrorCode::Invalid, "no length").await;
    let path = begin(&server, &phone, 4).await;
    assert_refused(send(&server, &phone, &path, 0, b"hello").await, 413, ErrorCode::TooLarge, "beyond its end").await;
    assert_eq!(tus(&server, &phone, "DELETE", &path).send().await.unwrap().status(), 204);

    for _ in 0..4 {
        begin(&server, &phone, most).await;
    }
    let more = tus(&server, &phone, "POST", "/v1/uploads").header("upload-length", 1).send().await.unwrap();
    assert_refused(more, 429, ErrorCode::RateLimited, "too many bytes").await;
    let user = server.hub.create_user("bob").await.unwrap();
    let other = server.pair(user, Trust::Trusted, ClientType::Phone).await;
    for _ in 0..16 {
        begin(&server, &other, 1).await;
    }
    let more = tus(&server, &other, "POST", "/v1/uploads").header("upload-length", 1).send().await.unwrap();
    assert_refused(more, 429, ErrorCode::RateLimited, "too many").await;
    let guest = server.pair(user, Trust::Guest, ClientType::Phone).await;
    let refused = tus(&server, &guest, "POST", "/v1/uploads").header("upload-length", 1).send().await.unwrap();
    assert_refused(refused, 403, ErrorCode::TrustTooLow, "a guest").await;
}

#[tokio::test]
async fn uploads_speak_their_protocol_and_nothing_else() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let options =
        server.client.request(reqwest::Method::OPTIONS, server.url("/v1/uploads")).bearer_auth(&phone.token).send().await.unwrap();
    assert_eq!(options.headers()["tus-version"], "1.0.0");
    assert_eq!(options.headers()["tus-extension"], "creation,checksum,expiration,termination");
    assert_eq!(number(&options, "tus-max-size"), 64 * 1024 * 1024);
    let path = begin(&server, &phone, 5).await;
    // A page of another origin can send these without asking; the header of the protocol it can't.
    let plain = |method: &str, path: &str| server.client.request(method.parse().unwrap(), server.url(path)).bearer_auth(&phone.token);
    let bare = plain("POST", "/v1/uploads").header("upload-length", 1).send().await.unwrap();
    assert_refused(bare, 415, ErrorCode::Invalid, "no header").await;
    let text = tus(&server, &phone, "PATCH", &path).header("upload-offset", 0).header("content-type", "text/plain").body("hello");
    assert_refused(text.send().await.unwrap(), 415, ErrorCode::Invalid, "plain text").await;
    let elsewhere = tus(&server, &phone, "POST", "/v1/ops").header("content-type", "application/offset+octet-stream").body("{}");
    assert_refused(elsewhere.send().await.unwrap(), 415, ErrorCode::Invalid, "another route").await;
    let old = plain("HEAD", &path).header("tus-resumable", "0.2.0").send().await.unwrap();
    assert_eq!((old.status().as_u16(), &old.headers()["tus-version"]), (412, &"1.0.0".parse().unwrap()));
    assert_eq!(offset(&server, &phone, &path).await, 0);
}

/// S5, O3.
#[tokio::test]
async fn another_users_uploads_and_blobs_are_absent() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let user = server.hub.create_user("bob").await.unwrap();
    let other = server.pair(user, Trust::Trusted, ClientType::Phone).await;
    let path = begin(&server, &phone, 5).await;
    assert_eq!(tus(&server, &other, "HEAD", &path).send().await.unwrap().status(), 404);
    assert_refused(send(&server, &other, &path, 0, b"hello").await, 404, ErrorCode::NotFound, "a piece").await;
    assert_eq!(tus(&server, &other, "DELETE", &path).send().await.unwrap().status(), 404);
    assert_eq!(send(&server, &phone, &path, 0, b"hello").await.status(), 204);
    let digest = Digest::of_bytes(b"hello").0;
    assert_eq!(blob(&server, &phone, &digest).await.status(), 200);
    assert_refused(blob(&server, &other, &digest).await, 404, ErrorCode::NotFound, "a blob").await;
    for odd in ["..%2f..%2fhub.json", "ABC", &digest.to_uppercase()] {
        assert_refused(blob(&server, &phone, odd).await, 404, ErrorCode::NotFound, odd).await;
    }
}

#[tokio::test]
async fn a_dead_connection_does_not_keep_its_upload() {
    let server = Server::start().await;
    let phone = server.phone().await;
    let path = begin(&server, &phone, 10).await;
    // Half of a piece, and then nothing: its end doesn't come.
    let mut line = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 10\r\n\r\nhello",
        phone.token
    );
    line.write_all(head.as_bytes()).unwrap();
    // Whoever asks next is answered, and goes on from there.
    let mut came = offset(&server, &phone, &path).await;
    assert!(came <= 5);
    let rest = &b"helloworld"[usize::try_from(came).unwrap()..];
    let mut response = send(&server, &phone, &path, came, rest).await;
    while response.status() == 409 {
        came = offset(&server, &phone, &path).await;
        response = send(&server, &phone, &path, came, &b"helloworld"[usize::try_from(came).unwrap()..]).await;
    }
    assert_eq!(response.headers()["upload-blob"].to_str().unwrap(), Digest::of_bytes(b"helloworld").0);
    drop(line);
}
