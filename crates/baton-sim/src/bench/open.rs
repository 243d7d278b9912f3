//! Opening a session: a hub that has just started is asked for a session's view, and answers once its state is ready.
//!
//! With the cached state it must not matter how long the history is. Without it, as after an upgrade, the log is folded once.

use super::{Figure, logs, opened, percentile, rounded};
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::Instant;

/// Events of the sessions that are opened: their creation, and whole exchanges.
const EVENTS: [usize; 4] = [101, 1_001, 10_001, 100_001];
/// How often each is opened with its cached state; a third as often without.
const TIMES: usize = 15;

/// Runs the bench. Its work is given by the sizes, so the time that others take isn't asked for.
pub async fn run() -> Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("hub");
    let (store, hub, who) = opened(&data).await?;
    let mut states = Vec::new();
    for events in EVENTS {
        states.push(logs::write(store.as_ref(), who.user_id, None, events).await?);
    }
    hub.shut_down("The bench goes on.").await;
    drop((store, hub));

    let mut figures = Vec::new();
    for cached in [true, false] {
        let mut samples = vec![Vec::new(); EVENTS.len()];
        // In rounds, so that whatever else the machine does falls on all sizes.
        for _ in 0..if cached { TIMES } else { TIMES / 3 } {
            let (store, hub, who) = opened(&data).await?;
            for (state, samples) in states.iter().zip(&mut samples) {
                if cached {
                    logs::cache(store.as_ref(), state).await?;
                } else {
                    logs::forget(store.as_ref(), state).await?;
                }
                let started = Instant::now();
                let view = hub.view(who, state.id).await?;
                samples.push(started.elapsed().as_secs_f64() * 1000.0);
                ensure!(view.seq == state.seq, "the view of {} events is at {}", state.seq, view.seq);
            }
            hub.shut_down("The bench goes on.").await;
        }
        let mut shortest = None;
        for (events, mut samples) in EVENTS.into_iter().zip(samples) {
            samples.sort_by(f64::total_cmp);
            let p50 = percentile(&samples, 0.5);
            let first = *shortest.get_or_insert(p50);
            let how = if cached { "with its cached state" } else { "folding its log" };
            eprintln!("open: {events:>6} events, {how}: {p50:.2} ms, {:.2} times a session of {} events", p50 / first, EVENTS[0]);
            figures.push(Figure {
                bench: "open",
                figure: if cached { "open_session" } else { "open_session_folding" },
                value: p50,
                unit: "ms",
                n: samples.len(),
                p50,
                p99: percentile(&samples, 0.99),
                conditions: json!({"events": events, "message_bytes": 400, "state_cached": cached, "files": "in the system's cache"}),
                baseline: json!({"name": format!("a session of {} events", EVENTS[0]), "value": rounded(first)}),
            });
        }
    }
    Ok(figures)
}
