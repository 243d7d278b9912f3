//! The agent's changes as people read them: one unified diff a file, bounded, with everything shown that could deceive (S7, S19).

use super::merge::{compare, lines};
use super::segments::{Content, File, MAX_TEXT, Segment, content, is_text, of_calls};
use super::{History, State};
use crate::workspace::{Beneath, RelativePath, shown};
use baton_proto::{CallId, FileDiff, FileStatus, NotRecorded, RecordedChanges, make_visible};
use serde::Serialize;
use similar::{DiffTag, group_diff_ops};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Bytes of JSON of an answer; a frame holds 256 KiB.
const ROOM: usize = 200 * 1024;
/// Bytes of JSON that are for what isn't recorded.
const ROOM_FOR_NOT_RECORDED: usize = 24 * 1024;
/// Bytes of JSON that a file takes without its diff, about.
const ENTRY_ROOM: usize = 400;
/// Bytes of JSON, and lines, of one file's diff.
const LEAST_ROOM: usize = 1024;
const FILE_ROOM: usize = 48 * 1024;
const FILE_LINES: usize = 1500;
/// Characters of a line.
const LINE_CHARS: usize = 1000;
/// Lines around a change.
const CONTEXT: usize = 3;
/// Calls that are named of a file; more are counted.
const FILE_CALLS: usize = 100;
/// For comparing everything; the hub waits for ten seconds.
const WITHIN: Duration = Duration::from_secs(6);
/// Largest file that is read to see whether it has changed since; a larger one has no image, so it isn't as it was left.
const MAX_LOOKED_AT: u64 = 64 * 1024 * 1024;

#[derive(Clone, Copy)]
struct Limits {
    deadline: Instant,
    /// Bytes of JSON of a diff.
    room: usize,
}

/// What these calls changed.
pub(crate) fn recorded_changes(history: &History, files: &Beneath, calls: &[CallId]) -> RecordedChanges {
    changes_until(Instant::now() + WITHIN, history, files, calls)
}

/// The same, as far as it is found out by then; the files that are left are counted.
fn changes_until(deadline: Instant, history: &History, files: &Beneath, calls: &[CallId]) -> RecordedChanges {
    let (changed, sets) = of_calls(history, calls);
    let mut all = RecordedChanges { undone: Vec::new(), ..RecordedChanges::default() };
    let mut missing: Vec<NotRecorded> = Vec::new();
    for set in &sets {
        if set.undone_by.is_some() && !all.undone.contains(&set.call_id) {
            all.undone.push(set.call_id);
        }
        for item in set.not_recorded.iter().filter(|_| set.undone_by.is_none()) {
            if !missing.contains(item) {
                missing.push(item.clone());
            }
        }
        let open = match set.state {
            State::Running => Some("The command is still running; what it changes is found out when it has ended."),
            State::Intended => Some("Whether these changes were made isn't known."),
            State::Done | State::Abandoned => None,
        };
        if let Some(reason) = open {
            let path = set.changes.iter().map(|change| shown(&change.path)).collect::<Vec<_>>().join(", ");
            missing.push(NotRecorded { path: if path.is_empty() { "…".to_owned() } else { path }, reason: reason.to_owned() });
        }
    }
    let mut room = ROOM_FOR_NOT_RECORDED;
    for item in missing {
        match room.checked_sub(size(&item)) {
            Some(left) => {
                room = left;
                all.not_recorded.push(item);
            }
            None => all.not_recorded_left_out += 1,
        }
    }
    let mut room = ROOM.saturating_sub(size(&all));
    let joined = renamed(changed);
    let mut left = joined.len();
    for (file, old) in joined {
        // Each has its share, and what it doesn't need is for those after it.
        left -= 1;
        // Even one file takes reading and merging; looking at all of thousands would outlast whoever asks.
        if Instant::now() > deadline {
            all.files_left_out += 1;
            continue;
        }
        let share = room.saturating_sub(left * ENTRY_ROOM) / (left + 1);
        let limits = Limits { deadline, room: share.clamp(LEAST_ROOM, FILE_ROOM) };
        let mut shown = describe(history, files, &file, old.as_ref(), limits);
        if size(&shown) + 1 > room {
            let lines = u32::try_from(shown.diff.lines().count()).unwrap_or(u32::MAX);
            shown.lines_left_out = shown.lines_left_out.saturating_add(lines);
            shown.diff = String::new();
        }
        match room.checked_sub(size(&shown) + 1) {
            Some(left) => {
                room = left;
                all.files.push(shown);
            }
            None => all.files_left_out += 1,
        }
    }
    all
}

