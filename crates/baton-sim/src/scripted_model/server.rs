//! The HTTP server around a script.

use super::script::{Dialogue, Fault, Reply, Script};
use super::strict::check_dialogue;
use super::wire::Frame;
use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// A running scripted model. It stops listening when dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    stage: Arc<Stage>,
    task: JoinHandle<()>,
}

/// One request as it arrived, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The key of the `Authorization` header, without `Bearer `.
    pub bearer: Option<String>,
    /// Null where the body wasn't JSON.
    pub body: Value,
    /// The place of the rule that answered. None when no rule fits or the request was refused.
    pub rule: Option<usize>,
    /// Why the request was refused with 400.
    pub refused: Option<String>,
}

impl ScriptedModel {
    /// Starts on a free port of loopback.
    pub async fn start(script: Script) -> anyhow::Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// Starts on the given address.
    pub async fn listen(address: SocketAddr, script: Script) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage { scene: Mutex::new(Scene { script, ..Scene::default() }), ..Stage::default() });
        let routes = Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/v1/models", get(models))
            .route("/script/rules", post(replace_rules))
            .route("/script/requests", get(requests))
            .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
            .with_state(stage.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                eprintln!("the scripted model stopped: {error}");
            }
        });
        Ok(Self { address, stage, task })
    }

    /// The base URL, as a client is configured with.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every chat request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.stage.scene().log.clone()
    }

    /// The requests that no rule fits or that were refused: a test that ends with some has a hole in its script.
    pub fn unanswered(&self) -> Vec<RecordedRequest> {
        self.requests().into_iter().filter(|request| request.rule.is_none()).collect()
    }

    /// Replaces the rules, and forgets how often faults have struck.
    pub fn replace(&self, script: Script) {
        self.stage.replace(script);
    }

    /// Waits until so many chat requests have arrived since the start.
    pub async fn wait_for_requests(&self, count: usize) {
        wait_until(&self.stage.received, count).await;
    }

    /// Waits until the other end has left so many answers before their end since the start.
    pub async fn wait_for_abandoned(&self, count: usize) {
        wait_until(&self.stage.abandoned, count).await;
    }

    /// How many answers the other end has left before their end.
    pub fn abandoned(&self) -> usize {
        *self.stage.abandoned.borrow()
    }

    /// Serves until the task ends, for the command-line program.
    pub async fn run(mut self) -> anyhow::Result<()> {
        (&mut self.task).await.context("the scripted model failed")
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn wait_until(counter: &watch::Sender<usize>, count: usize) {
    // The sender is borrowed here, so the channel can't be closed while this waits.
    let _ = counter.subscribe().wait_for(|seen| *seen >= count).await;
}

#[derive(Debug, Default)]
struct Stage {
    scene: Mutex<Scene>,
    received: watch::Sender<usize>,
    abandoned: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Scene {
    script: Script,
    /// How often the fault of a rule has struck.
    struck: HashMap<usize, u32>,
    log: Vec<RecordedRequest>,
}

impl Stage {
    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, script: Script) {
        let mut scene = self.scene();
        scene.script = script;
        scene.struck.clear();
    }

    fn record(&self, request: RecordedRequest) {
        self.scene().log.push(request);
        self.received.send_modify(|count| *count += 1);
    }
}

impl Scene {
    /// The reply to a dialogue, with the fault left out where it has struck often enough.
    fn reply(&mut self, dialogue: &Dialogue) -> Option<(usize, Reply)> {
        let (place, mut reply) = self.script.answer(dialogue)?;
        if let Some(Fault::Status { times: Some(times), .. }) = reply.fault {
            let struck = self.struck.entry(place).or_default();
            if *struck >= times {
                reply.fault = None;
            } else {
                *struck += 1;
            }
        }
        Some((place, reply))
    }
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "script"}]}))
}

async fn requests(State(stage): State<Arc<Stage>>) -> Json<Vec<RecordedRequest>> {
    Json(stage.scene().log.clone())
}

