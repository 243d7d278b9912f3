//! The stories of the wire, played by the Rust client against the built hub. The same files are played by the TypeScript client; what their
//! steps mean is said beside them, in `sdk/typescript/stories/README.md`.

#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

mod support;

use baton_client::{ChangeEntry, Connection, ConnectionConfig, ConnectionHandle, Hello, Http, HubUrl, Incoming, Outbox, Timing, Token};
use baton_proto::{ClientFrame, ClientType, HubFrame, Operation, SessionId, Trust};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::house::{House, invited};
use support::root;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use uuid::Uuid;

/// Generous: only a broken story waits this long.
const PATIENCE: Duration = Duration::from_secs(45);

#[tokio::test(flavor = "multi_thread")]
async fn c01_c06_c09_c17_c18_c19_c25_every_story_is_true_of_the_rust_client() {
    let folder = root().join("sdk/typescript/stories");
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("stories").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= 8, "stories are missing: {files:?}");
    let script = std::fs::read_to_string(folder.join("model/script.json")).expect("the model's script");
    let mut house = House::with_model(serde_json::from_str(&script).expect("a script is JSON")).await;
    for file in files {
        house.hands().await;
        let story: Value = serde_json::from_str(&std::fs::read_to_string(&file).expect("a story")).expect("a story is JSON");
        Told { house: &mut house, name: story["name"].to_string(), ends: BTreeMap::new(), kept: BTreeMap::new(), sent: BTreeMap::new() }
            .tell(story["steps"].as_array().expect("steps"))
            .await;
    }
    // What a story had approved was done as often as it was approved.
    assert_eq!((house.file("story_approval.txt"), house.file("story_restart.txt")), ("once\n".to_owned(), "once\n".to_owned()));
}

/// A story while it is told.
struct Told<'a> {
    house: &'a mut House,
    name: String,
    ends: BTreeMap<String, End>,
    kept: BTreeMap<String, Value>,
    sent: BTreeMap<String, Value>,
}

/// An end with the client's own connection and outbox, and what it keeps of each session.
struct End {
    http: Http,
    token: String,
    handle: ConnectionHandle,
    seen: watch::Receiver<()>,
    state: Arc<Mutex<State>>,
    proxy: Proxy,
    outbox: Arc<Mutex<Outbox>>,
    due: mpsc::Sender<()>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct State {
    live: bool,
    sessions: BTreeMap<SessionId, Kept>,
    trouble: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    cursor: u64,
    entities: BTreeMap<(String, String), Value>,
}

impl Told<'_> {
    async fn tell(mut self, steps: &[Value]) {
        for (place, raw) in steps.iter().enumerate() {
            let step = self.filled(raw);
            let place = format!("{}, step {}: {raw}", self.name, place + 1);
            if step["do"] == "hub" {
                match step["is"].as_str() {
                    Some("killed") => {
                        self.house.hub.kill().await;
                        for end in self.ends.values() {
                            end.until("the hub is gone", |state| (!state.live).then_some(()), &place).await;
                        }
                    }
                    _ => self.house.hub.start().await,
                }
                continue;
            }
            let name = step["end"].as_str().unwrap_or_else(|| panic!("{place}: no end")).to_owned();
            if !self.ends.contains_key(&name) {
                let end = self.join(&name, &step, &place).await;
                self.ends.insert(name.clone(), end);
            }
            let kept = self.play(&name, raw, &step, &place).await;
            for (name, field) in raw["keep"].as_object().into_iter().flatten() {
                self.kept.insert(name.clone(), kept[field.as_str().unwrap_or_default()].clone());
            }
        }
        for end in self.ends.values() {
            end.handle.stop().await;
            end.task.abort();
        }
    }

