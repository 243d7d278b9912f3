//! Walking through a workspace with bounded work, never through a link.

use super::RelativePath;
use super::beneath::{Beneath, explain};
use super::names::{name_of, text_of};
use baton_proto::ToolError;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Directories of derived files, which a walk leaves out unless one is named as its start.
pub const DERIVED: [&str; 6] = ["node_modules", "target", ".venv", "__pycache__", "dist-newstyle", ".gradle"];

/// Names taken of one directory: a directory of millions must not fill the memory before the other bounds are looked at.
const MAX_NAMES: usize = 100_000;

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Levels below the start; 1 lists the start alone.
    pub depth: usize,
    /// Entries in all.
    pub entries: usize,
    pub time: Duration,
    /// Whether [`DERIVED`] directories are entered.
    pub derived: Derived,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derived {
    Enter,
    NameOnly,
}

/// One thing that a walk met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: RelativePath,
    pub kind: Kind,
    pub size: u64,
    /// Nanoseconds since the Unix epoch.
    pub modified: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// What a walk found, and what it left out.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// In the order of a walk that takes each directory's names sorted.
    pub entries: Vec<Entry>,
    /// Why the listing is not whole, if it isn't.
    pub cut: Option<String>,
    /// Derived directories that were named but not entered.
    pub derived: usize,
    /// Directories that couldn't be opened.
    pub unreadable: usize,
}

impl Beneath {
    /// Lists what is below a directory. `.git` is never entered.
    pub fn walk(&self, start: &RelativePath, bounds: Bounds) -> Result<Listing, ToolError> {
        let directory = self.directory(start)?;
        let mut walk = Walk { bounds, deadline: Instant::now() + bounds.time, listing: Listing::default() };
        walk.enter(directory, start, 1).map_err(|errno| explain(start, errno))?;
        Ok(walk.listing)
    }
}

struct Walk {
    bounds: Bounds,
    deadline: Instant,
    listing: Listing,
}

impl Walk {
    fn enter(&mut self, directory: OwnedFd, path: &RelativePath, depth: usize) -> Result<(), rustix::io::Errno> {
        let mut names = Vec::new();
        let mut crowded = false;
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(text_of(name)),
            }
            if names.len() >= MAX_NAMES {
                crowded = true;
                break;
            }
        }
        names.sort_unstable();
        for name in names {
            if self.full() {
                return Ok(());
            }
            let own = &*name_of(&name);
            let Ok(stat) = fs::statat(&directory, own, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            };
            let at = path.join(&name);
            if kind == Kind::Directory && name == ".git" {
                continue;
            }
            let modified = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
            self.listing.entries.push(Entry { path: at.clone(), kind, size: u64::try_from(stat.st_size).unwrap_or(0), modified });
            if kind != Kind::Directory || depth >= self.bounds.depth {
                continue;
            }
            if self.bounds.derived == Derived::NameOnly && DERIVED.contains(&name.as_str()) {
                self.listing.derived += 1;
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match fs::openat(&directory, own, flags, Mode::empty()) {
                Ok(inner) => self.enter(inner, &at, depth + 1)?,
                Err(_) => self.listing.unreadable += 1,
            }
        }
        if crowded {
            self.listing.cut = Some(format!("'{path}' holds more than {MAX_NAMES} names"));
        }
        Ok(())
    }

    fn full(&mut self) -> bool {
        if self.listing.cut.is_none() {
            if self.listing.entries.len() >= self.bounds.entries {
                self.listing.cut = Some(format!("stopped after {} entries", self.bounds.entries));
            } else if Instant::now() > self.deadline {
                self.listing.cut = Some(format!("stopped after {} s", self.bounds.time.as_secs()));
            }
        }
        self.listing.cut.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_sorted_bounded_and_says_what_it_left_out() {
        let directory = tempfile::tempdir().unwrap();
        for file in ["b/two", "b/one", "a", ".git/config", "node_modules/x/y", "z"] {
            let at = directory.path().join(file);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, "x").unwrap();
        }
        std::os::unix::fs::symlink("/", directory.path().join("link")).unwrap();
        let beneath = Beneath::open_root(directory.path()).unwrap();
        let bounds = Bounds { depth: 9, entries: 100, time: Duration::from_secs(9), derived: Derived::NameOnly };
        let names = |listing: &Listing| listing.entries.iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>();

        let all = beneath.walk(&RelativePath::root(), bounds).unwrap();
        assert_eq!(names(&all), ["a", "b", "b/one", "b/two", "link", "node_modules", "z"]);
        assert_eq!((all.cut, all.derived), (None, 1));

        let few = beneath.walk(&RelativePath::root(), Bounds { entries: 3, ..bounds }).unwrap();
        assert_eq!(names(&few), ["a", "b", "b/one"]);
        assert_eq!(few.cut.unwrap(), "stopped after 3 entries");

        let flat = beneath.walk(&RelativePath::root(), Bounds { depth: 1, ..bounds }).unwrap();
        assert_eq!(names(&flat), ["a", "b", "link", "node_modules", "z"]);
        assert!(beneath.walk(&RelativePath::parse("link").unwrap(), bounds).is_err());
    }
}
