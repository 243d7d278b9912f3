//! Seeded worlds (quality.md, "Reliability"): the real core and the real runtime, with a store, a model, a device with its journal, ends
//! with their users and a network around them, in virtual time. Everything follows from a seed, so that a failure can be told again byte
//! for byte; after each durable event and each frame of the hub's, what has to hold is checked.

mod broken;
mod check;
mod device;
mod disk;
mod end;
mod hubs;
mod model;
mod net;
mod outside;
mod plan;
mod scripts;
mod seeded;
mod shared;

pub use broken::Habit;
pub use disk::{Disk, DiskStore, Watch};
pub use plan::{Action, Deed, Fault, ModelTrouble, Moment, Plan, Trouble, When, Who};

use anyhow::{Context as _, Result};
use baton_proto::{Capabilities, ClientType, Intent, InvitationClaim, Operation, Trust};
use baton_runtime::{Hub, Identity};
use plan::TROUBLED_MS;
pub(crate) use seeded::Seeded;
use shared::Shared;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a world may take to come to rest once everything works.
const REST: Duration = Duration::from_mins(20);

/// What became of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    /// Of the whole trace; the same seed gives the same.
    pub digest: u64,
    /// Durable events and frames of the hub's.
    pub steps: u64,
    pub kills: u64,
    /// Acknowledged input that isn't there any more.
    pub lost: u64,
    /// Effects that may happen once and happened twice.
    pub doubled: u64,
    pub stuck: u64,
    pub violations: Vec<String>,
    /// Effects outside, with how often each happened.
    pub outside: BTreeMap<String, usize>,
    /// How often each moment came at which a crash may be ordered.
    pub moments: BTreeMap<Moment, u64>,
    /// The last lines of the trace.
    pub trace: Vec<String>,
}

