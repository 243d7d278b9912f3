//! The hubs of a world: how they live and die, and what they meet instead of a machine.
//!
//! The runtime starts its own tasks, so a dead hub's can't be dropped one by one. Instead a hub that dies is cut off: from that instant
//! on no call of its store or model returns, and no frame of its goes out. To everybody else that is the same as being dropped at
//! whatever it was awaiting.

use super::disk::Watch;
use super::model::SimModel;
use super::net::Cable;
use super::plan::{Moment, Trouble, Who};
use super::seeded::Seeded;
use super::shared::{Shared, lock};
use async_trait::async_trait;
use baton_proto::{Timestamp, UserId};
use baton_runtime::{Clock, Hub, HubConfig};
use baton_store::{StateCache, Store, StoreError, StreamId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// When a world begins: 2026-11-30T00:00:00Z.
const BEGINNING: Timestamp = Timestamp(1_795_996_800_000);

/// The life of one hub process.
#[derive(Debug)]
pub(crate) struct Life {
    pub(super) incarnation: u64,
    alive: AtomicBool,
    died: watch::Sender<bool>,
    hub: OnceLock<Arc<Hub>>,
    connections: Mutex<Vec<(Arc<Cable>, AbortHandle)>>,
}

impl Life {
    /// Returns while the hub lives, and never again after.
    pub(crate) async fn gate(&self) {
        if !self.alive.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn hub(&self) -> Option<Arc<Hub>> {
        self.hub.get().cloned()
    }

    pub(crate) fn adopt(&self, cable: Arc<Cable>, task: AbortHandle) {
        let mut connections = lock(&self.connections);
        connections.retain(|(_, task)| !task.is_finished());
        connections.push((cable, task));
    }

    pub(super) fn cables(&self, who: Who) -> Vec<Arc<Cable>> {
        lock(&self.connections).iter().filter(|(cable, _)| cable.who == who).map(|(cable, _)| Arc::clone(cable)).collect()
    }
}

impl Shared {
    pub(crate) fn hub(&self) -> Option<Arc<Life>> {
        self.weather().current.clone()
    }

    pub(super) fn kill(&self, life: &Arc<Life>, kept: usize, linger: bool) {
        if !life.alive.swap(false, Ordering::Relaxed) {
            return;
        }
        life.died.send_replace(true);
        {
            let mut weather = self.weather();
            weather.kills += 1;
            if weather.current.as_ref().is_some_and(|current| current.incarnation == life.incarnation) {
                weather.current = None;
            }
            weather.lives.remove(&life.incarnation);
        }
        let in_flight = self.disk.in_flight(life.incarnation);
        self.note(&format!("hub {} dies with {in_flight} writes in flight", life.incarnation));
        for (user, stream) in self.disk.crash(life.incarnation, kept) {
            self.look_at(user, stream);
        }
        for (user, stream) in self.disk.sessions() {
            let events = self.disk.events(user, stream, 0);
            self.checker().reopened(stream, &events);
        }
        for (cable, task) in lock(&life.connections).drain(..) {
            task.abort();
            if !linger {
                cable.cut();
            }
        }
    }

    /// Opens a hub, again and again until it works; from then on it is the one that is reached.
    pub(crate) fn open_hub(self: &Arc<Self>, down_ms: u64) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            sleep(Duration::from_millis(down_ms)).await;
            loop {
                if shared.try_open().await {
                    return;
                }
                sleep(Duration::from_millis(300)).await;
            }
        });
    }

    /// Kills a hub that has just begun, or is still taking things up, and the next one, and so on.
    pub(super) fn kill_hubs(self: &Arc<Self>, times: u64, life_ms: u64) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            for _ in 0..times {
                let newest = shared.weather().lives.values().next_back().cloned();
                if let Some(life) = newest.filter(|_| !shared.is_calm()) {
                    let opened = life.hub.get().is_some();
                    shared.kill(&life, 0, false);
                    // One that isn't open yet is opened again by whoever does so.
                    if opened {
                        shared.open_hub(5);
                    }
                }
                sleep(Duration::from_millis(5 + life_ms)).await;
            }
        });
    }

    async fn try_open(self: &Arc<Self>) -> bool {
        let store: Arc<dyn Store> = self.disk.open(Some(Arc::new(Watcher(Arc::clone(self)))));
        let life = Arc::new(Life {
            incarnation: store.incarnation(),
            alive: AtomicBool::new(true),
            died: watch::channel(false).0,
            hub: OnceLock::new(),
            connections: Mutex::default(),
        });
        self.weather().lives.insert(life.incarnation, Arc::clone(&life));
        let store = self.habits.store(&self.disk, store);
        let model = SimModel { shared: Arc::clone(self), life: Arc::clone(&life) };
        let config = HubConfig { clock: Arc::new(WorldClock(Arc::clone(self))), ..HubConfig::new("simulated", Some(Arc::new(model))) };
        let mut died = life.died.subscribe();
        let opened = tokio::select! {
            biased;
            _ = died.wait_for(|died| *died) => None,
            opened = Hub::open(store, config) => Some(opened),
        };
        match opened {
            Some(Ok(hub)) => {
                self.note(&format!("hub {} is open", life.incarnation));
                let _ = life.hub.set(Arc::clone(&hub));
                self.weather().current = Some(Arc::clone(&life));
                let shared = Arc::clone(self);
                tokio::spawn(async move {
                    let why = hub.failed().await;
                    shared.note(&format!("hub {} fails: {why}", life.incarnation));
                    let current = shared.hub().is_some_and(|current| current.incarnation == life.incarnation);
                    shared.kill(&life, 0, false);
                    if current {
                        shared.open_hub(100);
                    }
                });
                true
            }
            Some(Err(error)) => {
                self.note(&format!("hub {} can't be opened: {error}", life.incarnation));
                self.weather().lives.remove(&life.incarnation);
                false
            }
            None => false,
        }
    }

    pub(super) fn restart_hub(self: &Arc<Self>, down_ms: u64) {
        let Some(life) = self.hub() else { return };
        self.weather().current = None;
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            if let Some(hub) = life.hub() {
                let mut died = life.died.subscribe();
                tokio::select! {
                    biased;
                    _ = died.wait_for(|died| *died) => {}
                    () = hub.shut_down("It is restarted.") => {}
                }
            }
            shared.kill(&life, 0, true);
            shared.open_hub(down_ms);
        });
    }
}

