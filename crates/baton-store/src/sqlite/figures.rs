//! Counters of what the writer does, for whoever measures or watches the store.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreFigures {
    /// Transactions that were committed, each with one synchronisation of the disk.
    pub commits: u64,
    /// Writes that these transactions answered.
    pub writes: u64,
    /// Bytes that they added to the write-ahead log.
    pub log_bytes: u64,
}

impl StoreFigures {
    /// What was done since an earlier look.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits.saturating_sub(earlier.commits),
            writes: self.writes.saturating_sub(earlier.writes),
            log_bytes: self.log_bytes.saturating_sub(earlier.log_bytes),
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { commits: self.commits + other.commits, writes: self.writes + other.writes, log_bytes: self.log_bytes + other.log_bytes }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    writes: AtomicU64,
    log_bytes: AtomicU64,
}

impl Counters {
    pub(super) fn committed(&self, writes: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes as u64, Ordering::Relaxed);
    }

    pub(super) fn logged(&self, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> StoreFigures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreFigures { commits: of(&self.commits), writes: of(&self.writes), log_bytes: of(&self.log_bytes) }
    }
}
