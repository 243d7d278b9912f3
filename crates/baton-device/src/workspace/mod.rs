//! A directory of the user's that tools act in (E7): files opened beneath it, its history, its sandbox, its baseline.

mod baseline;
mod beneath;
mod change;
mod git;
mod names;
mod news;
mod part;
mod path;
mod paths;
mod replace;
mod scan;
mod walk;
mod watch;

pub use beneath::{Beneath, Content, MAX_FILE_BYTES, MAX_RECORDED_BYTES};
pub use git::{Head, Repository};
pub use news::News;
pub use path::RelativePath;
pub use walk::{Bounds, DERIVED, Derived, Entry, Kind, Listing};

pub(crate) use change::{Wanted, history_error, line_counts, now};
pub(crate) use names::shown;
pub(crate) use replace::{changed, changed_here};
pub(crate) use scan::{Found, SCANS_WITHIN, Scan, Stamp};

use crate::history::{History, HistoryError};
use crate::sandbox::{Limits, Sandbox, SandboxMode};
use baton_proto::Digest;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// How a workspace is opened.
#[derive(Clone, Debug)]
pub struct WorkspaceOptions {
    /// The device's own data directory; each workspace gets a directory in it.
    pub data: PathBuf,
    pub sandbox: SandboxMode,
    pub limits: Limits,
}

/// An opened workspace. Opening it starts nothing (S11).
#[derive(Debug)]
pub struct WorkspaceRoot {
    path: PathBuf,
    pub(crate) files: Beneath,
    pub(crate) history: History,
    pub(crate) sandbox: Sandbox,
    /// Held by a call that may change files for as long as it runs: what changes meanwhile is put down to it, and to nobody else.
    pub(crate) turns: Arc<tokio::sync::Mutex<()>>,
    /// Held while the device itself changes or looks at files, within a turn or to find out what became of a call.
    pub(crate) acting: Mutex<()>,
    /// What people look at, kept while its parts are fetched.
    opened: part::Opened,
    /// Names that are offered to whoever begins to write one.
    names: paths::Names,
    /// How the hub knows the workspace.
    told: news::Told,
    /// Hears that something changed.
    watch: watch::Watch,
}

/// Why a directory can't be used as a workspace.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The user named something that isn't there or isn't a directory.
    #[error("'{path}' can't be opened as a workspace: {source}. Name a directory that the device's user may read and write.")]
    Directory { path: PathBuf, source: std::io::Error },
    /// The device's own data would be open to every tool.
    #[error(
        "'{path}' can't be a workspace, since it contains the device's own data in '{data}'. Name a directory below it, or move the data with '--data'."
    )]
    ContainsData { path: PathBuf, data: PathBuf },
    /// The same from within: what the device writes for itself would be the workspace's.
    #[error("'{path}' can't be a workspace, since it is a part of the device's own data in '{data}'. Name a directory outside of it.")]
    InsideData { path: PathBuf, data: PathBuf },
    /// Names that are not UTF-8 can't be told to the hub.
    #[error("'{}' can't be a workspace, since its name is not UTF-8. Rename it.", .0.display())]
    NotUtf8(PathBuf),
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl WorkspaceRoot {
    /// Opens a directory as a workspace, and finishes or clears what an interrupted change left in it.
    pub fn open(path: &Path, options: &WorkspaceOptions) -> Result<Arc<Self>, OpenError> {
        let path = Self::check(path, &options.data)?;
        let Some(name) = path.to_str() else { return Err(OpenError::NotUtf8(path)) };
        let data = options.data.join("workspaces").join(Digest::of_bytes(name.as_bytes()).short());
        std::fs::create_dir_all(&data).map_err(|source| HistoryError::Io { path: data.clone(), source })?;
        let data = data.canonicalize().map_err(|source| HistoryError::Io { path: data.clone(), source })?;
        let files = Beneath::open_root(&path).map_err(|source| OpenError::Directory { path: path.clone(), source })?;
        let history = History::open(&data.join("history"))?;
        let sandbox = Sandbox::new(options.sandbox, options.limits, &path, &data)
            .map_err(|source| HistoryError::Io { path: data.clone(), source })?;
        let root = Arc::new(Self {
            path,
            files,
            history,
            sandbox,
            turns: Arc::default(),
            acting: Mutex::new(()),
            opened: part::Opened::default(),
            names: paths::Names::default(),
            told: news::Told::default(),
            watch: watch::Watch::new(),
        });
        root.settle_interrupted();
        Ok(root)
    }

    /// The directory, absolute and free of links, where it can be the workspace of a device that has its own data at `data`. Writes nothing, and
    /// the data needn't be there yet.
    pub fn check(path: &Path, data: &Path) -> Result<PathBuf, OpenError> {
        let directory_error = |source| OpenError::Directory { path: path.to_owned(), source };
        let found = path.canonicalize().map_err(directory_error)?;
        if !found.is_dir() {
            return Err(directory_error(std::io::ErrorKind::NotADirectory.into()));
        }
        let own = resolved(data).map_err(|source| HistoryError::Io { path: data.to_owned(), source })?;
        if own.starts_with(&found) {
            return Err(OpenError::ContainsData { path: found, data: data.to_owned() });
        }
        if found.starts_with(&own) {
            return Err(OpenError::InsideData { path: found, data: data.to_owned() });
        }
        Ok(found)
    }

    /// Absolute and free of links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

/// The path without links, as far as it is there.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let found = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    Ok(match found {
        Some((ancestor, found)) => path
            .strip_prefix(ancestor)
            .map_or(found.clone(), |rest| if rest.as_os_str().is_empty() { found.clone() } else { found.join(rest) }),
        None => path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_and_the_devices_data_lie_beside_each_other_also_through_links_and_before_the_data_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("work")).unwrap();
        std::os::unix::fs::symlink(&home, home.join("work/home")).unwrap();
        let data = home.join("data/device");
        for made in [false, true] {
            if made {
                std::fs::create_dir_all(data.join("inner")).unwrap();
                assert!(matches!(WorkspaceRoot::check(&data, &data), Err(OpenError::ContainsData { .. })));
                assert!(matches!(WorkspaceRoot::check(&data.join("inner"), &data), Err(OpenError::InsideData { .. })));
            }
            for path in [&home, Path::new("/"), &home.join("work/home")] {
                assert!(matches!(WorkspaceRoot::check(path, &data), Err(OpenError::ContainsData { .. })), "{}", path.display());
            }
            assert_eq!(WorkspaceRoot::check(&home.join("work"), &data).unwrap(), home.join("work"));
            assert_eq!(data.exists(), made, "nothing is written");
        }
        std::fs::write(home.join("file"), "").unwrap();
        for wrong in ["file", "nothing"] {
            assert!(matches!(WorkspaceRoot::check(&home.join(wrong), &data), Err(OpenError::Directory { .. })), "{wrong}");
        }
    }
}
