//! What the dialects have in common where an answer is put together from pieces. Pure: no IO, no clock.

use crate::model::DeltaSink;
use baton_proto::ModelAnswer;
use serde_json::Value;

/// An answer is at most this large, in bytes of text, thinking and arguments; nobody waits for a model that runs on.
pub(crate) const MAX_ANSWER_BYTES: usize = 1024 * 1024;
pub(crate) const MAX_CALLS: usize = 128;

#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum PieceError {
    #[error("a piece that is no part of an answer")]
    Shapeless,
    #[error("more than {MAX_ANSWER_BYTES} bytes or {MAX_CALLS} calls")]
    TooLarge,
    /// The provider says that it failed, in a stream that had begun well.
    #[error("{0}")]
    Failed(Value),
}

/// Whether a piece brought the answer forward. Pieces that say nothing don't keep a silent model alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Nothing,
    Words,
    /// Nothing follows; whoever waits for the connection's end waits in vain.
    Over,
}

/// An answer that grows. One for each dialect.
pub(crate) trait Assembly: Send {
    /// Takes one piece of a stream, or a whole answer of a provider that doesn't stream.
    fn take(&mut self, piece: &Value, sink: &mut (dyn DeltaSink + Send)) -> Result<Progress, PieceError>;

    /// Whether this is an answer of a provider that doesn't stream.
    fn is_whole(&self, answer: &Value) -> bool;

    /// Whether the provider has said why the answer ends.
    fn is_finished(&self) -> bool;

    /// The whole answer.
    fn finish(self: Box<Self>, sink: &mut (dyn DeltaSink + Send)) -> ModelAnswer;
}

/// Counts what has come, so that an answer without end is noticed.
#[derive(Debug, Default)]
pub(crate) struct Size(usize);

impl Size {
    pub(crate) fn add(&mut self, text: &str) -> Result<(), PieceError> {
        self.0 = self.0.saturating_add(text.len());
        if self.0 > MAX_ANSWER_BYTES { Err(PieceError::TooLarge) } else { Ok(()) }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0
    }
}

pub(crate) fn filled(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
