//! Notices that something may have changed in a workspace, because the kernel says so and not by looking again and again. It knows that
//! something did, never what: that is found out by whoever asks.
//!
//! Directories are watched by their handles, so that no link is followed. Where the kernel watches nothing or not everything, nobody is told
//! that all is as it was.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::unix::AsyncFd;

/// Directories that are watched at most: each costs the kernel memory, and the user's other programs want to watch some too.
const MAX_WATCHED: usize = 16_384;
const READ_BYTES: usize = 16 * 1024;

/// Counts what changed. Two equal counts mean that nothing did in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Anything at all.
    pub(super) anything: u64,
    /// Files and directories that came, went, or have another name.
    pub(super) names: u64,
}

#[derive(Debug)]
pub(super) struct Watch {
    inotify: Option<OwnedFd>,
    room: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    /// The kernel's numbers of the directories that are watched. A directory that is added again keeps its number.
    watched: HashSet<i32>,
    /// Whether the last listing watched every directory that it met, and whether it ended at all.
    all_listed: bool,
    /// What is missing until a listing that is under way has ended.
    gaps: Gaps,
    /// What will be missing then: it may heal what the one before it couldn't.
    gaps_then: Gaps,
    /// Directories that aren't listed may hold files that matter.
    hides: bool,
}

/// Why silence doesn't mean that nothing changed.
#[derive(Debug, Default)]
struct Gaps {
    /// A directory that was to be watched isn't, or the kernel can't be listened to.
    unwatched: bool,
    /// Directories came that no listing has met yet.
    new_directories: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self::with_room(MAX_WATCHED)
    }

    fn with_room(room: usize) -> Self {
        Self { inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok(), room, state: Mutex::default() }
    }

    /// Begins to go through the workspace's directories. What couldn't be watched the last time gets another chance.
    pub(super) fn listing_begins(&self) {
        let mut state = self.state();
        self.hear(&mut state);
        // What came up to here is met by the listing.
        state.gaps.new_directories |= state.gaps_then.new_directories;
        state.gaps_then = Gaps::default();
    }

    /// Whether the listing went through all directories, and whether those it was to leave out may hold files that matter.
    pub(super) fn listing_ended(&self, whole: bool, hides: bool) {
        let mut state = self.state();
        state.all_listed = whole;
        state.hides = hides;
        state.gaps = Gaps { unwatched: state.gaps_then.unwatched, new_directories: false };
    }

    /// Watches a directory from now on; its entries are read afterwards, so that none is missed.
    pub(super) fn add(&self, directory: &OwnedFd) {
        let Some(inotify) = &self.inotify else { return };
        let mut state = self.state();
        let changes = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        match inotify::add_watch(inotify, format!("/proc/self/fd/{}", directory.as_raw_fd()), changes | WatchFlags::ONLYDIR) {
            Ok(number) if state.watched.contains(&number) => {}
            Ok(number) if state.watched.len() < self.room => {
                state.watched.insert(number);
            }
            Ok(number) => {
                // It may be gone by now, and then the kernel has forgotten it, too.
                let _ = inotify::remove_watch(inotify, number);
                state.misses();
            }
            Err(_) => state.misses(),
        }
    }

    /// What was counted up to now of all that is listed; `None` where not everything of it is watched.
    pub(super) fn counts(&self) -> Option<Counts> {
        self.inotify.as_ref()?;
        let mut state = self.state();
        self.hear(&mut state);
        (state.all_listed && !state.gaps.unwatched && !state.watched.is_empty()).then_some(state.counts)
    }

    /// The same, where nothing else in the workspace can have changed either.
    pub(super) fn counts_of_everything(&self) -> Option<Counts> {
        let counts = self.counts()?;
        let state = self.state();
        (!state.gaps.new_directories && !state.gaps_then.new_directories && !state.hides).then_some(counts)
    }

    /// Takes in what the kernel has said.
    fn hear(&self, state: &mut State) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut events = Reader::new(inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let kind = event.events();
                    if kind.contains(ReadFlags::IGNORED) {
                        state.watched.remove(&event.wd());
                        continue;
                    }
                    let name = event.file_name().map(std::ffi::CStr::to_bytes).unwrap_or_default();
                    // What a change of ours leaves beside its file while it is made, and what git does while it works.
                    if (name.starts_with(b".baton-") && name.ends_with(b".tmp")) || name.ends_with(b".lock") {
                        continue;
                    }
                    state.counts.anything += 1;
                    let came = kind.contains(ReadFlags::ISDIR) && kind.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                    state.gaps_then.new_directories |= came || kind.contains(ReadFlags::QUEUE_OVERFLOW);
                    let contents = ReadFlags::MODIFY | ReadFlags::ATTRIB | ReadFlags::ISDIR;
                    if !contents.contains(kind) {
                        state.counts.names += 1;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    state.misses();
                    break;
                }
            }
        }
    }

    /// Lets a task wait for the kernel's next word.
    #[allow(deprecated, reason = "its successor asks to promise in unsafe code what a handle that is owned holds anyway")]
    pub(super) fn ear(&self) -> Option<Ear> {
        let inotify = self.inotify.as_ref()?.try_clone().ok()?;
        AsyncFd::new(inotify).ok().map(Ear)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn misses(&mut self) {
        self.gaps.unwatched = true;
        self.gaps_then.unwatched = true;
    }
}

