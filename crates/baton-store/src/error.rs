//! What can go wrong with a store, and what its user should do then.

use crate::stream::OperationRow;
use baton_proto::OperationId;

/// What to do about a [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The caller's knowledge is old. Load the stream (or the operation) again and decide anew.
    Reload,
    /// This store, or this process's right to the stream, has come to its end. Stop writing.
    Stop,
    /// Nothing was written. The same call may succeed later, after a pause.
    Retry,
    /// Nothing was written, and the same call can never succeed.
    Refuse,
}

/// Why a store did not do what was asked. Unless it says otherwise, nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The compare-and-set lost. 0 stands for a stream that doesn't exist.
    #[error("the stream is at event {found}, not at {expected} as expected: another writer was first. Load it again and decide anew")]
    Conflict { expected: u64, found: u64 },
    /// The head row was written by a newer incarnation of the hub.
    #[error("a newer hub (incarnation {found}) drives this stream; this one is incarnation {own}. Stop driving it here")]
    Fenced { own: u64, found: u64 },
    /// The user's operation was already answered; here is the answer that was given.
    #[error("operation {} was already answered. Give the answer that was kept instead of performing it again", .0.operation_id)]
    OperationExists(OperationRow),
    /// A commit failed in a way that leaves unknown what reached the disk. What was being written may or may not be there
    /// after reopening.
    #[error(
        "the store stopped because a write to the disk failed ({0}). Check the disk, then start the hub again: all that was acknowledged is kept"
    )]
    Poisoned(String),
    /// The disk is full; the write was undone.
    #[error("the disk is full: nothing of this write was kept. Free some space and repeat it")]
    Full,
    /// There is no data where some was to be read.
    #[error("{0} isn't there. Name the data directory of a hub that has been started at least once")]
    Absent(String),
    /// A file would have to be overwritten.
    #[error("{0} exists already and is left as it is. Choose another name")]
    Exists(String),
    /// Another process has the directory.
    #[error("{directory} is in use by {}. Stop that one first, or choose another data directory", process(.pid.as_ref()))]
    InUse { directory: String, pid: Option<u32> },
    /// The data was written by a newer version of Baton (O6). The files were not touched.
    #[error(
        "the data has format {found}, but this version of Baton reads formats up to {supported}. Install the newer version again; nothing was changed"
    )]
    NewerVersion { found: u32, supported: u32 },
    /// The data can't be understood.
    #[error("the stored data is damaged ({0}). Keep the files as they are and restore the last backup into another directory")]
    Corrupt(String),
    /// Larger than the store accepts.
    #[error("{what} is {size}, more than the {limit} that fit. Store large values as blobs, or split them")]
    TooLarge { what: &'static str, size: u64, limit: u64 },
    /// The store was closed by its owner.
    #[error("the store is closed because the hub is stopping. Connect again once it has started")]
    Closed,
    /// Anything else that the operating system or the database says.
    #[error("the data could not be read or written: {0}. Check the data directory, its permissions and its disk, and try again")]
    Io(String),
}

impl StoreError {
    /// What to do about it.
    pub fn decision(&self) -> Decision {
        match self {
            Self::Conflict { .. } | Self::OperationExists(_) => Decision::Reload,
            Self::Fenced { .. } | Self::Poisoned(_) | Self::InUse { .. } | Self::NewerVersion { .. } | Self::Corrupt(_) | Self::Closed => {
                Decision::Stop
            }
            Self::Full | Self::Io(_) => Decision::Retry,
            Self::TooLarge { .. } | Self::Absent(_) | Self::Exists(_) => Decision::Refuse,
        }
    }

    /// The operation that was already answered, if that is the reason.
    pub fn operation(&self) -> Option<OperationId> {
        match self {
            Self::OperationExists(row) => Some(row.operation_id),
            _ => None,
        }
    }
}

fn process(pid: Option<&u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_process_and_say_what_to_do() {
        let known = StoreError::InUse { directory: "/data".into(), pid: Some(42) };
        assert_eq!(known.to_string(), "/data is in use by process 42. Stop that one first, or choose another data directory");
        let unknown = StoreError::InUse { directory: "/data".into(), pid: None };
        assert!(unknown.to_string().starts_with("/data is in use by another process."));
    }
}
