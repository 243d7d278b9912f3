use baton_core::SoFar;
use baton_proto::{CallId, Change, DeltaPart, MessageId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// What a session's followers are told as it happens. Changes can be read again from the log; the rest is transient.
#[derive(Clone, Debug)]
pub(crate) enum Signal {
    Change(Arc<Change>),
    Delta(Delta),
    Progress { call_id: CallId, attempt: u32, text: String },
}

/// A piece of an answer under way. `offset` counts bytes of its part from the start of the attempt.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) message_id: MessageId,
    pub(crate) attempt: u32,
    pub(crate) part: DeltaPart,
    pub(crate) offset: u64,
    pub(crate) text: String,
}

/// Signals that a slow follower may be behind, before it is resynchronised from the log.
const BUFFERED: usize = 1024;
/// Bytes of partial text that are kept for whoever attaches in mid-stream.
const MAX_PARTIAL: usize = 256 * 1024;

/// A session's live side: the channel to its followers, and the partial answer.
#[derive(Debug)]
pub(crate) struct Live {
    signals: broadcast::Sender<Signal>,
    partial: Mutex<Option<Partial>>,
}

#[derive(Debug)]
struct Partial {
    message_id: MessageId,
    attempt: u32,
    text: String,
    thinking: String,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { signals: broadcast::channel(BUFFERED).0, partial: Mutex::default() }
    }

    pub(crate) fn followers(&self) -> usize {
        self.signals.receiver_count()
    }

    pub(crate) fn send(&self, signal: Signal) {
        // Nobody following is no failure: the log has it.
        let _ = self.signals.send(signal);
    }

    /// A new follower, with what there is of an answer under way.
    pub(crate) fn follow(&self) -> (broadcast::Receiver<Signal>, Vec<Delta>) {
        let partial = self.partial();
        let receiver = self.signals.subscribe();
        let mut so_far = Vec::new();
        if let Some(partial) = partial.as_ref() {
            for (part, text) in [(DeltaPart::Thinking, &partial.thinking), (DeltaPart::Text, &partial.text)] {
                if !text.is_empty() {
                    so_far.push(Delta { message_id: partial.message_id, attempt: partial.attempt, part, offset: 0, text: text.clone() });
                }
            }
        }
        (receiver, so_far)
    }

    /// Adds to the partial answer and tells the followers, in one step, so that nobody gets a piece twice or not at all.
    pub(crate) fn add(&self, message_id: MessageId, attempt: u32, part: DeltaPart, text: &str) {
        let mut partial = self.partial();
        if !partial.as_ref().is_some_and(|known| known.message_id == message_id && known.attempt == attempt) {
            *partial = Some(Partial { message_id, attempt, text: String::new(), thinking: String::new() });
        }
        let Some(known) = partial.as_mut() else { return };
        let kept = match part {
            DeltaPart::Text => &mut known.text,
            DeltaPart::Thinking => &mut known.thinking,
        };
        if kept.len() + text.len() > MAX_PARTIAL {
            return;
        }
        let offset = u64::try_from(kept.len()).unwrap_or(u64::MAX);
        kept.push_str(text);
        self.send(Signal::Delta(Delta { message_id, attempt, part, offset, text: text.to_owned() }));
    }

    /// What there is of an answer under way.
    pub(crate) fn so_far(&self) -> Option<SoFar> {
        let partial = self.partial();
        let known = partial.as_ref()?;
        Some(SoFar { message_id: known.message_id, attempt: known.attempt, text: known.text.clone() })
    }

    /// The answer is in the log now, or was given up.
    pub(crate) fn clear(&self) {
        *self.partial() = None;
    }

    fn partial(&self) -> MutexGuard<'_, Option<Partial>> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
