//! Whether the store may still be believed.

use crate::error::StoreError;
use std::sync::OnceLock;

/// The first reason for which the store came to its end. There is no way back but to open it again.
#[derive(Debug, Default)]
pub(super) struct Health {
    end: OnceLock<StoreError>,
}

impl Health {
    /// The error that every call gets from now on, if the store has come to its end.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.end.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends it because what is on the disk is unknown. Returns the error to answer with.
    pub(super) fn poison(&self, reason: &str) -> StoreError {
        self.end.get_or_init(|| StoreError::Poisoned(reason.to_owned())).clone()
    }

    /// Ends it because its owner wants so.
    pub(super) fn close(&self) {
        let _ = self.end.set(StoreError::Closed);
    }
}
