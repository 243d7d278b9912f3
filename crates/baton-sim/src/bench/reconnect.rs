//! A thousand reconnections at seeded random instants of a busy task, over the real wire and with the client that every Rust end uses.
//! Whatever the instant, an end holds every change once and in order: no gap, no repeat, and what it holds is what the log says (D4, C17).
#![allow(clippy::cast_precision_loss, reason = "counts and sizes of a bench are far below 2^52")]

use super::cut::Relay;
use super::hub_process::{HubProcess, Wanted};
use super::{Figure, percentile, rounded};
use crate::scripted_model::{Script, ScriptedModel};
use crate::world::Seeded;
use anyhow::{Context as _, Result, bail, ensure};
use baton_client::{ChangeEntry, Connection, ConnectionConfig, ConnectionHandle, Hello, Http, Incoming, Timing, Token};
use baton_proto::{Change, ClientType, Credentials, Digest, HubFrame, Intent, Operation, OperationId, ReplyStatus, SessionId};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Ends that are cut off again and again, and how often each.
const FOLLOWERS: u64 = 10;
/// Milliseconds that a link lasts at most.
const LASTS_MS: u64 = 120;
/// Of a hundred links, so many are cut again while the end may still be catching up.
const CUT_AGAIN: u64 = 25;
const SEED: u64 = 7;
/// Only what is broken takes this long.
const PATIENCE: Duration = Duration::from_mins(1);

/// What became of the reconnections.
#[derive(Debug, Default)]
struct Outcome {
    reconnects: u64,
    changes: u64,
    gaps: u64,
    repeats: u64,
    /// Changes that the log has otherwise, or not at all.
    differing: u64,
    /// Times at which an end was given the view anew instead of every change.
    resets: u64,
    /// From the cut to holding all that was acknowledged by the time the link stood again, in milliseconds.
    caught_up: Vec<f64>,
    /// From the cut to the hub's welcome.
    connected: Vec<f64>,
}

/// Runs the bench. The outcome is an error if a single change was missed or came twice; the figures are printed before.
pub async fn run(seed: u64, reconnects: u64) -> Result<(Vec<Figure>, bool)> {
    let seed = if seed == 0 { SEED } else { seed };
    let directory = tempfile::tempdir()?;
    let words = "The work goes on, and each piece of this answer is on its way to whoever listens. ".repeat(4);
    let script: Script = serde_json::from_value(json!([{"reply": {"text": words, "delay_ms": 4}}]))?;
    let model = ScriptedModel::start(script).await?;
    let devices = usize::try_from(FOLLOWERS)? + 1;
    let wanted = Wanted { data: directory.path().join("hub"), users: 1, devices, model: Some(model.url()) };
    let hub = HubProcess::start(&wanted).await?;
    let credentials = hub.ready.devices.first().context("no user")?;
    let (worker, followers) = credentials.split_first().context("no devices")?;
    let session = hub.new_session(worker).await?;

    let busy = Arc::new(Busy { acknowledged: AtomicU64::new(1), done: AtomicBool::new(false) });
    let work = [
        tokio::spawn(take_notes(Arc::clone(&busy), hub.http(worker)?, session)),
        tokio::spawn(talk(Arc::clone(&busy), hub.http(worker)?, session)),
    ];
    let mut running = Vec::new();
    for (number, device) in (0..FOLLOWERS).zip(followers) {
        let times = reconnects / FOLLOWERS + u64::from(number < reconnects % FOLLOWERS);
        let relay = Relay::start(hub.ready.address).await?;
        let follower = Follower::new(relay, device, session, Arc::clone(&busy), Seeded::new(seed, &number.to_string()))?;
        running.push(tokio::spawn(follower.run(times)));
    }
    let mut all = Outcome::default();
    let mut held = Vec::new();
    for running in running {
        let (outcome, changes) = running.await??;
        all.add(outcome);
        held.push(changes);
    }
    busy.done.store(true, Ordering::SeqCst);
    let mut operations = 0;
    for work in work {
        operations += work.await??;
    }
    let log = log(&hub.http(worker)?, session).await?;
    all.differing = held.iter().flatten().filter(|(seq, digest)| log.get(seq) != Some(*digest)).count() as u64;
    hub.stop().await?;
    let fine = all.is_fine();
    Ok((figures(all, seed, operations, log.len()), fine))
}

