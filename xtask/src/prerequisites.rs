//! What has to be on the machine before anything can be built or tested, and how one gets it.

use crate::root::Root;
use crate::tools::{self, find};
use anyhow::{Result, bail};
use std::process::Command;

/// The oldest Node that the console's tools run on, as major and minor version.
const NODE: (u32, u32) = (20, 19);

/// Something that isn't built here.
#[derive(Debug)]
pub(crate) struct Prerequisite {
    /// What is looked for on the search path; any of them will do. Empty: only the package tells.
    programs: &'static [&'static str],
    /// The package that brings it on Debian and Ubuntu.
    package: &'static str,
    why: &'static str,
    linux_only: bool,
}

const NODE_JS: Prerequisite =
    Prerequisite { programs: &["node"], package: "nodejs", why: "builds the console (Node 20.19 or newer)", linux_only: false };
const NPM: Prerequisite =
    Prerequisite { programs: &["npm"], package: "npm", why: "installs what the console is built with", linux_only: false };
const GIT: Prerequisite =
    Prerequisite { programs: &["git"], package: "git", why: "tells a workspace's branch, commit and changes", linux_only: false };
const BUBBLEWRAP: Prerequisite =
    Prerequisite { programs: &["bwrap"], package: "bubblewrap", why: "is the sandbox that commands run in", linux_only: true };
const CHROMIUM: Prerequisite = Prerequisite {
    programs: &["chromium", "chromium-browser", "google-chrome"],
    package: "chromium",
    why: "is the browser that the console is tested in",
    linux_only: false,
};
const SQLITE: Prerequisite =
    Prerequisite { programs: &["sqlite3"], package: "sqlite3", why: "reads a hub's database from outside", linux_only: false };
const FONTS: Prerequisite =
    Prerequisite { programs: &[], package: "fonts-noto-cjk", why: "shows Chinese in the tested browser", linux_only: true };

/// What building the console takes.
pub(crate) const CONSOLE: &[Prerequisite] = &[NODE_JS, NPM];
/// What starting Baton takes, the sandbox aside.
pub(crate) const START: &[Prerequisite] = &[NODE_JS, NPM, GIT];
/// What the tests take.
pub(crate) const TESTS: &[Prerequisite] = &[NODE_JS, NPM, GIT, BUBBLEWRAP, CHROMIUM, SQLITE, FONTS];

impl Prerequisite {
    fn is_here(&self) -> bool {
        if self.linux_only && !cfg!(target_os = "linux") {
            return true;
        }
        if self.programs.is_empty() {
            return find("dpkg-query").is_none() || is_installed(self.package);
        }
        self.programs.iter().any(|program| find(program).is_some())
    }
}

/// Stops when something is missing, naming everything that is.
pub(crate) fn require(wanted: &[Prerequisite]) -> Result<()> {
    let missing: Vec<&Prerequisite> = wanted.iter().filter(|it| !it.is_here()).collect();
    if !missing.is_empty() {
        bail!("{}", describe(&missing));
    }
    if wanted.iter().any(|it| it.programs == NODE_JS.programs) {
        check_node()?;
    }
    Ok(())
}

/// Says what won't work without the sandbox. Everything else does, so this doesn't stop anybody.
pub(crate) fn mention_sandbox() {
    if !BUBBLEWRAP.is_here() {
        eprintln!(
            "Note: bubblewrap is missing, so there is no sandbox: the agent can read and edit files, but commands are refused. \
             To have it: {}",
            install_line(&["bubblewrap"])
        );
    }
}

/// Installs what is missing where that is ours to do: as root on Debian and its kin. Elsewhere it names it and stops.
pub(crate) fn provide(root: &Root, wanted: &[Prerequisite]) -> Result<()> {
    let missing: Vec<&Prerequisite> = wanted.iter().filter(|it| !it.is_here()).collect();
    if !missing.is_empty() && find("apt-get").is_some() && is_root() {
        let packages: Vec<&str> = missing.iter().map(|it| it.package).collect();
        eprintln!("Installing what the tests need: {}", packages.join(", "));
        install(root, &packages)?;
    }
    require(wanted)?;
    for component in ["clippy", "fmt"] {
        provide_component(root, component)?;
    }
    Ok(())
}

/// Installs packages. The list of packages is fetched only when the one at hand doesn't do: that is quicker, and works offline.
fn install(root: &Root, packages: &[&str]) -> Result<()> {
    let apt = |arguments: &[&str]| {
        let mut command = tools::command(root, "apt-get", arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let arguments = [&["install", "--yes", "--quiet", "--no-install-recommends"], packages].concat();
    if tools::run(apt(&arguments)).is_ok() {
        return Ok(());
    }
    tools::run(apt(&["update", "--quiet"]))?;
    tools::run(apt(&arguments))
}

/// `cargo clippy` and `cargo fmt` are parts of the toolchain that small installations leave out.
fn provide_component(root: &Root, subcommand: &str) -> Result<()> {
    let is_there = || tools::succeeds(tools::command(root, &tools::cargo_program(), [subcommand, "--version"]));
    let component = if subcommand == "fmt" { "rustfmt" } else { subcommand };
    if is_there() {
        return Ok(());
    }
    if find("rustup").is_some() {
        tools::run(tools::command(root, "rustup", ["component", "add", component]))?;
    }
    if !is_there() {
        bail!("`cargo {subcommand}` is missing; install it with: rustup component add {component}");
    }
    Ok(())
}

fn check_node() -> Result<()> {
    let output = Command::new("node").arg("--version").output()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if parse_node(&version).is_none_or(|found| found < NODE) {
        bail!(
            "Node is {version}, and {}.{} or newer is needed; Debian 12's own package is older. See https://nodejs.org/en/download",
            NODE.0,
            NODE.1
        );
    }
    Ok(())
}

/// Major and minor version of what `node --version` prints.
fn parse_node(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn describe(missing: &[&Prerequisite]) -> String {
    let reasons: Vec<String> = missing.iter().map(|it| format!("  {}: {}", it.programs.first().unwrap_or(&it.package), it.why)).collect();
    let packages: Vec<&str> = missing.iter().map(|it| it.package).collect();
    format!("something is missing on this machine:\n{}\nInstall it and try again: {}", reasons.join("\n"), install_line(&packages))
}

fn install_line(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    if find("apt-get").is_some() {
        let sudo = if is_root() { "" } else { "sudo " };
        format!("{sudo}apt-get install {packages}")
    } else {
        format!("with your system's package manager (on Debian the packages are called {packages})")
    }
}

fn is_installed(package: &str) -> bool {
    let output = Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    output.is_ok_and(|output| output.stdout == b"installed")
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_are_read_and_compared() {
        assert_eq!(parse_node("v20.19.4"), Some((20, 19)));
        assert!(parse_node("v18.20.0").is_some_and(|found| found < NODE));
        assert!(parse_node("v20.9.0").is_some_and(|found| found < NODE));
        assert!(parse_node("v24.1.0").is_some_and(|found| found >= NODE));
        assert_eq!(parse_node("20.19"), None);
    }

    #[test]
    fn everything_that_is_missing_is_named_with_its_reason_and_package() {
        let text = describe(&[&NODE_JS, &FONTS]);
        for part in ["node: builds the console", "fonts-noto-cjk: shows Chinese", "nodejs fonts-noto-cjk"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
