//! What some calls did to one file: runs of changes that follow on each other, with somebody else's changes between the runs.

use super::merge::merge;
use super::{ChangeSet, History, State};
use baton_proto::{CallId, Digest};
use std::collections::{BTreeMap, BTreeSet};

/// Largest text that is compared or merged line by line, in bytes.
pub(super) const MAX_TEXT: usize = 4 * 1024 * 1024;

/// One file as some calls changed it.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) segments: Vec<Segment>,
    /// In the order of the changes, each once.
    pub(crate) calls: Vec<CallId>,
}

/// Changes that follow on each other. Somebody else's changes lie between two segments.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) before: Option<Digest>,
    pub(crate) after: Option<Digest>,
    pub(crate) mode_before: u32,
    pub(crate) mode: u32,
}

/// A content, or no file.
pub(super) type Content = Option<Vec<u8>>;

/// What a file is to become when calls are taken back.
#[derive(Debug)]
pub(crate) enum Reversed {
    To(Option<Vec<u8>>),
    /// It can't be told, for this reason.
    Conflict(String),
}

/// The files that these calls changed and that weren't taken back, with the change sets themselves.
pub(crate) fn of_calls(history: &History, calls: &[CallId]) -> (Vec<File>, Vec<ChangeSet>) {
    let calls: BTreeSet<_> = calls.iter().copied().collect();
    let mut sets = history.list();
    sets.retain(|set| calls.contains(&set.call_id) && set.state != State::Abandoned);
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    for set in sets.iter().filter(|set| set.can_be_undone()) {
        for change in &set.changes {
            let file = files.entry(change.path.clone()).or_insert_with(|| File {
                path: change.path.clone(),
                segments: Vec::new(),
                calls: Vec::new(),
            });
            if !file.calls.contains(&set.call_id) {
                file.calls.push(set.call_id);
            }
            match file.segments.last_mut().filter(|last| last.after == change.before) {
                Some(last) => {
                    last.after.clone_from(&change.after);
                    last.mode = change.mode;
                }
                None => file.segments.push(Segment {
                    before: change.before.clone(),
                    after: change.after.clone(),
                    mode_before: change.mode_before(),
                    mode: change.mode,
                }),
            }
        }
    }
    // What came and went again, or went and came back, is as if nothing had happened.
    for file in files.values_mut() {
        file.segments.retain(|segment| segment.before != segment.after || segment.mode_before != segment.mode);
    }
    (files.into_values().filter(|file| !file.segments.is_empty()).collect(), sets)
}

impl File {
    /// The file before the calls and after them, without what somebody else changed in between. `None` where that can't be taken apart.
    pub(super) fn own_change(&self, history: &History) -> Result<Option<(Content, Content)>, String> {
        let Some((first, rest)) = self.segments.split_first() else { return Ok(None) };
        let before = content(history, first.before.as_ref())?;
        let mut after = content(history, first.after.as_ref())?;
        for segment in rest {
            let (old, new) = (content(history, segment.before.as_ref())?, content(history, segment.after.as_ref())?);
            after = match (&old, &after, &new) {
                (Some(base), Some(ours), Some(theirs)) if [base, ours, theirs].into_iter().all(|text| is_text(text)) => {
                    match merge(base, ours, theirs) {
                        Some(merged) => Some(merged),
                        None => return Ok(None),
                    }
                }
                _ => return Ok(None),
            };
        }
        Ok(Some((before, after)))
    }

    /// Takes the calls' changes out of what is there now.
    pub(crate) fn reverse(&self, history: &History, now: Option<&[u8]>) -> Result<Reversed, String> {
        let mut state = now.map(<[u8]>::to_vec);
        for segment in self.segments.iter().rev() {
            let (before, after) = (content(history, segment.before.as_ref())?, content(history, segment.after.as_ref())?);
            state = match (state, before, after) {
                (state, before, after) if state == after => before,
                // Somebody has taken it back already.
                (state, before, _) if state == before => before,
                (Some(_), _, None) => {
                    return Ok(Reversed::Conflict("it was deleted, and there is another file of that name now".to_owned()));
                }
                (Some(_), None, Some(_)) => return Ok(Reversed::Conflict("it was created, and somebody changed it since".to_owned())),
                (None, ..) => return Ok(Reversed::Conflict("it was changed, and somebody deleted it since".to_owned())),
                (Some(state), Some(before), Some(after)) => {
                    if ![&state, &before, &after].into_iter().all(|text| is_text(text)) {
                        return Ok(Reversed::Conflict("it isn't text, and somebody changed it since".to_owned()));
                    }
                    match merge(&after, &state, &before) {
                        Some(merged) => Some(merged),
                        None => return Ok(Reversed::Conflict("somebody changed the same lines since".to_owned())),
                    }
                }
            };
        }
        Ok(Reversed::To(state))
    }

    /// Permission bits that it gets back, given those it has now.
    pub(crate) fn mode_back(&self, now: Option<u32>) -> Option<u32> {
        let (first, last) = (self.segments.first()?, self.segments.last()?);
        Some(now.filter(|now| *now != last.mode).unwrap_or(first.mode_before))
    }
}

/// The content of that digest.
pub(super) fn content(history: &History, digest: Option<&Digest>) -> Result<Content, String> {
    let Some(digest) = digest else { return Ok(None) };
    let image = history.image(digest).ok_or_else(|| "its content of that time is no longer kept".to_owned())?;
    Ok(Some(image))
}

/// Whether something is compared line by line.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_TEXT && !bytes.contains(&0)
}
