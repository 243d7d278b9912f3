//! Durable steps: an operation is received, decided, appended with its id in one transaction, committed to disk, and answered.
//!
//! Four sides take turns in one run, so that whatever else the machine does falls on all of them: the hub; its store alone, written to
//! with rows of the same sizes; bare SQLite with the same three statements, sizes and steps a commit as the hub's store had; and bare
//! SQLite that has a step of every session in each commit, as if nobody were ever waited for.

use super::{Figure, logs, opened, owner, percentile, rounded};
use anyhow::{Context as _, Result, bail};
use baton_proto::{Digest, Intent, Operation, OperationId, ReplyStatus, SessionId, Timestamp, UserId};
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{
    Append, BareFigures, BareStep, EventRow, HeadWrite, OperationRow, SqliteStore, Store, StoreFigures, StreamId, StreamKind, bare_baseline,
};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How many sessions work at once.
const SESSIONS: [usize; 3] = [1, 8, 50];
/// Turns that each side takes.
const ROUNDS: usize = 5;
/// Bytes of text in a step.
const TEXT_BYTES: usize = 160;

/// What the turns of one side add up to.
#[derive(Debug, Default)]
struct Side {
    steps: usize,
    seconds: f64,
    /// Seconds that the whole process spent on its processors.
    cpu: f64,
    /// Milliseconds, each of a step or of a commit.
    latencies: Vec<f64>,
}

/// Runs the bench; each turn of each side takes `seconds`.
#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub async fn run(seconds: f64) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for sessions in SESSIONS {
        let directory = tempfile::tempdir()?;
        let store = SqliteStore::open(&directory.path().join("hub"))?;
        let hub = Hub::open(Arc::clone(&store) as Arc<dyn Store>, HubConfig::new("bench", None)).await?;
        let who = owner(&hub).await?;
        let mut open = Vec::new();
        for _ in 0..sessions {
            open.push(open_session(&hub, who).await?);
        }
        let sizes = sizes(&hub, &store, who, open[0]).await?;
        let alone = Alone::open(&directory.path().join("store"), sessions, sizes)?;

        let time = Duration::from_secs_f64(seconds);
        let (mut ours, mut stores, mut bare, mut whole) = (Side::default(), Side::default(), Side::default(), Side::default());
        let mut written = StoreFigures::default();
        for _ in 0..ROUNDS {
            let before = store.figures();
            ours.turn(drive(&hub, who, &open, time)).await?;
            let after = store.figures().since(before);
            written = written.plus(after);
            let batch = usize::try_from((after.writes + after.commits / 2) / after.commits.max(1))?;
            stores.turn(alone.drive(time)).await?;
            bare.turn(drive_bare(directory.path(), "bare", seconds, BareStep { batch, ..alone.step() })).await?;
            whole.turn(drive_bare(directory.path(), "whole", seconds, BareStep { batch: sessions, ..alone.step() })).await?;
        }

        let conditions = json!({
            "sessions": sessions, "synchronous": "FULL", "rounds": ROUNDS, "seconds": seconds, "event_bytes": sizes.event,
            "operation_bytes": sizes.operation, "summary_bytes": sizes.summary,
            "steps_a_commit": rounded(written.writes as f64 / written.commits.max(1) as f64),
        });
        let yardstick =
            json!({"name": "bare_sqlite", "value": rounded(bare.rate()), "p50": rounded(bare.p50()), "cpu_us": rounded(bare.cpu_us())});
        eprintln!(
            "steps: {sessions:>2} sessions: hub {:.0}/s, store {:.0}/s, bare {:.0}/s, bare in whole batches {:.0}/s: ratio {:.2}, one step {:.3} ms beside {:.3}",
            ours.rate(),
            stores.rate(),
            bare.rate(),
            whole.rate(),
            ours.rate() / bare.rate(),
            ours.p50(),
            bare.p50()
        );
        for (figure, side) in [("durable_steps", &ours), ("store_steps", &stores), ("bare_in_whole_batches", &whole)] {
            let mut conditions = conditions.clone();
            conditions["cpu_us"] = json!(rounded(side.cpu_us()));
            figures.push(Figure {
                bench: "steps",
                figure,
                value: side.rate(),
                unit: "1/s",
                n: side.steps,
                p50: side.p50(),
                p99: percentile(&side.latencies, 0.99),
                conditions,
                baseline: yardstick.clone(),
            });
        }
        hub.shut_down("The bench is over.").await;
    }
    figures.extend(written_by_a_step().await?);
    Ok(figures)
}

