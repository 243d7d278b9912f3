//! What happens in a world from outside: what users do, and what goes wrong. All of it follows from a seed, and each fault is an entry
//! that can be left out, so that a failure can be told with as few as it needs.

use super::seeded::Seeded;
use baton_proto::ModelErrorKind;
use std::fmt;

/// Everything with a connection to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Laptop,
    Phone,
    Cli,
    Tablet,
    /// The phone of another user of the same hub.
    Neighbour,
}

impl Who {
    pub const ALL: [Self; 4] = [Self::Laptop, Self::Phone, Self::Cli, Self::Tablet];
    pub const ENDS: [Self; 3] = [Self::Phone, Self::Cli, Self::Tablet];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Laptop => "laptop",
            Self::Phone => "phone",
            Self::Cli => "cli",
            Self::Tablet => "tablet",
            Self::Neighbour => "neighbour",
        }
    }
}

/// Moments of the work at which something may be made to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    BeforeStore,
    AfterStore,
    /// The hub hands a call to the device's connection.
    Dispatched,
    /// The device has written a call down.
    Received,
    /// It has written down that it begins.
    Begun,
    /// The effect has just happened.
    Acted,
    /// The result is in the journal.
    Finished,
    /// The hub has got a result.
    ResultArrived,
    /// The hub sends an acknowledgement, of an operation or of a result.
    AckSent,
    /// The device has got an acknowledgement.
    AckArrived,
}

impl Moment {
    pub const ALL: [Self; 10] = [
        Self::BeforeStore,
        Self::AfterStore,
        Self::Dispatched,
        Self::Received,
        Self::Begun,
        Self::Acted,
        Self::Finished,
        Self::ResultArrived,
        Self::AckSent,
        Self::AckArrived,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Milliseconds after the work began.
    At(u64),
    /// The so-manieth time that this moment comes, from 1.
    Nth(Moment, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// `kept`: how many writes in flight get to the disk. `linger`: frames in flight still arrive.
    KillHub {
        down_ms: u64,
        kept: usize,
        linger: bool,
    },
    /// The hub is stopped in good order and started again.
    RestartHub {
        down_ms: u64,
    },
    /// Another hub opens the store while this one still runs.
    SecondHub,
    /// A hub dies while it takes up what the one before left, and the next one too.
    KillHubs {
        times: u64,
        life_ms: u64,
    },
    KillDevice {
        down_ms: u64,
    },
    /// The device dies while it writes to its journal.
    TearJournal {
        down_ms: u64,
    },
    /// The device dies and its journal is gone.
    LoseJournal {
        down_ms: u64,
    },
    /// An end dies. Its outbox is kept; what it had of the sessions may not be.
    KillEnd {
        who: Who,
        down_ms: u64,
        forgets: bool,
    },
    Cut(Who),
    /// The connection is dead, and nobody is told.
    HalfOpen(Who),
    /// Out of reach for so long.
    Away(Who, u64),
    /// Frames that may legally come twice do.
    Twice(Who, u64),
    DiskFull {
        ms: u64,
    },
    SyncFails {
        kept: bool,
    },
    ReadsFail {
        count: u32,
    },
    Skew {
        ms: i64,
    },
    Slow {
        ms: u64,
    },
    Model(ModelTrouble),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelTrouble {
    Fails(ModelErrorKind),
    Hangs,
    BadArguments,
    UnknownTool,
    Repeats,
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub when: When,
    pub trouble: Trouble,
}

/// What a user does besides answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Begins piece of work number so-many of that kind.
    Work {
        kind: usize,
        number: u64,
    },
    Steer,
    Cancel,
    Pause,
    TakeOver,
    Handoff(Who),
    Note,
    Command,
    /// Asks for a session of somebody else's.
    Pry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub at_ms: u64,
    pub who: Who,
    pub session: usize,
    pub deed: Deed,
}

/// A world's whole fate.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Whether the user interferes with the work; if not, the world outside must end as in an undisturbed run.
    pub meddling: bool,
    /// Whether the hub has another user, who works too and pries.
    pub neighbour: bool,
    pub sessions: usize,
    pub actions: Vec<Action>,
    pub faults: Vec<Fault>,
}

/// Faults come in this time; after the last of it everything works again.
pub(crate) const TROUBLED_MS: u64 = 60_000;

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut draw = Seeded::new(seed, "plan");
        let meddling = draw.chance(50);
        let sessions = if draw.chance(70) { 1 } else { 2 };
        let mut actions = Vec::new();
        for number in 0..draw.between(1, 3) {
            for session in 0..sessions {
                let kind = usize::try_from(draw.next() % super::scripts::KINDS as u64).unwrap_or(0);
                let who = *draw.pick(&Who::ENDS).unwrap_or(&Who::Phone);
                actions.push(Action { at_ms: draw.between(0, 30_000), who, session, deed: Deed::Work { kind, number } });
            }
        }
        for _ in 0..(if meddling { draw.between(1, 5) } else { 0 }) {
            let target = *draw.pick(&Who::ENDS).unwrap_or(&Who::Cli);
            let deeds = [Deed::Steer, Deed::Cancel, Deed::Pause, Deed::TakeOver, Deed::Handoff(target), Deed::Note, Deed::Command];
            let who = *draw.pick(&Who::ENDS).unwrap_or(&Who::Phone);
            let session = usize::try_from(draw.next() % sessions as u64).unwrap_or(0);
            let deed = *draw.pick(&deeds).unwrap_or(&Deed::Note);
            actions.push(Action { at_ms: draw.between(500, 40_000), who, session, deed });
        }
        let mut faults: Vec<_> = (0..draw.between(0, 12)).map(|_| fault(&mut draw)).collect();
        let mut draw = Seeded::new(seed, "further");
        let neighbour = draw.chance(40);
        if neighbour {
            for (number, deed) in (0..).zip([Deed::Work { kind: super::scripts::TALK, number: 0 }, Deed::Pry, Deed::Pry]) {
                let deed = if let Deed::Work { kind, .. } = deed { Deed::Work { kind, number } } else { deed };
                let at_ms = draw.between(0, 30_000);
                actions.push(Action { at_ms, who: Who::Neighbour, session: sessions, deed });
            }
        }
        faults.extend((0..draw.between(0, 3)).map(|_| further(&mut draw, neighbour)));
        actions.sort_by_key(|action| action.at_ms);
        Self { seed, meddling, neighbour, sessions, actions, faults }
    }

    /// Everybody with a screen in this world.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Who> {
        Who::ENDS.into_iter().chain(self.neighbour.then_some(Who::Neighbour))
    }

    /// The same without anything going wrong.
    #[must_use]
    pub fn undisturbed(&self) -> Self {
        Self { faults: Vec::new(), ..self.clone() }
    }
}

