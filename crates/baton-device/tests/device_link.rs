//! A device against a scripted hub: real sockets, a real journal, and a tool that does as it is told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on fails")]

use async_trait::async_trait;
use baton_client::{HubUrl, Timing, Token};
use baton_device::device::{Device, DeviceConfig, DeviceError};
use baton_device::tool::{CancelSignal, CancelSwitch, Run, Tool, Toolbox};
use baton_proto::{
    CallId, Capabilities, ClientFrame, Effect, Finding, Outcome, Risk, RunningCall, RunningState, StateModified, ToolResult, ToolSpec,
};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

const SESSION: &str = "01990000-0000-7000-8000-00000000000a";

/// Generous: only a broken test waits this long.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it happens within 20 s")
}

fn call_id(number: u128) -> CallId {
    CallId(Uuid::from_u128(number))
}

/// A tool that waits until its call is released, and keeps a list of what it began.
#[derive(Debug)]
struct Gate {
    began: watch::Sender<Vec<(CallId, u32)>>,
    released: watch::Sender<BTreeSet<CallId>>,
    stopped: Mutex<Vec<CallId>>,
}

#[async_trait]
impl Tool for Gate {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "pass_gate".into(),
            description: "Waits at a gate.".into(),
            parameters: json!({"type": "object"}),
            effect: Effect::Once,
            risk: Risk::Safe,
            prepare: true,
            lookup: true,
            lasting: false,
            timeout_s: 60,
        }
    }

    fn stops_within(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn run(&self, mut run: Run) -> Outcome {
        if run.arguments["mode"] == "queue" {
            run.clock.stop();
        }
        self.began.send_modify(|began| began.push((run.call_id, run.attempt)));
        for _ in 0..50 {
            run.progress.tell("waiting");
        }
        assert!(run.arguments["mode"] != "break", "a fault of the tool");
        if run.arguments["mode"] == "deaf" {
            std::future::pending::<()>().await;
        }
        let mut released = self.released.subscribe();
        let released = released.wait_for(|released| released.contains(&run.call_id));
        tokio::select! {
            _ = released => Outcome::Succeeded(ToolResult { content: "through".into(), ..ToolResult::default() }),
            () = run.cancel.cancelled() => {
                self.stopped.lock().unwrap().push(run.call_id);
                Outcome::Cancelled { result: None }
            }
        }
    }

    async fn lookup(&self, _: CallId, _: &Value) -> Finding {
        Finding::NotHappened
    }
}

/// One device process, as far as a test needs one.
struct Life {
    gate: Arc<Gate>,
    shutdown: CancelSwitch,
    task: JoinHandle<Result<(), DeviceError>>,
}

impl Life {
    fn release(&self, number: u128) {
        self.gate.released.send_modify(|released| {
            released.insert(call_id(number));
        });
    }

    /// Waits until so many calls have begun, and says which.
    async fn began(&self, count: usize) -> Vec<(u128, u32)> {
        let mut began = self.gate.began.subscribe();
        let began = soon(began.wait_for(|began| began.len() >= count)).await.unwrap();
        began.iter().map(|(call, attempt)| (call.0.as_u128(), *attempt)).collect()
    }
}

struct Hub {
    listener: TcpListener,
    device_id: Mutex<u128>,
}

struct Peer {
    socket: WebSocketStream<TcpStream>,
    running: Vec<RunningCall>,
}

