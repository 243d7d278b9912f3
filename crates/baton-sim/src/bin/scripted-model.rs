//! The scripted model as a program, for tests that drive a hub in a separate process and for trying Baton by hand.

use anyhow::Context as _;
use baton_sim::scripted_model::{Script, ScriptedModel};
use clap::Parser;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A model server that answers from a script.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The rules, as a JSON list. Without it every request is answered as unmatched until rules are posted.
    #[arg(long)]
    script: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let script = match &arguments.script {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Script::parse(&text).with_context(|| format!("cannot understand {}", path.display()))?
        }
        None => Script::default(),
    };
    let model = ScriptedModel::listen(arguments.listen, script).await?;
    // The first line on standard output is the base URL, so that whoever asked for port 0 learns the port.
    println!("{}", model.url());
    model.run().await
}