/// What befalls journals, ends, and hubs that have just begun.
fn further(draw: &mut Seeded, neighbour: bool) -> Fault {
    let ends = [Who::Phone, Who::Cli, Who::Tablet, Who::Neighbour];
    let who = *draw.pick(if neighbour { &ends } else { &Who::ENDS }).unwrap_or(&Who::Phone);
    let down_ms = draw.between(10, 4_000);
    let device = [Moment::Received, Moment::Begun, Moment::Acted, Moment::Finished, Moment::AckArrived];
    let (trouble, moments): (_, &[Moment]) = match draw.between(0, 6) {
        0 | 1 => (Trouble::KillHubs { times: draw.between(2, 5), life_ms: draw.between(0, 60) }, &Moment::ALL),
        2 | 3 => (Trouble::KillEnd { who, down_ms, forgets: draw.chance(50) }, &[Moment::AfterStore, Moment::AckSent, Moment::BeforeStore]),
        4 => (Trouble::TearJournal { down_ms }, &device),
        _ => (Trouble::LoseJournal { down_ms }, &device),
    };
    let moment = *draw.pick(moments).unwrap_or(&Moment::AfterStore);
    let nth = if matches!(moment, Moment::BeforeStore | Moment::AfterStore) { draw.between(1, 150) } else { draw.between(1, 8) };
    let when = if draw.chance(65) { When::Nth(moment, nth) } else { When::At(draw.between(0, TROUBLED_MS)) };
    Fault { when, trouble }
}

fn fault(draw: &mut Seeded) -> Fault {
    let trouble = trouble(draw);
    // Those who die die in the middle of things, mostly.
    let moments: &[Moment] = match trouble {
        Trouble::KillDevice { .. } => &[Moment::Received, Moment::Begun, Moment::Acted, Moment::Finished, Moment::AckArrived],
        _ => &Moment::ALL,
    };
    let moment = *draw.pick(moments).unwrap_or(&Moment::AfterStore);
    let nth = match moment {
        Moment::BeforeStore | Moment::AfterStore => draw.between(1, 150),
        _ => draw.between(1, 8),
    };
    let when = if draw.chance(65) { When::Nth(moment, nth) } else { When::At(draw.between(0, TROUBLED_MS)) };
    Fault { when, trouble }
}

fn trouble(draw: &mut Seeded) -> Trouble {
    let who = *draw.pick(&Who::ALL).unwrap_or(&Who::Laptop);
    let down_ms = draw.between(10, 4_000);
    let kept = usize::try_from(draw.between(0, 2)).unwrap_or(0);
    let linger = draw.chance(50);
    match draw.between(0, 25) {
        0..=5 => Trouble::KillHub { down_ms, kept, linger },
        6 => Trouble::RestartHub { down_ms },
        7 => Trouble::SecondHub,
        8..=11 => Trouble::KillDevice { down_ms },
        12 => Trouble::Cut(who),
        13 => Trouble::HalfOpen(who),
        14 => Trouble::Away(who, draw.between(100, 40_000)),
        15 => Trouble::Twice(who, draw.between(1_000, 30_000)),
        16 => Trouble::DiskFull { ms: draw.between(100, 5_000) },
        17 => Trouble::SyncFails { kept: draw.chance(50) },
        18 => Trouble::ReadsFail { count: u32::try_from(draw.between(1, 3)).unwrap_or(1) },
        19 => Trouble::Skew { ms: i64::try_from(draw.between(0, 40_000)).unwrap_or(0) - 20_000 },
        20 => Trouble::Slow { ms: draw.between(500, 10_000) },
        _ => Trouble::Model(match draw.between(0, 9) {
            0 => ModelTrouble::Fails(ModelErrorKind::Unauthorized),
            1 => ModelTrouble::Fails(ModelErrorKind::RateLimited),
            2 => ModelTrouble::Fails(ModelErrorKind::Unavailable),
            3 => ModelTrouble::Fails(ModelErrorKind::Refused),
            4 => ModelTrouble::Fails(ModelErrorKind::Malformed),
            5 => ModelTrouble::Hangs,
            6 => ModelTrouble::BadArguments,
            7 => ModelTrouble::UnknownTool,
            8 => ModelTrouble::Empty,
            _ => ModelTrouble::Repeats,
        }),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::At(ms) => write!(f, "after {ms} ms: {:?}", self.trouble),
            When::Nth(moment, nth) => write!(f, "at {moment:?} {nth}: {:?}", self.trouble),
        }
    }
}
