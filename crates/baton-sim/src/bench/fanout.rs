//! From an operation to its event on every other socket: 50 sessions of five devices each, on a real hub in its own process, over real
//! sockets on loopback. And what a connected device that only listens costs the hub in memory.
#![allow(clippy::cast_precision_loss, reason = "counts and sizes of a bench are far below 2^52")]

use super::hub_process::{HubProcess, Wanted};
use super::{Figure, percentile, rounded};
use crate::world::Seeded;
use anyhow::{Context as _, Result, bail, ensure};
use baton_proto::{Capabilities, ClientFrame, ClientType, Credentials, Intent, Operation, OperationId, PROTOCOL_VERSION, SessionId};
use baton_store::{BareStep, bare_baseline};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::Message;
use uuid::Uuid;

const SESSIONS: usize = 50;
const DEVICES: usize = 5;
/// Connected devices that only listen, and how many of them a user has.
const IDLE: usize = 1000;
const IDLE_OF_A_USER: usize = 10;
/// Before the memory is looked at: what was needed for the moment only is given back by then.
const SETTLING: Duration = Duration::from_secs(3);
/// Bytes of text in a step.
const TEXT_BYTES: usize = 160;
/// Milliseconds between two operations of a session, at most; half of it on average.
const PAUSE_MS: u64 = 400;
const SEED: u64 = 7;
/// Only what is broken takes this long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the bench; operations are sent for ten times `seconds`.
pub async fn run(seconds: f64) -> Result<Vec<Figure>> {
    let mut figures = latency(Duration::from_secs_f64(seconds * 10.0)).await?;
    figures.push(idle().await?);
    Ok(figures)
}

/// One operation, from being sent to its event on the last of the session's sockets.
#[derive(Debug)]
struct Sample {
    id: OperationId,
    first: f64,
    last: f64,
}

async fn latency(time: Duration) -> Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let mut hub = HubProcess::start(&Wanted { data: directory.path().join("hub"), users: SESSIONS, devices: DEVICES, model: None }).await?;
    let mut rooms = Vec::new();
    for (number, devices) in hub.ready.devices.iter().enumerate() {
        rooms.push(Room::open(&hub, devices, Seeded::new(SEED, &number.to_string())).await?);
    }
    hub.appends().await?;

    let echoes = tokio::spawn(echo(hub.ready.echo, time));
    let end = Instant::now() + time;
    let work: Vec<_> = rooms.into_iter().map(|room| tokio::spawn(room.work(end))).collect();
    let mut samples = Vec::new();
    for work in work {
        samples.extend(work.await??);
    }
    let echoes = Latencies::of(echoes.await??);
    let appends = hub.appends().await?;
    hub.stop().await?;

    let commits = Latencies::of(samples.iter().filter_map(|sample| appends.get(&sample.id).copied()).collect());
    ensure!(commits.0.len() == samples.len(), "{} operations have {} appends", samples.len(), commits.0.len());
    let own = |of: fn(&Sample) -> f64| {
        Latencies::of(samples.iter().filter_map(|sample| Some((of(sample) - appends.get(&sample.id)?).max(0.0))).collect())
    };
    let total = Latencies::of(samples.iter().map(|sample| sample.last).collect());
    let (own_last, own_first) = (own(|sample| sample.last), own(|sample| sample.first));
    let step = BareStep { event: 950, operation: 256, summary: 300, streams: SESSIONS, batch: 1 };
    let path = directory.path().to_owned();
    let bare = tokio::task::spawn_blocking(move || bare_baseline(&path, 1.0, step)).await??;

    let echo_baseline = json!({"name": "loopback_echo", "value": rounded(echoes.at(0.5)), "p99": rounded(echoes.at(0.99))});
    let bare_baseline = json!({"name": "bare_commit", "value": rounded(bare.p50_ms), "p99": rounded(bare.p99_ms)});
    let conditions = json!({
        "sessions": SESSIONS, "devices": DEVICES, "seed": SEED, "text_bytes": TEXT_BYTES, "synchronous": "FULL",
        "operations_a_second": rounded(samples.len() as f64 / time.as_secs_f64()), "clients": "same machine, another process",
    });
    let figures = [
        ("operation_to_last_socket", &total, &bare_baseline),
        ("own_time_to_last_socket", &own_last, &echo_baseline),
        ("own_time_to_first_socket", &own_first, &echo_baseline),
        ("commit_in_hub", &commits, &bare_baseline),
    ];
    Ok(figures.into_iter().map(|(figure, latencies, baseline)| latencies.figure(figure, &conditions, baseline)).collect())
}

