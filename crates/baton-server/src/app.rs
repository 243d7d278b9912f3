use crate::assets::Assets;
use crate::config::{ServerConfig, ServerLimits};
use crate::cookie::Cookie;
use crate::error::ServerError;
use crate::hosts::{Hosts, Scheme};
use crate::proxies::Network;
use crate::tls::Tls;
use baton_proto::Digest;
use baton_runtime::Hub;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// Blobs that are sent at once.
const BLOBS_AT_ONCE: usize = 8;

/// What every route has at hand.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) hub: Arc<Hub>,
    pub(crate) hosts: Hosts,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) assets: Assets,
    pub(crate) trusted_proxies: Vec<Network>,
    /// The cookie that browsers keep their token in.
    pub(crate) cookie: Cookie,
    /// Of the token that may add users, so that comparing it tells nothing by its time.
    pub(crate) admin: Option<Digest>,
    pub(crate) limits: ServerLimits,
    /// Blobs that are being sent; each is in memory as a whole.
    pub(crate) blobs: Arc<Semaphore>,
    /// Files of workspaces that are fetched from devices and handed over at once; a device may be slow, and blobs don't wait for it.
    pub(crate) files: Arc<Semaphore>,
    /// Turns true when the server is to stop. Each connection holds a receiver, so that the last one's end is seen too.
    pub(crate) stopping: watch::Sender<bool>,
}

impl App {
    pub(crate) fn new(hub: Arc<Hub>, config: &ServerConfig, listening: SocketAddr) -> Result<Self, ServerError> {
        let scheme = if config.tls.is_some() { Scheme::Https } else { Scheme::Http };
        let hosts = Hosts::new(scheme, listening, &config.allowed_hosts, config.public_url.as_deref())?;
        let cookie = Cookie::of(&hub, hosts.secure());
        Ok(Self(Arc::new(Parts {
            hub,
            hosts,
            tls: config.tls.clone(),
            assets: config.assets,
            trusted_proxies: config.trusted_proxies.clone(),
            cookie,
            admin: config.admin_token.as_ref().map(|token| Digest::of_bytes(token.as_bytes())),
            limits: config.limits,
            blobs: Arc::new(Semaphore::new(BLOBS_AT_ONCE)),
            files: Arc::new(Semaphore::new(BLOBS_AT_ONCE)),
            stopping: watch::channel(false).0,
        })))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Resolves when the server is to stop.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the server; if it is gone, so is the server.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
