//! What somebody else than a call changed in a workspace (C34): compared with how it looked when the hub was last told, at a call's
//! beginning, and a moment after the kernel said that something changed.

use super::baseline::Look;
use super::names::shown;
use super::{WorkspaceRoot, watch};
use baton_proto::{Baseline, Workspace, WorkspaceId};
use std::collections::BTreeSet;
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
/// Between two times that the hub is told, where nothing else is waiting for it.
const TELLING_PAUSE: Duration = Duration::from_secs(1);
/// Files whose names are kept until the hub is told of them.
const MAX_KEPT: usize = 10_000;
/// Between two looks where the kernel doesn't say that something changed.
const UNWATCHED: Duration = Duration::from_secs(15);

/// How the hub knows the workspace, and what it hasn't been told yet.
#[derive(Debug, Default)]
pub(super) struct Told {
    last: Mutex<Option<Last>>,
    news: Mutex<Pending>,
    fresh: Notify,
}

/// What the hub is to be told next.
#[derive(Debug, Default)]
struct Pending {
    /// The workspace as it was last seen, where the hub doesn't know that yet.
    baseline: Option<Baseline>,
    files: BTreeSet<String>,
    /// When the hub was last told something.
    told_at: Option<Instant>,
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
        let counts = self.watch.counts_of_everything();
        let look = self.look().await;
        let baseline = look.baseline.clone();
        *self.told.last() = Some(Last { look, counts });
        baseline
    }

    /// Finds out whether somebody else changed the workspace since the hub was told of it. Only while no call changes it.
    pub(crate) async fn notice(&self) {
        let counts = self.watch.counts_of_everything();
        let Some(known) = self.told.last().clone() else { return };
        if counts.is_some() && counts == known.counts {
            return;
        }
        let look = self.look().await;
        if look.baseline != known.look.baseline {
            let committed = self.files_committed(&known.look.baseline, &look.baseline).await;
            let files = look.files_that_differ(&known.look).chain(committed.iter().map(String::as_str));
            self.told.news().add(look.baseline.clone(), files.map(shown));
            self.told.fresh.notify_one();
        }
        *self.told.last() = Some(Last { look, counts });
    }

    /// Resolves when there is news and it is time to tell it: a stream of changes is told of now and then, its end always.
    pub async fn has_news(&self) {
        loop {
            let due = self.told.news().due();
            match due {
                None => self.told.fresh.notified().await,
                Some(due) if due <= Instant::now() => return,
                Some(due) => tokio::time::sleep_until(due).await,
            }
        }
    }

    /// What changed since the hub was last told; it is told from then on.
    pub fn take_news(&self) -> Option<News> {
        self.told.news().take()
    }

    /// Keeps an eye on the workspace for as long as it is polled, and looks at it a moment after something changed.
    pub async fn keep_watch(self: Arc<Self>) {
        let ear = self.watch.ear();
        let mut pause = PAUSE;
        loop {
            // Directories that came since are watched from here on, and names are at hand when somebody begins to write one.
            self.keep_names().await;
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
                    if self.watch.counts_of_everything().is_some() {
                        ear.hears().await;
                    } else {
                        // Where something may change unheard, waiting ends all the same.
                        let _ = tokio::time::timeout(UNWATCHED, ear.hears()).await;
                    }
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

    fn news(&self) -> MutexGuard<'_, Pending> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn add(&mut self, baseline: Baseline, files: impl Iterator<Item = String>) {
        self.baseline = Some(baseline);
        for file in files {
            if self.files.len() >= MAX_KEPT {
                break;
            }
            self.files.insert(file);
        }
    }

    /// When the hub is to be told, if there is something to tell.
    fn due(&self) -> Option<Instant> {
        self.baseline.as_ref()?;
        Some(self.told_at.map_or_else(Instant::now, |at| at + TELLING_PAUSE))
    }

    fn take(&mut self) -> Option<News> {
        let baseline = self.baseline.take()?;
        self.told_at = Some(Instant::now());
        let mut files: Vec<_> = std::mem::take(&mut self.files).into_iter().collect();
        let files_left_out = u32::try_from(files.len().saturating_sub(MAX_FILES)).unwrap_or(u32::MAX);
        files.truncate(MAX_FILES);
        Some(News { baseline, files, files_left_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Limits, SandboxMode};
    use crate::workspace::WorkspaceOptions;

    #[tokio::test]
    async fn a_stream_of_changes_is_told_once_a_second_and_its_last_state_always() {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let options = WorkspaceOptions { data: directory.path().join("data"), sandbox: SandboxMode::None, limits: Limits::default() };
        let root = WorkspaceRoot::open(&work, &options).unwrap();
        root.told_baseline().await;
        assert!(root.take_news().is_none());
        std::fs::write(work.join("first"), "1").unwrap();
        root.notice().await;
        tokio::select! {
            biased;
            () = root.has_news() => {}
            () = std::future::ready(()) => panic!("what comes alone is told at once"),
        }
        let began = Instant::now();
        assert_eq!(root.take_news().unwrap().files, ["first"]);

        for number in 0..MAX_FILES + 5 {
            std::fs::write(work.join(format!("file{number:02}")), "1").unwrap();
            root.notice().await;
        }
        root.has_news().await;
        assert!(began.elapsed() >= TELLING_PAUSE, "{:?}", began.elapsed());
        let news = root.take_news().unwrap();
        assert_eq!((news.files.len(), news.files_left_out), (MAX_FILES, 5));
        assert_eq!(news.baseline, root.baseline().await);
        assert!(root.take_news().is_none());
    }

    #[tokio::test]
    async fn silence_means_nothing_where_a_listing_was_cut() {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        let deep: String = std::iter::repeat_n("d/", 70).collect();
        std::fs::create_dir_all(work.join(&deep)).unwrap();
        let options = WorkspaceOptions { data: directory.path().join("data"), sandbox: SandboxMode::None, limits: Limits::default() };
        let root = WorkspaceRoot::open(&work, &options).unwrap();
        assert!(root.names().await.cut.is_some());
        assert_eq!((root.watch.counts(), root.watch.counts_of_everything()), (None, None));
    }
}