    /// Plays a step, and answers with what may be kept of it.
    async fn play(&mut self, name: &str, raw: &Value, step: &Value, place: &str) -> Value {
        let end = &self.ends[name];
        let session = step["session"].as_str().map(|id| id.parse::<SessionId>().expect("a session's id"));
        let of_session = || session.unwrap_or_else(|| panic!("{place}: no session"));
        match step["do"].as_str().unwrap_or_default() {
            "join" => {}
            "op" => {
                let operation = match raw["again"].as_str() {
                    Some(again) => {
                        let mut operation = self.sent[again].clone();
                        if let Some(payload) = step.get("payload") {
                            operation["payload"] = payload.clone();
                        }
                        operation
                    }
                    None => made(step, None),
                };
                let reply = end.http.operate(&decoded(&operation, place)).await.unwrap_or_else(|error| panic!("{place}: {error}"));
                let reply = serde_json::to_value(reply).expect("a reply is data");
                assert!(contains(&reply, &step["expect"]), "{place}: {reply}");
                if let Some(name) = raw["as"].as_str() {
                    self.sent.insert(name.to_owned(), operation);
                }
                return reply;
            }
            "put" => {
                let epoch = end.read(|state| {
                    let kept = state.sessions.get(&of_session())?;
                    kept.entities.get(&("session".to_owned(), of_session().to_string())).map(|session| session["epoch"].clone())
                });
                let operation = decoded(&made(step, epoch), place);
                end.outbox.lock().unwrap_or_else(PoisonError::into_inner).put(operation).expect("the outbox takes it");
                let _ = end.due.send(()).await;
            }
            "settled" => {
                end.until(
                    "nothing is left in the outbox",
                    |_| {
                        let outbox = end.outbox.lock().unwrap_or_else(PoisonError::into_inner);
                        (outbox.due().next().is_none() && outbox.needing_user().next().is_none()).then_some(())
                    },
                    place,
                )
                .await;
            }
            "follow" => {
                end.handle.subscribe(of_session(), None).await;
                end.until("the view", |state| state.sessions.contains_key(&of_session()).then_some(()), place).await;
            }
            "cut" => end.proxy.cut(),
            "live" => end.until("the connection", |state| state.live.then_some(()), place).await,
            "until" => {
                let wanted = &step["entity"];
                return end
                    .until(
                        "the entity",
                        |state| {
                            let kept = state.sessions.get(&of_session())?;
                            kept.entities.values().find(|entity| contains(entity, wanted)).cloned()
                        },
                        place,
                    )
                    .await;
            }
            "count" => {
                let events = log(&end.http, of_session()).await;
                let count = events.iter().filter(|event| event["type"] == step["event"]).count();
                assert_eq!(json!(count), step["is"], "{place}: {events:#?}");
            }
            "met_unknown" => {
                let met = end.proxy.renamed.load(Ordering::Relaxed);
                assert!(u64::from(met) >= step["at_least"].as_u64().unwrap_or(1), "{place}: {met} were met");
            }
            "events" => {
                let head = log(&end.http, of_session()).await.len() as u64;
                let after = step["after"].as_u64().unwrap_or(0);
                let ids = event_ids(&self.house.hub.url(), &end.token, of_session(), after, head).await;
                assert_eq!(ids, (after + 1..=head).collect::<Vec<_>>(), "{place}");
            }
            "same" => {
                let view = end.http.session(of_session()).await.unwrap_or_else(|error| panic!("{place}: {error}"));
                let kept = end
                    .until(
                        "the last change",
                        |state| state.sessions.get(&of_session()).filter(|kept| kept.cursor >= view.seq).cloned(),
                        place,
                    )
                    .await;
                assert_eq!(kept.cursor, view.seq, "{place}");
                for entity in &view.entities {
                    let entity = serde_json::to_value(entity).expect("an entity is data");
                    assert_eq!(kept.entities.get(&key(&entity)), Some(&entity), "{place}");
                }
            }
            other => panic!("{place}: this runner doesn't know '{other}'"),
        }
        Value::Null
    }

    async fn join(&self, name: &str, step: &Value, place: &str) -> End {
        let trust: Trust = step.get("trust").map_or(Trust::Trusted, |trust| serde_json::from_value(trust.clone()).expect("a trust"));
        let client_type: ClientType =
            step.get("client_type").map_or(ClientType::Web, |kind| serde_json::from_value(kind.clone()).expect("a client type"));
        let (http, credentials) = invited(&self.house.hub, &self.house.phone, trust, name, client_type).await;
        let unknown = step["unknown"].as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect();
        let proxy = Proxy::start(self.house.hub.port, unknown).await;
        let url: HubUrl = format!("http://127.0.0.1:{}", proxy.port).parse().expect("an address");
        let (handle, incoming) = Connection::spawn(ConnectionConfig {
            url: Arc::new(move || Ok(url.clone())),
            token: Token::new(&credentials.token).expect("a token"),
            greeting: Arc::new(Hello::of(client_type)),
            cursors: BTreeMap::new(),
            timing: Timing { backoff: (Duration::from_millis(20), Duration::from_millis(200)), ..Timing::default() },
        });
        let outbox = self.house.directory.path().join(format!("outbox-{}", credentials.device_id));
        let outbox = Arc::new(Mutex::new(Outbox::open(&outbox).expect("an outbox")));
        let (told, seen) = watch::channel(());
        let (due, dues) = mpsc::channel(8);
        let state = Arc::new(Mutex::new(State::default()));
        let keeper = Keeper { handle: handle.clone(), incoming, told, state: Arc::clone(&state), outbox: Arc::clone(&outbox), dues };
        let task = tokio::spawn(keeper.keep()).abort_handle();
        let end = End { http, token: credentials.token, handle, seen, state, proxy, outbox, due, task };
        end.until("the connection", |state| state.live.then_some(()), place).await;
        end
    }

    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => self.kept.get(name).cloned().unwrap_or_else(|| panic!("nothing was kept as {text}")),
                None => value.clone(),
            },
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(fields) => {
                let filled =
                    |(name, value): (&String, &Value)| (name.clone(), if name == "keep" { value.clone() } else { self.filled(value) });
                Value::Object(fields.iter().map(filled).collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }
}

