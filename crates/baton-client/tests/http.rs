#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use baton_client::{ChangeEntry, ClientError, Http, HubUrl, Token};
use baton_proto::{
    DevicePatch, ErrorBody, ErrorCode, Intent, InvitationApproval, Operation, OperationId, PairingApproval, PairingClaim, ReplyStatus,
    SessionId, Trust,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

const ID: &str = "01990000-0000-7000-8000-00000000000a";

/// A hub that gives one answer to whatever it is asked, and writes down what it was asked.
struct Hub {
    http: Http,
    asked: Arc<Mutex<Vec<String>>>,
}

async fn hub(status: u16, body: &str) -> Hub {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: HubUrl = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, body) = (Arc::clone(&asked), body.to_owned());
    let answer = move |request: Request| {
        let (log, body) = (Arc::clone(&log), body.clone());
        async move {
            let token = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
            let line = format!("{} {}", request.method(), request.uri());
            let sent = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            log.lock().unwrap().push(format!("{line} {token} {}", String::from_utf8(sent.to_vec()).unwrap()));
            Response::builder()
                .status(StatusCode::from_u16(status).unwrap())
                .header("location", "http://127.0.0.1:1/elsewhere")
                .body(Body::from(body))
                .unwrap()
        }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    Hub { http: Http::new(url, Some(Token::new("canary").unwrap())).unwrap(), asked }
}

fn operation() -> Operation {
    Operation::new(OperationId(ID.parse().unwrap()), Some(SessionId(ID.parse().unwrap())), Intent::Release {})
}

fn problem(code: &str) -> String {
    json!({"type": "x", "title": "T", "status": 409, "code": code, "detail": "It moved.", "hint": "Look.", "instance": "/v1"}).to_string()
}

#[tokio::test]
async fn each_call_asks_its_route_with_the_token_in_the_header() {
    let Hub { http, asked } = hub(404, &problem("not_found")).await;
    let (session, device, pairing) = (ID.parse().unwrap(), ID.parse().unwrap(), ID.parse().unwrap());
    let _ = http.hub().await;
    let _ = http.sessions(Some("a/b"), Some(5)).await;
    let _ = http.session(session).await;
    let _ = http.snapshot(session).await;
    let _ = http.brief(session).await;
    let _ = http.history(session, Some(9), None).await;
    let _ = http.events(session, 7, Some(2)).await;
    let _ = http.operate(&operation()).await;
    let _ = http.devices().await;
    let _ = http.change_device(device, &DevicePatch { name: Some("desk".into()), trust: None }).await;
    let _ = http.revoke_device(device).await;
    let _ = http.claim_pairing(pairing, &PairingClaim { secret: "s".into(), cookie: false }).await;
    let _ = http.preview_pairing("AB/CD").await;
    let _ = http.approve_pairing("ABCD-EFGH", &PairingApproval { trust: Trust::Standard, number: "107".into() }).await;
    let _ = http.invite(Trust::Trusted).await;
    let invitation = ID.parse().unwrap();
    let _ = http.invitations().await;
    let _ = http.approve_invitation(invitation, &InvitationApproval { number: "107".into() }).await;
    let _ = http.refuse_invitation(invitation).await;
    let operation = serde_json::to_string(&operation()).unwrap();
    let expected = [
        "GET /v1/hub Bearer canary ".to_owned(),
        "GET /v1/sessions?before=a%2Fb&limit=5 Bearer canary ".to_owned(),
        format!("GET /v1/sessions/{ID} Bearer canary "),
        format!("GET /v1/sessions/{ID}/snapshot Bearer canary "),
        format!("GET /v1/sessions/{ID}/brief Bearer canary "),
        format!("GET /v1/sessions/{ID}/history?before=9 Bearer canary "),
        format!("GET /v1/sessions/{ID}/events?limit=2&after=7 Bearer canary "),
        format!("POST /v1/ops Bearer canary {operation}"),
        "GET /v1/devices Bearer canary ".to_owned(),
        format!("PATCH /v1/devices/{ID} Bearer canary {{\"name\":\"desk\",\"trust\":null}}"),
        format!("DELETE /v1/devices/{ID} Bearer canary "),
        format!("POST /v1/pairings/{ID}/claim Bearer canary {{\"secret\":\"s\",\"cookie\":false}}"),
        "GET /v1/pairings/AB%2FCD Bearer canary ".to_owned(),
        "POST /v1/pairings/ABCD-EFGH/approve Bearer canary {\"trust\":\"standard\",\"number\":\"107\"}".to_owned(),
        "POST /v1/invitations Bearer canary {\"trust\":\"trusted\"}".to_owned(),
        "GET /v1/invitations Bearer canary ".to_owned(),
        format!("POST /v1/invitations/{ID}/approve Bearer canary {{\"number\":\"107\"}}"),
        format!("POST /v1/invitations/{ID}/refuse Bearer canary {{}}"),
    ];
    assert_eq!(*asked.lock().unwrap(), expected);
}

#[tokio::test]
async fn errors_say_whose_fault_it_is() {
    let expect = |status, body: String| async move { hub(status, &body).await.http.devices().await.unwrap_err() };
    let moved = ErrorBody::new(ErrorCode::StaleEpoch, "It moved.", "Look.");
    assert_eq!(expect(409, problem("stale_epoch")).await, ClientError::Hub(moved));
    let new_code = expect(409, problem("moon_phase")).await;
    assert!(matches!(&new_code, ClientError::Hub(error) if error.message.contains("moon_phase")), "{new_code}");
    assert!(expect(401, String::new()).await.is_unauthenticated());
    assert!(matches!(expect(502, "<html>".into()).await, ClientError::Unreachable(_)));
    assert!(matches!(expect(302, String::new()).await, ClientError::Protocol(_)), "no redirect is followed");
    assert!(matches!(expect(200, "<html>".into()).await, ClientError::Protocol(_)));
    let nobody = Http::new("http://127.0.0.1:1".parse().unwrap(), Some(Token::new("canary").unwrap())).unwrap();
    let error = nobody.hub().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)) && error.may_be_repeated());
    assert!(!format!("{error} {error:?} {nobody:?}").contains("canary"));
}

