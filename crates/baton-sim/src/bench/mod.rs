//! Measurements, each with its yardstick taken in the same run (docs: "How fast, and how it is measured"). One JSON object a line goes to
//! standard output; what is for people goes to standard error.

mod cut;
pub mod fanout;
pub mod faults;
pub mod hub_process;
pub mod list;
mod logs;
pub mod open;
pub mod reconnect;
pub mod search;
pub mod steps;
mod timed;

use anyhow::Result;
use baton_proto::{Capabilities, ClientType, InvitationClaim, Trust};
use baton_runtime::{Hub, HubConfig, Identity};
use baton_store::{SqliteStore, Store};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// One measured figure.
#[derive(Clone, Debug)]
pub struct Figure {
    pub bench: &'static str,
    pub figure: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub n: usize,
    /// Milliseconds.
    pub p50: f64,
    /// Milliseconds.
    pub p99: f64,
    pub conditions: Value,
    pub baseline: Value,
}

impl Figure {
    /// The line that is printed.
    pub fn line(&self) -> String {
        json!({
            "bench": self.bench, "figure": self.figure, "value": self.value, "unit": self.unit, "n": self.n, "p50": self.p50, "p99": self.p99,
            "conditions": self.conditions, "baseline": self.baseline, "load": load(),
        })
        .to_string()
    }
}

/// The machine's load at the moment, since both cores being busy changes every figure.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The value below which that share of the sorted samples lies.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index within the samples")]
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let index = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// A figure with three digits after the point, which is more than any of them deserves.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A hub on a data directory, with its store and a trusted terminal of its first user; both are made where they are missing.
async fn opened(data: &Path) -> Result<(Arc<SqliteStore>, Arc<Hub>, Identity)> {
    let store = SqliteStore::open(data)?;
    let hub = Hub::open(Arc::clone(&store) as Arc<dyn Store>, HubConfig::new("bench", None)).await?;
    let who = owner(&hub).await?;
    Ok((store, hub, who))
}

/// A trusted terminal of the hub's first user.
async fn owner(hub: &Arc<Hub>) -> Result<Identity> {
    let user = match hub.users().first() {
        Some((user, _)) => *user,
        None => hub.create_user("bench").await?,
    };
    let invitation = hub.invite(user, None, Trust::Trusted).await?;
    let claim = InvitationClaim {
        secret: invitation.secret,
        name: "bench".to_owned(),
        client_type: ClientType::Cli,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let credentials = hub.claim_invitation(std::net::Ipv4Addr::LOCALHOST.into(), &claim).await?;
    Ok(Identity { user_id: credentials.user_id, device_id: credentials.device_id })
}
