use crate::tool::Tool;
use baton_client::{ClientError, Http, Token, UrlSource};
use baton_proto::{Digest, Outcome, ToolResult, redact};
use std::time::Duration;

/// A result is kept whole on the hub up to this size, in bytes.
const MAX_WHOLE_BYTES: u64 = 8 * 1024 * 1024;
/// For the hub to take it; a result isn't held back for longer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Brings what is too long for a result to the hub, where ends read it by its digest (E9).
pub(crate) struct Whole {
    hub: UrlSource,
    token: Token,
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Whole").finish_non_exhaustive()
    }
}

impl Whole {
    pub(crate) const fn new(hub: UrlSource, token: Token) -> Self {
        Self { hub, token }
    }

    /// The same outcome, with the name of the blob that its whole output became. Without a hub it keeps the digest of what was
    /// produced, which stays on the device.
    pub(crate) async fn keep(&self, tool: &dyn Tool, mut outcome: Outcome) -> Outcome {
        if let Some(result) = result_of(&mut outcome).filter(|result| result.omitted > 0 && result.bytes <= MAX_WHOLE_BYTES)
            && let Some(digest) = &result.digest
            && let Some(path) = tool.whole(digest)
        {
            match tokio::time::timeout(PATIENCE, self.upload(&path)).await {
                Ok(Ok(blob)) => result.digest = Some(blob),
                Ok(Err(error)) => tracing::warn!(%error, "the whole of a long result stays on the device"),
                Err(_) => tracing::warn!("the whole of a long result stays on the device: the hub took it too slowly"),
            }
        }
        outcome
    }

    async fn upload(&self, path: &std::path::Path) -> Result<Digest, ClientError> {
        let unread = |error: std::io::Error| ClientError::Protocol(format!("the output can't be read back: {error}"));
        let printed = tokio::fs::read(path).await.map_err(unread)?;
        // What isn't shown in the result isn't shown in the whole either.
        let shown = redact(&String::from_utf8_lossy(&printed));
        let hub = (self.hub)().map_err(ClientError::Unreachable)?;
        Http::new(hub, Some(self.token.clone()))?.upload(shown.as_bytes()).await
    }
}

fn result_of(outcome: &mut Outcome) -> Option<&mut ToolResult> {
    match outcome {
        Outcome::Succeeded(result) => Some(result),
        Outcome::Failed { result, .. } | Outcome::Cancelled { result } => result.as_mut(),
        Outcome::Interrupted { .. } => None,
    }
}
