//! Names of a workspace's files for whoever begins to write one: listed once, kept, and looked through at each letter.
//!
//! Only names are read, beneath the workspace's handle and through no link. What `.gitignore` leaves out isn't offered.

use super::beneath::Beneath;
use super::names::{shown, text_of};
use super::walk::DERIVED;
use super::watch::Watch;
use super::{RelativePath, WorkspaceRoot};
use baton_proto::{FoundPath, FoundPaths, MAX_FOUND_PATHS};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names that are kept at most.
const MAX_NAMES: usize = 200_000;
const MAX_DEPTH: usize = 64;
const WITHIN: Duration = Duration::from_secs(5);
/// What is read of a file that says what git ignores.
const MAX_RULES_BYTES: u64 = 256 * 1024;
/// A list is used for this long where nobody says whether something changed.
const FRESH: Duration = Duration::from_secs(2);
/// Where nobody says whether something changed, listing takes at most one part in so many of the time.
const SHARE: u32 = 20;
/// Ignored directories that git is asked about.
const MAX_ASKED: usize = 500;
/// For a new list, where an older one can answer.
const PATIENCE: Duration = Duration::from_millis(60);

/// Names as they were when they were last listed.
#[derive(Debug, Default)]
pub(super) struct Names {
    kept: Mutex<Option<Kept>>,
    /// Held by whoever lists, so that one does for all.
    listing: tokio::sync::Mutex<()>,
}

#[derive(Clone, Debug)]
struct Kept {
    names: Arc<Listed>,
    at: Instant,
    took: Duration,
    /// Of the names, when it was begun; `None` where nobody says whether they changed.
    count: Option<u64>,
}

/// What is in a workspace.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) names: Vec<Name>,
    /// Why it isn't all, if it isn't.
    pub(super) cut: Option<String>,
    /// Directories that git ignores: it may keep files in them all the same.
    ignored: Vec<String>,
    /// Directories of derived files are left out that git doesn't ignore.
    derived: bool,
    /// A directory couldn't be read, for another reason than that nobody may.
    unread: bool,
}

#[derive(Debug)]
pub(super) struct Name {
    pub(super) path: String,
    /// In small letters, where that is another text.
    folded: Option<Box<str>>,
    pub(super) directory: bool,
}

/// How well a name fits; the smaller the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Whole,
    WholeName,
    NameBegins,
    PathBegins,
    NameContains,
    PathContains,
    /// Its letters are there in that order.
    Scattered,
}

impl WorkspaceRoot {
    /// Paths that fit the beginning of one. A list that is out of date answers if a new one takes too long.
    pub(crate) async fn find_paths(self: Arc<Self>, query: String, limit: u32) -> FoundPaths {
        let names = self.names().await;
        let limit = limit.clamp(1, MAX_FOUND_PATHS) as usize;
        tokio::task::spawn_blocking(move || found(&names, &query, limit)).await.unwrap_or_default()
    }

    pub(super) async fn names(self: &Arc<Self>) -> Arc<Listed> {
        if let Some(fresh) = self.fresh() {
            return fresh;
        }
        let root = Arc::clone(self);
        let listing = tokio::spawn(async move { root.list().await });
        let older = self.kept().map(|kept| kept.names);
        let listed = match &older {
            Some(_) => tokio::time::timeout(PATIENCE, listing).await.ok().and_then(Result::ok),
            None => listing.await.ok(),
        };
        listed.or(older).unwrap_or_default()
    }

    async fn list(self: Arc<Self>) -> Arc<Listed> {
        let _listing = self.names.listing.lock().await;
        if let Some(fresh) = self.fresh() {
            return fresh;
        }
        let at = Instant::now();
        let before = self.watch.counts();
        let root = Arc::clone(&self);
        let listing = tokio::task::spawn_blocking(move || root.files.list(&root.watch)).await;
        let whole = listing.as_ref().is_ok_and(|listed| listed.cut.is_none());
        let names = Arc::new(listing.unwrap_or_default());
        let hides = self.hides(&names).await;
        self.watch.listing_ended(whole, hides);
        // The first listing begins to watch; each directory is watched before it is read, so nothing is missed.
        let count = before.or_else(|| self.watch.counts().filter(|counts| counts.names == 0)).map(|counts| counts.names);
        let kept = Kept { names: Arc::clone(&names), at, took: at.elapsed(), count };
        *self.names.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        names
    }

