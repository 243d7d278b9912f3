//! What a workspace looks like at a moment (E7). Never fails, and is bounded in time and size.

use super::walk::{Bounds, Derived, Kind, Listing};
use super::{MAX_FILE_BYTES, RelativePath, Repository, WorkspaceRoot};
use crate::sandbox::{Access, Ending, Job, SandboxMode};
use crate::tool::{CancelSignal, ProgressSink};
use baton_proto::{Baseline, Digest};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Changed files whose content goes into the digest; beyond it, size and time of change have to do.
const MAX_DIGESTED: usize = 500;
const WITHIN: Duration = Duration::from_secs(5);

impl WorkspaceRoot {
    /// Path, branch and commit read from files; uncommitted changes as git lists them in the sandbox, where nothing that the
    /// repository configures reaches anything (S9). Without git or sandbox, a digest of the listing.
    pub async fn baseline(&self) -> Baseline {
        let repository = Repository::find(&self.path);
        let head = repository.head(&self.path);
        let known = !matches!(repository, Repository::None | Repository::Unconfirmed);
        let status = if known && self.sandbox.mode() == SandboxMode::Bubblewrap { self.status().await } else { None };
        let dirty = match status {
            Some(status) if status.is_empty() => None,
            Some(status) => Some(self.digest_of_changes(&status)),
            None => Some(Digest::of_bytes(lines(&self.listing(Derived::NameOnly)).as_bytes())),
        };
        Baseline { path: self.path.to_string_lossy().into_owned(), branch: head.branch, commit: head.commit, dirty }
    }

    /// Files and their times, bounded, for comparing before with after.
    pub(crate) fn listing(&self, derived: Derived) -> Listing {
        let bounds = Bounds { depth: 32, entries: 20_000, time: WITHIN, derived };
        self.files.walk(&RelativePath::root(), bounds).unwrap_or_default()
    }

    async fn status(&self) -> Option<Vec<u8>> {
        let arguments = ["git", "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"];
        let job = Job {
            argv: arguments.map(str::to_owned).to_vec(),
            directory: self.path.clone(),
            access: Access::ReadOnly,
            wall: WITHIN,
            cancel: CancelSignal::never(),
            progress: ProgressSink::nowhere(),
        };
        let finished = self.sandbox.run(job).await.ok()?;
        let whole = finished.captured.bytes == (finished.captured.head.len() + finished.captured.tail.len()) as u64;
        (finished.ending == Ending::Exited(0) && whole).then(|| [finished.captured.head, finished.captured.tail].concat())
    }

    fn digest_of_changes(&self, status: &[u8]) -> Digest {
        let mut text = String::from_utf8_lossy(status).into_owned();
        for (index, path) in changed_paths(status).into_iter().enumerate() {
            let content = if index < MAX_DIGESTED { self.files.read(&path, MAX_FILE_BYTES).ok().flatten() } else { None };
            let _ = match content {
                Some(content) => writeln!(text, "{path} {}", content.digest),
                None => writeln!(text, "{path} {}", size_and_time(&self.path.join(path.as_str()))),
            };
        }
        Digest::of_bytes(text.as_bytes())
    }
}

/// The paths of `git status --porcelain=v2 -z`: the ninth field of a changed entry, the eleventh of an unmerged one, the second of others.
fn changed_paths(status: &[u8]) -> Vec<RelativePath> {
    let entries = status.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let paths = entries.filter_map(|entry| match entry.as_bytes().first()? {
        b'1' => entry.splitn(9, ' ').nth(8),
        b'u' => entry.splitn(11, ' ').nth(10),
        b'?' => entry.strip_prefix("? "),
        _ => None,
    });
    paths.filter_map(|path| RelativePath::parse(path).ok()).collect()
}

fn size_and_time(path: &Path) -> String {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => format!("{} {:?}", metadata.len(), metadata.modified().ok()),
        Err(_) => "absent".to_owned(),
    }
}

fn lines(listing: &Listing) -> String {
    let mut text = String::new();
    for entry in &listing.entries {
        // A directory's time changes with temporary files that come and go in it.
        let modified = if entry.kind == Kind::Directory { 0 } else { entry.modified };
        let size = if entry.kind == Kind::Directory { 0 } else { entry.size };
        let _ = writeln!(text, "{} {size} {modified}", entry.path);
    }
    text
}