/// Joins a file that went with one of the same content that came.
fn renamed(files: Vec<File>) -> Vec<(File, Option<File>)> {
    let (mut gone, rest): (Vec<File>, Vec<File>) =
        files.into_iter().partition(|file| matches!(file.segments.as_slice(), [Segment { before: Some(_), after: None, .. }]));
    let mut joined: Vec<_> = rest
        .into_iter()
        .map(|file| {
            let old = match file.segments.as_slice() {
                [Segment { before: None, after: Some(after), .. }] => {
                    gone.iter().position(|gone| gone.segments[0].before.as_ref() == Some(after)).map(|index| gone.remove(index))
                }
                _ => None,
            };
            (file, old)
        })
        .collect();
    joined.extend(gone.into_iter().map(|file| (file, None)));
    joined.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
    joined
}

fn describe(history: &History, files: &Beneath, file: &File, old: Option<&File>, limits: Limits) -> FileDiff {
    let (first, last) = (file.segments.first(), file.segments.last());
    let status = match (old, first.and_then(|it| it.before.as_ref()), last.and_then(|it| it.after.as_ref())) {
        (Some(_), ..) => FileStatus::Renamed,
        (None, None, _) => FileStatus::Added,
        (None, Some(_), None) => FileStatus::Deleted,
        (None, Some(_), Some(_)) => FileStatus::Modified,
    };
    let mut calls: Vec<_> = old.into_iter().chain([file]).flat_map(|file| file.calls.iter().copied()).collect();
    calls.dedup();
    let mut notes = Vec::new();
    if calls.len() > FILE_CALLS {
        notes.push(format!("{} earlier calls changed it, too.", calls.len() - FILE_CALLS));
        calls.drain(..calls.len() - FILE_CALLS);
    }
    let before_mode = old.and_then(|old| old.segments.first()).or(first).map_or(0, |it| it.mode_before);
    let after_mode = last.map_or(0, |it| it.mode);
    let both_there = status == FileStatus::Modified || status == FileStatus::Renamed;
    let mut shown = FileDiff {
        path: shown(&file.path),
        old_path: old.map(|old| shown(&old.path)),
        status,
        binary: false,
        too_large: false,
        diff: String::new(),
        added: 0,
        removed: 0,
        lines_left_out: 0,
        modes: (both_there && before_mode != after_mode).then_some((before_mode, after_mode)),
        calls,
        steps: Vec::new(),
        changed_since: changed_since(files, file),
        note: None,
    };
    if status == FileStatus::Renamed {
        return shown;
    }
    match file.own_change(history) {
        _ if Instant::now() > limits.deadline => notes.push("Comparing everything took too long; this file's diff is left out.".to_owned()),
        Err(reason) => notes.push(format!("It can't be shown: {reason}.")),
        Ok(Some((before, after))) => {
            if file.segments.len() > 1 {
                notes.push("Somebody else changed it between these calls; that isn't shown here.".to_owned());
            }
            unified(&mut shown, &before, &after, limits.room);
        }
        Ok(None) => {
            notes.push("Somebody else changed the same lines between these calls, so each part is shown for itself.".to_owned());
            for segment in &file.segments {
                match (content(history, segment.before.as_ref()), content(history, segment.after.as_ref())) {
                    (Ok(before), Ok(after)) => unified(&mut shown, &before, &after, limits.room),
                    (Err(reason), _) | (_, Err(reason)) => notes.push(format!("A part can't be shown: {reason}.")),
                }
            }
        }
    }
    shown.note = (!notes.is_empty()).then(|| notes.join(" "));
    shown
}

/// Whether the file is other than the calls left it.
fn changed_since(files: &Beneath, file: &File) -> bool {
    let left = file.segments.last().and_then(|last| last.after.clone());
    match RelativePath::parse(&file.path).and_then(|path| files.read(&path, MAX_LOOKED_AT)) {
        Ok(content) => content.map(|content| content.digest) != left,
        Err(_) => true,
    }
}

