use crate::assets::Assets;
use crate::proxies::Network;
use crate::tls::Tls;
use baton_proto::{HEARTBEAT_S, LEASE_S};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a server is told besides its hub and its socket.
#[derive(Clone)]
pub struct ServerConfig {
    /// Names and addresses under which the hub may be called besides loopback's and the one it listens on (S2). No ports.
    pub allowed_hosts: Vec<String>,
    /// The address that browsers use when something stands before the hub, such as `https://baton.example`.
    pub public_url: Option<String>,
    /// What the hub proves itself with where it speaks HTTPS itself.
    pub tls: Option<Arc<Tls>>,
    /// The console.
    pub assets: Assets,
    /// What stands before the hub and appends to `X-Forwarded-For` who is calling. From anybody else the header doesn't count (S3).
    pub trusted_proxies: Vec<Network>,
    /// Lets the owner of the hub's data directory add users; `None`: nobody may.
    pub admin_token: Option<String>,
    pub limits: ServerLimits,
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("allowed_hosts", &self.allowed_hosts)
            .field("public_url", &self.public_url)
            .finish_non_exhaustive()
    }
}

impl ServerConfig {
    pub fn new(assets: Assets) -> Self {
        Self {
            allowed_hosts: Vec::new(),
            public_url: None,
            tls: None,
            assets,
            trusted_proxies: Vec::new(),
            admin_token: None,
            limits: ServerLimits::default(),
        }
    }
}

/// How long the server waits for whom, and how many it serves (S8).
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// For the headers of a request, and between two requests of one connection.
    pub headers: Duration,
    /// For a peer's first byte and its part of the TLS handshake.
    pub handshake: Duration,
    /// For a request's body.
    pub body: Duration,
    /// For the first frame of a WebSocket.
    pub hello: Duration,
    /// Between two pings to a WebSocket.
    pub ping: Duration,
    /// Between two comments to whoever follows by server-sent events.
    pub comment: Duration,
    /// Without any frame from a WebSocket, before it counts as dead.
    pub silence: Duration,
    /// Without progress in writing to a peer, before it is given up.
    pub stalled: Duration,
    /// For connections to end after the word to stop.
    pub drain: Duration,
    /// Connections at once; more wait until one of these ends.
    pub connections: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            body: Duration::from_secs(30),
            hello: Duration::from_secs(10),
            ping: Duration::from_secs(HEARTBEAT_S),
            comment: Duration::from_secs(15),
            silence: Duration::from_secs(LEASE_S),
            stalled: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            connections: 16_384,
        }
    }
}