async fn replace_rules(State(stage): State<Arc<Stage>>, body: String) -> Response {
    match Script::parse(&body) {
        Ok(script) => {
            stage.replace(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("the rules can't be read: {error}\n")).into_response(),
    }
}

async fn complete(State(stage): State<Arc<Stage>>, headers: HeaderMap, body: Bytes) -> Response {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::to_owned);
    let request = match serde_json::from_slice::<Value>(&body) {
        Ok(request) => request,
        Err(error) => {
            let reason = format!("the body is not JSON: {error}");
            stage.record(RecordedRequest { bearer, body: Value::Null, rule: None, refused: Some(reason.clone()) });
            return refusal(StatusCode::BAD_REQUEST, &reason);
        }
    };
    if let Err(reason) = check_dialogue(&request) {
        stage.record(RecordedRequest { bearer, body: request, rule: None, refused: Some(reason.clone()) });
        return refusal(StatusCode::BAD_REQUEST, &reason);
    }
    let dialogue = Dialogue::of(&request);
    let found = stage.scene().reply(&dialogue);
    let rule = found.as_ref().map(|(place, _)| *place);
    let reply = found.map_or_else(
        || {
            let text = dialogue.unmatched_text();
            eprintln!("{text}");
            Reply { text, ..Reply::default() }
        },
        |(_, reply)| reply,
    );
    let frame = Frame {
        model: request["model"].as_str().unwrap_or_default().to_owned(),
        length: dialogue.length,
        request_bytes: body.len(),
        include_usage: request["stream_options"]["include_usage"] == true,
    };
    let streams = request["stream"] == true;
    stage.record(RecordedRequest { bearer, body: request, rule, refused: None });
    if let Some(Fault::Status { status, retry_after, .. }) = reply.fault {
        return status_fault(status, retry_after);
    }
    if streams { streamed(stage, &frame, &reply) } else { whole(stage, &frame, &reply) }
}

fn refusal(status: StatusCode, reason: &str) -> Response {
    (status, Json(json!({"error": {"message": reason, "type": "invalid_request_error", "code": status.as_u16()}}))).into_response()
}

fn status_fault(status: u16, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = refusal(status, "the script says so");
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn streamed(stage: Arc<Stage>, frame: &Frame, reply: &Reply) -> Response {
    let silent = Reply { thinking: String::new(), text: String::new(), calls: Vec::new(), ..reply.clone() };
    let said = if matches!(reply.fault, Some(Fault::Empty)) { &silent } else { reply };
    let mut steps: VecDeque<Step> = frame.pieces(said).iter().map(|piece| Step::event(&piece.to_string())).collect();
    match reply.fault {
        Some(Fault::Hang) => steps = VecDeque::from([Step::Hang]),
        Some(Fault::Garbage) => {
            steps.truncate(2);
            steps.push_back(Step::event(r#"{"choices": [{"delta": {"content": "hal"#));
        }
        Some(Fault::Cut | Fault::Stall) => {
            steps.truncate(steps.len().div_ceil(2));
            steps.push_back(if matches!(reply.fault, Some(Fault::Cut)) { Step::Cut } else { Step::Hang });
        }
        Some(Fault::Empty | Fault::Status { .. }) | None => steps.push_back(Step::event("[DONE]")),
    }
    respond("text/event-stream", stage, steps, reply.delay_ms)
}

fn whole(stage: Arc<Stage>, frame: &Frame, reply: &Reply) -> Response {
    let answer = frame.whole(reply).to_string();
    let steps = match reply.fault {
        Some(Fault::Hang | Fault::Stall) => vec![Step::Hang],
        Some(Fault::Garbage) => vec![Step::send("<html>it is not JSON")],
        Some(Fault::Cut) => vec![Step::send(&answer.chars().take(answer.chars().count() / 2).collect::<String>()), Step::Cut],
        Some(Fault::Empty) => vec![Step::send(&frame.whole(&Reply::default()).to_string())],
        // As real servers do, with its length in the headers.
        Some(Fault::Status { .. }) | None => return ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
    };
    respond("application/json", stage, steps.into(), reply.delay_ms)
}

#[derive(Debug)]
enum Step {
    Send(Bytes),
    /// Nothing more, for as long as the other end stays.
    Hang,
    /// The connection is closed without an end of the body.
    Cut,
}

impl Step {
    fn send(text: &str) -> Self {
        Self::Send(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn event(data: &str) -> Self {
        Self::send(&format!("data: {data}\n\n"))
    }
}

/// Notices when the other end leaves: the server drops the body then.
#[derive(Debug)]
struct Attendance {
    stage: Arc<Stage>,
    over: bool,
}

impl Attendance {
    fn end(&mut self) {
        self.over = true;
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if !self.over {
            self.stage.abandoned.send_modify(|count| *count += 1);
        }
    }
}

fn respond(content_type: &'static str, stage: Arc<Stage>, steps: VecDeque<Step>, delay_ms: u64) -> Response {
    let attendance = Attendance { stage, over: false };
    let body = stream::unfold((steps, attendance), move |(mut steps, mut attendance)| async move {
        let step = steps.pop_front();
        if delay_ms > 0 && step.is_some() {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        let piece = match step {
            Some(Step::Send(bytes)) => Ok(bytes),
            Some(Step::Hang) => std::future::pending().await,
            Some(Step::Cut) => {
                // What was sent before is written out while this waits; otherwise the cut would swallow it.
                tokio::time::sleep(Duration::from_millis(20)).await;
                attendance.end();
                Err(std::io::Error::other("the script cuts the connection"))
            }
            None => {
                attendance.end();
                return None;
            }
        };
        // The end that leaves after the last piece has missed nothing.
        if steps.is_empty() {
            attendance.end();
        }
        Some((piece, (steps, attendance)))
    });
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(body)).into_response()
}
