//! File contents by digest.

use super::HistoryError;
use baton_proto::Digest;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Images that are made durable one by one; of more, the whole file system is, which is faster then.
const MANY: usize = 64;

#[derive(Debug)]
pub(super) struct Images {
    directory: PathBuf,
    /// Names of files being written, so that two writers of one image don't share one.
    counter: AtomicU64,
    met: Mutex<Met>,
}

/// What is known of images since this process began.
#[derive(Debug, Default)]
struct Met {
    /// Those that were written, or read and found whole. A loss of power can leave others torn under their final names.
    whole: HashSet<Digest>,
    /// Those of them that the disk may not have yet.
    unsettled: HashSet<Digest>,
}

impl Images {
    pub(super) fn open(directory: PathBuf) -> Result<Self, HistoryError> {
        fs::create_dir_all(&directory).map_err(HistoryError::io(&directory))?;
        Ok(Self { directory, counter: AtomicU64::new(0), met: Mutex::default() })
    }

    /// The same without waiting for the disk: for what may be asked for after a change that is yet to come.
    pub(super) fn put_lightly(&self, bytes: &[u8]) -> Result<Digest, HistoryError> {
        let digest = Digest::of_bytes(bytes);
        let at = self.directory.join(&digest.0);
        if self.met().whole.contains(&digest) && at.metadata().is_ok_and(|metadata| metadata.len() == bytes.len() as u64) {
            return Ok(digest);
        }
        if fs::read(&at).is_ok_and(|kept| kept == bytes) {
            self.meet(&digest);
            return Ok(digest);
        }
        let written = self.directory.join(format!("{}.{}", digest.0, self.counter.fetch_add(1, Ordering::Relaxed)));
        fs::write(&written, bytes).and_then(|()| fs::rename(&written, &at)).map_err(HistoryError::io(&self.directory))?;
        self.meet(&digest);
        Ok(digest)
    }

    fn meet(&self, digest: &Digest) {
        let mut met = self.met();
        met.whole.insert(digest.clone());
        met.unsettled.insert(digest.clone());
    }

    /// Makes everything durable that was put lightly and isn't yet.
    pub(super) fn settle_all(&self) -> Result<(), HistoryError> {
        let unsettled = self.met().unsettled.clone();
        if unsettled.is_empty() { Ok(()) } else { self.settle(unsettled.iter()) }
    }

    /// Makes images durable that were put lightly.
    pub(super) fn settle<'a>(&self, digests: impl Iterator<Item = &'a Digest>) -> Result<(), HistoryError> {
        let digests: Vec<_> = digests.collect();
        let directory = File::open(&self.directory).map_err(HistoryError::io(&self.directory))?;
        if digests.len() > MANY {
            rustix::fs::syncfs(&directory).map_err(|errno| HistoryError::io(&self.directory)(errno.into()))?;
            self.settled(&digests);
            return Ok(());
        }
        for digest in &digests {
            match File::open(self.directory.join(&digest.0)) {
                Ok(file) => file.sync_all().map_err(HistoryError::io(&self.directory))?,
                // Whoever reads it is told that it is gone.
                Err(error) => tracing::warn!(%error, digest = digest.0, "an image is gone"),
            }
        }
        directory.sync_all().map_err(HistoryError::io(&self.directory))?;
        self.settled(&digests);
        Ok(())
    }

    fn settled(&self, digests: &[&Digest]) {
        let mut met = self.met();
        for digest in digests {
            met.unsettled.remove(*digest);
        }
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_a_loss_of_power_tore_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let open = || Images::open(directory.path().join("images")).unwrap();
        let digest = open().put_lightly(b"content").unwrap();
        // As it is after a loss of power: the name and the length are there, the bytes aren't.
        fs::write(directory.path().join("images").join(&digest.0), [0; 7]).unwrap();
        let images = open();
        assert_eq!(images.get(&digest), None);
        assert_eq!(images.put_lightly(b"content").unwrap(), digest);
        assert_eq!(images.get(&digest).unwrap(), b"content");
    }

    #[test]
    fn what_was_put_lightly_is_known_to_be_unsettled_until_it_is_settled() {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::open(directory.path().join("images")).unwrap();
        let (one, two) = (images.put_lightly(b"one").unwrap(), images.put_lightly(b"two").unwrap());
        images.settle(std::iter::once(&one)).unwrap();
        assert_eq!(images.met().unsettled, HashSet::from([two]));
        images.settle_all().unwrap();
        assert!(images.met().unsettled.is_empty());
    }
}
