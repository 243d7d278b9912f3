//! Durable steps: an operation is received, decided, appended with its id in one transaction, committed to disk, and answered.
//!
//! The baseline does the same three statements bare, on one writer thread, with the same pragmas; the two take turns in one run, so that
//! whatever else the machine does falls on both.

use super::{Figure, percentile};
use anyhow::{Context as _, Result, bail};
use baton_proto::{Capabilities, ClientType, Intent, InvitationClaim, Operation, OperationId, ReplyStatus, SessionId, Trust};
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{SqliteStore, bare_baseline};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How many sessions work at once.
const SESSIONS: [usize; 3] = [1, 8, 50];
/// Turns that measured and baseline take.
const ROUNDS: usize = 5;
/// Bytes of an event with its entities and its reply, as a step of the measured kind writes them.
const EVENT_BYTES: usize = 640;

#[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
/// Runs the bench; each round of each side takes `seconds`.
pub async fn run(seconds: f64) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for sessions in SESSIONS {
        let directory = tempfile::tempdir()?;
        let store = SqliteStore::open(&directory.path().join("hub"))?;
        let hub = Hub::open(store, HubConfig::new("bench", None)).await?;
        let who = owner(&hub).await?;
        let mut open = Vec::new();
        for _ in 0..sessions {
            open.push(open_session(&hub, who).await?);
        }
        let (mut steps, mut spent, mut bare_steps, mut bare_spent) = (0_usize, 0.0, 0_u64, 0.0);
        let mut latencies = Vec::new();
        let mut bare_p50 = Vec::new();
        for round in 0..ROUNDS {
            let bare = directory.path().join(format!("bare{round}"));
            std::fs::create_dir_all(&bare)?;
            let figures = tokio::task::spawn_blocking(move || bare_baseline(&bare, seconds, sessions, EVENT_BYTES)).await??;
            bare_steps += figures.n;
            bare_spent += seconds;
            bare_p50.push(figures.p50_ms);
            let started = Instant::now();
            let round = drive(&hub, who, &open, Duration::from_secs_f64(seconds)).await?;
            spent += started.elapsed().as_secs_f64();
            steps += round.len();
            latencies.extend(round);
        }
        latencies.sort_by(f64::total_cmp);
        bare_p50.sort_by(f64::total_cmp);
        let (value, bare) = (per_second(steps as f64, spent), per_second(bare_steps as f64, bare_spent));
        eprintln!("steps: {sessions} sessions: {value:.0}/s, bare {bare:.0}/s, ratio {:.2}", value / bare);
        figures.push(Figure {
            bench: "steps",
            figure: "durable_steps",
            value,
            unit: "1/s",
            n: steps,
            p50: percentile(&latencies, 0.5),
            p99: percentile(&latencies, 0.99),
            conditions: json!({"sessions": sessions, "synchronous": "FULL", "rounds": ROUNDS, "seconds": seconds, "event_bytes": EVENT_BYTES}),
            baseline: json!({"name": "bare_sqlite", "value": bare, "p50": percentile(&bare_p50, 0.5)}),
        });
        hub.shut_down("The bench is over.").await;
    }
    Ok(figures)
}

fn per_second(count: f64, seconds: f64) -> f64 {
    count / seconds
}

async fn owner(hub: &Arc<Hub>) -> Result<Identity> {
    let user = hub.create_user("bench").await?;
    let invitation = hub.invite(user, None, Trust::Trusted).await?;
    let claim = InvitationClaim {
        secret: invitation.secret,
        name: "bench".to_owned(),
        client_type: ClientType::Cli,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let credentials = hub.claim_invitation(std::net::Ipv4Addr::LOCALHOST.into(), &claim).await?;
    Ok(Identity { user_id: credentials.user_id, device_id: credentials.device_id })
}

async fn open_session(hub: &Arc<Hub>, who: Identity) -> Result<SessionId> {
    let reply =
        hub.submit(who, Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None })).await;
    reply.session_id.context("no session was opened")
}

/// Each session takes one step after another; returns what each took, in milliseconds.
async fn drive(hub: &Arc<Hub>, who: Identity, sessions: &[SessionId], time: Duration) -> Result<Vec<f64>> {
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for session in sessions.iter().copied() {
        let hub = Arc::clone(hub);
        tasks.push(tokio::spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < end {
                let started = Instant::now();
                let mut operation = Operation::new(
                    OperationId(Uuid::now_v7()),
                    Some(session),
                    Intent::SetNote { key: "step".to_owned(), value: "x".repeat(160) },
                );
                operation.epoch = Some(1);
                let reply = hub.submit(who, operation).await;
                if reply.status != ReplyStatus::Accepted {
                    bail!("a step was refused: {:?}", reply.error);
                }
                latencies.push(started.elapsed().as_secs_f64() * 1000.0);
            }
            Ok(latencies)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}