#[derive(Debug)]
pub(super) struct Ear(AsyncFd<OwnedFd>);

impl Ear {
    /// Resolves when something may have changed since the counts were last read.
    pub(super) async fn hears(&self) {
        match self.0.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            // The runtime is being torn down; nobody waits for it any more.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use std::path::Path;

    fn list(watch: &Watch, directories: &[&Path]) {
        watch.listing_begins();
        for directory in directories {
            watch.add(&open(*directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap());
        }
        watch.listing_ended(true, false);
    }

    #[test]
    fn a_directory_that_is_listed_again_and_again_takes_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::with_room(1);
        assert_eq!(watch.counts(), None, "nothing is listed yet");
        for _ in 0..100 {
            list(&watch, &[directory.path()]);
        }
        let before = watch.counts().unwrap();
        std::fs::write(directory.path().join("a"), "").unwrap();
        assert!(watch.counts().unwrap().names > before.names);
    }

    #[test]
    fn who_could_not_watch_everything_sees_again_once_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| directory.path().join(name));
        for directory in [&one, &two, &three] {
            std::fs::create_dir(directory).unwrap();
        }
        let watch = Watch::with_room(2);
        list(&watch, &[&one, &two, &three]);
        assert_eq!(watch.counts(), None);
        std::fs::remove_dir(&one).unwrap();
        assert_eq!(watch.counts(), None, "the third isn't watched yet");
        list(&watch, &[&two, &three]);
        let before = watch.counts().unwrap();
        std::fs::write(three.join("a"), "").unwrap();
        assert_ne!(watch.counts(), Some(before));
        // A listing that was cut leaves something out.
        watch.listing_ended(false, false);
        assert_eq!(watch.counts(), None);
    }

    #[test]
    fn nothing_is_taken_for_unchanged_while_a_new_directory_is_not_watched_or_one_is_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let watch = Watch::new();
        list(&watch, &[directory.path()]);
        assert!(watch.counts_of_everything().is_some());
        std::fs::create_dir(directory.path().join("new")).unwrap();
        assert!(watch.counts().is_some() && watch.counts_of_everything().is_none());
        list(&watch, &[directory.path(), &directory.path().join("new")]);
        assert!(watch.counts_of_everything().is_some());
        watch.listing_ended(true, true);
        assert!(watch.counts().is_some() && watch.counts_of_everything().is_none());
    }
}
