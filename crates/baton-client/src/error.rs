use baton_proto::{ErrorBody, ErrorCode};

/// Why a request to the hub had no good answer. Its text says what happened and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Nothing answered, or not in time. Whether the hub took the request in isn't known, so only repeat what may be repeated.
    #[error("The hub can't be reached: {0}. Check that it runs and that its address is right; the request can be repeated.")]
    Unreachable(String),
    /// Somebody answered who couldn't prove to be the hub. Nothing was said to them.
    #[error(
        "Whoever answers at the hub's address isn't the hub that is known here, or has a certificate that nothing here vouches for: {0}. \
         Compare the fingerprint that `baton up --tls` prints, and name it with --fingerprint when you pair; or name the authority's file with --ca."
    )]
    Untrusted(String),
    /// The hub answered that it won't.
    #[error("{0}")]
    Hub(ErrorBody),
    /// Something answered that isn't a hub of this version.
    #[error("The answer isn't one of a Baton hub: {0}. Check the address, and whether hub and client are of the same version.")]
    Protocol(String),
}

impl ClientError {
    /// Whether the same request, with the same operation id, may succeed later.
    pub const fn may_be_repeated(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Hub(error) => !error.code.is_final() && !matches!(error.code, ErrorCode::Unauthenticated),
            Self::Untrusted(_) | Self::Protocol(_) => false,
        }
    }

    /// Whether the hub doesn't know this device, or no longer.
    pub const fn is_unauthenticated(&self) -> bool {
        matches!(self, Self::Hub(error) if matches!(error.code, ErrorCode::Unauthenticated))
    }
}
