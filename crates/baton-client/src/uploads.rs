//! Large input in pieces that go on where they stopped (D6), and the blobs that they become.

use crate::ClientError;
use crate::http::{Http, failure, unanswered};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{Digest, ErrorBody, ErrorCode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use std::time::Duration;

/// What is sent in one piece, in bytes.
const PIECE_BYTES: usize = 1024 * 1024;
/// Failures in a row without any progress in between, before an upload is given up.
const MAX_FAILURES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// An upload that the hub knows.
#[derive(Debug)]
struct Begun {
    id: String,
    offset: usize,
    blob: Option<Digest>,
}

impl Http {
    /// Uploads bytes, however often the connection breaks, and answers with the name of the blob that they are from then on.
    /// The hub takes at most 64 MiB.
    pub async fn upload(&self, bytes: &[u8]) -> Result<Digest, ClientError> {
        let digest = Digest::of_bytes(bytes);
        let mut begun: Option<Begun> = None;
        let mut failures = 0;
        loop {
            match self.advance(begun.take(), bytes).await {
                Ok(Begun { blob: Some(blob), .. }) if blob == digest => return Ok(blob),
                Ok(Begun { blob: Some(_), .. }) => {
                    return Err(ClientError::Protocol("the hub stored other bytes than were sent".to_owned()));
                }
                Ok(next) => {
                    failures = 0;
                    begun = Some(next);
                }
                Err((error, known)) => {
                    failures += 1;
                    if failures >= MAX_FAILURES || !may_succeed_later(&error) {
                        return Err(error);
                    }
                    tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(failures - 1)).await;
                    begun = match known {
                        Some(id) => self.ask(id).await,
                        None => None,
                    };
                }
            }
        }
    }

    /// `GET /v1/blobs/{sha256}`, checked against its name.
    pub async fn blob(&self, digest: &Digest) -> Result<Vec<u8>, ClientError> {
        let bytes = self.bytes(&["blobs", &digest.0]).await?;
        if Digest::of_bytes(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(ClientError::Protocol("the blob has other bytes than its name says".to_owned()))
        }
    }

    /// Begins an upload, or sends its next piece. A failure names the upload that can be gone on with, if there is one.
    async fn advance(&self, begun: Option<Begun>, bytes: &[u8]) -> Result<Begun, (ClientError, Option<String>)> {
        let Some(Begun { id, offset, .. }) = begun else {
            let request = self.tus(Method::POST, &["uploads"]).header("upload-length", bytes.len());
            return self.told(None, request).await.map_err(|error| (error, None));
        };
        let piece = &bytes[offset..(offset + PIECE_BYTES).min(bytes.len())];
        let checksum = hex_to_base64(&Digest::of_bytes(piece));
        let request = self
            .tus(Method::PATCH, &["uploads", &id])
            .header("upload-offset", offset)
            .header("upload-checksum", format!("sha256 {checksum}"))
            .header(CONTENT_TYPE, "application/offset+octet-stream")
            .body(piece.to_vec());
        self.told(Some(id.clone()), request).await.map_err(|error| (error, Some(id)))
    }

    /// Where an upload stands; `None` when it has to begin anew, or can't be asked at the moment.
    async fn ask(&self, id: String) -> Option<Begun> {
        let request = self.tus(Method::HEAD, &["uploads", &id]);
        self.told(Some(id), request).await.ok()
    }

    fn tus(&self, method: Method, route: &[&str]) -> RequestBuilder {
        let mut request = self.request(method, route).header("tus-resumable", "1.0.0");
        if let Some(token) = self.token() {
            request = request.header(AUTHORIZATION, token.authorization());
        }
        request
    }

    async fn told(&self, id: Option<String>, request: RequestBuilder) -> Result<Begun, ClientError> {
        let unreachable = |error: reqwest::Error| unanswered(&error.without_url());
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if !status.is_success() {
            // Somebody was there before, mostly this end itself: what was sent last had come after all.
            if matches!(status, StatusCode::CONFLICT | StatusCode::LOCKED) || status.as_u16() == 460 {
                return Err(ClientError::Unreachable(format!("the hub stands elsewhere in the upload (status {status})")));
            }
            return Err(failure(status, &response.bytes().await.map_err(unreachable)?));
        }
        let named = || header(&response, LOCATION.as_str())?.rsplit('/').next().map(str::to_owned);
        let id = id.or_else(named).ok_or_else(|| ClientError::Protocol("a new upload has no address".to_owned()))?;
        let offset = header(&response, "upload-offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Begun { id, offset, blob: header(&response, "upload-blob").map(|text| Digest(text.to_owned())) })
    }
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Digests are written in base64 by the protocol of uploads.
fn hex_to_base64(digest: &Digest) -> String {
    let nibble = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or_default();
    let bytes: Vec<u8> = digest.0.as_bytes().chunks(2).map(|two| two.iter().fold(0, |byte, digit| byte << 4 | nibble(*digit))).collect();
    BASE64_STANDARD.encode(bytes)
}

fn may_succeed_later(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable(_) => true,
        ClientError::Hub(ErrorBody { code, .. }) => {
            matches!(code, ErrorCode::StorageFailed | ErrorCode::ShuttingDown | ErrorCode::Internal)
        }
        ClientError::Untrusted(_) | ClientError::Protocol(_) => false,
    }
}
