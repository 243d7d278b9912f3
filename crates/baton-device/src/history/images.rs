//! File contents by digest.

use super::HistoryError;
use baton_proto::Digest;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Images that are made durable one by one; of more, the whole file system is, which is faster then.
const MANY: usize = 64;

#[derive(Debug)]
pub(super) struct Images {
    directory: PathBuf,
    /// Names of files being written, so that two writers of one image don't share one.
    counter: AtomicU64,
}

impl Images {
    pub(super) fn open(directory: PathBuf) -> Result<Self, HistoryError> {
        fs::create_dir_all(&directory).map_err(HistoryError::io(&directory))?;
        Ok(Self { directory, counter: AtomicU64::new(0) })
    }

    /// The same without waiting for the disk: for what may be asked for after a change that is yet to come. Whether it was lost in a crash
    /// shows when it is read.
    pub(super) fn put_lightly(&self, bytes: &[u8]) -> Result<Digest, HistoryError> {
        let digest = Digest::of_bytes(bytes);
        let at = self.directory.join(&digest.0);
        if at.metadata().is_ok_and(|metadata| metadata.len() == bytes.len() as u64) {
            return Ok(digest);
        }
        let written = self.directory.join(format!("{}.{}", digest.0, self.counter.fetch_add(1, Ordering::Relaxed)));
        fs::write(&written, bytes).and_then(|()| fs::rename(&written, &at)).map_err(HistoryError::io(&self.directory))?;
        Ok(digest)
    }

    /// Makes images durable that were put lightly.
    pub(super) fn settle<'a>(&self, digests: impl Iterator<Item = &'a Digest>) -> Result<(), HistoryError> {
        let digests: Vec<_> = digests.collect();
        let directory = File::open(&self.directory).map_err(HistoryError::io(&self.directory))?;
        if digests.len() > MANY {
            return rustix::fs::syncfs(&directory).map_err(|errno| HistoryError::io(&self.directory)(errno.into()));
        }
        for digest in digests {
            match File::open(self.directory.join(&digest.0)) {
                Ok(file) => file.sync_all().map_err(HistoryError::io(&self.directory))?,
                // Whoever reads it is told that it is gone.
                Err(error) => tracing::warn!(%error, digest = digest.0, "an image is gone"),
            }
        }
        directory.sync_all().map_err(HistoryError::io(&self.directory))
    }

    /// Removes what nobody names any more.
    pub(super) fn keep_only(&self, named: &HashSet<Digest>) -> std::io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !named.contains(&Digest(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Result<Digest, HistoryError> {
        let digest = Digest::of_bytes(bytes);
        if self.get(&digest).is_some() {
            self.settle(std::iter::once(&digest))?;
            return Ok(digest);
        }
        let written = self.directory.join(format!("{}.{}", digest.0, self.counter.fetch_add(1, Ordering::Relaxed)));
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&written)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&written, self.directory.join(&digest.0))?;
            File::open(&self.directory)?.sync_all()
        };
        write().map_err(HistoryError::io(&self.directory))?;
        Ok(digest)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Vec<u8>> {
        // A digest is read back from a file; anything but digits would be a path.
        if digest.0.len() != 64 || !digest.0.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let bytes = fs::read(self.directory.join(&digest.0)).ok()?;
        (Digest::of_bytes(&bytes) == *digest).then_some(bytes)
    }
}
