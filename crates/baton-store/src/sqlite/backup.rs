//! A copy of a data directory's database, taken while a hub writes to it or while none runs (O7).

use super::fault::from_sqlite;
use super::schema;
use crate::error::StoreError;
use rusqlite::{Connection, params};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupFigures {
    pub sessions: u64,
    pub users: u64,
    pub events: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Copies the database of the data directory `dir` to the new file `to`: everything that was acknowledged before this call, and nothing
/// by halves. Blocks for about as long as reading the whole database takes; writers go on meanwhile, and so does a hub in another process.
///
/// The copy is complete, checked and on the disk once this returns; until then it has another name, so that a file called `to` is always a
/// whole one. Put into an empty data directory as `baton.db`, a hub starts on it.
pub fn back_up(dir: &Path, to: &Path) -> Result<BackupFigures, StoreError> {
    let from = dir.join("baton.db");
    if !std::fs::metadata(&from).is_ok_and(|file| file.len() > 0) {
        return Err(StoreError::Absent(from.display().to_string()));
    }
    if std::fs::symlink_metadata(to).is_ok() {
        return Err(StoreError::Exists(to.display().to_string()));
    }
    let unfinished = Unfinished::make(to)?;
    let source = schema::open_reading(&from)?;
    schema::recognise(&source, &from)?;
    copy(&source, &unfinished.path)?;
    drop(source);
    let figures = check(&unfinished.path)?;
    unfinished.finish(to)?;
    Ok(figures)
}

/// One read transaction, so that the copy is the database at one moment; it holds up no writer.
fn copy(source: &Connection, to: &Path) -> Result<(), StoreError> {
    let to = to.to_str().ok_or_else(|| StoreError::Io(format!("{} is no name that a database can have", to.display())))?;
    source.execute("VACUUM INTO ?1", params![to]).map(drop).map_err(from_sqlite)
}

/// Reads the copy as whoever restores it will.
fn check(path: &Path) -> Result<BackupFigures, StoreError> {
    let copy = schema::open_untouched(path)?;
    schema::recognise(&copy, path)?;
    let verdict: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(from_sqlite)?;
    if verdict != "ok" {
        return Err(StoreError::Corrupt(verdict));
    }
    let count = |query: &str| copy.query_row(query, [], |row| row.get::<_, u64>(0)).map_err(from_sqlite);
    Ok(BackupFigures {
        sessions: count("SELECT count(*) FROM head WHERE kind = 'session'")?,
        users: count("SELECT count(*) FROM head WHERE kind = 'user'")?,
        events: count("SELECT count(*) FROM event")?,
        bytes: std::fs::metadata(path).map_err(|error| StoreError::Io(error.to_string()))?.len(),
    })
}

/// A file that is being written, and vanishes if it doesn't come to its end.
struct Unfinished {
    path: PathBuf,
    finished: bool,
}

impl Unfinished {
    fn make(to: &Path) -> Result<Self, StoreError> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        let path = to.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // What a user says to an agent is nobody else's business, in a backup neither.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self { path, finished: false })
    }

    fn finish(mut self, to: &Path) -> Result<(), StoreError> {
        // SQLite leaves it to the system when the copy reaches the disk; a backup is told of only once it is there.
        File::open(&self.path).and_then(|file| file.sync_all()).map_err(|error| failed(&self.path, &error))?;
        // A link instead of a move, since a move would take the place of a file that came in between.
        std::fs::hard_link(&self.path, to).or_else(|error| match error.kind() {
            ErrorKind::AlreadyExists => Err(StoreError::Exists(to.display().to_string())),
            // Not every file system has links.
            _ => std::fs::rename(&self.path, to).map(|()| self.finished = true).map_err(|error| failed(to, &error)),
        })?;
        let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| failed(directory, &error))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.finished {
            // What stays of it says by its name that it is none.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn failed(path: &Path, error: &std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Io(format!("{}: {error}", path.display())),
    }
}
