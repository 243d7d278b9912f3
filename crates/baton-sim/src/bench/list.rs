//! Listing 5,000 sessions of which one is very long (C35); starting a hub that has them, its memory when nothing happens, and its program.
#![allow(clippy::cast_precision_loss, reason = "counts and sizes of a bench are far below 2^52")]

use super::hub_process::{HubProcess, Wanted};
use super::{Figure, logs, opened, percentile, rounded};
use anyhow::{Result, ensure};
use baton_proto::UserId;
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{SqliteStore, Store};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const SESSIONS: usize = 5_000;
/// Events of each session but the long one.
const SHORT: usize = 6;
const LONG: usize = 146_001;
/// How often each thing is measured.
const TIMES: usize = 30;
/// How often a process is started.
const STARTS: usize = 10;
/// Before the memory is looked at.
const SETTLING: Duration = Duration::from_secs(2);
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

    let empty = directory.path().join("empty");
    let mut figures = vec![start(&data).await?];
    figures.extend(processes(&data, &empty).await?);
    figures.extend(program());
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
        let state = logs::write(store, user, None, events).await?;
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

/// A hub in a process of its own, with the sessions and, for comparison, without any: from the start of the process to a hub that listens,
/// and its memory then.
async fn processes(data: &Path, empty: &Path) -> Result<Vec<Figure>> {
    let (mut times, mut memory) = ([Vec::new(), Vec::new()], [0, 0]);
    // In turns, so that whatever else the machine does falls on both.
    for _ in 0..STARTS {
        for (side, data) in [data, empty].into_iter().enumerate() {
            let hub = HubProcess::start(&Wanted { data: data.to_owned(), ..Wanted::default() }).await?;
            times[side].push(hub.started_in_ms);
            if times[side].len() == STARTS {
                tokio::time::sleep(SETTLING).await;
                memory[side] = hub.memory()?;
            }
            hub.stop().await?;
        }
    }
    let conditions = json!({"sessions": SESSIONS, "longest_events": LONG, "files": "in the system's cache"});
    let [with, mut without] = times;
    without.sort_by(f64::total_cmp);
    let mut started = figure("start_of_process", with, conditions.clone());
    started.baseline = json!({"name": "the same process without sessions", "value": rounded(percentile(&without, 0.5))});
    let [used, bare] = memory.map(|bytes| bytes as f64 / 1_048_576.0);
    eprintln!("list: an idle hub with {SESSIONS} sessions has {used:.1} MiB of memory, one without any {bare:.1} MiB");
    let idle = Figure {
        bench: "list",
        figure: "memory_of_an_idle_hub",
        value: rounded(used),
        unit: "MiB",
        n: 1,
        p50: used,
        p99: used,
        conditions: json!({"sessions": SESSIONS, "memory": "anonymous and resident"}),
        baseline: json!({"name": "the same hub without sessions", "value": rounded(bare)}),
    };
    Ok(vec![started, idle])
}

/// The size of the released program that lies beside this one, if it was built.
fn program() -> Option<Figure> {
    let path = std::env::current_exe().ok()?.with_file_name("baton");
    let Ok(file) = std::fs::metadata(&path) else {
        eprintln!("list: there is no {}; `cargo xtask build` makes it, with the console in it", path.display());
        return None;
    };
    let size = file.len() as f64 / 1_048_576.0;
    let console = size_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist")) as f64 / 1_048_576.0;
    eprintln!("list: the program has {size:.1} MiB; the built console has {console:.1} MiB");
    Some(Figure {
        bench: "list",
        figure: "size_of_the_program",
        value: rounded(size),
        unit: "MiB",
        n: 1,
        p50: size,
        p99: size,
        conditions: json!({"console_mib": rounded(console)}),
        baseline: Value::Null,
    })
}

fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => size_of(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

fn figure(figure: &'static str, mut samples: Vec<f64>, conditions: Value) -> Figure {
    samples.sort_by(f64::total_cmp);
    let (p50, p99) = (percentile(&samples, 0.5), percentile(&samples, 0.99));
    eprintln!("list: {figure} ({conditions}): {p50:.2} ms, p99 {p99:.2} ms");
    Figure { bench: "list", figure, value: p50, unit: "ms", n: samples.len(), p50, p99, conditions, baseline: Value::Null }
}