#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
impl Side {
    async fn turn(&mut self, work: impl Future<Output = Result<(usize, Vec<f64>)>>) -> Result<()> {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let (steps, latencies) = work.await?;
        self.seconds += started.elapsed().as_secs_f64();
        self.cpu += cpu_seconds() - cpu;
        self.steps += steps;
        self.latencies.extend(latencies);
        self.latencies.sort_by(f64::total_cmp);
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.steps as f64 / self.seconds
    }

    fn p50(&self) -> f64 {
        percentile(&self.latencies, 0.5)
    }

    /// Microseconds of processor time that a step took.
    fn cpu_us(&self) -> f64 {
        self.cpu * 1e6 / self.steps.max(1) as f64
    }
}

/// What this process has spent on processors so far, where the system tells.
fn cpu_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; times are the 12th and 13th value after it, in hundredths of a second.
    let after = told.rsplit(')').next().unwrap_or_default();
    after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

async fn open_session(hub: &Arc<Hub>, who: Identity) -> Result<SessionId> {
    let reply =
        hub.submit(who, Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None })).await;
    reply.session_id.context("no session was opened")
}

/// One step; returns its operation's id.
async fn step(hub: &Hub, who: Identity, session: SessionId) -> Result<OperationId> {
    let id = OperationId(Uuid::now_v7());
    let mut operation = Operation::new(id, Some(session), Intent::SetNote { key: "step".to_owned(), value: "x".repeat(TEXT_BYTES) });
    operation.epoch = Some(1);
    let reply = hub.submit(who, operation).await;
    if reply.status != ReplyStatus::Accepted {
        bail!("a step was refused: {:?}", reply.error);
    }
    Ok(id)
}

/// Each session takes one step after another; returns what each took, in milliseconds.
async fn drive(hub: &Arc<Hub>, who: Identity, sessions: &[SessionId], time: Duration) -> Result<(usize, Vec<f64>)> {
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for session in sessions.iter().copied() {
        let hub = Arc::clone(hub);
        tasks.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let started = Instant::now();
                step(&hub, who, session).await?;
                latencies.push(started.elapsed().as_secs_f64() * 1000.0);
            }
            anyhow::Ok(latencies)
        }));
    }
    gathered(tasks).await
}

async fn gathered(tasks: Vec<tokio::task::JoinHandle<Result<Vec<f64>>>>) -> Result<(usize, Vec<f64>)> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok((all.len(), all))
}

async fn drive_bare(directory: &Path, name: &str, seconds: f64, step: BareStep) -> Result<(usize, Vec<f64>)> {
    let directory = directory.join(name);
    std::fs::create_dir_all(&directory)?;
    let BareFigures { n, p50_ms, .. } = tokio::task::spawn_blocking(move || bare_baseline(&directory, seconds, step)).await??;
    Ok((usize::try_from(n)?, vec![p50_ms]))
}

/// Bytes that one step writes, by part.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    event: usize,
    operation: usize,
    summary: usize,
}

/// Takes a step, and looks at what the hub wrote of it.
async fn sizes(hub: &Hub, store: &SqliteStore, who: Identity, session: SessionId) -> Result<Sizes> {
    let id = step(hub, who, session).await?;
    let (user, stream) = (who.user_id, StreamId { kind: StreamKind::Session, id: session.0 });
    let head = store.head(user, stream).await?.context("the session has no head")?;
    let events = store.read(user, stream, head.seq - 1, 1).await?;
    let kept = store.operation(user, id).await?.context("the operation was not kept")?;
    let event = events.first().context("the step has no event")?;
    Ok(Sizes {
        event: event.event.len() + event.upserts.len(),
        operation: kept.digest.0.len() + kept.reply.len(),
        summary: head.summary.len(),
    })
}

/// The store without a hub above it.
#[derive(Debug)]
struct Alone {
    store: Arc<SqliteStore>,
    user: UserId,
    streams: Vec<StreamId>,
    sizes: Sizes,
}

impl Alone {
    fn open(directory: &Path, streams: usize, sizes: Sizes) -> Result<Self> {
        let streams = (0..streams).map(|_| StreamId { kind: StreamKind::Session, id: Uuid::now_v7() }).collect();
        Ok(Self { store: SqliteStore::open(directory)?, user: UserId(Uuid::now_v7()), streams, sizes })
    }