impl End {
    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the end's own state shows it.
    async fn until<T>(&self, what: &str, look: impl Fn(&State) -> Option<T>, place: &str) -> T {
        let mut seen = self.seen.clone();
        let found = async {
            loop {
                seen.mark_unchanged();
                if let Some(found) = self.read(|state| {
                    assert!(state.trouble.is_none(), "{place}: {:?}", state.trouble);
                    look(state)
                }) {
                    return found;
                }
                seen.changed().await.expect("the end lives");
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("{place}: waited in vain for {what}; {:#?}", self.read(|state| format!("{state:?}"))))
    }
}

/// Takes in what comes, as an end's own code does.
struct Keeper {
    handle: ConnectionHandle,
    incoming: mpsc::Receiver<Incoming>,
    told: watch::Sender<()>,
    state: Arc<Mutex<State>>,
    outbox: Arc<Mutex<Outbox>>,
    dues: mpsc::Receiver<()>,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            let send = tokio::select! {
                Some(()) = self.dues.recv() => true,
                word = self.incoming.recv() => match word {
                    None => return,
                    Some(word) => self.take(word),
                },
            };
            if send {
                let due: Vec<Operation> = self.outbox.lock().unwrap_or_else(PoisonError::into_inner).due().cloned().collect();
                for operation in due {
                    // What isn't taken now goes out with the next connection.
                    let operation = serde_json::to_value(operation).expect("an operation is data");
                    let _ = self.handle.send(&ClientFrame::Op { operation }).await;
                }
            }
            self.told.send_replace(());
        }
    }

    /// Takes one word in; whether what is in the outbox goes out now.
    fn take(&self, word: Incoming) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match word {
            Incoming::Connected(_) => {
                state.live = true;
                return true;
            }
            Incoming::Disconnected { .. } => state.live = false,
            Incoming::Refused(error) => state.trouble = Some(error.to_string()),
            Incoming::UnknownChange(change) => state.change(change.session_id, change.seq, &change.upserts),
            Incoming::Frame(frame) => match *frame {
                HubFrame::View(view) => {
                    let entities = view.entities.iter().map(|entity| serde_json::to_value(entity).expect("an entity is data"));
                    let kept = Kept { cursor: view.seq, entities: entities.map(|entity| (key(&entity), entity)).collect() };
                    state.sessions.insert(view.session_id, kept);
                }
                HubFrame::Change(change) => state.change(change.session_id, change.seq, &change.upserts),
                HubFrame::Ack(reply) => {
                    self.outbox.lock().unwrap_or_else(PoisonError::into_inner).settle(&reply).expect("the outbox can be written");
                }
                _ => {}
            },
        }
        false
    }
}

impl State {
    fn change(&mut self, session: SessionId, seq: u64, upserts: &[baton_proto::EntityView]) {
        let kept = self.sessions.entry(session).or_default();
        if seq != kept.cursor + 1 {
            self.trouble = Some(format!("change {seq} came after {}", kept.cursor));
            return;
        }
        kept.cursor = seq;
        for entity in upserts {
            let entity = serde_json::to_value(entity).expect("an entity is data");
            kept.entities.insert(key(&entity), entity);
        }
    }
}

/// Stands between an end and the hub: cuts its connections without a word, and renames kinds of events so that the end doesn't know them.
struct Proxy {
    port: u16,
    connections: Arc<Mutex<JoinSet<()>>>,
    renamed: Arc<AtomicU32>,
    task: AbortHandle,
}

