//! The HTTP server around a script.

use super::messages;
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
    /// The key: of the `Authorization` header, without `Bearer `, or of `x-api-key` where that is the custom.
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
            .route("/v1/messages", post(write_message))
            .route("/v1/models", get(models))
            .route("/api/tags", get(ollama_list))
            .route("/api/show", post(ollama_model))
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

/// As Ollama lists them, newest first; the one that answers is none of the newest.
async fn ollama_list() -> Json<Value> {
    Json(json!({"models": [{"name": "embedder"}, {"name": "talker"}, {"name": "scripted"}]}))
}

/// What Ollama says of a model's abilities.
async fn ollama_model(Json(asked): Json<Value>) -> Response {
    let abilities = match asked["model"].as_str() {
        Some("embedder") => json!(["embedding"]),
        Some("talker") => json!(["completion"]),
        Some("scripted") => json!(["completion", "tools", "vision"]),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    Json(json!({"capabilities": abilities})).into_response()
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

/// The two ways in which this server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tongue {
    Completions,
    Messages,
}

impl Tongue {
    fn check(self, request: &Value) -> Result<(), String> {
        match self {
            Self::Completions => check_dialogue(request),
            Self::Messages => messages::check_messages(request),
        }
    }

    fn dialogue(self, request: &Value) -> Dialogue {
        match self {
            Self::Completions => Dialogue::of(request),
            Self::Messages => messages::dialogue(request),
        }
    }

    fn pieces(self, frame: &Frame, reply: &Reply) -> Vec<Value> {
        match self {
            Self::Completions => frame.pieces(reply),
            Self::Messages => messages::pieces(frame, reply),
        }
    }

    fn whole(self, frame: &Frame, reply: &Reply) -> Value {
        match self {
            Self::Completions => frame.whole(reply),
            Self::Messages => messages::whole(frame, reply),
        }
    }

    /// A piece as an event of the stream.
    fn event(self, piece: &Value) -> Step {
        match self {
            Self::Completions => Step::send(&format!("data: {piece}\n\n")),
            Self::Messages => Step::send(&format!("event: {}\ndata: {piece}\n\n", piece["type"].as_str().unwrap_or_default())),
        }
    }

    /// What follows the last piece.
    fn farewell(self) -> Option<Step> {
        (self == Self::Completions).then(|| Step::send("data: [DONE]\n\n"))
    }

    /// Word that something failed: as a body, and as a piece of a stream.
    fn failure(self, status: StatusCode, reason: &str) -> Value {
        match self {
            Self::Completions => json!({"error": {"message": reason, "type": "invalid_request_error", "code": status.as_u16()}}),
            Self::Messages => json!({"type": "error", "error": {"type": messages::error_type(status.as_u16()), "message": reason}}),
        }
    }

    fn refusal(self, status: StatusCode, reason: &str) -> Response {
        (status, Json(self.failure(status, reason))).into_response()
    }

    fn key(self, headers: &HeaderMap) -> Option<String> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let key = match self {
            Self::Completions => text("authorization").and_then(|value| value.strip_prefix("Bearer ")),
            Self::Messages => text("x-api-key"),
        };
        key.map(str::to_owned)
    }
}

async fn complete(State(stage): State<Arc<Stage>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Tongue::Completions, stage, &headers, &body)
}

async fn write_message(State(stage): State<Arc<Stage>>, headers: HeaderMap, body: Bytes) -> Response {
    answer(Tongue::Messages, stage, &headers, &body)
}

fn answer(tongue: Tongue, stage: Arc<Stage>, headers: &HeaderMap, body: &Bytes) -> Response {
    let bearer = tongue.key(headers);
    let parsed = serde_json::from_slice::<Value>(body);
    let refused = match &parsed {
        Err(error) => Some(format!("the body is not JSON: {error}")),
        Ok(_) if tongue == Tongue::Messages && !headers.contains_key("anthropic-version") => {
            Some("the header 'anthropic-version' is missing".to_owned())
        }
        Ok(request) => tongue.check(request).err(),
    };
    let request = parsed.unwrap_or_default();
    if let Some(reason) = refused {
        stage.record(RecordedRequest { bearer, body: request, rule: None, refused: Some(reason.clone()) });
        return tongue.refusal(StatusCode::BAD_REQUEST, &reason);
    }
    let dialogue = tongue.dialogue(&request);
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
        // What is marked is kept by the provider from the second request on.
        kept_bytes: if dialogue.length > 1 { messages::marked_bytes(&request) } else { 0 },
        include_usage: request["stream_options"]["include_usage"] == true,
    };
    let streams = request["stream"] == true;
    stage.record(RecordedRequest { bearer, body: request, rule, refused: None });
    if let Some(Fault::Status { status, retry_after, .. }) = reply.fault {
        return status_fault(tongue, status, retry_after);
    }
    if streams { streamed(tongue, stage, &frame, &reply) } else { whole(tongue, stage, &frame, &reply) }
}

fn status_fault(tongue: Tongue, status: u16, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = tongue.refusal(status, "the script says so");
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

fn streamed(tongue: Tongue, stage: Arc<Stage>, frame: &Frame, reply: &Reply) -> Response {
    let silent = Reply { thinking: String::new(), text: String::new(), calls: Vec::new(), ..reply.clone() };
    let said = if matches!(reply.fault, Some(Fault::Empty)) { &silent } else { reply };
    let mut steps: VecDeque<Step> = tongue.pieces(frame, said).iter().map(|piece| tongue.event(piece)).collect();
    let half = steps.len().div_ceil(2);
    match reply.fault {
        Some(Fault::Hang) => steps = VecDeque::from([Step::Hang]),
        Some(Fault::Garbage) => {
            steps.truncate(2);
            steps.push_back(Step::send("data: {\"choices\": [{\"delta\": {\"content\": \"hal\n\n"));
        }
        Some(Fault::Cut) => {
            steps.truncate(half);
            steps.push_back(Step::Cut);
        }
        Some(Fault::CutAfter(pieces)) => {
            steps.truncate(pieces);
            steps.push_back(Step::Cut);
        }
        Some(Fault::Stall) => {
            steps.truncate(half);
            steps.push_back(Step::Hang);
        }
        Some(Fault::Error) => {
            steps.truncate(half);
            steps.push_back(tongue.event(&tongue.failure(messages::OVERLOADED, "the script says so")));
        }
        Some(Fault::Empty | Fault::Status { .. }) | None => steps.extend(tongue.farewell()),
    }
    respond("text/event-stream", stage, steps, reply.delay_ms)
}

fn whole(tongue: Tongue, stage: Arc<Stage>, frame: &Frame, reply: &Reply) -> Response {
    let answer = tongue.whole(frame, reply).to_string();
    let begun = |letters: usize| Step::send(&answer.chars().take(letters).collect::<String>());
    let steps = match reply.fault {
        Some(Fault::Hang | Fault::Stall) => vec![Step::Hang],
        Some(Fault::Garbage) => vec![Step::send("<html>it is not JSON")],
        Some(Fault::Cut) => vec![begun(answer.chars().count() / 2), Step::Cut],
        Some(Fault::CutAfter(letters)) => vec![begun(letters), Step::Cut],
        Some(Fault::Error) => vec![Step::send(&tongue.failure(messages::OVERLOADED, "the script says so").to_string())],
        Some(Fault::Empty) => vec![Step::send(&tongue.whole(frame, &Reply::default()).to_string())],
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
