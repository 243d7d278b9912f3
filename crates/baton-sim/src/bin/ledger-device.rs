//! A test device of its own process, whose tools act on the outside ledger: it can be killed like any other.
//!
//! `ledger-device --hub URL --data DIR --ledger URL [--invite SECRET]`; the invitation is needed the first time.

use anyhow::{Context as _, Result};
use baton_client::{Http, HubUrl, Timing, Token};
use baton_device::device::{Device, DeviceConfig};
use baton_device::tool::{CancelSignal, Toolbox};
use baton_proto::{Capabilities, ClientType, InvitationClaim, Workspace};
use baton_sim::ledger_tools::RecordEntry;
use clap::Parser;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Parser)]
struct Args {
    #[arg(long)]
    hub: HubUrl,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    ledger: String,
    #[arg(long)]
    invite: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.data)?;
    let token = token(&args).await?;
    let mut toolbox = Toolbox::default();
    for lookup in [true, false] {
        toolbox.insert(Arc::new(RecordEntry::new(&args.ledger, reqwest::Client::builder().no_proxy().build()?, lookup)))?;
    }
    let hub = args.hub.clone();
    println!("ready");
    let config = DeviceConfig {
        hub: Arc::new(move || Ok(hub.clone())),
        token,
        data_dir: args.data,
        toolbox: Arc::new(toolbox),
        workspaces: Arc::new(Vec::<Workspace>::new()),
        capabilities: Capabilities::default(),
        name: "ledger".to_owned(),
        timing: Timing::default(),
        shutdown: CancelSignal::never(),
    };
    Ok(Device::run(config).await?)
}

/// The device's token: kept from an earlier start, or claimed with the invitation.
async fn token(args: &Args) -> Result<Token> {
    // Made first, since it also chooses the cryptography that every client of this process uses.
    let http = Http::new(args.hub.clone(), None)?;
    let path = args.data.join("token");
    if let Ok(text) = std::fs::read_to_string(&path) {
        return Ok(Token::new(&text)?);
    }
    let claim = InvitationClaim {
        secret: args.invite.clone().context("--invite is needed the first time")?,
        name: "ledger".to_owned(),
        client_type: ClientType::Device,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let credentials = http.claim_invitation(&claim).await?;
    std::fs::write(&path, &credentials.token)?;
    Ok(Token::new(&credentials.token)?)
}