impl Hub {
    async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap(), device_id: Mutex::new(77) }
    }

    fn device(&self, directory: &Path) -> Life {
        let gate = Arc::new(Gate { began: watch::Sender::default(), released: watch::Sender::default(), stopped: Mutex::default() });
        let mut toolbox = Toolbox::default();
        toolbox.insert(Arc::clone(&gate) as Arc<dyn Tool>).unwrap();
        let (shutdown, signal) = CancelSignal::pair();
        let url: HubUrl = format!("http://{}", self.listener.local_addr().unwrap()).parse().unwrap();
        let config = DeviceConfig {
            hub: Arc::new(move || Ok(url.clone())),
            token: Token::new("canary").unwrap(),
            data_dir: directory.join("device"),
            toolbox: Arc::new(toolbox),
            workspaces: Arc::new(vec![]),
            capabilities: Capabilities::default(),
            name: "desk".into(),
            timing: Timing { backoff: (Duration::from_millis(1), Duration::from_millis(5)), ..Timing::default() },
            shutdown: signal,
        };
        Life { gate, shutdown, task: tokio::spawn(Device::run(config)) }
    }

    async fn welcome(&self) -> Peer {
        let (stream, _) = soon(self.listener.accept()).await.unwrap();
        let mut socket = soon(tokio_tungstenite::accept_async(stream)).await.unwrap();
        let hello = soon(socket.next()).await.unwrap().unwrap();
        let ClientFrame::Hello { running, tools, .. } = serde_json::from_str(hello.to_text().unwrap()).unwrap() else {
            panic!("hello comes first")
        };
        assert_eq!(tools.len(), 1);
        let mut peer = Peer { socket, running };
        let device_id = Uuid::from_u128(*self.device_id.lock().unwrap());
        peer.send(json!({
            "type": "welcome", "device_id": device_id, "user_id": SESSION, "name": "desk", "trust": "trusted", "heartbeat_s": 10,
            "limits": {"max_frame_bytes": 262_144, "max_text_bytes": 32768},
            "hub": {"version": "0.1.0", "incarnation": 1, "model": null, "commands": []},
        }))
        .await;
        peer
    }
}

