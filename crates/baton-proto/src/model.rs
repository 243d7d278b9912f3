use crate::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// One request to a model, in no provider's dialect (R3). Built by the core, spoken by `baton-model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Rules and state; the first thing the model reads.
    pub system: String,
    pub messages: Vec<ModelMessage>,
    pub tools: Vec<ModelTool>,
    /// At most this many tokens in answer, where given.
    pub max_tokens: Option<u32>,
}

/// One message of a request. A call and its result are never parted, and each call has exactly one result, in order (E4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    User {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ModelImage>,
    },
    Agent {
        text: String,
        calls: Vec<ModelToolCall>,
    },
    Result {
        call_id: String,
        tool: String,
        text: String,
        failed: bool,
    },
}

impl ModelMessage {
    /// What a user said, in words alone.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }
}

/// An image that goes with what a user said (R3). The core names it; the runtime reads its bytes just before the request is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelImage {
    pub digest: Digest,
    pub media_type: String,
    #[serde(skip)]
    pub bytes: Arc<[u8]>,
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelToolCall {
    /// The id under which the result goes back. The hub's own, since vendors' ids never reach the wire.
    pub id: String,
    pub name: String,
    /// The arguments as written, which may not be JSON at all.
    pub arguments: String,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelTool {
    pub name: String,
    pub description: String,
    pub parameters: Value,
}

/// What a finished model call said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAnswer {
    pub text: String,
    /// Reasoning that the provider shows, kept for people, never sent back.
    pub thinking: String,
    pub calls: Vec<ModelToolCall>,
    pub usage: Usage,
    /// The answer was cut by a limit of the provider's.
    pub truncated: bool,
}

/// Tokens of one model call, as the provider counted them (R3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// All that the model read, whether the provider kept it from before or not.
    pub input_tokens: u64,
    /// How many of these the provider had kept from an earlier request, which costs less.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    pub output_tokens: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Whether nothing was used yet.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub const fn is_nothing(&self) -> bool {
        self.input_tokens == 0 && self.output_tokens == 0
    }

    /// All tokens that count towards a budget.
    pub const fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    pub const fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
    }
}

/// How a model call failed, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// What happened, without the key and without the whole body.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The provider asked to wait this long, in milliseconds.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Nothing answers at the address.
    Unreachable,
    /// No first token in time, or the stream fell silent.
    TimedOut,
    /// 401 or 403.
    Unauthorized,
    /// 429.
    RateLimited,
    /// 5xx, or a stream that ended in the middle.
    Unavailable,
    /// 400, 404, 413, 422: the same request would fail again.
    Refused,
    /// It answered what nobody can read.
    Malformed,
    /// It stopped because it was asked to.
    Cancelled,
}

impl ModelErrorKind {
    /// Whether trying again with the same request may help.
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::RateLimited | Self::Unavailable | Self::Malformed)
    }
}