fn figures(mut all: Outcome, seed: u64, operations: u64, events: usize) -> Vec<Figure> {
    all.caught_up.sort_by(f64::total_cmp);
    all.connected.sort_by(f64::total_cmp);
    let conditions = json!({
        "seed": seed, "ends": FOLLOWERS, "reconnects": all.reconnects, "link_lasts_ms_at_most": LASTS_MS, "changes": all.changes,
        "operations": operations, "events": events, "resets": all.resets, "backoff_ms": [1, 4],
    });
    let (p50, p99) = (percentile(&all.caught_up, 0.5), percentile(&all.caught_up, 0.99));
    let (welcome, late) = (percentile(&all.connected, 0.5), percentile(&all.connected, 0.99));
    eprintln!(
        "reconnect: {} reconnections, {} changes: {} gaps, {} repeats, {} unlike the log, {} resets; caught up after {p50:.2} ms, p99 {p99:.2} ms \
         (the welcome alone: {welcome:.2} ms, p99 {late:.2} ms)",
        all.reconnects, all.changes, all.gaps, all.repeats, all.differing, all.resets
    );
    let counted = |figure, count: u64| Figure {
        bench: "reconnect",
        figure,
        value: count as f64,
        unit: "changes",
        n: usize::try_from(all.changes).unwrap_or(usize::MAX),
        p50: 0.0,
        p99: 0.0,
        conditions: conditions.clone(),
        baseline: json!(null),
    };
    vec![
        counted("gaps", all.gaps),
        counted("repeats", all.repeats),
        counted("unlike_the_log", all.differing),
        Figure {
            bench: "reconnect",
            figure: "caught_up",
            value: p50,
            unit: "ms",
            n: all.caught_up.len(),
            p50,
            p99,
            conditions: conditions.clone(),
            baseline: json!({"name": "the hub's welcome alone", "value": rounded(welcome), "p99": rounded(late)}),
        },
    ]
}

impl Outcome {
    /// Counts a change that came to an end which held all up to `last`.
    fn count(&mut self, last: u64, seq: u64) {
        self.changes += 1;
        self.gaps += u64::from(seq > last + 1);
        self.repeats += u64::from(seq <= last);
    }

    /// Whether every change came once, in order, and as the log has it.
    const fn is_fine(&self) -> bool {
        self.changes > 0 && self.gaps + self.repeats + self.differing + self.resets == 0
    }

    fn add(&mut self, other: Self) {
        self.reconnects += other.reconnects;
        self.changes += other.changes;
        self.gaps += other.gaps;
        self.repeats += other.repeats;
        self.differing += other.differing;
        self.resets += other.resets;
        self.caught_up.extend(other.caught_up);
        self.connected.extend(other.connected);
    }
}

/// The task that goes on meanwhile.
#[derive(Debug)]
struct Busy {
    /// The newest event that whoever works was told of.
    acknowledged: AtomicU64,
    done: AtomicBool,
}

