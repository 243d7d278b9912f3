//! A small durable file of records that ends keep: the outbox, and a device's journal.
//!
//! Each append is one record, on disk before it returns. A record is a line: its length, the start of its digest, and its
//! JSON. A write that was cut short leaves a torn last line, which is dropped on opening, since nobody was told that it
//! was kept. A bad line *before* good ones is damage and is refused, since something that was promised would be lost.
//! A lock file beside it names the process that owns it.

use baton_proto::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Digits of the length, and digits of the digest.
const LENGTH_DIGITS: usize = 8;
const DIGEST_DIGITS: usize = 16;
const HEADER: usize = LENGTH_DIGITS + 1 + DIGEST_DIGITS + 1;

/// An open, locked file of records of one type.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// After a failed write or sync nobody knows what is on disk, so nothing more is taken until it is opened anew.
    failed: bool,
    _lock: ProcessLock,
}

/// Why a file of records can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordFileError {
    /// Another process has it; wait for it to end, or use another directory.
    #[error("{} is in use by the process {}; stop that one first, or use another directory", .path.display(), holder(*.pid))]
    Locked { path: PathBuf, pid: Option<u32> },
    /// Not torn by a crash but damaged; nothing was changed.
    #[error(
        "{} is damaged at byte {offset}, before intact records; it was left as it is. Restore it from a backup, or move it away to begin anew",
        .path.display()
    )]
    Damaged { path: PathBuf, offset: u64 },
    /// Written by a version that knows more; nothing was changed.
    #[error("{} holds a record that this version can't read ({why}); it was left as it is. Use the version that wrote it", .path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("{} can't be used: {source}. Check that the disk has room and that the directory belongs to you", .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// An earlier write failed, so what is on disk isn't known.
    #[error("{} is closed after a write that failed; start again once the disk works", .path.display())]
    Failed { path: PathBuf },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "that locked it".to_owned(), |pid| pid.to_string())
}

impl RecordFile {
    /// Opens or makes the file, readable by its owner alone, and reads its records.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<T>), RecordFileError> {
        let failed = |source| RecordFileError::Io { path: path.to_owned(), source };
        let lock = ProcessLock::acquire(path)?;
        let mut file = private(OpenOptions::new().read(true).write(true).create(true)).open(path).map_err(failed)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed)?;

        let mut records = Vec::new();
        let mut whole = 0;
        while let Some((json, length)) = record_at(&content, whole) {
            let record = serde_json::from_slice(json)
                .map_err(|error| RecordFileError::Unreadable { path: path.to_owned(), why: error.to_string() })?;
            records.push(record);
            whole += length;
        }
        if whole < content.len() {
            if record_follows(&content, whole) {
                return Err(RecordFileError::Damaged { path: path.to_owned(), offset: whole as u64 });
            }
            tracing::warn!(path = %path.display(), bytes = content.len() - whole, "dropped a record whose writing was cut short");
            file.set_len(whole as u64).map_err(failed)?;
        }
        // Also makes the file's own name durable, should it be new.
        file.sync_all().map_err(failed)?;
        sync_directory(path).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok((Self { file, path: path.to_owned(), bytes: whole as u64, failed: false, _lock: lock }, records))
    }

    /// Adds one record; it is on disk when this returns.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<(), RecordFileError> {
        if self.failed {
            return Err(RecordFileError::Failed { path: self.path.clone() });
        }
        let line = line(record).map_err(|source| self.io(source))?;
        if let Err(source) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            self.failed = true;
            return Err(self.io(source));
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Replaces all records at once: either the old ones or the new ones are there after a crash.
    pub fn replace<T: Serialize>(&mut self, records: &[T]) -> Result<(), RecordFileError> {
        if self.failed {
            return Err(RecordFileError::Failed { path: self.path.clone() });
        }
        match self.write_anew(records) {
            Ok((file, bytes)) => {
                self.file = file;
                self.bytes = bytes;
                Ok(())
            }
            Err(source) => {
                self.failed = true;
                Err(self.io(source))
            }
        }
    }

    /// Bytes on disk.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write_anew<T: Serialize>(&self, records: &[T]) -> io::Result<(File, u64)> {
        let beside = beside(&self.path, "new");
        let mut file = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&beside)?;
        let mut bytes = 0;
        for record in records {
            let line = line(record)?;
            file.write_all(&line)?;
            bytes += line.len() as u64;
        }
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        sync_directory(&self.path)?;
        Ok((file, bytes))
    }

    fn io(&self, source: io::Error) -> RecordFileError {
        RecordFileError::Io { path: self.path.clone(), source }
    }
}

/// A lock that ends with its process, however that ends. The file stays, so that two openers lock the same one.
#[derive(Debug)]
struct ProcessLock {
    _file: File,
}

