//! What every file of the workspace was like when it was last looked at, so that the next look tells what changed (E7).
//!
//! It can be lost without loss of records: the next look then begins anew.

use super::images::Images;
use super::record::{Change, ChangeSet, State};
use crate::workspace::{Beneath, Found, RelativePath, SCANS_WITHIN, Scan, Stamp, shown};
use baton_proto::{Digest, NotRecorded, ToolError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Largest file whose content is kept before anybody is known to change it, in bytes.
pub const MAX_KEPT_FILE: u64 = 4 * 1024 * 1024;
/// Bytes of all such contents of a workspace.
const MAX_KEPT_BYTES: u64 = 256 * 1024 * 1024;
/// For reading them.
const WITHIN: Duration = Duration::from_secs(20);
/// A look takes this long at most: for meeting every file, for reading, and for the last one read and what is written down.
pub(crate) const LOOKS_WITHIN: Duration = SCANS_WITHIN.saturating_add(WITHIN).saturating_add(Duration::from_secs(5));
/// Changed files that one look records.
const MAX_CHANGES: usize = 5_000;
/// Unrecorded ones that are named.
const MAX_NAMED: usize = 200;
/// A file that was changed this shortly before a look may have been changed again in the same instant of its clock.
const RACY: i64 = 50_000_000;

/// What a look at the workspace found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differences {
    pub(crate) changes: Vec<Change>,
    pub(crate) not_recorded: Vec<NotRecorded>,
    unnamed: usize,
}

