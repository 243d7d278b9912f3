//! What a command prints: the whole on disk, head and tail in memory (E9).

use baton_proto::Digest;
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes kept in memory of the beginning, and again of the end.
const KEPT_BYTES: usize = 256 * 1024;
/// Outputs kept on disk in each workspace; the oldest go first.
const KEPT_FILES: usize = 64;

/// The output of one command.
#[derive(Clone, Debug)]
pub struct Captured {
    pub head: Vec<u8>,
    /// What follows the head and the gap; follows the head directly where nothing is left out.
    pub tail: Vec<u8>,
    /// Bytes printed in all.
    pub bytes: u64,
    /// Digest of everything printed.
    pub digest: Digest,
    /// Where the whole is kept, if it is longer than what is kept in a result.
    pub file: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    hasher: Sha256,
    file: File,
    path: PathBuf,
    spool: PathBuf,
}

impl Capture {
    pub(super) fn new(spool: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}.part", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let path = spool.join(name);
        let file = File::create(&path)?;
        Ok(Self { head: Vec::new(), tail: VecDeque::new(), bytes: 0, hasher: Sha256::new(), file, path, spool: spool.to_owned() })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
        self.file.write_all(bytes)?;
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT_BYTES);
        self.tail.drain(..over);
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps the whole if it is longer than `inline` bytes.
    pub(super) fn finish(mut self, inline: usize) -> io::Result<Captured> {
        let digest = Digest(hex::encode(std::mem::take(&mut self.hasher).finalize()));
        let file = if self.bytes > inline as u64 {
            let kept = self.spool.join(&digest.0);
            self.file.sync_all()?;
            std::fs::rename(&self.path, &kept)?;
            prune(&self.spool)?;
            Some(kept)
        } else {
            None
        };
        let (head, tail) = (std::mem::take(&mut self.head), Vec::from(std::mem::take(&mut self.tail)));
        Ok(Captured { head, tail, bytes: self.bytes, digest, file })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Gone already where the output was kept.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn prune(spool: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(spool)? {
        let entry = entry?;
        if entry.file_name().len() == 64 {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort();
    let over = files.len().saturating_sub(KEPT_FILES);
    for (_, path) in files.drain(..over) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e9_memory_is_bounded_and_the_whole_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(directory.path()).unwrap();
        let line = [b'x'; 1000];
        for _ in 0..2000 {
            capture.push(&line).unwrap();
        }
        capture.push(b"end").unwrap();
        let captured = capture.finish(100).unwrap();
        assert_eq!((captured.head.len(), captured.tail.len(), captured.bytes), (KEPT_BYTES, KEPT_BYTES, 2_000_003));
        assert!(captured.tail.ends_with(b"xend"));
        let whole = std::fs::read(captured.file.unwrap()).unwrap();
        assert_eq!((whole.len(), Digest::of_bytes(&whole)), (2_000_003, captured.digest));
    }

    #[test]
    fn a_short_output_leaves_no_file_and_old_ones_go() {
        let directory = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(directory.path()).unwrap();
        capture.push(b"short").unwrap();
        let captured = capture.finish(100).unwrap();
        assert_eq!((captured.head.as_slice(), captured.file), (&b"short"[..], None));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        for number in 0..KEPT_FILES + 5 {
            let mut capture = Capture::new(directory.path()).unwrap();
            capture.push(number.to_string().as_bytes()).unwrap();
            capture.finish(0).unwrap();
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), KEPT_FILES);
    }
}
