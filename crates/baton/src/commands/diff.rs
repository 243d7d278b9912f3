use crate::args::OfWork;
use crate::failure::Failure;
use crate::output::Output;
use crate::words::counted;
use crate::{pager, pick, profile};
use baton_proto::{CallId, FileDiff, FileStatus, RecordedChanges, SessionView, TaskId};
use serde_json::json;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// Shows what the agent changed in the workspace.
pub(crate) async fn run(args: OfWork, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    let task = match &args.task {
        Some(named) => Some(pick::task(&http.session(session).await?, named)?),
        None if args.step.is_some() => pick::tasks(&http.session(session).await?).last().copied(),
        None => None,
    };
    // What nobody named is the newest recorded change, as `baton undo` takes it back: of a task, or of a slash command.
    let (task, call) = match (task, args.step.is_none()) {
        (None, true) => newest(&http.session(session).await?),
        (task, _) => (task, None),
    };
    let diff = http.diff(session, task, args.step.as_deref(), call).await?;
    let mut value = serde_json::to_value(&diff).unwrap_or_default();
    value["event"] = json!("diff");
    let plain = words(&diff.changes);
    if out.is_json() || !std::io::stdout().is_terminal() {
        out.say(&value, plain.trim_end());
        return Ok(0);
    }
    // What it is made of has been made visible before the colours were added.
    let visible = baton_proto::make_visible(&plain);
    let shown = if colours_are_wanted() { coloured(&visible) } else { visible };
    pager::show(shown.trim_end());
    Ok(0)
}

/// The task or the call that made the newest recorded change. Without a task the hub knows what is meant by itself.
fn newest(view: &SessionView) -> (Option<TaskId>, Option<CallId>) {
    match pick::newest_change(view) {
        Some(call) if call.task_id.is_some() => (call.task_id, None),
        Some(call) if !pick::tasks(view).is_empty() => (None, Some(call.id)),
        _ => (None, None),
    }
}

/// Colours are for terminals whose users haven't declined them (no-color.org).
fn colours_are_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn words(diff: &RecordedChanges) -> String {
    let mut text = String::new();
    for file in &diff.files {
        let _ = writeln!(text, "{}", headline(file));
        text.push_str(&file.diff);
        if file.lines_left_out > 0 {
            let _ = writeln!(text, "[{} more lines of this diff are left out]", file.lines_left_out);
        }
        if let Some(note) = &file.note {
            let _ = writeln!(text, "[{note}]");
        }
        text.push('\n');
    }
    if diff.files_left_out > 0 {
        let _ = writeln!(text, "[{} more changed files are left out here; ask for a single step]", diff.files_left_out);
    }
    if diff.files.is_empty() {
        let what = if diff.undone.is_empty() { "No recorded change." } else { "No recorded change is left." };
        let _ = writeln!(text, "{what}");
    }
    if !diff.undone.is_empty() {
        let _ = writeln!(text, "[taken back: the changes of {}]", counted(diff.undone.len(), "call", "calls"));
    }
    if !diff.not_recorded.is_empty() {
        let _ = writeln!(text, "Not recorded, so neither shown nor undone:");
        for item in &diff.not_recorded {
            let _ = writeln!(text, "  {}: {}", item.path, item.reason);
        }
        if diff.not_recorded_left_out > 0 {
            let _ = writeln!(text, "  and {} more", diff.not_recorded_left_out);
        }
    }
    text
}

fn headline(file: &FileDiff) -> String {
    let status = match file.status {
        FileStatus::Added => "added",
        FileStatus::Modified => "modified",
        FileStatus::Deleted => "deleted",
        FileStatus::Renamed => "renamed",
    };
    let mut text = format!("● {status} {}", file.path);
    if let Some(old) = &file.old_path {
        let _ = write!(text, " (was {old})");
    }
    if file.added + file.removed > 0 {
        let _ = write!(text, "  +{} -{}", file.added, file.removed);
    }
    if let Some((before, after)) = file.modes {
        let _ = write!(text, "  mode {before:o} → {after:o}");
    }
    for (holds, word) in [(file.binary, "not text"), (file.too_large, "too large to compare"), (file.changed_since, "changed since")] {
        if holds {
            let _ = write!(text, "  ({word})");
        }
    }
    text
}

fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let colour = match line.chars().next() {
            Some('●') => "1",
            Some('@') => "36",
            Some('+') => "32",
            Some('-') => "31",
            Some('[') => "33",
            _ => "0",
        };
        let _ = writeln!(out, "\u{1b}[{colour}m{line}\u{1b}[0m");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::coloured;

    #[test]
    fn each_line_has_its_colour_and_ends_it() {
        assert_eq!(coloured("+a\n-b\n c"), "\u{1b}[32m+a\u{1b}[0m\n\u{1b}[31m-b\u{1b}[0m\n\u{1b}[0m c\u{1b}[0m\n");
    }
}