impl Differences {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.not_recorded.is_empty()
    }

    /// Nothing could be found out.
    pub(super) fn not_found_out(reason: String) -> Self {
        let mut differences = Self::default();
        differences.leave_out("…", reason);
        differences
    }

    fn change(&mut self, change: Change) {
        if self.changes.len() < MAX_CHANGES {
            self.changes.push(change);
        } else {
            self.leave_out(&change.path, format!("more than {MAX_CHANGES} files changed at once"));
        }
    }

    fn leave_out(&mut self, path: &str, reason: String) {
        if self.not_recorded.len() < MAX_NAMED {
            self.not_recorded.push(NotRecorded { path: shown(path), reason });
        } else {
            self.unnamed += 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Index {
    path: PathBuf,
    kept: Kept,
}

/// What a look found, before it is taken in.
#[derive(Debug)]
pub(super) struct Look(Kept);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// When the last look began; `None` before the first.
    began: Option<i64>,
    /// Whether it saw every file.
    whole: bool,
    files: BTreeMap<String, Known>,
    derived: BTreeMap<String, i64>,
    git: BTreeSet<String>,
    /// Change sets that this takes account of.
    sets: usize,
}

/// What was at a path.
#[derive(Debug)]
pub(super) enum Was {
    Absent,
    Content(Digest),
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// `None` for one that was changed since by a call that said to what.
    stamp: Option<Stamp>,
    mode: u32,
    /// Of its content, where that is kept.
    digest: Option<Digest>,
    /// Why it isn't.
    reason: Option<String>,
}

impl Index {
    /// Reads what was kept, and adds what calls have changed since.
    pub(super) fn open(path: PathBuf, sets: &[ChangeSet]) -> Self {
        let kept = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        let mut index = Self { path, kept: kept.unwrap_or_default() };
        for set in sets.iter().skip(index.kept.sets).filter(|set| set.state == State::Done) {
            index.learn(&set.changes);
        }
        index
    }

    /// Takes in what a call changed.
    pub(super) fn learn(&mut self, changes: &[Change]) {
        for change in changes {
            match &change.after {
                None => drop(self.kept.files.remove(&change.path)),
                Some(digest) => {
                    let known = Known { stamp: None, mode: change.mode, digest: Some(digest.clone()), reason: None };
                    self.kept.files.insert(change.path.clone(), known);
                }
            }
        }
    }

    /// What a file was when it was last known, if that is other than this.
    pub(super) fn was_other_than(&self, path: &str, now: Option<&Digest>) -> Option<Was> {
        match self.kept.files.get(path) {
            Some(Known { digest: Some(digest), .. }) => (now != Some(digest)).then(|| Was::Content(digest.clone())),
            Some(_) => None,
            None => (self.kept.whole && now.is_some()).then_some(Was::Absent),
        }
    }

    pub(super) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.kept.files.values().filter_map(|known| known.digest.as_ref())
    }

    /// Looks at every file, keeps the content of those that changed, and says which did. All stays as it was until the look is taken in,
    /// so that what couldn't be recorded is found once more.
    pub(super) fn look(&self, files: &Beneath, images: &Images) -> Result<(Differences, Look), ToolError> {
        let scan = files.scan()?;
        let mut differences = Differences::default();
        let first = self.kept.began.is_none();
        let mut reader = Reader { files, images, left: self.room(&scan), deadline: Instant::now() + WITHIN };
        let mut before = self.kept.files.clone();
        let mut next = BTreeMap::new();
        for (path, stamp) in &scan.files {
            let old = before.remove(path);
            let unchanged = old.as_ref().filter(|old| self.is_unchanged(old, stamp)).cloned();
            let known = match unchanged {
                Some(known) => known,
                None => reader.read(path, stamp)?,
            };
            match &old {
                Some(old) => compare(path, old, &known, &mut differences),
                None if first => {}
                None if self.kept.whole => appeared(path, &known, &mut differences),
                None => differences.leave_out(path, "it wasn't looked at before, so what it was isn't known".to_owned()),
            }
            next.insert(path.clone(), known);
        }
        for (path, old) in before {
            if scan.cut.is_some() && files.is_there(&path) {
                next.insert(path, old);
            } else {
                vanished(&path, &old, &mut differences);
            }
        }
        if !first {
            self.compare_unentered(&scan, &mut differences);
        }
        if let Some(cut) = &scan.cut {
            differences
                .not_recorded
                .push(NotRecorded { path: "…".to_owned(), reason: format!("{cut}; changes beyond that weren't looked for") });
        }
        if differences.unnamed > 0 {
            let reason = format!("{} more files aren't named here", differences.unnamed);
            differences.not_recorded.push(NotRecorded { path: "…".to_owned(), reason });
        }
        let Scan { began, derived, git, cut, .. } = scan;
        let kept = Kept { began: Some(began), whole: cut.is_none(), files: next, derived, git, sets: self.kept.sets };
        Ok((differences, Look(kept)))
    }

    /// What was looked at is from now on what is known.
    pub(super) fn take_in(&mut self, Look(kept): Look) {
        self.kept = kept;
    }

    /// Writes it down as the state after that many change sets. What isn't written is found out again.
    pub(super) fn save(&mut self, sets: usize) {
        self.kept.sets = sets;
        let beside = self.path.with_extension("new");
        let written = serde_json::to_vec(&self.kept)
            .map_err(std::io::Error::from)
            .and_then(|bytes| std::fs::write(&beside, bytes))
            .and_then(|()| std::fs::rename(&beside, &self.path));
        if let Err(error) = written {
            tracing::warn!(%error, "what the workspace looked like can't be written down");
        }
    }

    fn is_unchanged(&self, old: &Known, stamp: &Stamp) -> bool {
        let settled = self.kept.began.is_some_and(|began| stamp.modified.max(stamp.described) < began - RACY);
        let nothing_to_read = stamp.kind != Found::File || stamp.size > MAX_KEPT_FILE;
        old.stamp == Some(*stamp) && settled && (old.digest.is_some() || nothing_to_read)
    }

    /// Bytes of contents that may be read, beside those that stay as they are. What was replaced or is gone makes room.
    fn room(&self, scan: &Scan) -> u64 {
        let stays = |path: &str, old: &Known| scan.files.get(path).map_or(scan.cut.is_some(), |stamp| self.is_unchanged(old, stamp));
        let staying = self.kept.files.iter().filter(|(path, old)| old.digest.is_some() && stays(path, old));
        let sizes = staying.filter_map(|(_, old)| old.stamp).map(|stamp| stamp.size);
        MAX_KEPT_BYTES.saturating_sub(sizes.sum())
    }

    fn compare_unentered(&self, scan: &Scan, differences: &mut Differences) {
        for (path, newest) in &scan.derived {
            if self.kept.derived.get(path) != Some(newest) {
                differences.leave_out(&format!("{path}/"), "files that tools build or install aren't recorded".to_owned());
            }
        }
        for path in self.kept.derived.keys().filter(|path| !scan.derived.contains_key(*path)) {
            differences.leave_out(&format!("{path}/"), "it is gone, with files that tools built or installed".to_owned());
        }
        for path in scan.git.symmetric_difference(&self.kept.git) {
            differences.leave_out(path, "what belongs to git isn't recorded".to_owned());
        }
        for path in &scan.closed {
            differences.leave_out(&format!("{path}/"), "the directory can't be entered".to_owned());
        }
    }
}

/// Reads contents as far as they may be kept.
struct Reader<'a> {
    files: &'a Beneath,
    images: &'a Images,
    left: u64,
    deadline: Instant,
}

