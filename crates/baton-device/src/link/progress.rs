use crate::tool::ProgressSink;
use baton_client::ConnectionHandle;
use baton_proto::{ClientFrame, DispatchedCall, make_visible};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// At most five words a second from one call.
const PAUSE: Duration = Duration::from_millis(200);
/// A word is a line for people, not a log.
const MAX_CHARS: usize = 500;

/// Passes a call's words on to the hub, and drops what is too much: progress is transient by its nature.
pub(crate) fn progress(call: &DispatchedCall, handle: ConnectionHandle) -> ProgressSink {
    let (session_id, call_id, attempt) = (call.session_id, call.call_id, call.attempt);
    let pace = Mutex::new(Pace::default());
    ProgressSink::new(move |line| {
        if pace.lock().unwrap_or_else(PoisonError::into_inner).allows(Instant::now()) {
            let text = make_visible(&line.chars().take(MAX_CHARS).collect::<String>());
            let _ = handle.try_send(&ClientFrame::ToolProgress { session_id, call_id, attempt, text });
        }
    })
}

#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
}

impl Pace {
    fn allows(&mut self, now: Instant) -> bool {
        let allowed = self.last.is_none_or(|last| now.duration_since(last) >= PAUSE);
        if allowed {
            self.last = Some(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_five_words_a_second_pass() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let passed = (0..2000).filter(|millisecond| pace.allows(start + Duration::from_millis(*millisecond))).count();
        assert_eq!(passed, 10);
    }
}