/// Adds a diff of two contents, as far as there is room.
fn unified(shown: &mut FileDiff, before: &Content, after: &Content, room: usize) {
    let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
    if old.len().max(new.len()) > MAX_TEXT {
        shown.too_large = true;
        return;
    }
    if !is_text(old) || !is_text(new) {
        shown.binary = true;
        return;
    }
    let (old, new) = (lines(old), lines(new));
    let ops = compare(&old, &new);
    let name = |there: bool, side: &str| if there { format!("{side}/{}", shown.path) } else { "/dev/null".to_owned() };
    let mut text = Bounded { room: room.saturating_sub(size(&shown.diff)), lines: 0, text: std::mem::take(&mut shown.diff), left_out: 0 };
    text.line(&format!("--- {}", name(before.is_some(), "a")));
    text.line(&format!("+++ {}", name(after.is_some(), "b")));
    for group in group_diff_ops(ops, CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |start: usize, end: usize| format!("{},{}", if end > start { start + 1 } else { start }, end - start);
        let (from, to) = (range(first.old_range().start, last.old_range().end), range(first.new_range().start, last.new_range().end));
        text.line(&format!("@@ -{from} +{to} @@"));
        for op in group {
            if op.tag() == DiffTag::Equal {
                old[op.old_range()].iter().for_each(|line| text.content(' ', line));
                continue;
            }
            shown.removed = shown.removed.saturating_add(count(op.old_range().len()));
            shown.added = shown.added.saturating_add(count(op.new_range().len()));
            old[op.old_range()].iter().for_each(|line| text.content('-', line));
            new[op.new_range()].iter().for_each(|line| text.content('+', line));
        }
    }
    shown.diff = text.text;
    shown.lines_left_out = shown.lines_left_out.saturating_add(text.left_out);
}

fn count(lines: usize) -> u32 {
    u32::try_from(lines).unwrap_or(u32::MAX)
}

/// A text that takes lines until it is full, and counts the rest.
struct Bounded {
    text: String,
    room: usize,
    lines: usize,
    left_out: u32,
}

impl Bounded {
    fn line(&mut self, line: &str) {
        let bytes = size(&line);
        if self.left_out > 0 || self.lines >= FILE_LINES || bytes > self.room {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        self.lines += 1;
        self.room -= bytes;
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn content(&mut self, sign: char, line: &[u8]) {
        if self.left_out > 0 {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let (line, ended) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
        self.line(&format!("{sign}{}", visible(line)));
        if !ended {
            self.line("\\ No newline at end of file");
        }
    }
}

/// A line as it can be shown: see [`FileDiff::diff`].
fn visible(line: &[u8]) -> String {
    let (line, returned) = line.strip_suffix(b"\r").map_or((line, false), |line| (line, true));
    let mut out = String::new();
    let mut taken = 0;
    let mut bytes = 0;
    'cut: for chunk in line.utf8_chunks() {
        for c in chunk.valid().chars() {
            if taken == LINE_CHARS {
                break 'cut;
            }
            taken += 1;
            bytes += c.len_utf8();
            out.push(c);
        }
        for byte in chunk.invalid() {
            if taken == LINE_CHARS {
                break 'cut;
            }
            taken += 1;
            bytes += 1;
            // Written after the visible form is made, since it is made of plain characters.
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
    let mut out = make_visible(&out);
    if bytes < line.len() {
        let _ = write!(out, "… [{} more bytes in this line]", line.len() - bytes);
    }
    if returned {
        out.push_str("\\r");
    }
    out
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::super::Change;
    use super::*;
    use baton_proto::Timestamp;

    #[test]
    fn files_that_there_is_no_time_for_are_counted_and_not_looked_at() {
        let directory = tempfile::tempdir().unwrap();
        let (kept, work) = (directory.path().join("history"), directory.path().join("work"));
        std::fs::create_dir(&work).unwrap();
        let files = Beneath::open_root(&work).unwrap();
        let history = History::open(&kept).unwrap();
        let call_id: CallId = "00000000-0000-7000-8000-000000000001".parse().unwrap();
        let after = history.keep(b"content\n").unwrap();
        let change = |name: &str| Change { path: name.into(), before: None, after: Some(after.clone()), mode: 0o644, mode_before: None };
        history.intend(call_id, &[], vec![change("a"), change("b"), change("c")], Timestamp(1)).unwrap();
        history.done(call_id).unwrap();
        let Some(past) = Instant::now().checked_sub(Duration::from_secs(1)) else { return };
        let shown = changes_until(past, &history, &files, &[call_id]);
        assert_eq!((shown.files.len(), shown.files_left_out), (0, 3), "{:?}", shown.files);
        let shown = recorded_changes(&history, &files, &[call_id]);
        assert_eq!((shown.files.len(), shown.files_left_out), (3, 0));
    }
}
