//! One process per data directory.

use crate::error::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Holds the directory while it lives. The operating system lets go of it when the process dies, however it dies, so
/// that a lock is never left behind; the file that stays is no lock.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory, or says who has it. Nothing is written when another has it.
    pub(super) fn take(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("lock");
        let failed = |error: std::io::Error| StoreError::Io(format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The owner may be just about to write its number; then it stays unnamed.
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::InUse { directory: directory.display().to_string(), pid });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .map_err(failed)?;
        Ok(Self { _file: file })
    }
}