/// Milliseconds, in ascending order.
struct Latencies(Vec<f64>);

impl Latencies {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }

    fn at(&self, share: f64) -> f64 {
        percentile(&self.0, share)
    }

    fn figure(&self, figure: &'static str, conditions: &Value, baseline: &Value) -> Figure {
        let (p50, p99) = (self.at(0.5), self.at(0.99));
        eprintln!(
            "fanout: {figure}: p50 {p50:.2} ms, p99 {p99:.2} ms; beside {}: p50 {} ms, p99 {} ms",
            baseline["name"], baseline["value"], baseline["p99"]
        );
        let (conditions, baseline) = (conditions.clone(), baseline.clone());
        Figure { bench: "fanout", figure, value: p99, unit: "ms", n: self.0.len(), p50, p99, conditions, baseline }
    }
}

/// A session with the devices that follow it; the first of them sends the operations.
struct Room {
    session: SessionId,
    sender: SplitSink<Socket, Message>,
    seen: mpsc::UnboundedReceiver<(OperationId, Instant)>,
    devices: usize,
    seeded: Seeded,
}

type Socket = WebSocketStream<TcpStream>;

impl Room {
    async fn open(hub: &HubProcess, devices: &[Credentials], seeded: Seeded) -> Result<Self> {
        let session = hub.new_session(devices.first().context("a user without devices")?).await?;
        let (tell, seen) = mpsc::unbounded_channel();
        let mut senders = Vec::new();
        for device in devices {
            let (sender, reader) = follow(hub.ready.address, device, session).await?.split();
            senders.push(sender);
            tokio::spawn(read(reader, tell.clone()));
        }
        let sender = senders.swap_remove(0);
        // The others only listen; they are kept open by their readers' halves.
        Ok(Self { session, sender, seen, devices: devices.len(), seeded })
    }

    /// Sends one operation after another, each when the last has reached all, with pauses in between.
    async fn work(mut self, end: Instant) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        loop {
            tokio::time::sleep(Duration::from_micros(self.seeded.between(0, PAUSE_MS * 1000))).await;
            if Instant::now() >= end {
                return Ok(samples);
            }
            let id = OperationId(Uuid::now_v7());
            let intent = Intent::SetNote { key: "step".to_owned(), value: "x".repeat(TEXT_BYTES) };
            let mut operation = Operation::new(id, Some(self.session), intent);
            operation.epoch = Some(1);
            let frame = text(&ClientFrame::Op { operation: serde_json::to_value(&operation)? })?;
            let started = Instant::now();
            self.sender.send(frame).await?;
            let mut times = Vec::new();
            while times.len() < self.devices {
                let (seen, at) = tokio::time::timeout(PATIENCE, self.seen.recv()).await?.context("a socket broke")?;
                if seen == id {
                    times.push(at.duration_since(started).as_secs_f64() * 1000.0);
                }
            }
            times.sort_by(f64::total_cmp);
            samples.push(Sample { id, first: times[0], last: times[times.len() - 1] });
        }
    }
}

/// The part of a frame that is looked at.
#[derive(Deserialize)]
struct Seen {
    #[serde(default)]
    event: Option<SeenEvent>,
}

#[derive(Deserialize)]
struct SeenEvent {
    #[serde(default)]
    operation_id: Option<OperationId>,
}

