//! Which content of each file the agent knows.
//!
//! Losing a line costs the agent a second reading, so lines are not made durable one by one.

use super::HistoryError;
use super::record::{append_line, open_lines};
use baton_proto::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    path: String,
    digest: Option<Digest>,
}

#[derive(Debug)]
pub(super) struct Seen {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, Digest>,
    lines: usize,
}

/// Lines beyond those needed, after which the file is written anew on opening.
const SPARE_LINES: usize = 4096;

impl Seen {
    pub(super) fn open(path: PathBuf) -> Result<Self, HistoryError> {
        let mut known = BTreeMap::new();
        let mut lines = 0;
        let file = open_lines(&path, |text| {
            let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
            lines += 1;
            match line.digest {
                Some(digest) => known.insert(line.path, digest),
                None => known.remove(&line.path),
            };
            Ok(())
        })?;
        let mut seen = Self { path, file, known, lines };
        if seen.lines > seen.known.len() + SPARE_LINES {
            seen.compact()?;
        }
        Ok(seen)
    }

    pub(super) fn put(&mut self, path: &str, digest: Option<&Digest>) -> Result<(), HistoryError> {
        if self.known.get(path) == digest {
            return Ok(());
        }
        append_line(&mut self.file, &self.path, &Line { path: path.to_owned(), digest: digest.cloned() })?;
        self.lines += 1;
        match digest {
            Some(digest) => self.known.insert(path.to_owned(), digest.clone()),
            None => self.known.remove(path),
        };
        Ok(())
    }

    pub(super) fn get(&self, path: &str) -> Option<Digest> {
        self.known.get(path).cloned()
    }

    fn compact(&mut self) -> Result<(), HistoryError> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside).map_err(HistoryError::io(&beside))?;
        for (path, digest) in &self.known {
            append_line(&mut file, &beside, &Line { path: path.clone(), digest: Some(digest.clone()) })?;
        }
        file.sync_all().map_err(HistoryError::io(&beside))?;
        std::fs::rename(&beside, &self.path).map_err(HistoryError::io(&self.path))?;
        self.file = open_lines(&self.path, |_| Ok(()))?;
        self.lines = self.known.len();
        Ok(())
    }
}