impl ProcessLock {
    fn acquire(path: &Path) -> Result<Self, RecordFileError> {
        let failed = |source| RecordFileError::Io { path: path.to_owned(), source };
        let lock = beside(path, "lock");
        let mut file = private(OpenOptions::new().read(true).write(true).create(true)).open(&lock).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).map_err(failed)?;
                write!(file, "{}", std::process::id()).map_err(failed)?;
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Who holds it is told where it can be; that it is held is certain.
                let _ = file.take(32).read_to_string(&mut pid);
                Err(RecordFileError::Locked { path: path.to_owned(), pid: pid.trim().parse().ok() })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

fn line<T: Serialize>(record: &T) -> io::Result<Vec<u8>> {
    // JSON as it is written here has no line breaks, so that people can read the file line by line.
    let json = serde_json::to_string(record).map_err(io::Error::other)?;
    Ok(format!("{}{json}\n", header(json.as_bytes())).into_bytes())
}

fn header(json: &[u8]) -> String {
    let digest = Digest::of_bytes(json);
    let digest = digest.0.get(..DIGEST_DIGITS).unwrap_or_default();
    format!("{:0width$x} {digest} ", json.len(), width = LENGTH_DIGITS)
}

/// The JSON of the whole record that begins at `offset`, and the length of its line.
fn record_at(content: &[u8], offset: usize) -> Option<(&[u8], usize)> {
    let line = content.get(offset..)?;
    let header = std::str::from_utf8(line.get(..HEADER)?).ok()?;
    let length = usize::from_str_radix(header.get(..LENGTH_DIGITS)?, 16).ok()?;
    let json = line.get(HEADER..HEADER.checked_add(length)?)?;
    let ends = line.get(HEADER + length) == Some(&b'\n');
    let same = header == self::header(json);
    (ends && same).then_some((json, HEADER + length + 1))
}

/// Whether a whole record begins anywhere later. Bytes that don't look like a header are passed over without a digest.
fn record_follows(content: &[u8], offset: usize) -> bool {
    (offset + 1..content.len()).any(|start| record_at(content, start).is_some())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// Without this a new name may be gone after a power cut, and the records with it.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<(RecordFile, Vec<String>), RecordFileError> {
        RecordFile::open(path)
    }

    fn written(path: &Path, records: &[&str]) -> Vec<u8> {
        let (mut file, _) = open(path).unwrap();
        for record in records {
            file.append(record).unwrap();
        }
        drop(file);
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_tail_cut_at_any_byte_loses_the_unfinished_record_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let content = written(&path, &["one", "zwei\nlines", "三"]);
        let ends: Vec<usize> = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1).collect();
        for cut in 0..=content.len() {
            std::fs::write(&path, &content[..cut]).unwrap();
            let (mut file, records) = open(&path).unwrap();
            let whole = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(records, ["one", "zwei\nlines", "三"][..whole], "cut at {cut}");
            file.append(&"after").unwrap();
            drop(file);
            assert_eq!(open(&path).unwrap().1.last().unwrap(), "after", "cut at {cut}");
        }
    }

    #[test]
    fn garbage_in_the_tail_is_dropped_and_damage_before_records_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let content = written(&path, &["one", "two"]);
        for tail in [&[0_u8; 512][..], b"\n\n\n", b"00000003 0000000000000000 \"x\"\n", &[0xff; 40]] {
            std::fs::write(&path, [&content, tail].concat()).unwrap();
            assert_eq!(open(&path).unwrap().1, ["one", "two"]);
        }
        let first = content.iter().position(|byte| *byte == b'\n').unwrap();
        for index in 0..=first {
            let mut damaged = content.clone();
            damaged[index] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            assert!(matches!(open(&path), Err(RecordFileError::Damaged { offset: 0, .. })), "byte {index}");
            assert_eq!(std::fs::read(&path).unwrap(), damaged, "left as it is");
        }
    }

    #[test]
    fn a_second_opener_is_told_who_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let (file, _) = open(&path).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(&error, RecordFileError::Locked { pid: Some(pid), .. } if *pid == std::process::id()), "{error}");
        assert!(error.to_string().contains(&std::process::id().to_string()));
        drop(file);
        open(&path).unwrap();
    }

    #[test]
    fn a_replacement_holds_the_new_records_alone_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let (mut file, _) = open(&path).unwrap();
        file.append(&"old").unwrap();
        file.replace(&["new"]).unwrap();
        file.append(&"newer").unwrap();
        assert_eq!(file.bytes(), std::fs::metadata(&path).unwrap().len());
        drop(file);
        assert_eq!(open(&path).unwrap().1, ["new", "newer"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn after_a_failed_write_nothing_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let (mut file, _) = open(&path).unwrap();
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(matches!(file.append(&"lost"), Err(RecordFileError::Io { .. })));
        file.file = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(matches!(file.append(&"refused"), Err(RecordFileError::Failed { .. })));
    }
}