impl Peer {
    async fn send(&mut self, frame: Value) {
        self.socket.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Something about one attempt of one call of the gate.
    async fn about(&mut self, kind: &str, number: u128, attempt: u32, fence: u64) {
        self.with(kind, number, attempt, fence, json!({})).await;
    }

    async fn with(&mut self, kind: &str, number: u128, attempt: u32, fence: u64, arguments: Value) {
        self.send(json!({
            "type": kind, "session_id": SESSION, "call_id": call_id(number), "attempt": attempt, "fence": fence,
            "tool": if number == 404 { "no_such_tool" } else { "pass_gate" }, "arguments": arguments, "lease_s": 60,
        }))
        .await;
    }

    async fn acknowledge(&mut self, number: u128, attempt: u32) {
        self.send(json!({"type": "tool_result_ack", "session_id": SESSION, "call_id": call_id(number), "attempt": attempt})).await;
    }

    /// The next frame that is no heartbeat and no progress.
    async fn read(&mut self) -> ClientFrame {
        soon(self.next_frame()).await
    }

    async fn next_frame(&mut self) -> ClientFrame {
        loop {
            let Message::Text(text) = self.socket.next().await.expect("open").unwrap() else { continue };
            let frame = serde_json::from_str(&text).unwrap();
            if !matches!(frame, ClientFrame::Heartbeat { .. } | ClientFrame::ToolProgress { .. }) {
                return frame;
            }
        }
    }

    async fn started(&mut self) -> (u128, u32) {
        match self.read().await {
            ClientFrame::ToolStarted { call_id, attempt, .. } => (call_id.0.as_u128(), attempt),
            other => panic!("expected a start, not {other:?}"),
        }
    }

    async fn result(&mut self) -> (u128, u32, Outcome) {
        match self.read().await {
            ClientFrame::ToolResult { call_id, attempt, outcome, .. } => (call_id.0.as_u128(), attempt, outcome),
            other => panic!("expected a result, not {other:?}"),
        }
    }

    async fn succeeded(&mut self) -> (u128, u32) {
        match self.result().await {
            (call, attempt, Outcome::Succeeded(_)) => (call, attempt),
            other => panic!("expected a success, not {other:?}"),
        }
    }

    async fn interrupted(&mut self) -> (u128, u32) {
        match self.result().await {
            (call, attempt, Outcome::Interrupted { .. }) => (call, attempt),
            other => panic!("expected an interruption, not {other:?}"),
        }
    }

    async fn finding(&mut self) -> Finding {
        match self.read().await {
            ClientFrame::Probed { finding, .. } => finding,
            other => panic!("expected a finding, not {other:?}"),
        }
    }

    fn states(&self) -> Vec<(u128, RunningState)> {
        self.running.iter().map(|call| (call.call_id.0.as_u128(), call.state)).collect()
    }
}

/// The end of a device process: what it had open is closed, whatever it was doing.
async fn kill(life: Life) {
    life.task.abort();
    assert!(life.task.await.unwrap_err().is_cancelled());
}

/// Begins another life on the same directory, once the former one's lock is gone.
async fn reborn(hub: &Hub, directory: &Path) -> (Life, Peer) {
    soon(async {
        loop {
            let mut life = hub.device(directory);
            tokio::select! {
                peer = hub.welcome() => return (life, peer),
                ended = &mut life.task => assert!(matches!(ended.unwrap(), Err(DeviceError::Journal(_)))),
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_call_handed_over_twice_runs_once() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1), "told again, not run again");
    life.release(7);
    assert_eq!(peer.succeeded().await, (7, 1));
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.succeeded().await, (7, 1), "told again");
    peer.acknowledge(7, 1).await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.interrupted().await, (7, 1), "its result is with the hub only");
    peer.about("tool_call", 8, 1, 1).await;
    assert_eq!(peer.started().await, (8, 1));
    assert_eq!(life.began(2).await, [(7, 1), (8, 1)]);
}

#[tokio::test]
async fn f7_a_result_is_told_over_and_over_until_it_is_acknowledged() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    drop(peer);
    // It ends while nobody listens.
    let peer = hub.welcome().await;
    assert_eq!(peer.states(), [(7, RunningState::Running)]);
    drop(peer);
    life.release(7);
    for _ in 0..3 {
        let mut peer = hub.welcome().await;
        assert_eq!(peer.succeeded().await, (7, 1));
    }
    kill(life).await;
    let (_life, mut peer) = reborn(&hub, directory.path()).await;
    assert_eq!(peer.states(), [(7, RunningState::Finished)]);
    assert_eq!(peer.succeeded().await, (7, 1));
    peer.acknowledge(7, 1).await;
    // The answer to this comes after the acknowledgement was written down.
    peer.about("probe_call", 7, 1, 1).await;
    assert_eq!(peer.finding().await, Finding::NotHappened);
    drop(peer);
    assert_eq!(hub.welcome().await.states(), []);
}

#[tokio::test]
async fn c08_c11_a_call_that_a_device_died_in_is_told_as_interrupted_and_not_run_again() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    kill(life).await;
    drop(peer);
    let (life, mut peer) = reborn(&hub, directory.path()).await;
    assert_eq!(peer.states(), [(7, RunningState::Interrupted)]);
    assert_eq!(peer.interrupted().await, (7, 1));
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.interrupted().await, (7, 1));
    peer.about("probe_call", 7, 1, 1).await;
    assert_eq!(peer.interrupted().await, (7, 1));
    assert_eq!(peer.finding().await, Finding::NotHappened, "the tool's own lookup knows");
    peer.about("tool_call", 7, 2, 1).await;
    assert_eq!(peer.started().await, (7, 2));
    assert_eq!(life.began(1).await, [(7, 2)], "a new attempt is the hub's decision");
}