async fn read(mut reader: SplitStream<Socket>, tell: mpsc::UnboundedSender<(OperationId, Instant)>) {
    while let Some(Ok(message)) = reader.next().await {
        let at = Instant::now();
        if let Message::Text(text) = message
            && let Ok(Seen { event: Some(SeenEvent { operation_id: Some(id) }) }) = serde_json::from_str(&text)
            && tell.send((id, at)).is_err()
        {
            return;
        }
    }
}

fn text(frame: &ClientFrame) -> Result<Message> {
    Ok(Message::text(serde_json::to_string(frame)?))
}

/// A connection that follows a session and has its view.
async fn follow(hub: SocketAddr, device: &Credentials, session: SessionId) -> Result<Socket> {
    let mut request = format!("ws://{hub}/v1/ws").into_client_request()?;
    request.headers_mut().insert("authorization", format!("Bearer {}", device.token).parse()?);
    let stream = TcpStream::connect(hub).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
    let hello = ClientFrame::Hello {
        protocol: PROTOCOL_VERSION,
        client_type: ClientType::Cli,
        capabilities: Capabilities::default(),
        tools: Vec::new(),
        workspaces: Vec::new(),
        cursors: BTreeMap::new(),
        running: Vec::new(),
        journal: None,
    };
    socket.send(text(&hello)?).await?;
    socket.send(text(&ClientFrame::Subscribe { session_id: session, after: None })?).await?;
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await?.context("the hub closed the connection")??;
        let Message::Text(text) = message else { continue };
        let frame: Value = serde_json::from_str(&text)?;
        match frame["type"].as_str() {
            Some("view") => return Ok(socket),
            Some("error" | "bye") => bail!("the hub refused: {text}"),
            _ => {}
        }
    }
}

/// What a message of an event's size takes there and back while everything else goes on, in milliseconds.
async fn echo(address: SocketAddr, time: Duration) -> Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (message, mut back) = (vec![b'x'; 700], vec![0; 700]);
    let mut samples = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        let started = Instant::now();
        stream.write_all(&message).await?;
        stream.read_exact(&mut back).await?;
        samples.push(started.elapsed().as_secs_f64() * 1000.0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(samples)
}

/// The hub's memory with and without many devices that are connected, follow a session, and say nothing.
async fn idle() -> Result<Figure> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("hub");
    let hub = HubProcess::start(&Wanted { data, users: IDLE / IDLE_OF_A_USER, devices: IDLE_OF_A_USER, model: None }).await?;
    let mut followers = Vec::new();
    for devices in &hub.ready.devices {
        let session = hub.new_session(devices.first().context("a user without devices")?).await?;
        followers.extend(devices.iter().map(|device| (device.clone(), session)));
    }
    tokio::time::sleep(SETTLING).await;
    let before = hub.memory()?;
    let address = hub.ready.address;
    let sockets: Vec<Socket> = stream::iter(followers)
        .map(|(device, session)| async move { follow(address, &device, session).await })
        .buffer_unordered(16)
        .try_collect()
        .await?;
    tokio::time::sleep(SETTLING).await;
    let with = hub.memory()?;
    ensure!(sockets.len() == IDLE, "{} devices are connected", sockets.len());
    drop(sockets);
    hub.stop().await?;
    let each = with.saturating_sub(before) as f64 / IDLE as f64 / 1024.0;
    let (before, with) = (rounded(before as f64 / 1_048_576.0), rounded(with as f64 / 1_048_576.0));
    eprintln!("fanout: {IDLE} idle devices: {each:.1} KiB of the hub's memory each; the hub grew from {before} to {with} MiB");
    Ok(Figure {
        bench: "fanout",
        figure: "memory_of_an_idle_device",
        value: each,
        unit: "KiB",
        n: IDLE,
        p50: each,
        p99: each,
        conditions: json!({"devices": IDLE, "users": IDLE / IDLE_OF_A_USER, "each_follows": "one session", "memory": "anonymous and resident"}),
        baseline: json!({"name": "the same hub with nobody connected, in MiB", "value": before}),
    })
}