/// Sets a note every few milliseconds; returns how many.
async fn take_notes(busy: Arc<Busy>, http: Http, session: SessionId) -> Result<u64> {
    let mut count = 0;
    while !busy.done.load(Ordering::SeqCst) {
        count += 1;
        let mut operation = Operation::new(
            OperationId(Uuid::now_v7()),
            Some(session),
            Intent::SetNote { key: format!("note {}", count % 7), value: format!("{count} {}", "x".repeat(100)) },
        );
        operation.epoch = Some(1);
        let reply = http.operate(&operation).await?;
        ensure!(reply.status == ReplyStatus::Accepted, "a note was refused: {:?}", reply.error);
        busy.acknowledged.fetch_max(reply.version, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    Ok(count)
}

/// Says something again and again, so that the agent streams answers; returns how often.
async fn talk(busy: Arc<Busy>, http: Http, session: SessionId) -> Result<u64> {
    let mut count = 0;
    while !busy.done.load(Ordering::SeqCst) {
        let intent = Intent::Say {
            text: format!("Go on, {count}."),
            selection: None,
            attachments: Vec::new(),
            delivery: baton_proto::Delivery::default(),
        };
        let mut operation = Operation::new(OperationId(Uuid::now_v7()), Some(session), intent);
        operation.epoch = Some(1);
        let reply = http.operate(&operation).await?;
        ensure!(reply.status == ReplyStatus::Accepted, "a message was refused: {:?}", reply.error);
        busy.acknowledged.fetch_max(reply.version, Ordering::SeqCst);
        count += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(count)
}

/// An end whose link is cut again and again.
struct Follower {
    relay: Relay,
    /// The connection ends when nobody can speak through it any more.
    _handle: ConnectionHandle,
    incoming: mpsc::Receiver<Incoming>,
    busy: Arc<Busy>,
    seeded: Seeded,
    last: u64,
    held: BTreeMap<u64, Digest>,
    outcome: Outcome,
}

impl Follower {
    fn new(relay: Relay, device: &Credentials, session: SessionId, busy: Arc<Busy>, seeded: Seeded) -> Result<Self> {
        let url: baton_client::HubUrl = format!("http://{}", relay.address).parse()?;
        let config = ConnectionConfig {
            url: Arc::new(move || Ok(url.clone())),
            token: Token::new(&device.token)?,
            greeting: Arc::new(Hello::of(ClientType::Cli)),
            cursors: BTreeMap::from([(session, 1)]),
            timing: Timing { backoff: (Duration::from_millis(1), Duration::from_millis(4)), ..Timing::default() },
        };
        let (handle, incoming) = Connection::spawn(config);
        Ok(Self { relay, _handle: handle, incoming, busy, seeded, last: 1, held: BTreeMap::new(), outcome: Outcome::default() })
    }

    async fn run(mut self, times: u64) -> Result<(Outcome, BTreeMap<u64, Digest>)> {
        self.connected().await?;
        for _ in 0..times {
            let again = self.seeded.chance(CUT_AGAIN);
            let lasts = Duration::from_micros(self.seeded.between(0, LASTS_MS * if again { 50 } else { 1000 }));
            self.listen(lasts).await?;
            let cut = Instant::now();
            self.relay.cut();
            self.connected().await?;
            self.outcome.connected.push(cut.elapsed().as_secs_f64() * 1000.0);
            self.outcome.reconnects += 1;
            if !again {
                let wanted = self.busy.acknowledged.load(Ordering::SeqCst);
                while self.last < wanted {
                    self.next().await?;
                }
                self.outcome.caught_up.push(cut.elapsed().as_secs_f64() * 1000.0);
            }
        }
        Ok((self.outcome, self.held))
    }

    /// Takes in what comes for that long.
    async fn listen(&mut self, time: Duration) -> Result<()> {
        let over = tokio::time::sleep(time);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                word = self.incoming.recv() => {
                    self.take(word.context("the connection gave up")?)?;
                }
            }
        }
    }

    /// Takes in what comes until the hub's welcome.
    async fn connected(&mut self) -> Result<()> {
        while !self.next().await? {}
        Ok(())
    }

    async fn next(&mut self) -> Result<bool> {
        let word = tokio::time::timeout(PATIENCE, self.incoming.recv()).await.context("nothing comes any more")?;
        self.take(word.context("the connection gave up")?)
    }

    /// Whether it was the hub's welcome.
    fn take(&mut self, word: Incoming) -> Result<bool> {
        match word {
            Incoming::Connected(_) => return Ok(true),
            Incoming::Refused(error) => bail!("the hub refused: {error}"),
            Incoming::UnknownChange(change) => bail!("change {} isn't known", change.seq),
            Incoming::Disconnected { .. } => {}
            Incoming::Frame(frame) => match *frame {
                HubFrame::Change(change) => {
                    self.outcome.count(self.last, change.seq);
                    self.last = self.last.max(change.seq);
                    self.held.insert(change.seq, digest(&change)?);
                }
                HubFrame::View(view) => {
                    self.outcome.resets += 1;
                    self.last = view.seq;
                }
                HubFrame::Error { error, .. } => bail!("the hub says: {error}"),
                _ => {}
            },
        }
        Ok(false)
    }
}

fn digest(change: &Change) -> Result<Digest> {
    Ok(Digest::of_bytes(&serde_json::to_vec(change)?))
}

/// What the hub's log says.
async fn log(http: &Http, session: SessionId) -> Result<BTreeMap<u64, Digest>> {
    let mut log = BTreeMap::new();
    loop {
        let after = log.last_key_value().map_or(0, |(seq, _)| *seq);
        let page = http.events(session, after, Some(500)).await?;
        if page.changes.is_empty() {
            return Ok(log);
        }
        for entry in page.changes {
            let ChangeEntry::Known(change) = entry else { bail!("the log holds an unknown event") };
            log.insert(change.seq, digest(&change)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_or_comes_twice_is_counted_and_is_not_fine() {
        let outcome = |seqs: &[u64]| {
            let mut outcome = Outcome::default();
            let mut last = 1;
            for &seq in seqs {
                outcome.count(last, seq);
                last = last.max(seq);
            }
            (outcome.gaps, outcome.repeats, outcome.is_fine())
        };
        assert_eq!(outcome(&[2, 3, 4]), (0, 0, true));
        assert_eq!(outcome(&[2, 4, 5]), (1, 0, false));
        assert_eq!(outcome(&[2, 3, 3, 4]), (0, 1, false));
        assert_eq!(outcome(&[2, 4, 3]), (1, 1, false));
        assert_eq!(outcome(&[]), (0, 0, false), "nothing was measured");
        assert!(!Outcome { changes: 1, differing: 1, ..Outcome::default() }.is_fine());
    }
}
