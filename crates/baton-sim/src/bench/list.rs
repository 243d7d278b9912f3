//! Listing 5,000 sessions of which one is very long, and starting a hub that has them (C35).

use super::{Figure, logs, opened, percentile};
use anyhow::{Result, ensure};
use baton_proto::UserId;
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{SqliteStore, Store};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

const SESSIONS: usize = 5_000;
/// Events of each session but the long one.
const SHORT: usize = 6;
const LONG: usize = 146_001;
/// How often each thing is measured.
const TIMES: usize = 30;
/// Sessions of a page: the most that a list gives at once, and what an end shows first.
const PAGES: [u32; 2] = [200, 50];

/// Runs the bench. Its work is given by the sizes, so the time that others take isn't asked for.
pub async fn run() -> Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let data = directory.path().join("hub");
    let (store, hub, who) = opened(&data).await?;
    build(store.as_ref(), who.user_id).await?;
    hub.shut_down("The bench goes on.").await;
    drop((store, hub));

    let mut figures = vec![start(&data).await?];
    let (_store, hub, who) = opened(&data).await?;
    for page in PAGES {
        let (mut first, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            let started = Instant::now();
            let mut next = None;
            let mut listed = 0;
            loop {
                let list = hub.sessions(who, next.as_deref(), page).await?;
                listed += list.sessions.len();
                if next.is_none() {
                    first.push(started.elapsed().as_secs_f64() * 1000.0);
                }
                next = list.next;
                if next.is_none() {
                    break;
                }
            }
            whole.push(started.elapsed().as_secs_f64() * 1000.0);
            ensure!(listed == SESSIONS, "{listed} sessions were listed");
        }
        let conditions = json!({"sessions": SESSIONS, "longest_events": LONG, "page": page});
        figures.push(figure("first_page", first, conditions.clone()));
        figures.push(figure("all_pages", whole, conditions));
    }
    hub.shut_down("The bench is over.").await;
    Ok(figures)
}

async fn build(store: &dyn Store, user: UserId) -> Result<()> {
    let writes = (0..SESSIONS).map(async |number| {
        let events = if number == SESSIONS / 2 { LONG } else { SHORT };
        let state = logs::write(store, user, events).await?;
        logs::cache(store, &state).await
    });
    // Many at once, so that they share commits.
    stream::iter(writes).buffer_unordered(64).try_collect().await
}

/// From nothing to a hub that answers.
async fn start(data: &Path) -> Result<Figure> {
    let mut samples = Vec::new();
    for _ in 0..TIMES {
        let started = Instant::now();
        let store = SqliteStore::open(data)?;
        let hub = Hub::open(store, HubConfig::new("bench", None)).await?;
        let (user, _) = hub.users().first().cloned().ok_or_else(|| anyhow::anyhow!("the user is gone"))?;
        let nobody = Identity { user_id: user, device_id: baton_proto::DeviceId(uuid::Uuid::nil()) };
        ensure!(!hub.sessions(nobody, None, 1).await?.sessions.is_empty(), "the hub has no sessions");
        samples.push(started.elapsed().as_secs_f64() * 1000.0);
        hub.shut_down("The bench goes on.").await;
    }
    Ok(figure("start_of_hub", samples, json!({"sessions": SESSIONS, "longest_events": LONG, "files": "in the system's cache"})))
}

fn figure(figure: &'static str, mut samples: Vec<f64>, conditions: Value) -> Figure {
    samples.sort_by(f64::total_cmp);
    let (p50, p99) = (percentile(&samples, 0.5), percentile(&samples, 0.99));
    eprintln!("list: {figure} ({conditions}): {p50:.2} ms, p99 {p99:.2} ms");
    Figure { bench: "list", figure, value: p50, unit: "ms", n: samples.len(), p50, p99, conditions, baseline: Value::Null }
}
