use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Declares identifiers of one kind each, so that a task's id can't be passed where a call's is meant.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, concat!(stringify!($name), "({})"), self.0) }
        }
        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> { text.parse().map(Self) }
        }
        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self { Self(id) }
        }
    )+};
}

ids! {
    /// A person whose sessions, devices and memory belong together (O3).
    UserId,
    /// Anything paired with the hub.
    DeviceId,
    /// One continuous interaction of one user.
    SessionId,
    /// One piece of work in a session.
    TaskId,
    /// One user input and all that follows until the agent rests.
    TurnId,
    /// One message of the dialogue.
    MessageId,
    /// One request to the model, stable over its attempts.
    ModelCallId,
    /// One requested action; its idempotency key, stable over its attempts (E1).
    CallId,
    /// One request for approval (E5).
    ApprovalId,
    /// One question to the user (T11).
    QuestionId,
    /// One fact (T1).
    FactId,
    /// One offer of a session to another device (H5).
    HandoffId,
    /// A directory of the user's on one device (E7).
    WorkspaceId,
    /// One remembered approval (E5).
    RuleId,
    /// One thing an end asks for, named by the end (D3, E1).
    OperationId,
    /// A new device's request to be paired.
    PairingId,
    /// A one-time link that pairs a device.
    InvitationId,
    /// One life of a device's journal: another one is what a device shows that has lost the first (F7).
    JournalId,
}
