use crate::root::Root;
use crate::tools;
use anyhow::{Result, bail};

/// Runs one bench as a release build, or lists them. Figures go to standard output, one JSON object a line; people's text to
/// standard error.
pub(crate) fn bench(root: &Root, arguments: &[String]) -> Result<()> {
    let sources = ["crates/baton-sim/src/bin/bench.rs", "crates/baton-sim/src/bin/bench/main.rs"];
    if !sources.iter().any(|source| root.join(source).is_file()) {
        bail!("there are no benches yet: none of {} exists", sources.join(", "));
    }
    let line = "run --quiet --release --package baton-sim --bin bench --";
    let words = line.split_whitespace().map(str::to_owned).chain(arguments.iter().cloned());
    tools::run(tools::command(root, &tools::cargo_program(), words))
}
