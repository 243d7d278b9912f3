use std::io;
use std::net::SocketAddr;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{address} is in use already, perhaps by another Baton. Stop that one, or listen on another port.")]
    InUse { address: SocketAddr },
    #[error("This user may not listen on {address}. Choose a port from 1024 on.")]
    NotAllowed { address: SocketAddr },
    #[error("{address} is not an address of this machine. Listen on one that is, or on 127.0.0.1.")]
    NotHere { address: SocketAddr },
    #[error("Listening on {address} failed: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("'{given}' can't be the public URL. It is a scheme, a host and perhaps a port, such as https://baton.example.")]
    PublicUrl { given: String },
    #[error("'{given}' is not a host name or an address. Name hosts without scheme, port and path, such as hub.lan.")]
    AllowedHost { given: String },
}

impl ServerError {
    pub(crate) fn listening(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::PermissionDenied => Self::NotAllowed { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            _ => Self::Listen { address, source },
        }
    }
}