#[tokio::test]
async fn a_hub_that_was_replaced_is_not_obeyed() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 5).await;
    assert_eq!(peer.started().await, (7, 1));
    drop(peer);
    let mut old = hub.welcome().await;
    for kind in ["tool_call", "prepare_call", "probe_call", "cancel_call"] {
        old.about(kind, if kind == "cancel_call" { 7 } else { 8 }, 1, 4).await;
    }
    old.about("probe_call", 9, 1, 5).await;
    assert_eq!(old.finding().await, Finding::NotHappened, "the first answer is to the newer fence");
    life.release(7);
    assert_eq!(old.succeeded().await, (7, 1), "and it wasn't cancelled");
    assert_eq!(life.began(1).await, [(7, 1)]);
}

#[tokio::test]
async fn c24_a_call_is_cancelled_while_it_runs_and_before_it_comes() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    for number in [7, 8] {
        peer.about("tool_call", number, 1, 1).await;
        assert_eq!(peer.started().await, (number, 1));
    }
    peer.about("cancel_call", 7, 1, 1).await;
    assert_eq!(peer.result().await, (7, 1, Outcome::Cancelled { result: None }));
    assert_eq!(*life.gate.stopped.lock().unwrap(), [call_id(7)]);
    peer.about("cancel_call", 9, 1, 1).await;
    assert_eq!(peer.result().await, (9, 1, Outcome::Cancelled { result: None }));
    peer.about("tool_call", 9, 1, 1).await;
    assert_eq!(peer.result().await, (9, 1, Outcome::Cancelled { result: None }), "it came too late to run");
    life.release(8);
    assert_eq!(peer.succeeded().await, (8, 1));
    peer.about("cancel_call", 8, 1, 1).await;
    assert_eq!(peer.succeeded().await, (8, 1), "what is done is done");
    assert_eq!(life.began(2).await, [(7, 1), (8, 1)]);
}

#[tokio::test]
async fn c24_a_call_that_does_not_stop_is_given_up_in_the_time_that_its_tool_needs() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.with("tool_call", 7, 1, 1, json!({"mode": "deaf"})).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    peer.about("cancel_call", 7, 1, 1).await;
    let (7, 1, Outcome::Interrupted { known }) = peer.result().await else { panic!("interrupted") };
    assert!(known.contains("didn't within 1 s"), "{known}");
}

#[tokio::test]
async fn a_call_whose_turn_had_not_come_when_its_device_stopped_has_done_nothing() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.with("tool_call", 7, 1, 1, json!({"mode": "queue"})).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    life.shutdown.cancel();
    let (7, 1, Outcome::Failed { error, .. }) = peer.result().await else { panic!("failed") };
    assert_eq!((error.code.as_str(), error.state_modified), ("device_stopped", StateModified::No));
}

#[tokio::test]
async fn attempts_of_one_call_share_one_run() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    for attempt in [1, 2] {
        peer.about("tool_call", 7, attempt, 1).await;
        assert_eq!(peer.started().await, (7, attempt));
    }
    life.release(7);
    assert_eq!((peer.succeeded().await, peer.succeeded().await), ((7, 1), (7, 2)));
    assert_eq!(life.began(1).await, [(7, 1)]);
}

#[tokio::test]
async fn a_fault_of_a_tool_ends_its_own_call_only() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 8, 1, 1).await;
    assert_eq!(peer.started().await, (8, 1));
    peer.with("tool_call", 7, 1, 1, json!({"mode": "break"})).await;
    assert_eq!(peer.started().await, (7, 1));
    let (7, 1, Outcome::Failed { error, .. }) = peer.result().await else { panic!("failed") };
    assert_eq!((error.code.as_str(), error.state_modified), ("tool_broken", StateModified::Unknown));
    peer.about("tool_call", 404, 1, 1).await;
    let (404, 1, Outcome::Failed { error, .. }) = peer.result().await else { panic!("failed") };
    assert_eq!((error.code.as_str(), error.state_modified), ("unknown_tool", StateModified::No));
    life.release(8);
    assert_eq!(peer.succeeded().await, (8, 1));
}