    /// Lists anew where names have changed; where nobody can tell, as often as it isn't felt.
    pub(super) async fn keep_names(self: &Arc<Self>) {
        let due = self.watch.counts().is_some() || self.kept().is_none_or(|kept| kept.at.elapsed() > kept.took * SHARE);
        if due {
            self.names().await;
        }
    }

    /// Whether a change that matters may happen in a directory that isn't listed, and so isn't watched.
    async fn hides(&self, listed: &Listed) -> bool {
        let ignored = &listed.ignored;
        if listed.unread || ignored.len() > MAX_ASKED {
            return true;
        }
        if !self.git_tells() {
            // Without git all is looked at but what is derived.
            return ignored.iter().any(|path| !DERIVED.contains(&path.rsplit('/').next().unwrap_or_default()));
        }
        if listed.derived || ignored.is_empty() {
            return listed.derived;
        }
        // Git may keep files in what it ignores.
        let arguments = ["git", "--literal-pathspecs", "ls-files", "-z", "--"].into_iter().chain(ignored.iter().map(String::as_str));
        let printed = self.printed(&arguments.collect::<Vec<_>>()).await;
        printed.is_none_or(|files| !files.is_empty())
    }

    fn fresh(&self) -> Option<Arc<Listed>> {
        let is_fresh = |kept: &Kept| match (kept.count, self.watch.counts()) {
            (Some(then), Some(now)) => then == now.names,
            _ => kept.at.elapsed() < FRESH,
        };
        self.kept().filter(is_fresh).map(|kept| kept.names)
    }

    fn kept(&self) -> Option<Kept> {
        self.names.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Beneath {
    /// Every file and directory that git doesn't ignore and that isn't derived. Directories are watched from then on.
    fn list(&self, watch: &Watch) -> Listed {
        watch.listing_begins();
        let mut listing = Listing { files: self, watch, ignored: Vec::new(), deadline: Instant::now() + WITHIN, listed: Listed::default() };
        match self.directory(&RelativePath::root()) {
            Ok(directory) => {
                // Branch and commit are told by files that lie there.
                if let Ok(git) = RelativePath::parse(".git").and_then(|git| self.directory(&git)) {
                    watch.add(&git);
                }
                listing.rules(".git/info/exclude", "");
                listing.enter(&directory, "", 0);
            }
            Err(error) => listing.listed.cut = Some(error.message),
        }
        listing.listed
    }
}

struct Listing<'a> {
    files: &'a Beneath,
    watch: &'a Watch,
    /// What the directories on the way ignore, the outermost first.
    ignored: Vec<Gitignore>,
    deadline: Instant,
    listed: Listed,
}

impl Listing<'_> {
    fn enter(&mut self, directory: &OwnedFd, at: &str, depth: usize) {
        self.watch.add(directory);
        let outer = self.ignored.len();
        let own_rules = if at.is_empty() { ".gitignore".to_owned() } else { format!("{at}/.gitignore") };
        if fs::statat(directory, ".gitignore", AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            self.rules(&own_rules, at);
        }
        let mut inner = Vec::new();
        match Dir::read_from(directory) {
            Ok(entries) => {
                for entry in entries.flatten() {
                    let name = entry.file_name();
                    if self.full() {
                        break;
                    }
                    let kind = match entry.file_type() {
                        FileType::Unknown => match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                            Err(_) => continue,
                        },
                        kind => kind,
                    };
                    let is_directory = match kind {
                        FileType::RegularFile => false,
                        FileType::Directory => true,
                        _ => continue,
                    };
                    let name = name.to_bytes();
                    let ours = name.starts_with(b".baton-") && name.ends_with(b".tmp");
                    if matches!(name, b"." | b"..") || name.eq_ignore_ascii_case(b".git") || ours {
                        continue;
                    }
                    let text = text_of(name);
                    let derived = is_directory && DERIVED.contains(&text.as_str());
                    let path = if at.is_empty() { text } else { format!("{at}/{text}") };
                    if self.ignores(&path, is_directory) {
                        if is_directory {
                            self.leave_out(path);
                        }
                        continue;
                    }
                    if derived {
                        // For git these are files like any others.
                        self.listed.derived = true;
                        continue;
                    }
                    if is_directory {
                        inner.push((name.to_vec(), path.clone()));
                    }
                    self.listed.names.push(Name::new(path, is_directory));
                }
            }
            Err(_) => self.listed.unread = true,
        }
        for (name, path) in inner {
            if self.full() {
                break;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if depth >= MAX_DEPTH {
                self.listed.cut = Some(format!("directories are nested more than {MAX_DEPTH} deep"));
                break;
            }
            match fs::openat(directory, &*name, flags, Mode::empty()) {
                Ok(inner) => self.enter(&inner, &path, depth + 1),
                // What isn't there any more, or may not be entered, is nothing that anybody here can see change.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                Err(_) => self.listed.unread = true,
            }
        }
        self.ignored.truncate(outer);
    }

