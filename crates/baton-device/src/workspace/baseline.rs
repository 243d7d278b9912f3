//! What a workspace looks like at a moment (E7). Never fails, and is bounded in time and size.

use super::names::text_of;
use super::walk::{Bounds, Derived, Kind, Listing};
use super::{MAX_FILE_BYTES, RelativePath, Repository, WorkspaceRoot};
use crate::sandbox::{Access, Ending, Job, SandboxMode};
use crate::tool::{CancelSignal, ProgressSink};
use baton_proto::{Baseline, Digest};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Changed files whose content goes into the digest; beyond it, size and time of change have to do.
const MAX_DIGESTED: usize = 500;
const WITHIN: Duration = Duration::from_secs(5);

/// A workspace as it is, with what tells each changed file apart from how it was.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) baseline: Baseline,
    files: BTreeMap<String, String>,
}

impl Look {
    /// Files that are another, or changed in another way, than in an earlier look. Committing a file is such a change.
    pub(super) fn files_that_differ<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a str> {
        let differs = |(path, now): (&'a String, &'a String), other: &'a BTreeMap<String, String>| {
            (other.get(path) != Some(now)).then_some(path.as_str())
        };
        let now = self.files.iter().filter_map(move |file| differs(file, &before.files));
        now.chain(before.files.iter().filter_map(move |file| differs(file, &self.files)))
    }
}

impl WorkspaceRoot {
    pub async fn baseline(&self) -> Baseline {
        self.look().await.baseline
    }

    /// Path, branch and commit read from files; uncommitted changes as git lists them in the sandbox, where nothing that the
    /// repository configures reaches anything (S9). Without git or sandbox, a digest of the listing.
    pub(super) async fn look(&self) -> Look {
        let head = Repository::find(&self.path).head(&self.path);
        let status = if self.git_tells() { self.status().await } else { None };
        let (dirty, files) = match status {
            Some(status) if status.is_empty() => (None, BTreeMap::new()),
            Some(status) => {
                let (digest, files) = self.changes(&status);
                (Some(digest), files)
            }
            None => {
                let listing = self.listing(Derived::NameOnly);
                (Some(Digest::of_bytes(lines(&listing).as_bytes())), described(&listing))
            }
        };
        let baseline = Baseline { path: self.path.to_string_lossy().into_owned(), branch: head.branch, commit: head.commit, dirty };
        Look { baseline, files }
    }

    /// Whether git can be asked about the workspace.
    pub(super) fn git_tells(&self) -> bool {
        let known = !matches!(Repository::find(&self.path), Repository::None | Repository::Unconfirmed);
        known && self.sandbox.mode() == SandboxMode::Bubblewrap
    }

    /// Files and their times, bounded, for comparing before with after.
    pub(crate) fn listing(&self, derived: Derived) -> Listing {
        let bounds = Bounds { depth: 32, entries: 20_000, time: WITHIN, derived };
        self.files.walk(&RelativePath::root(), bounds).unwrap_or_default()
    }

    /// Files that differ between two commits, as far as git tells it in the sandbox: a file that somebody changed and committed at once was
    /// never seen uncommitted.
    pub(super) async fn files_committed(&self, before: &Baseline, after: &Baseline) -> Vec<String> {
        let (Some(old), Some(new)) = (&before.commit, &after.commit) else { return Vec::new() };
        if old == new || self.sandbox.mode() != SandboxMode::Bubblewrap {
            return Vec::new();
        }
        let arguments =
            ["git", "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all", old, new];
        let printed = self.printed(&arguments).await.unwrap_or_default();
        let names = printed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        names.map(text_of).collect()
    }

    async fn status(&self) -> Option<Vec<u8>> {
        self.printed(&["git", "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"]).await
    }

    /// What a command that only reads prints, where it succeeds and can be kept whole.
    pub(super) async fn printed(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let job = Job {
            argv: arguments.iter().map(|&argument| argument.to_owned()).collect(),
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

    /// A digest of what is uncommitted, and each such file.
    fn changes(&self, status: &[u8]) -> (Digest, BTreeMap<String, String>) {
        let mut text = String::from_utf8_lossy(status).into_owned();
        let mut files = BTreeMap::new();
        for (index, (entry, path)) in changed_paths(status).into_iter().enumerate() {
            let content = if index < MAX_DIGESTED { self.files.read(&path, MAX_FILE_BYTES).ok().flatten() } else { None };
            let now = content.map_or_else(|| size_and_time(&self.path.join(path.as_str())), |content| content.digest.to_string());
            let _ = writeln!(text, "{path} {now}");
            files.insert(path.as_str().to_owned(), format!("{entry} {now}"));
        }
        (Digest::of_bytes(text.as_bytes()), files)
    }
}

/// The paths of `git status --porcelain=v2 -z`: the ninth field of a changed entry, the eleventh of an unmerged one, the second of others.
fn changed_paths(status: &[u8]) -> Vec<(&str, RelativePath)> {
    let entries = status.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let paths = entries.filter_map(|entry| {
        let path = match entry.as_bytes().first()? {
            b'1' => entry.splitn(9, ' ').nth(8),
            b'u' => entry.splitn(11, ' ').nth(10),
            b'?' => entry.strip_prefix("? "),
            _ => None,
        };
        Some((entry, RelativePath::parse(path?).ok()?))
    });
    paths.collect()
}

fn size_and_time(path: &Path) -> String {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => format!("{} {:?}", metadata.len(), metadata.modified().ok()),
        Err(_) => "absent".to_owned(),
    }
}

/// Each file of a workspace without git, as its directory describes it.
fn described(listing: &Listing) -> BTreeMap<String, String> {
    let files = listing.entries.iter().filter(|entry| entry.kind != Kind::Directory);
    files.map(|entry| (entry.path.as_str().to_owned(), format!("{} {}", entry.size, entry.modified))).collect()
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