#[tokio::test]
async fn a_rejected_operation_is_a_reply_and_an_unknown_device_is_an_error() {
    let rejected = hub(409, &problem("stale_epoch")).await.http.operate(&operation()).await.unwrap();
    assert_eq!((rejected.status, rejected.error.unwrap().code), (ReplyStatus::Rejected, ErrorCode::StaleEpoch));
    assert!(hub(401, &problem("unauthenticated")).await.http.operate(&operation()).await.unwrap_err().is_unauthenticated());
    let accepted = json!({"operation_id": ID, "status": "duplicate", "version": 4, "epoch": 2}).to_string();
    let reply = hub(200, &accepted).await.http.operate(&operation()).await.unwrap();
    assert_eq!((reply.status, reply.version), (ReplyStatus::Duplicate, 4));
}

#[tokio::test]
async fn c19_a_page_of_events_keeps_the_places_of_unknown_ones() {
    let change = |seq: u64, kind: &str| -> Value {
        json!({
            "session_id": ID, "seq": seq, "upserts": [],
            "event": {"type": kind, "v": 1, "at": "2026-11-30T10:00:00Z", "actor": {"kind": "hub"}, "data": {"key": "a", "value": "b"}},
        })
    };
    let page = json!({"changes": [change(3, "note_set"), change(4, "hologram_shown")], "head": 9}).to_string();
    let page = hub(200, &page).await.http.events(ID.parse().unwrap(), 2, None).await.unwrap();
    assert_eq!((page.head, page.changes.iter().map(ChangeEntry::seq).collect::<Vec<_>>()), (9, vec![3, 4]));
    assert!(matches!(&page.changes[1], ChangeEntry::Unknown(change) if change.event_type == "hologram_shown"));
}
