use crate::prerequisites::{self, TESTS};
use crate::root::Root;
use crate::{tools, types, web};
use anyhow::Result;
use std::time::Instant;

/// Prepares what the tests need and runs every check and test, the quick ones first.
pub(crate) fn everything(root: &Root) -> Result<()> {
    let started = Instant::now();
    prerequisites::provide(root, TESTS)?;
    tools::cargo(root, "fmt --all --check")?;
    web::build(root)?;
    types::check(root)?;
    lint(root)?;
    // With all targets, so that libraries are built once, with the features that the tests ask for too.
    tools::cargo(root, "build --workspace --all-targets")?;
    // The client's tests talk to the hub that was just built.
    web::check(root)?;
    test(root, "")?;
    dependencies(root)?;
    eprintln!("All checks and tests passed in {} s.", started.elapsed().as_secs());
    Ok(())
}

/// The checks and unit tests of the Rust crates.
pub(crate) fn fast(root: &Root) -> Result<()> {
    tools::cargo(root, "fmt --all --check")?;
    lint(root)?;
    test(root, "--lib --bins")?;
    eprintln!("The checks and unit tests passed; integration tests, browser tests and the console were left out (--fast).");
    Ok(())
}

fn lint(root: &Root) -> Result<()> {
    tools::cargo(root, "clippy --workspace --all-targets -- -D warnings")
}

/// Runs the tests, each in a process of its own where cargo-nextest is at hand.
fn test(root: &Root, targets: &str) -> Result<()> {
    let has_nextest = tools::find("cargo-nextest").is_some();
    let line = if has_nextest { "nextest run --workspace --no-fail-fast" } else { "test --workspace --no-fail-fast" };
    let mut command = tools::command(root, &tools::cargo_program(), line.split_whitespace().chain(targets.split_whitespace()));
    command.env("BATON_BIN", root.debug_binary("baton"));
    tools::run(command)?;
    if has_nextest && targets.is_empty() {
        tools::cargo(root, "test --workspace --doc --quiet")?;
    }
    Ok(())
}

/// Licences, sources and doubled versions of what is depended upon. Known vulnerabilities are looked up in CI with network.
fn dependencies(root: &Root) -> Result<()> {
    if tools::find("cargo-deny").is_none() {
        eprintln!("Not checked: licences and sources of dependencies (cargo-deny is not installed).");
        return Ok(());
    }
    tools::cargo(root, "deny --offline check licenses bans sources")
}
