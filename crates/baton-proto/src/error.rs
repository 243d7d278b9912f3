use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the error codes once: their wire name, HTTP status, title, and whether the same operation id may be tried again.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $retry:ident, $title:literal;)+) => {
        /// A stable error code; each has a page in `docs/errors`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $code)] $name,)+
        }
        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$name),+];
            /// The name on the wire.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $code),+ } }
            /// The status of an HTTP answer that carries it.
            pub const fn status(self) -> u16 { match self { $(Self::$name => $status),+ } }
            /// A few words that don't depend on the instance.
            pub const fn title(self) -> &'static str { match self { $(Self::$name => $title),+ } }
            /// Whether the outcome is settled for this operation id. What isn't final may be sent again with the same id.
            pub const fn is_final(self) -> bool { match self { $(Self::$name => codes!(@final $retry)),+ } }
        }
    };
    (@final last) => { true };
    (@final again) => { false };
}

codes! {
    StaleEpoch = "stale_epoch", 409, last, "The session has moved since";
    StaleVersion = "stale_version", 409, last, "The thing has changed since";
    NotHolder = "not_holder", 403, last, "Another device holds the session";
    Transferring = "transferring", 409, again, "The session is being handed over";
    TrustTooLow = "trust_too_low", 403, last, "This device isn't trusted enough";
    NeedsConfirmation = "needs_confirmation", 409, again, "Confirmation needed";
    OperationConflict = "operation_conflict", 409, last, "The operation id is taken";
    IllegalTransition = "illegal_transition", 409, last, "Not possible in this state";
    ApprovalClosed = "approval_closed", 409, last, "The approval is closed";
    ApprovalMismatch = "approval_mismatch", 409, last, "The approval is for something else";
    QuestionClosed = "question_closed", 409, last, "The question is closed";
    TooLarge = "too_large", 413, last, "Too large";
    RateLimited = "rate_limited", 429, again, "Too many requests";
    WorkspaceBusy = "workspace_busy", 409, again, "The workspace is in use";
    DeviceOffline = "device_offline", 409, again, "The device is offline";
    NoCapability = "no_capability", 409, last, "No device can do this";
    ModelUnavailable = "model_unavailable", 503, again, "No model is reachable";
    NotFound = "not_found", 404, last, "Not found";
    Unauthenticated = "unauthenticated", 401, again, "Not signed in";
    Forbidden = "forbidden", 403, last, "Not allowed";
    CursorTooOld = "cursor_too_old", 410, again, "The cursor is too old";
    ShuttingDown = "shutting_down", 503, again, "The hub is stopping";
    UnsupportedVersion = "unsupported_version", 400, last, "Unsupported version";
    Invalid = "invalid", 400, last, "Invalid request";
    /// The disk is full or failing; nothing was accepted.
    StorageFailed = "storage_failed", 503, again, "The hub can't write";
    Internal = "internal", 500, again, "Something went wrong in the hub";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What went wrong, in a code for programs and two sentences for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    pub code: ErrorCode,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl ErrorBody {
    pub fn new(code: ErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: hint.into() }
    }

    /// What belongs to nobody, or to another user, is absent (S5).
    pub fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("There is no such {what}."), "Check the id; list what exists and try again.")
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Invalid, message, "Correct the request as docs/protocol.md describes it and send it with a new operation id.")
    }

    /// The same as the body of an HTTP error.
    pub fn problem(&self, instance: &str) -> Problem {
        Problem {
            kind: format!("https://baton.invalid/errors/{}", self.code),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            code: self.code,
            detail: self.message.clone(),
            hint: self.hint.clone(),
            instance: instance.to_owned(),
        }
    }
}

impl fmt::Display for ErrorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.message, self.hint)
    }
}

impl std::error::Error for ErrorBody {}

/// RFC 9457 problem details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: ErrorCode,
    pub detail: String,
    pub hint: String,
    pub instance: String,
}

impl From<Problem> for ErrorBody {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code, message: problem.detail, hint: problem.hint }
    }
}
