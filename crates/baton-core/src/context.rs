use baton_proto::{ClientType, DeviceId, JournalId, MessageId, Rule, Sender, SessionId, Timestamp, ToolSpec, Trust, Workspace};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// What a decision may know of the world at the moment it is taken.
#[derive(Debug)]
pub struct Context {
    pub now: Timestamp,
    pub ids: Ids,
    /// Who asks, for operations.
    pub sender: Option<ActingDevice>,
    /// The user's devices, and what they offer.
    pub around: Arc<Surroundings>,
    /// The model's name, where one is configured.
    pub model: Option<String>,
    /// What may be spent, and what was.
    pub budgets: Budgets,
    /// Another session that works in this session's workspace at the moment, with its title (E6).
    pub workspace_held_by: Option<(SessionId, String)>,
    /// What the model has written of the answer under way, which is kept when it is stopped.
    pub so_far: Option<SoFar>,
}

/// The text of an answer that isn't finished, and of which try it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoFar {
    pub message_id: MessageId,
    pub attempt: u32,
    pub text: String,
}

/// Tokens that may be spent, and that were (R4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// On one task, until its user lets it go on.
    pub task: Option<u64>,
    /// On one day, over all of the user's sessions.
    pub day: Option<u64>,
    pub spent_today: u64,
}

/// What the user's devices are at the moment. Shared between decisions, since it changes seldom.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Devices that are connected.
    pub online: BTreeSet<DeviceId>,
    /// Devices that aren't revoked.
    pub devices: BTreeMap<DeviceId, ActingDevice>,
    /// Tools by name, with each device that offers one of that name.
    pub offers: BTreeMap<String, Vec<OfferedTool>>,
    /// Workspaces of these devices.
    pub workspaces: Vec<Workspace>,
    /// Approvals that are remembered (E5).
    pub rules: Vec<Rule>,
}

impl Surroundings {
    /// The tool of that name: on the device that holds the session's workspace, else on one that is connected, else on any.
    pub fn offer(&self, name: &str, workspace_device: Option<DeviceId>) -> Option<&OfferedTool> {
        let offers = self.offers.get(name)?;
        let on = |device: &OfferedTool| Some(device.device_id) == workspace_device;
        offers
            .iter()
            .find(|offer| on(offer))
            .or_else(|| offers.iter().find(|offer| self.online.contains(&offer.device_id)))
            .or_else(|| offers.first())
    }
}

/// A device as its record says it is; never as it says of itself (S5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActingDevice {
    pub device_id: DeviceId,
    pub name: String,
    pub client_type: ClientType,
    pub trust: Trust,
    /// The journal that it came with last.
    pub journal: Option<JournalId>,
}

impl ActingDevice {
    pub fn sender(&self) -> Sender {
        Sender { device_id: self.device_id, name: self.name.clone(), client_type: self.client_type }
    }
}

/// A tool and where it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    pub device_id: DeviceId,
    pub spec: ToolSpec,
}

/// Fresh ids from given time and given randomness, so that the same decision can be replayed.
#[derive(Debug)]
pub struct Ids {
    milliseconds: u64,
    random: u64,
    next: Cell<u64>,
}

impl Ids {
    /// `random` should be drawn anew for each context.
    pub const fn new(now: Timestamp, random: u64) -> Self {
        Self { milliseconds: now.0.unsigned_abs(), random, next: Cell::new(0) }
    }

    /// A new UUID of version 7. Ids of one context sort in the order in which they were drawn.
    pub fn fresh<T: From<Uuid>>(&self) -> T {
        let count = self.next.get();
        self.next.set(count + 1);
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&self.milliseconds.to_be_bytes()[2..]);
        let counter = u16::try_from(count & 0x0fff).unwrap_or(0);
        bytes[6..8].copy_from_slice(&(0x7000 | counter).to_be_bytes());
        bytes[8..].copy_from_slice(&((self.random & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000).to_be_bytes());
        T::from(Uuid::from_bytes(bytes))
    }

    /// A number from 0 to 1 for the jitter of retries.
    #[allow(clippy::cast_precision_loss, reason = "only jitter is made of it")]
    pub fn jitter(&self) -> f64 {
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}
