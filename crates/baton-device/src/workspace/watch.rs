//! Notices that something may have changed in a workspace, because the kernel says so and not by looking again and again. It knows that
//! something did, never what: that is found out by whoever asks.
//!
//! Directories are watched by their handles, so that no link is followed. Where the kernel watches nothing or not everything, nobody is told
//! that all is as it was.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    watched: usize,
    /// Something isn't watched, so that silence means nothing.
    blind: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok(), state: Mutex::default() }
    }

    /// Watches a directory from now on; its entries are read afterwards, so that none is missed.
    pub(super) fn add(&self, directory: &OwnedFd) {
        let Some(inotify) = &self.inotify else { return };
        let mut state = self.state();
        if state.watched >= MAX_WATCHED {
            state.blind = true;
            return;
        }
        let changes = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        match inotify::add_watch(inotify, format!("/proc/self/fd/{}", directory.as_raw_fd()), changes | WatchFlags::ONLYDIR) {
            // Watching the same directory again counts once more, which errs on the side of the kernel.
            Ok(_) => state.watched += 1,
            Err(_) => state.blind = true,
        }
    }

    /// What was counted up to now; `None` where not everything is watched.
    pub(super) fn counts(&self) -> Option<Counts> {
        let inotify = self.inotify.as_ref()?;
        let mut state = self.state();
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut events = Reader::new(inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let kind = event.events();
                    if kind.contains(ReadFlags::IGNORED) {
                        state.watched = state.watched.saturating_sub(1);
                        continue;
                    }
                    let name = event.file_name().map(std::ffi::CStr::to_bytes).unwrap_or_default();
                    // What a change of ours leaves beside its file while it is made, and what git does while it works.
                    if (name.starts_with(b".baton-") && name.ends_with(b".tmp")) || name.ends_with(b".lock") {
                        continue;
                    }
                    state.counts.anything += 1;
                    let contents = ReadFlags::MODIFY | ReadFlags::ATTRIB | ReadFlags::ISDIR;
                    if !contents.contains(kind) {
                        state.counts.names += 1;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    state.blind = true;
                    break;
                }
            }
        }
        (!state.blind && state.watched > 0).then_some(state.counts)
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
