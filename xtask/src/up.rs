use crate::prerequisites::{self, CONSOLE, START};
use crate::root::Root;
use crate::{tools, web};
use anyhow::Result;
use std::process::Command;

/// Builds what has changed and becomes `baton up`, with the arguments passed on.
pub(crate) fn up(root: &Root, arguments: &[String]) -> Result<()> {
    prerequisites::require(START)?;
    prerequisites::mention_sandbox();
    web::build(root)?;
    tools::cargo(root, "build --package baton --bin baton")?;
    let mut baton = Command::new(root.debug_binary("baton"));
    baton.arg("up").args(arguments);
    become_it(baton)
}

/// The binary that one installs, with the console in it.
pub(crate) fn build_release(root: &Root) -> Result<()> {
    prerequisites::require(CONSOLE)?;
    web::build(root)?;
    tools::cargo(root, "build --release --package baton --bin baton")?;
    eprintln!("Built {}", root.release_binary("baton").display());
    Ok(())
}

/// Takes this process's place, in the directory that it was started from, so that an interrupt reaches Baton once and
/// nobody stands between it and the terminal.
#[cfg(unix)]
fn become_it(mut command: Command) -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    Err(anyhow::Error::new(command.exec()).context("can't start baton"))
}

#[cfg(not(unix))]
fn become_it(command: Command) -> Result<()> {
    tools::run(command)
}
