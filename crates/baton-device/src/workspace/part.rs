//! Files of a workspace as people look at them through the hub (C33): opened as for the tools, with the tools' rules about secrets (E9),
//! and without a call. Nothing of it counts as seen by the agent.

use super::names::{name_of, text_of};
use super::{RelativePath, WorkspaceRoot};
use crate::tool::refused;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{Digest, FilePart, MAX_FILE_PART_BYTES, MAX_SHOWN_FILE_BYTES, ToolError, redact};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are kept while their parts are fetched: as many as the hub lets people fetch at once. Whoever comes back for another one reads
/// it anew.
const KEPT: usize = 8;
/// What they may hold together.
const KEPT_BYTES: usize = 32 * 1024 * 1024;

/// Files whose parts are being fetched, the latest last.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<VecDeque<(RelativePath, Shown)>>);

/// A file as it is shown.
#[derive(Clone, Debug)]
struct Shown {
    digest: Digest,
    bytes: Arc<[u8]>,
}

impl WorkspaceRoot {
    /// A part of a file. Parts of one whole are asked for with its digest; once the file is another, it says so.
    pub(crate) fn part(&self, path: &str, offset: u64, digest: Option<&Digest>) -> Result<FilePart, ToolError> {
        let path = self.named(path)?;
        let kept = digest.and_then(|digest| self.opened.get(&path, digest));
        let shown = match kept {
            Some(shown) => shown,
            None => self.read_for_people(&path)?,
        };
        if digest.is_some_and(|digest| *digest != shown.digest) {
            let message = format!("'{path}' was changed while it was being fetched.");
            return Err(refused("changed_since", message, "Open it again."));
        }
        let bytes = shown.bytes.len();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
        let end = bytes.min(start + MAX_FILE_PART_BYTES);
        let part = FilePart {
            digest: shown.digest.clone(),
            bytes: bytes as u64,
            offset: start as u64,
            content: BASE64_STANDARD.encode(&shown.bytes[start..end]),
        };
        self.opened.put(path, (end < bytes).then_some(shown));
        Ok(part)
    }

    /// A path as an end names it: relative to the workspace, whatever directory the end itself is in (C31), or below its absolute path.
    fn named(&self, path: &str) -> Result<RelativePath, ToolError> {
        let inside = self.path.to_str().and_then(|root| path.strip_prefix(root)).and_then(|rest| rest.strip_prefix('/'));
        RelativePath::parse(inside.unwrap_or(path))
    }

    fn read_for_people(&self, path: &RelativePath) -> Result<Shown, ToolError> {
        let not_found = || refused("not_found", format!("There is no '{path}' in the workspace."), "Look at what is there.");
        let content = self.files.read(path, MAX_SHOWN_FILE_BYTES)?.ok_or_else(not_found)?;
        // What isn't text has no secrets that could be told by their looks.
        let bytes = if content.bytes.contains(&0) { content.bytes } else { name_of(&redact(&text_of(&content.bytes))).into_owned() };
        Ok(Shown { digest: Digest::of_bytes(&bytes), bytes: bytes.into() })
    }
}

impl Opened {
    fn get(&self, path: &RelativePath, digest: &Digest) -> Option<Shown> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, shown)| known == path && shown.digest == *digest).map(|(_, shown)| shown.clone())
    }

    /// Keeps what has more parts, and lets go of what has none left.
    fn put(&self, path: RelativePath, shown: Option<Shown>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != path);
        if let Some(shown) = shown {
            kept.push_back((path, shown));
        }
        let bytes = |kept: &VecDeque<(RelativePath, Shown)>| kept.iter().map(|(_, shown)| shown.bytes.len()).sum::<usize>();
        // The latest stays in any case: no file that is shown is larger than all of them may be.
        while kept.len() > KEPT || bytes(&kept) > KEPT_BYTES {
            kept.pop_front();
        }
    }
}
