//! What somebody else than a call changed in a workspace (C34): compared with how it looked when the hub was last told, at a call's
//! beginning, and a moment after the kernel said that something changed.

use super::baseline::Look;
use super::names::shown;
use super::{WorkspaceRoot, watch};
use baton_proto::{Baseline, Workspace, WorkspaceId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Files that are named; the rest is counted.
const MAX_FILES: usize = 20;
/// Whoever saves one file often saves another.
const SETTLES: Duration = Duration::from_millis(250);
/// Between two looks: at first, and at most where something changes all the time.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Of the time, a look takes at most one part in so many.
const SHARE: u32 = 20;
/// Between two looks where the kernel doesn't say that something changed.
const UNWATCHED: Duration = Duration::from_secs(15);

/// How the hub knows the workspace, and what it hasn't been told yet.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Mutex<Option<Last>>,
    news: Mutex<VecDeque<News>>,
    fresh: Notify,
}

#[derive(Clone, Debug)]
struct Last {
    look: Look,
    counts: Option<watch::Counts>,
}

/// The workspace as it is now, and the files by which it differs from what was told before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub baseline: Baseline,
    /// As people are shown them.
    pub files: Vec<String>,
    pub files_left_out: u32,
}

impl WorkspaceRoot {
    /// What the hub is told of it at the beginning.
    pub async fn describe(&self, workspace_id: WorkspaceId) -> Workspace {
        let baseline = self.told_baseline().await;
        self.describe_as(workspace_id, baseline)
    }

    /// The workspace with a baseline that was looked up before.
    pub fn describe_as(&self, workspace_id: WorkspaceId, baseline: Baseline) -> Workspace {
        let name = self.path.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
        Workspace { workspace_id, device_id: None, name, baseline, sandbox: self.sandbox.name() }
    }

    /// The workspace as it is now, for the hub to be told: no news from here on.
    pub(crate) async fn told_baseline(&self) -> Baseline {
        let counts = self.watch.counts();
        let look = self.look().await;
        let baseline = look.baseline.clone();
        *self.told.last() = Some(Last { look, counts });
        baseline
    }

    /// Finds out whether somebody else changed the workspace since the hub was told of it. Only while no call changes it.
    pub(crate) async fn notice(&self) {
        let counts = self.watch.counts();
        let Some(known) = self.told.last().clone() else { return };
        if counts.is_some() && counts == known.counts {
            return;
        }
        let look = self.look().await;
        if look.baseline != known.look.baseline {
            let mut files: Vec<_> = look.files_that_differ(&known.look).map(shown).collect();
            files.extend(self.files_committed(&known.look.baseline, &look.baseline).await.iter().map(|file| shown(file)));
            files.sort_unstable();
            files.dedup();
            let files_left_out = u32::try_from(files.len().saturating_sub(MAX_FILES)).unwrap_or(u32::MAX);
            files.truncate(MAX_FILES);
            self.told.news().push_back(News { baseline: look.baseline.clone(), files, files_left_out });
            self.told.fresh.notify_one();
        }
        *self.told.last() = Some(Last { look, counts });
    }

    /// Resolves when there is news.
    pub async fn has_news(&self) {
        while self.told.news().is_empty() {
            self.told.fresh.notified().await;
        }
    }

    /// The news, oldest first; they are told from then on.
    pub fn take_news(&self) -> Vec<News> {
        self.told.news().drain(..).collect()
    }

    /// Keeps an eye on the workspace for as long as it is polled, and looks at it a moment after something changed.
    pub async fn keep_watch(self: Arc<Self>) {
        let ear = self.watch.ear();
        let mut pause = PAUSE;
        loop {
            // Directories that came since are watched from here on, and names are at hand when somebody begins to write one.
            self.names().await;
            let began = Instant::now();
            let turn = Arc::clone(&self.turns).lock_owned().await;
            let looking = Instant::now();
            self.notice().await;
            drop(turn);
            let rest = pause.max(looking.elapsed() * SHARE).min(LONGEST_PAUSE);
            tokio::time::sleep(rest).await;
            match &ear {
                Some(ear) if self.watch.counts().is_some() => {
                    let waited = Instant::now();
                    ear.hears().await;
                    // Where something changes all the time, it is looked at ever less often; after a quiet while, soon again.
                    let quiet = waited.elapsed() > rest;
                    pause = if quiet { PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                    tokio::time::sleep(SETTLES).await;
                }
                _ => tokio::time::sleep(UNWATCHED.saturating_sub(began.elapsed())).await,
            }
        }
    }
}

impl Told {
    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self) -> MutexGuard<'_, VecDeque<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
