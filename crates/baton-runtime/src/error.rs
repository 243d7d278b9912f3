use baton_proto::{ErrorBody, ErrorCode, EventError};
use baton_store::{Decision, StoreError};

/// Why the hub can't go on.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Data that this version doesn't understand; it is left as it is (O6).
    #[error("Stored data can't be used: {0}")]
    Unreadable(#[from] EventError),
    #[error("The operating system gives no randomness. Nothing safe can be done without it.")]
    NoRandomness,
    #[error("The folder of uploads can't be used: {0}. Check its permissions and its disk.")]
    Uploads(#[from] std::io::Error),
}

impl HubError {
    /// Whether the same may succeed after a pause.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.decision() == Decision::Retry)
    }
}

/// What an end is told when the store or stored data fails.
pub(crate) fn told(error: &HubError) -> ErrorBody {
    match error {
        HubError::Store(StoreError::Full) => {
            ErrorBody::new(ErrorCode::StorageFailed, "The hub's disk is full; nothing was accepted.", "Free some space and send it again.")
        }
        HubError::Store(StoreError::Closed) => {
            ErrorBody::new(ErrorCode::ShuttingDown, "The hub is stopping.", "Send it again in a moment.")
        }
        HubError::Store(error) => {
            tracing::error!(%error, "the store failed");
            ErrorBody::new(
                ErrorCode::StorageFailed,
                "The hub can't write to its store; nothing was accepted.",
                "Look at the hub's log; restart it when the disk is well.",
            )
        }
        HubError::Unreadable(error) => ErrorBody::new(
            ErrorCode::UnsupportedVersion,
            format!("This session can't be read: {error}."),
            "Run the version of Baton that wrote it.",
        ),
        HubError::Uploads(error) => {
            tracing::error!(%error, "the folder of uploads failed");
            ErrorBody::new(ErrorCode::StorageFailed, "The hub can't use its folder of uploads.", "Look at the hub's log.")
        }
        HubError::NoRandomness => {
            ErrorBody::new(ErrorCode::Internal, "The hub's machine gives no randomness.", "Look at the hub's machine.")
        }
    }
}
