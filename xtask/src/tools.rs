//! Running other programs: each is shown before it runs, and named when it fails.

use crate::root::Root;
use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A program that runs in the repository's root.
pub(crate) fn command<S: AsRef<OsStr>>(root: &Root, program: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root.path()).args(arguments);
    command
}

/// Runs it to its end.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let line = line(&command);
    eprintln!("$ {line}");
    let status = command.status().with_context(|| format!("can't start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status}); what it printed above says why");
    }
    Ok(())
}

/// Runs cargo, with arguments separated by spaces.
pub(crate) fn cargo(root: &Root, arguments: &str) -> Result<()> {
    run(command(root, &cargo_program(), arguments.split_whitespace()))
}

/// The cargo that runs this program, so that both are of one toolchain.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Whether it ends well; what it prints is nobody's business.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Where a program lies on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

/// The command as one would type it.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
