//! The console and the TypeScript client: installed, built, checked and tested through npm, and only when something changed.

use crate::root::Root;
use crate::tools;
use anyhow::{Context as _, Result};
use baton_proto::Digest;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What decides which packages are installed.
const LOCKED: &[&str] = &["package.json", "package-lock.json", ".npmrc", "sdk/typescript/package.json", "web/package.json"];
/// What the built console follows from.
const SOURCES: &[&str] = &["package.json", "package-lock.json", "sdk/typescript", "web"];
/// Directories that hold results, not sources.
const RESULTS: &[&str] = &["node_modules", "dist", ".test", "test", "dev"];

/// The digest of what was installed lies with it, so that both vanish together.
const INSTALLED: &str = "node_modules/.baton-installed";
/// Likewise for what was built; beside the console it would be embedded with it.
const BUILT: &str = "node_modules/.baton-built";

/// Installs the packages that the lock file names, without running any script of theirs (S24).
pub(crate) fn install(root: &Root) -> Result<()> {
    let digest = digest(root, LOCKED)?;
    if is_stamped(root, INSTALLED, &digest) {
        return Ok(());
    }
    npm(root, &["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    stamp(root, INSTALLED, &digest)
}

/// Builds the client and the console, unless what is there was built from the same sources.
pub(crate) fn build(root: &Root) -> Result<()> {
    install(root)?;
    let digest = digest(root, SOURCES)?;
    if is_stamped(root, BUILT, &digest) && root.join("web/dist/index.html").is_file() {
        return Ok(());
    }
    npm(root, &["run", "build"])?;
    stamp(root, BUILT, &digest)
}

/// Type checks, and the tests that need no browser; those of the client start the hub that was built before.
pub(crate) fn check(root: &Root) -> Result<()> {
    npm(root, &["run", "check"])?;
    let mut command = tools::command(root, "npm", ["run", "test"]);
    command.env("BATON_BIN", root.debug_binary("baton"));
    tools::run(command)
}

fn npm(root: &Root, arguments: &[&str]) -> Result<()> {
    tools::run(tools::command(root, "npm", arguments))
}

fn is_stamped(root: &Root, stamp: &str, digest: &Digest) -> bool {
    fs::read_to_string(root.join(stamp)).is_ok_and(|found| found == digest.0)
}

fn stamp(root: &Root, stamp: &str, digest: &Digest) -> Result<()> {
    let path = root.join(stamp);
    fs::write(&path, &digest.0).with_context(|| format!("can't write {}", path.display()))
}

/// One digest over the names and contents of all files at or below `paths`.
fn digest(root: &Root, paths: &[&str]) -> Result<Digest> {
    let mut files = Vec::new();
    for path in paths {
        collect(&root.join(path), &mut files)?;
    }
    files.sort();
    let mut listing = String::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("can't read {}", file.display()))?;
        let _ = writeln!(listing, "{} {}", file.display(), Digest::of_bytes(&bytes));
    }
    Ok(Digest::of_bytes(listing.as_bytes()))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).with_context(|| format!("can't read {}", path.display()))?;
    for entry in entries {
        let entry = entry?;
        if !RESULTS.iter().any(|name| entry.file_name() == *name) {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}