/// The disk's watch, which lets trouble come between a hub and its store.
#[derive(Debug)]
struct Watcher(Arc<Shared>);

impl Watcher {
    async fn gate(&self, incarnation: u64) {
        let life = self.0.weather().lives.get(&incarnation).cloned();
        match life {
            Some(life) => life.gate().await,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Watch for Watcher {
    async fn before(&self, incarnation: u64, writes: bool) -> Result<Duration, StoreError> {
        let shared = &self.0;
        shared.moment(Moment::BeforeStore);
        self.gate(incarnation).await;
        let fails = {
            let mut weather = shared.weather();
            if writes {
                (Instant::now() < weather.full_until).then_some(StoreError::Full)
            } else {
                let fails = weather.reads_fail > 0;
                weather.reads_fail = weather.reads_fail.saturating_sub(1);
                fails.then(|| StoreError::Io("a simulated read failed".to_owned()))
            }
        };
        if let Some(error) = fails {
            shared.note(&format!("hub {incarnation} is told: {error}"));
            return Err(error);
        }
        let slow = shared.is_slow();
        Ok(match (writes, slow) {
            (true, false) => shared.draw("disk", |draw| draw.wait(0, 4)),
            (true, true) => shared.draw("disk", |draw| draw.wait(50, 700)),
            (false, _) => Duration::ZERO,
        })
    }

    async fn after(&self, incarnation: u64, _: bool) {
        // Dead in the meantime, before the answer.
        self.gate(incarnation).await;
        self.0.moment(Moment::AfterStore);
        self.gate(incarnation).await;
    }

    fn sync_fails(&self, _: u64) -> Option<bool> {
        self.0.weather().sync_fails.take()
    }

    fn may_be_shared(&self) -> bool {
        self.0.plan.faults.iter().any(|fault| fault.trouble == Trouble::SecondHub)
    }

    fn committed(&self, user: UserId, stream: StreamId) {
        self.0.look_at(user, stream);
    }

    fn cached(&self, stream: StreamId, state: &StateCache) {
        self.0.checker().cached(stream, state);
    }
}

/// The hubs' clock: virtual time, stepped forwards and back as the world pleases.
#[derive(Debug)]
struct WorldClock(Arc<Shared>);

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        let elapsed = i64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(0);
        BEGINNING.plus(elapsed + self.0.weather().skew)
    }

    fn random(&self) -> u64 {
        self.0.draw("hub", Seeded::next)
    }
}
