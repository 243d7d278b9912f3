//! Every file of a workspace with what tells that it changed, without reading any.

use super::beneath::{Beneath, explain};
use super::walk::DERIVED;
use super::{RelativePath, names};
use baton_proto::ToolError;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Files that a scan looks at.
pub(crate) const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 64;
pub(crate) const SCANS_WITHIN: Duration = Duration::from_secs(10);
/// Entries of a directory of derived files that are looked at, to tell whether something changed in it.
const MAX_DERIVED: usize = 2_000;
const DERIVED_DEPTH: usize = 3;

/// A file as its directory describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) kind: Found,
    pub(crate) size: u64,
    /// Nanoseconds since the Unix epoch, of the content and of the description.
    pub(crate) modified: i64,
    pub(crate) described: i64,
    pub(crate) inode: u64,
    /// Permission bits.
    pub(crate) mode: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    File,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What a scan met. Names are as [`names`] writes them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    /// When it began, in nanoseconds since the Unix epoch.
    pub(crate) began: i64,
    pub(crate) files: BTreeMap<String, Stamp>,
    /// Directories of derived files, which aren't entered, each with the newest change that was seen in it.
    pub(crate) derived: BTreeMap<String, i64>,
    /// What belongs to git, and is never entered: `.git` wherever it is.
    pub(crate) git: BTreeSet<String>,
    /// Directories that can't be entered.
    pub(crate) closed: BTreeSet<String>,
    /// Why it isn't whole, if it isn't.
    pub(crate) cut: Option<String>,
}

impl Beneath {
    pub(crate) fn scan(&self) -> Result<Scan, ToolError> {
        let root = RelativePath::root();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut scan = Scan { began: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX), ..Scan::default() };
        let deadline = Instant::now() + SCANS_WITHIN;
        enter(&mut scan, &self.directory(&root)?, "", 0, deadline).map_err(|errno| explain(&root, errno))?;
        Ok(scan)
    }

    /// Whether there is something of that name.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        let Ok(path) = RelativePath::parse(path) else { return false };
        let Some((parent, name)) = path.split() else { return true };
        self.directory(&parent).is_ok_and(|directory| fs::statat(&directory, &*names::name_of(name), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }
}

fn enter(scan: &mut Scan, directory: &OwnedFd, at: &str, depth: usize, deadline: Instant) -> Result<(), rustix::io::Errno> {
    let mut inner: Vec<Vec<u8>> = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." && !is_ours(&name) {
            inner.push(name);
        }
        if inner.len() > MAX_FILES {
            break;
        }
    }
    inner.sort_unstable();
    for name in inner {
        if scan.files.len() >= MAX_FILES {
            scan.cut.get_or_insert_with(|| format!("the workspace has more than {MAX_FILES} files"));
        } else if Instant::now() > deadline {
            scan.cut.get_or_insert_with(|| format!("looking at every file took more than {} s", SCANS_WITHIN.as_secs()));
        }
        if scan.cut.is_some() {
            return Ok(());
        }
        let Ok(stat) = fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let text = names::text_of(&name);
        let path = if at.is_empty() { text } else { format!("{at}/{text}") };
        if name.eq_ignore_ascii_case(b".git") {
            scan.git.insert(path);
            continue;
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Found::File,
            FileType::Symlink => Found::Link,
            FileType::Directory => {
                let derived = std::str::from_utf8(&name).is_ok_and(|name| DERIVED.contains(&name));
                match open(directory, &name) {
                    Ok(inner) if derived => {
                        let mut newest = described(&stat);
                        let mut left = MAX_DERIVED;
                        newest_below(&inner, 0, &mut left, &mut newest);
                        scan.derived.insert(path, newest);
                    }
                    Ok(inner) if depth < MAX_DEPTH => enter(scan, &inner, &path, depth + 1, deadline)?,
                    _ => drop(scan.closed.insert(path)),
                }
                continue;
            }
            _ => Found::Other,
        };
        scan.files.insert(path, stamp(kind, &stat));
    }
    Ok(())
}

fn newest_below(directory: &OwnedFd, depth: usize, left: &mut usize, newest: &mut i64) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        let Ok(stat) = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        *newest = (*newest).max(described(&stat));
        if depth < DERIVED_DEPTH
            && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && let Ok(inner) = open(directory, name.to_bytes())
        {
            newest_below(&inner, depth + 1, left, newest);
        }
    }
}

fn open(directory: &OwnedFd, name: &[u8]) -> Result<OwnedFd, rustix::io::Errno> {
    fs::openat(directory, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn stamp(kind: Found, stat: &Stat) -> Stamp {
    Stamp {
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        described: described(stat),
        inode: stat.st_ino,
        mode: stat.st_mode & 0o7777,
    }
}

fn described(stat: &Stat) -> i64 {
    nanoseconds(stat.st_ctime, stat.st_ctime_nsec)
}

fn nanoseconds(seconds: i64, rest: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest.try_into().unwrap_or(0))
}

/// What a change of ours leaves beside its file while it is made.
fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b".baton-") && name.ends_with(b".tmp")
}
