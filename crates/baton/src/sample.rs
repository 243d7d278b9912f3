//! A small project to try Baton on, made in the data directory when no workspace is named.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FILES: [(&str, &str); 4] = [
    ("index.html", include_str!("../sample/index.html")),
    ("tables.html", include_str!("../sample/tables.html")),
    ("styles.css", include_str!("../sample/styles.css")),
    ("README.md", include_str!("../sample/README.md")),
];

/// The sample's directory; made the first time, and left as the user and the agent have it from then on.
pub(crate) fn prepare(data: &Path) -> Result<PathBuf, Failure> {
    let directory = data.join("sample-project");
    if directory.exists() {
        return Ok(directory);
    }
    // Made beside its place and moved there whole, so that a half-made one is never taken for the project.
    let fresh = data.join(format!("sample-project.{}", std::process::id()));
    let failed = |error: std::io::Error| {
        Failure::failed(format!("The sample project can't be made: {error}."), "Name a directory of your own with --workspace.")
    };
    std::fs::create_dir_all(&fresh).map_err(failed)?;
    for (name, text) in FILES {
        std::fs::write(fresh.join(name), text).map_err(failed)?;
    }
    commit(&fresh);
    std::fs::rename(&fresh, &directory).map_err(failed)?;
    Ok(directory)
}

/// The project gets a first commit where git is installed; without it, it works too.
fn commit(directory: &Path) {
    let git = |arguments: &[&str]| {
        Command::new("git")
            .arg("-C")
            .arg(directory)
            .args([
                "-c",
                "user.name=Baton",
                "-c",
                "user.email=baton@localhost",
                "-c",
                "init.defaultBranch=main",
                "-c",
                "core.hooksPath=/dev/null",
            ])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let _ = git(&["init", "--quiet"]) && git(&["add", "."]) && git(&["commit", "--quiet", "--message", "A small project to try Baton on"]);
}