impl Reader<'_> {
    fn read(&mut self, path: &str, stamp: &Stamp) -> Result<Known, ToolError> {
        let unread = |reason: &str| Ok(Known { stamp: Some(*stamp), mode: stamp.mode, digest: None, reason: Some(reason.to_owned()) });
        match stamp.kind {
            Found::File if stamp.size > MAX_KEPT_FILE => {
                return unread(&format!("{} bytes: more than the {MAX_KEPT_FILE} that are kept of a file", stamp.size));
            }
            Found::File if stamp.size > self.left => {
                return unread(&format!("the workspace has more than the {MAX_KEPT_BYTES} bytes that are kept of it"));
            }
            Found::File if Instant::now() > self.deadline => {
                return unread(&format!("reading the workspace took more than {} s", WITHIN.as_secs()));
            }
            Found::File => {}
            Found::Link => return unread("a symbolic link"),
            Found::Other => return unread("not a file"),
        }
        match RelativePath::parse(path).and_then(|path| self.files.read(&path, MAX_KEPT_FILE)) {
            Ok(Some(content)) => {
                self.left = self.left.saturating_sub(stamp.size);
                let digest = self.images.put_lightly(&content.bytes).map_err(crate::workspace::history_error)?;
                Ok(Known { stamp: Some(*stamp), mode: content.mode, digest: Some(digest), reason: None })
            }
            Ok(None) => unread("it was gone when it was to be read"),
            Err(error) => unread(&error.message),
        }
    }
}

fn compare(path: &str, old: &Known, new: &Known, differences: &mut Differences) {
    match (&old.digest, &new.digest) {
        (Some(before), Some(after)) if before != after || old.mode != new.mode => {
            let mode_before = (old.mode != new.mode).then_some(old.mode);
            let (before, after) = (Some(before.clone()), Some(after.clone()));
            differences.change(Change { path: path.to_owned(), before, after, mode: new.mode, mode_before });
        }
        (Some(_), Some(_)) => {}
        _ if old.stamp == new.stamp => {}
        // Only its description changed, such as by a second name for it.
        (None, None) if same_but_described(old, new) => {}
        _ => {
            let reason = new.reason.clone().or_else(|| old.reason.as_ref().map(|reason| format!("its earlier content: {reason}")));
            differences.leave_out(path, reason.unwrap_or_default());
        }
    }
}

fn same_but_described(old: &Known, new: &Known) -> bool {
    matches!((old.stamp, new.stamp), (Some(old), Some(new)) if Stamp { described: new.described, ..old } == new)
}

fn appeared(path: &str, new: &Known, differences: &mut Differences) {
    match &new.digest {
        Some(digest) => {
            let change = Change { path: path.to_owned(), before: None, after: Some(digest.clone()), mode: new.mode, mode_before: None };
            differences.change(change);
        }
        None => differences.leave_out(path, format!("new; {}", new.reason.clone().unwrap_or_default())),
    }
}

fn vanished(path: &str, old: &Known, differences: &mut Differences) {
    match &old.digest {
        Some(digest) => {
            let change = Change { path: path.to_owned(), before: Some(digest.clone()), after: None, mode: old.mode, mode_before: None };
            differences.change(change);
        }
        None => differences.leave_out(path, format!("gone; {}", old.reason.clone().unwrap_or_default())),
    }
}

/// Every digest that something still names.
pub(super) fn named<'a>(index: &'a Index, changes: impl Iterator<Item = &'a Change>) -> HashSet<Digest> {
    let of_changes = changes.flat_map(|change| [&change.before, &change.after]).flatten();
    index.digests().chain(of_changes).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_that_was_replaced_or_is_gone_makes_room_for_another() {
        let stamp = |modified| Stamp { kind: Found::File, size: MAX_KEPT_FILE, modified, described: modified, inode: 1, mode: 0o644 };
        let known = Known { stamp: Some(stamp(1)), mode: 0o644, digest: Some(Digest::of_bytes(b"")), reason: None };
        let names: Vec<_> = (0..MAX_KEPT_BYTES / MAX_KEPT_FILE).map(|number| number.to_string()).collect();
        let files = names.iter().map(|name| (name.clone(), known.clone())).collect();
        let kept = Kept { began: Some(RACY * 2), whole: true, files, ..Kept::default() };
        let index = Index { path: PathBuf::new(), kept };
        let scan = |changed: usize, gone: usize| {
            let there = names.iter().enumerate().skip(gone);
            let files = there.map(|(at, name)| (name.clone(), stamp(if at < gone + changed { 2 } else { 1 }))).collect();
            Scan { files, ..Scan::default() }
        };
        assert_eq!(index.room(&scan(0, 0)), 0);
        assert_eq!(index.room(&scan(2, 0)), 2 * MAX_KEPT_FILE);
        assert_eq!(index.room(&scan(2, 3)), 5 * MAX_KEPT_FILE);
        // Files beyond a scan that was cut may be there still.
        assert_eq!(index.room(&Scan { cut: Some("too many".into()), ..scan(2, 3) }), 2 * MAX_KEPT_FILE);
    }
}