    fn step(&self) -> BareStep {
        let Sizes { event, operation, summary } = self.sizes;
        BareStep { event, operation, summary, streams: self.streams.len(), batch: 1 }
    }

    async fn drive(&self, time: Duration) -> Result<(usize, Vec<f64>)> {
        let end = Instant::now() + time;
        let mut tasks = Vec::new();
        for stream in self.streams.iter().copied() {
            let (store, user, sizes) = (Arc::clone(&self.store), self.user, self.sizes);
            let mut seq = store.head(user, stream).await?.map_or(0, |head| head.seq);
            tasks.push(tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let started = Instant::now();
                    seq = store.append(append(user, stream, seq, store.incarnation(), sizes)).await?.seq;
                    latencies.push(started.elapsed().as_secs_f64() * 1000.0);
                }
                anyhow::Ok(latencies)
            }));
        }
        gathered(tasks).await
    }
}

fn append(user: UserId, stream: StreamId, expected_seq: u64, fence: u64, sizes: Sizes) -> Append {
    let row = EventRow { kind: "note_set".to_owned(), event: vec![b'x'; sizes.event - 2], upserts: b"[]".to_vec() };
    let now = i64::try_from(expected_seq).unwrap_or(0);
    Append {
        stream,
        user,
        expected_seq,
        fence,
        rows: vec![row],
        head: HeadWrite { epoch: 1, active: false, wake_at: None, updated_at: Timestamp(now), summary: vec![b's'; sizes.summary] },
        operation: Some(OperationRow {
            operation_id: OperationId(Uuid::now_v7()),
            digest: Digest("d".repeat(64)),
            reply: vec![b'r'; sizes.operation.saturating_sub(64)],
        }),
    }
}

/// Events of one session before what a step writes is measured, and steps over which it is.
const HISTORIES: [usize; 3] = [11, 1_001, 10_001];
const STRETCH: usize = 512;

/// What a step of a lone session adds to the log and to the database, early and late in its history (C40): flat, or it would be no log.
#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
async fn written_by_a_step() -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut first = None;
    for history in HISTORIES {
        let directory = tempfile::tempdir()?;
        let data = directory.path().join("hub");
        let (store, hub, who) = opened(&data).await?;
        let state = logs::write(store.as_ref(), who.user_id, Some(who.device_id), history).await?;
        logs::cache(store.as_ref(), &state).await?;
        let id = state.id;
        let sizes = sizes(&hub, &store, who, id).await?;
        hub.shut_down("The bench goes on.").await;
        drop((store, hub));

        let store = SqliteStore::open(&data)?;
        let hub = Hub::open(Arc::clone(&store) as Arc<dyn Store>, HubConfig::new("bench", None)).await?;
        let (before, stored) = (store.figures(), std::fs::metadata(data.join("baton.db"))?.len());
        for _ in 0..STRETCH {
            step(&hub, who, id).await?;
        }
        let logged = store.figures().since(before).log_bytes as f64 / STRETCH as f64;
        // Closing moves all of the log into the database, so its size tells what was kept.
        hub.shut_down("The bench is over.").await;
        let kept = (std::fs::metadata(data.join("baton.db"))?.len() as f64 - stored as f64) / STRETCH as f64;
        let payload = sizes.event + sizes.operation + sizes.summary;
        eprintln!(
            "steps: after {history:>5} events, a step of {payload} bytes adds {logged:.0} bytes to the log, and {kept:.0} to the database"
        );
        let (early_logged, early_kept) = *first.get_or_insert((logged, kept));
        for (figure, value, early) in [("logged_bytes_a_step", logged, early_logged), ("stored_bytes_a_step", kept, early_kept)] {
            figures.push(Figure {
                bench: "steps",
                figure,
                value,
                unit: "B",
                n: STRETCH,
                p50: value,
                p99: value,
                conditions: json!({
                    "sessions": 1, "history": history, "text_bytes": TEXT_BYTES, "event_bytes": sizes.event,
                    "operation_bytes": sizes.operation, "summary_bytes": sizes.summary,
                }),
                baseline: json!({"name": "after 11 events", "value": rounded(early), "ratio": rounded(value / early)}),
            });
        }
    }
    Ok(figures)
}
