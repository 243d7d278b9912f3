use crate::output::escape_json;
use baton_client::ClientError;
use baton_proto::{ErrorBody, make_visible};
use serde_json::json;
use std::process::ExitCode;

/// Why a command did not do what was asked, and the exit code that says so.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: u8,
    code: String,
    message: String,
    hint: String,
    /// Whether the hub answered that it won't.
    refused: bool,
}

/// The agent waits for the user.
pub(crate) const AWAITING_INPUT: u8 = 3;
/// It failed, or was refused.
pub(crate) const FAILED: u8 = 4;
/// The user stopped waiting, as shells tell it of Ctrl+C.
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: 2, code: "usage".to_owned(), message: message.into(), hint: hint.into(), refused: false }
    }

    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: FAILED, code: "failed".to_owned(), message: message.into(), hint: hint.into(), refused: false }
    }

    pub(crate) fn unreachable(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: 5, code: "unreachable".to_owned(), message: message.into(), hint: hint.into(), refused: false }
    }

    /// Whether the hub answered that it won't.
    pub(crate) fn is_refusal(&self) -> bool {
        self.refused
    }

    /// What happened, and what to do, for people.
    pub(crate) fn words(&self) -> String {
        format!("{} {}", self.message, self.hint)
    }

    /// Tells it on standard error, as a line of JSON or as two sentences.
    pub(crate) fn tell(&self, json: bool) -> ExitCode {
        if json {
            let value = json!({"event": "error", "code": self.code, "message": self.message, "hint": self.hint});
            eprintln!("{}", escape_json(&value.to_string()));
        } else {
            eprintln!("baton: {}\n       {}", make_visible(&self.message), make_visible(&self.hint));
        }
        ExitCode::from(self.exit)
    }
}

/// What a connection met with, in a few words: libraries tell it as a chain of everything that gave up because of it.
pub(crate) fn plainly(why: &str) -> String {
    const KNOWN: &[(&str, &str)] = &[
        ("Connection refused", "nothing answers at its address"),
        ("failed to lookup address", "its name isn't known to this network"),
        ("dns error", "its name isn't known to this network"),
        ("Network is unreachable", "this machine has no network"),
        ("No route to host", "no way leads to its address"),
        ("timed out", "it didn't answer in time"),
        ("Connection reset", "the connection was cut off"),
        ("connection closed before message completed", "the connection was cut off"),
    ];
    let known = KNOWN.iter().find(|(part, _)| why.contains(part));
    known.map_or_else(|| why.trim_end_matches('.').to_owned(), |(_, words)| (*words).to_owned())
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ErrorBody> for Failure {
    fn from(error: ErrorBody) -> Self {
        Self { exit: FAILED, code: error.code.to_string(), message: error.message, hint: error.hint, refused: true }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Hub(error) => error.into(),
            ClientError::Unreachable(why) => Self::unreachable(
                format!("The hub can't be reached: {}.", plainly(&why)),
                "Check that it runs (`baton up`) and that its address is right.",
            ),
            ClientError::Untrusted(why) => Self::unreachable(
                format!("Whoever answers at the hub's address can't prove to be your hub: {why}."),
                "Compare the fingerprint that `baton up --tls` printed, and name it: baton pair URL --fingerprint SHA256. If it is the same as before, somebody stands between.",
            ),
            other @ ClientError::Protocol(_) => Self::unreachable(other.to_string(), "Is this the hub's address?"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::failed(format!("A file or stream failed: {error}."), "Check the disk and the permissions.")
    }
}

#[cfg(test)]
mod tests {
    use super::plainly;

    #[test]
    fn a_chain_of_causes_becomes_one_sentence() {
        let chain = "error sending request for url (http://127.0.0.1:1/v1/hub): client error (Connect): tcp connect error: Connection refused (os error 111)";
        assert_eq!(plainly(chain), "nothing answers at its address");
        assert_eq!(plainly("what stands before it answered with status 502."), "what stands before it answered with status 502");
    }
}