    /// Takes in what a file says that git ignores below `at`. What can't be read ignores nothing.
    fn rules(&mut self, file: &str, at: &str) {
        let Ok(path) = RelativePath::parse(file) else { return };
        let Ok(Some(content)) = self.files.read(&path, MAX_RULES_BYTES) else { return };
        let mut builder = GitignoreBuilder::new(at);
        for line in String::from_utf8_lossy(&content.bytes).lines() {
            // A line that is no pattern is git's to complain about.
            let _ = builder.add_line(None, line);
        }
        self.ignored.extend(builder.build().ok());
    }

    /// One more than git is asked about tells that there are too many.
    fn leave_out(&mut self, directory: String) {
        if self.listed.ignored.len() <= MAX_ASKED {
            self.listed.ignored.push(directory);
        }
    }

    fn ignores(&self, path: &str, directory: bool) -> bool {
        let decided = self.ignored.iter().rev().map(|rules| rules.matched(path, directory)).find(|found| !found.is_none());
        decided.is_some_and(|found| found.is_ignore())
    }

    fn full(&mut self) -> bool {
        if self.listed.cut.is_none() {
            if self.listed.names.len() >= MAX_NAMES {
                self.listed.cut = Some(format!("the workspace has more than {MAX_NAMES} names"));
            } else if Instant::now() > self.deadline {
                self.listed.cut = Some(format!("listing the names took more than {} s", WITHIN.as_secs()));
            }
        }
        self.listed.cut.is_some()
    }
}

impl Name {
    fn new(path: String, directory: bool) -> Self {
        let folded = path.to_lowercase();
        let folded = (folded != path).then(|| folded.into_boxed_str());
        Self { path, folded, directory }
    }

    /// How the name fits a query in small letters, which isn't empty.
    fn fit(&self, query: &str) -> Option<Fit> {
        let path = self.folded.as_deref().unwrap_or(&self.path);
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        if path == query {
            Some(Fit::Whole)
        } else if name == query {
            Some(Fit::WholeName)
        } else if name.starts_with(query) {
            Some(Fit::NameBegins)
        } else if path.starts_with(query) {
            Some(Fit::PathBegins)
        } else if name.contains(query) {
            Some(Fit::NameContains)
        } else if path.contains(query) {
            Some(Fit::PathContains)
        } else {
            let mut letters = path.chars();
            query.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(Fit::Scattered)
        }
    }
}

/// The best that fit. Of those that fit equally well, the shorter one is nearer to what was meant; without a query, what lies at the top.
fn found(listed: &Listed, query: &str, limit: usize) -> FoundPaths {
    let query = query.trim_start_matches("./").to_lowercase();
    let mut fitting: Vec<_> = listed
        .names
        .iter()
        .filter_map(|name| {
            let fit = if query.is_empty() { Fit::Whole } else { name.fit(&query)? };
            let depth = if query.is_empty() { name.path.matches('/').count() } else { name.path.len() };
            Some((fit, depth, name.path.as_str(), name.directory))
        })
        .collect();
    let more = fitting.len() > limit;
    if more {
        fitting.select_nth_unstable(limit);
        fitting.truncate(limit);
    }
    fitting.sort_unstable();
    let path = |(_, _, path, directory): (Fit, usize, &str, bool)| {
        let shown = shown(path);
        FoundPath { path: path.to_owned(), shown: (shown != path).then_some(shown), directory }
    };
    FoundPaths { paths: fitting.into_iter().map(path).collect(), more, listed: listed.names.len() as u64, cut: listed.cut.clone() }
}