#[tokio::test]
async fn a_device_says_what_a_call_would_do_and_whether_it_happened() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.with("prepare_call", 7, 1, 1, json!({"a": 1})).await;
    let ClientFrame::Prepared { prepared, .. } = peer.read().await else { panic!("prepared") };
    assert_eq!((prepared.preview.as_str(), prepared.refusal), ("{\"a\":1}", None));
    peer.about("prepare_call", 404, 1, 1).await;
    let ClientFrame::Prepared { prepared, .. } = peer.read().await else { panic!("prepared") };
    assert_eq!(prepared.refusal.unwrap().code, "unknown_tool");
    peer.about("probe_call", 404, 1, 1).await;
    assert!(matches!(peer.finding().await, Finding::Unclear { .. }));
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    peer.about("probe_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    assert!(matches!(peer.finding().await, Finding::Unclear { .. }));
    life.release(7);
    assert_eq!(peer.succeeded().await, (7, 1));
    peer.about("probe_call", 7, 1, 1).await;
    assert_eq!(peer.succeeded().await, (7, 1));
    assert!(matches!(peer.finding().await, Finding::Happened { .. }));
}

#[tokio::test]
async fn a_device_that_is_told_to_stop_stops_its_calls_and_tells_of_them_later() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    life.shutdown.cancel();
    assert_eq!(peer.interrupted().await, (7, 1), "nobody asked for it, so nobody may take it for done with");
    soon(life.task).await.unwrap().unwrap();
    assert_eq!(*life.gate.stopped.lock().unwrap(), [call_id(7)]);
    let (_life, mut peer) = reborn(&hub, directory.path()).await;
    assert_eq!(peer.interrupted().await, (7, 1));
}

#[tokio::test]
async fn c29_a_revoked_device_stops_its_work_and_says_why() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    drop(peer);
    let (stream, _) = soon(hub.listener.accept()).await.unwrap();
    let mut stream = tokio::io::BufReader::new(stream);
    let mut header = String::new();
    while header != "\r\n" {
        header.clear();
        soon(tokio::io::AsyncBufReadExt::read_line(&mut stream, &mut header)).await.unwrap();
    }
    let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
    let error = soon(life.task).await.unwrap().unwrap_err();
    assert!(matches!(error, DeviceError::Revoked(_)) && error.to_string().contains("Pair it again"), "{error}");
    assert_eq!(*life.gate.stopped.lock().unwrap(), [call_id(7)]);
}

#[tokio::test]
async fn after_a_new_pairing_nothing_of_the_old_one_is_told_or_runs_on() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 9).await;
    assert_eq!(peer.started().await, (7, 1));
    life.began(1).await;
    *hub.device_id.lock().unwrap() = 78;
    drop(peer);
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 8, 1, 1).await;
    assert_eq!(peer.started().await, (8, 1), "fences begin anew, and no result of the old call came first");
    life.release(8);
    assert_eq!(peer.succeeded().await, (8, 1));
    assert_eq!(*life.gate.stopped.lock().unwrap(), [call_id(7)]);
}

#[tokio::test]
async fn a_second_device_on_the_same_directory_is_refused() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let _first = hub.device(directory.path());
    let _peer = hub.welcome().await;
    let error = soon(hub.device(directory.path()).task).await.unwrap().unwrap_err();
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
}

#[tokio::test]
async fn progress_is_passed_on_and_bounded() {
    let (directory, hub) = (tempfile::tempdir().unwrap(), Hub::start().await);
    let life = hub.device(directory.path());
    let mut peer = hub.welcome().await;
    peer.about("tool_call", 7, 1, 1).await;
    life.began(1).await;
    life.release(7);
    let mut words = 0;
    loop {
        let Message::Text(text) = soon(peer.socket.next()).await.unwrap().unwrap() else { continue };
        match serde_json::from_str(&text).unwrap() {
            ClientFrame::ToolProgress { .. } => words += 1,
            ClientFrame::ToolResult { .. } => break,
            _ => {}
        }
    }
    assert!((1..50).contains(&words), "{words}");
}