impl Proxy {
    async fn start(hub: u16, unknown: BTreeSet<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let renamed = Arc::new(AtomicU32::new(0));
        let (taken, counted) = (Arc::clone(&connections), Arc::clone(&renamed));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let carried = carry(stream, hub, unknown.clone(), Arc::clone(&counted));
                taken.lock().unwrap_or_else(PoisonError::into_inner).spawn(carried);
            }
        });
        Self { port, connections, renamed, task: task.abort_handle() }
    }

    fn cut(&self) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(stream: TcpStream, hub: u16, unknown: BTreeSet<String>, renamed: Arc<AtomicU32>) {
    let mut authorization = HeaderValue::from_static("");
    #[allow(clippy::result_large_err, reason = "the library's own signature")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        authorization = request.headers()["authorization"].clone();
        Ok(response)
    };
    let Ok(end) = tokio_tungstenite::accept_hdr_async(stream, look).await else { return };
    let mut request = format!("ws://127.0.0.1:{hub}/v1/ws").into_client_request().expect("a request");
    request.headers_mut().insert("authorization", authorization);
    let Ok((hub, _)) = tokio_tungstenite::connect_async(request).await else { return };
    let ((mut to_end, mut from_end), (mut to_hub, mut from_hub)) = (end.split(), hub.split());
    loop {
        let went = tokio::select! {
            message = from_end.next() => match message {
                Some(Ok(message)) => to_hub.send(message).await,
                _ => return,
            },
            message = from_hub.next() => match message {
                Some(Ok(Message::Text(text))) => to_end.send(Message::text(rename(&text, &unknown, &renamed))).await,
                Some(Ok(message)) => to_end.send(message).await,
                _ => return,
            },
        };
        if went.is_err() {
            return;
        }
    }
}

fn rename(text: &str, unknown: &BTreeSet<String>, renamed: &AtomicU32) -> String {
    let mut frame: Value = serde_json::from_str(text).expect("the hub sends JSON");
    let kind = frame["event"]["type"].as_str().filter(|kind| unknown.contains(*kind)).map(str::to_owned);
    if let Some(kind) = kind {
        frame["event"]["type"] = json!(format!("{kind}_of_the_future"));
        renamed.fetch_add(1, Ordering::Relaxed);
    }
    frame.to_string()
}

/// The operation that a step asks for.
fn made(step: &Value, epoch: Option<Value>) -> Value {
    let mut operation = json!({"v": 1, "operation_id": Uuid::now_v7(), "intent": step["intent"], "payload": step["payload"]});
    for (name, value) in [("session_id", step.get("session").cloned()), ("epoch", step.get("epoch").cloned().or(epoch))] {
        if let Some(value) = value {
            operation[name] = value;
        }
    }
    operation
}

fn decoded(operation: &Value, place: &str) -> Operation {
    Operation::decode(operation.clone()).unwrap_or_else(|error| panic!("{place}: {error}"))
}

fn key(entity: &Value) -> (String, String) {
    (entity["kind"].as_str().unwrap_or_default().to_owned(), entity["id"].as_str().unwrap_or_default().to_owned())
}

fn contains(actual: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(fields) => fields.iter().all(|(name, expected)| contains(&actual[name.as_str()], expected)),
        other => actual == other,
    }
}

async fn log(http: &Http, session: SessionId) -> Vec<Value> {
    let mut events = Vec::new();
    loop {
        let page = http.events(session, events.len() as u64, Some(500)).await.expect("the log can be read");
        if page.changes.is_empty() {
            return events;
        }
        events.extend(page.changes.into_iter().map(|entry| match entry {
            ChangeEntry::Known(change) => serde_json::to_value(change.event).expect("an event is data"),
            ChangeEntry::Unknown(change) => panic!("{change:?} isn't known"),
        }));
    }
}

/// The ids of a stream of server-sent events, until the head has come. The client has no such stream, so it is read by hand.
async fn event_ids(hub: &str, token: &str, session: SessionId, after: u64, head: u64) -> Vec<u64> {
    let start = if after == 0 { "?after=0" } else { "" };
    let mut request = reqwest::Client::new()
        .get(format!("{hub}/v1/sessions/{session}/events{start}"))
        .bearer_auth(token)
        .header("accept", "text/event-stream");
    if after > 0 {
        request = request.header("last-event-id", after.to_string());
    }
    let mut response = request.send().await.expect("an answer").error_for_status().expect("a stream");
    let (mut ids, mut text) = (Vec::new(), String::new());
    while ids.last().copied().unwrap_or(after) < head {
        let piece =
            tokio::time::timeout(PATIENCE, response.chunk()).await.expect("it goes on").expect("it can be read").expect("it doesn't end");
        text.push_str(&String::from_utf8_lossy(&piece));
        while let Some((line, rest)) = text.split_once('\n') {
            ids.extend(line.strip_prefix("id:").map(|id| id.trim().parse::<u64>().expect("a number")));
            text = rest.to_owned();
        }
    }
    ids
}