impl Outcome {
    pub const fn is_fine(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Lets a plan happen to parts with that habit, and says what became of it.
pub fn run(plan: &Plan, habit: Habit) -> Result<Outcome> {
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::Builder::new().prefix("world").tempdir_in(place)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let plan = plan.clone();
    runtime.block_on(async move {
        let shared = Shared::new(plan, habit, directory.path().to_owned());
        live(&shared).await?;
        Ok(outcome(&shared))
    })
}

/// Runs a plan, and when it fails, leaves faults out while it still does.
pub fn shortest(plan: &Plan, habit: Habit) -> Result<(Plan, Outcome)> {
    let mut plan = plan.clone();
    let mut worst = run(&plan, habit)?;
    let mut size = plan.faults.len().div_ceil(2);
    while !worst.is_fine() && size > 0 {
        let mut at = 0;
        while at < plan.faults.len() {
            let mut fewer = plan.clone();
            fewer.faults.drain(at..(at + size).min(plan.faults.len()));
            let tried = run(&fewer, habit)?;
            if tried.is_fine() {
                at += size;
            } else {
                (plan, worst) = (fewer, tried);
            }
        }
        size /= 2;
    }
    Ok((plan, worst))
}

/// A failure as people read it: its seed, the faults that it takes, what was wrong, and the end of the trace.
pub fn told(plan: &Plan, outcome: &Outcome) -> String {
    let mut text = format!("seed {} breaks what has to hold:\n", outcome.seed);
    for what in &outcome.violations {
        let _ = writeln!(text, "  {what}");
    }
    let _ = writeln!(text, "with these faults:");
    for fault in &plan.faults {
        let _ = writeln!(text, "  {fault}");
    }
    let _ = writeln!(text, "and this end of its trace:");
    for line in &outcome.trace {
        let _ = writeln!(text, "{line}");
    }
    text
}

async fn live(shared: &Arc<Shared>) -> Result<()> {
    set_up(shared).await?;
    shared.begin();
    shared.start_device();
    for who in shared.plan.ends() {
        shared.start_end(who, end::Kept::new(shared, who));
    }
    let end = Instant::now() + Duration::from_millis(TROUBLED_MS);
    while Instant::now() < end && shared.checker().violations.is_empty() {
        sleep(Duration::from_millis(250)).await;
        // With all troubles past and all work done there is nothing to wait for.
        if shared.plan.faults.iter().all(|fault| matches!(fault.when, When::Nth(..))) && is_at_rest(shared) {
            break;
        }
    }
    shared.calm();
    let end = Instant::now() + REST;
    let mut calm = 0;
    while shared.checker().violations.is_empty() && calm < 12 {
        sleep(Duration::from_millis(250)).await;
        calm = if is_at_rest(shared) { calm + 1 } else { 0 };
        if Instant::now() > end {
            let states: Vec<_> = shared
                .checker()
                .logs
                .iter()
                .map(|(id, log)| format!("{id}: {:?} {:?}", log.state.turn, log.state.unsettled_calls().collect::<Vec<_>>()))
                .collect();
            shared.violation(&format!("STUCK: the world doesn't come to rest: {states:?}, {:?}", ends(shared)));
            return Ok(());
        }
    }
    if shared.checker().violations.is_empty() {
        judge(shared).await;
    }
    Ok(())
}

fn ends(shared: &Shared) -> BTreeMap<Who, shared::EndState> {
    shared.ends.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

fn is_at_rest(shared: &Shared) -> bool {
    let checker = shared.checker();
    let heads: Vec<_> = checker.logs.iter().map(|(id, log)| (log.state.user, *id, log.state.seq)).collect();
    let logs = checker.logs.values().all(check::Log::at_rest);
    drop(checker);
    let ends = ends(shared);
    let up_to_date = |who: Who, end: &shared::EndState| {
        let user = shared.identity(who).user_id;
        let own = heads.iter().filter(|(of, ..)| *of == user).map(|(_, id, seq)| (*id, *seq));
        !end.busy && own.eq(end.cursors.iter().map(|(id, seq)| (*id, *seq)))
    };
    logs && shared.hub().is_some() && ends.len() == shared.plan.ends().count() && ends.iter().all(|(who, end)| up_to_date(*who, end))
}

/// Pairs everybody and opens the sessions, before anything goes wrong.
async fn set_up(shared: &Arc<Shared>) -> Result<()> {
    shared.open_hub(0);
    let hub = loop {
        sleep(Duration::from_millis(1)).await;
        if let Some(hub) = shared.hub().and_then(|life| life.hub()) {
            break hub;
        }
    };
    let user = hub.create_user("ada").await?;
    let laptop = hub.pair_own_device(user, "laptop").await?;
    let mut identities = BTreeMap::from([(Who::Laptop, Identity { user_id: user, device_id: laptop.device_id })]);
    for who in Who::ENDS {
        identities.insert(who, pair(&hub, user, who).await?);
    }
    let phone = identities[&Who::Phone];
    let mut sessions = Vec::new();
    let mut ids = Seeded::new(shared.plan.seed, "sessions");
    for _ in 0..shared.plan.sessions {
        let intent = Intent::NewSession { title: None, workspace: None };
        let reply = hub.submit(phone, Operation::new(ids.id(), None, intent)).await;
        sessions.push(reply.session_id.context("no session was opened")?);
    }
    if shared.plan.neighbour {
        let user = hub.create_user("bob").await?;
        let neighbour = pair(&hub, user, Who::Neighbour).await?;
        identities.insert(Who::Neighbour, neighbour);
        let intent = Intent::NewSession { title: None, workspace: None };
        let reply = hub.submit(neighbour, Operation::new(ids.id(), None, intent)).await;
        sessions.push(reply.session_id.context("no session was opened")?);
    }
    shared.introduce(identities, sessions);
    Ok(())
}

async fn pair(hub: &Arc<Hub>, user: baton_proto::UserId, who: Who) -> Result<Identity> {
    let (client_type, trust) = match who {
        Who::Phone | Who::Neighbour => (ClientType::Phone, Trust::Trusted),
        Who::Tablet => (ClientType::Tablet, Trust::Standard),
        Who::Cli | Who::Laptop => (ClientType::Cli, Trust::Trusted),
    };
    let invitation = hub.invite(user, None, trust).await?;
    let claim = InvitationClaim {
        secret: invitation.secret,
        name: who.name().to_owned(),
        client_type,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let credentials = hub.claim_invitation(std::net::Ipv4Addr::LOCALHOST.into(), &claim).await?;
    Ok(Identity { user_id: user, device_id: credentials.device_id })
}

/// The last judgement: the hub's own state, what ends hold, what was acknowledged and what is outside agree with the log.
async fn judge(shared: &Arc<Shared>) {
    let Some(hub) = shared.hub().and_then(|life| life.hub()) else { return };
    let people: Vec<_> = [Who::Phone, Who::Neighbour].into_iter().filter(|who| shared.plan.ends().any(|end| end == *who)).collect();
    let people: Vec<_> = people.into_iter().map(|who| shared.identity(who)).collect();
    let folded: Vec<_> =
        shared.checker().logs.iter().map(|(id, log)| (*id, log.state.user, log.state.seq, baton_core::entities(&log.state))).collect();
    for ((session, user, seq, entities), who) in folded.iter().flat_map(|log| people.iter().map(move |who| (log, *who))) {
        let (session, seq) = (*session, *seq);
        match hub.view(who, session).await {
            Err(error) if *user != who.user_id && error.code == baton_proto::ErrorCode::NotFound => {}
            _ if *user != who.user_id => shared.violation(&format!("{session} is shown to another user")),
            Ok(view) => {
                if view.seq != seq || entities.iter().any(|entity| !view.entities.contains(entity)) {
                    shared.violation(&format!("{session}: the hub's own state isn't the fold of its log"));
                }
            }
            Err(error) => shared.violation(&format!("{session} can't be viewed: {error}")),
        }
    }
    let kept = |user, id| shared.disk.operation(user, id).is_some();
    shared.checker().check_acked(kept);
    let done: std::collections::BTreeSet<_> = shared.outside().done.iter().map(|did| did.call_id).collect();
    shared.checker().check_claims(|call| done.contains(&call));
    if !shared.plan.meddling {
        let left = shared.outside().left();
        let mut expected: Vec<String> = Vec::new();
        for action in &shared.plan.actions {
            if let Deed::Work { kind, number } = action.deed {
                expected.extend(scripts::marks(kind, &end::tag(action.session, number)));
            }
        }
        let mut there: Vec<_> =
            left.iter().flat_map(|(what, times)| vec![what.split_once(' ').map_or("", |(_, mark)| mark).to_owned(); *times]).collect();
        expected.sort();
        there.sort();
        if expected != there {
            shared.violation(&format!("the world outside has {there:?} and not {expected:?}"));
        }
    }
}

fn outcome(shared: &Arc<Shared>) -> Outcome {
    let (digest, trace) = shared.trace();
    let checker = shared.checker();
    Outcome {
        seed: shared.plan.seed,
        digest,
        steps: checker.steps,
        kills: shared.kills(),
        lost: checker.lost,
        doubled: checker.doubled,
        stuck: checker.violations.iter().filter(|what| what.starts_with("STUCK")).count() as u64,
        violations: checker.violations.clone(),
        outside: shared.outside().left(),
        moments: shared.counts(),
        trace,
    }
}
