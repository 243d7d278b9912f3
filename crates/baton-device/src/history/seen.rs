//! Which content of each file the agent knows, and which ones it knew.
//!
//! Losing a line costs the agent a second reading, so lines are not made durable one by one.

use super::HistoryError;
use super::record::{append_line, open_lines};
use baton_proto::Digest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;

/// Contents of a file that are remembered beside the one that was known last.
const EARLIER: usize = 32;
/// Lines beyond those needed, after which the file is written anew on opening.
const SPARE_LINES: usize = 4096;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    path: String,
    digest: Option<Digest>,
    /// The content wasn't read: the agent changed it by naming a piece of it, or deleted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unread: bool,
}

/// What the agent knows of one file.
#[derive(Debug, Default)]
struct Knowledge {
    now: Option<Digest>,
    /// Contents that it knew before, the latest last: an undo may bring one of them back.
    earlier: VecDeque<Digest>,
    /// A content that it changed without having read it.
    unread: Option<Digest>,
}

#[derive(Debug)]
pub(super) struct Seen {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, Knowledge>,
    lines: usize,
}

impl Seen {
    pub(super) fn open(path: PathBuf) -> Result<Self, HistoryError> {
        let mut known: BTreeMap<String, Knowledge> = BTreeMap::new();
        let mut lines = 0;
        let file = open_lines(&path, |text| {
            let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
            lines += 1;
            known.entry(line.path.clone()).or_default().take_in(line);
            Ok(())
        })?;
        let mut seen = Self { path, file, known, lines };
        if seen.lines > seen.known.values().map(Knowledge::lines).sum::<usize>() + SPARE_LINES {
            seen.compact()?;
        }
        Ok(seen)
    }

    pub(super) fn put(&mut self, path: &str, digest: Option<&Digest>) -> Result<(), HistoryError> {
        if self.known.get(path).and_then(|known| known.now.as_ref()) == digest {
            return Ok(());
        }
        self.append(Line { path: path.to_owned(), digest: digest.cloned(), unread: false })
    }

    /// Remembers what a call made of a file.
    pub(super) fn changed(&mut self, path: &str, before: Option<&Digest>, after: Option<&Digest>) -> Result<(), HistoryError> {
        if self.get(path).is_none()
            && let Some(before) = before
        {
            self.append(Line { path: path.to_owned(), digest: Some(before.clone()), unread: true })?;
        }
        self.put(path, after)
    }

    /// Remembers what an undo brought back, as far as the agent had to do with it. Otherwise it stays a content that the agent has never
    /// read, such as one that holds lines of the user's.
    pub(super) fn restored(&mut self, path: &str, digest: Option<&Digest>) -> Result<(), HistoryError> {
        let Some(known) = self.known.get(path) else { return Ok(()) };
        match digest {
            Some(digest) if known.earlier.contains(digest) => self.put(path, Some(digest)),
            // It knows no more of it than before its change.
            Some(digest) if known.unread.as_ref() == Some(digest) => self.put(path, None),
            Some(_) => Ok(()),
            None => self.put(path, None),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<Digest> {
        self.known.get(path)?.now.clone()
    }

    fn append(&mut self, line: Line) -> Result<(), HistoryError> {
        append_line(&mut self.file, &self.path, &line)?;
        self.lines += 1;
        self.known.entry(line.path.clone()).or_default().take_in(line);
        Ok(())
    }

    fn compact(&mut self) -> Result<(), HistoryError> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside).map_err(HistoryError::io(&beside))?;
        for (path, known) in &self.known {
            let line = |digest: Option<&Digest>, unread| Line { path: path.clone(), digest: digest.cloned(), unread };
            let read = known.earlier.iter().map(Some).chain([known.now.as_ref()]).map(|digest| line(digest, false));
            for line in known.unread.iter().map(|digest| line(Some(digest), true)).chain(read) {
                append_line(&mut file, &beside, &line)?;
            }
        }
        file.sync_all().map_err(HistoryError::io(&beside))?;
        std::fs::rename(&beside, &self.path).map_err(HistoryError::io(&self.path))?;
        self.file = open_lines(&self.path, |_| Ok(()))?;
        self.lines = self.known.values().map(Knowledge::lines).sum();
        Ok(())
    }
}

impl Knowledge {
    fn take_in(&mut self, Line { digest, unread, .. }: Line) {
        if unread {
            self.unread = digest;
            return;
        }
        if let Some(before) = std::mem::replace(&mut self.now, digest) {
            self.earlier.push_back(before);
        }
        // What is known now needn't be remembered twice.
        self.earlier.retain(|earlier| Some(earlier) != self.now.as_ref());
        if self.earlier.len() > EARLIER {
            self.earlier.pop_front();
        }
    }

    fn lines(&self) -> usize {
        self.earlier.len() + 1 + usize::from(self.unread.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_known_once_is_known_again_when_it_comes_back_after_the_file_was_written_anew_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("seen.jsonl");
        let digest = |number: usize| Digest::of_bytes(number.to_string().as_bytes());
        let mut seen = Seen::open(path.clone()).unwrap();
        seen.changed("blind", Some(&digest(0)), Some(&digest(1))).unwrap();
        for number in 0..SPARE_LINES + EARLIER + 10 {
            seen.put("a", Some(&digest(number))).unwrap();
        }
        drop(seen);
        // The first time it is written anew, the second time read as it was written.
        for _ in 0..2 {
            let seen = Seen::open(path.clone()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), EARLIER + 3);
            assert_eq!((seen.get("a"), seen.get("blind")), (Some(digest(SPARE_LINES + EARLIER + 9)), Some(digest(1))));
        }
        let mut seen = Seen::open(path).unwrap();
        let latest = SPARE_LINES + EARLIER + 9;
        seen.restored("a", Some(&digest(latest - EARLIER))).unwrap();
        assert_eq!(seen.get("a"), Some(digest(latest - EARLIER)));
        seen.restored("a", Some(&digest(3))).unwrap();
        assert_eq!(seen.get("a"), Some(digest(latest - EARLIER)), "forgotten, so it has to be read");
        seen.restored("blind", Some(&digest(0))).unwrap();
        assert_eq!(seen.get("blind"), None, "as little is known of it as before");
    }
}
