//! Names of states in a person's words, the same in every command, and what is shown of commands, counts and times.

use baton_proto::{Activity, CallState, ClientType, Phase, Risk, SessionEntity, Timestamp, Trust, WorkState};
use serde_json::Value;
use std::time::SystemTime;

pub(crate) const fn state(state: WorkState) -> &'static str {
    match state {
        WorkState::Pending => "rests",
        WorkState::Running => "works",
        WorkState::AwaitingInput => "waits for you",
        WorkState::Completed => "done",
        WorkState::Failed => "failed",
        WorkState::Cancelled => "stopped",
    }
}

pub(crate) const fn activity(activity: Activity) -> &'static str {
    match activity {
        Activity::Idle => "resting",
        Activity::Thinking => "thinking",
        Activity::AwaitingTool | Activity::Executing => "working",
        Activity::AwaitingUser => "waits for you",
        Activity::AwaitingDevice => "waits for a device",
        Activity::AwaitingWorkspace => "waits for the workspace",
        Activity::Retrying => "tries again soon",
        Activity::Stopping => "stopping",
        Activity::Error => "stopped by an error",
    }
}

/// How a session stands: what goes on, or how it ended.
pub(crate) const fn session(session: &SessionEntity) -> &'static str {
    match session.activity {
        Activity::Idle | Activity::Error => state(session.state),
        under_way => activity(under_way),
    }
}

pub(crate) const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "not begun",
        Phase::Planning => "planning",
        Phase::Executing => "working",
        Phase::Checking => "checking",
        Phase::WaitingUser => "waits for you",
        Phase::WaitingDevice => "waits for a device",
        Phase::Paused => "paused",
        Phase::Done => "done",
        Phase::Failed => "failed",
        Phase::Cancelled => "stopped",
    }
}

pub(crate) const fn call(state: CallState) -> &'static str {
    match state {
        CallState::Proposed | CallState::Planned => "about to begin",
        CallState::AwaitingApproval => "waits for approval",
        CallState::AwaitingAnswer => "waits for an answer",
        CallState::Started => "under way",
        CallState::Unknown => "outcome unknown",
        CallState::Cancelling => "stopping",
        CallState::Succeeded => "done",
        CallState::Failed => "failed",
        CallState::Cancelled => "stopped",
    }
}

pub(crate) const fn risk(risk: Risk) -> &'static str {
    match risk {
        Risk::Safe => "safe",
        Risk::Sensitive => "sensitive",
        Risk::Dangerous => "dangerous",
    }
}

pub(crate) const fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::Trusted => "trusted",
        Trust::Standard => "standard",
        Trust::Guest => "guest",
    }
}

pub(crate) const fn kind(kind: ClientType) -> &'static str {
    match kind {
        ClientType::Phone => "phone",
        ClientType::Tablet => "tablet",
        ClientType::Web => "web",
        ClientType::Ide => "ide",
        ClientType::Cli => "cli",
        ClientType::Device => "device",
    }
}

/// A count with what is counted.
pub(crate) fn counted(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

/// A command as a shell takes it, so that its words can be told apart.
pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// What a call is about, from its arguments, in one short line. What is empty says nothing and is left out.
pub(crate) fn call_title(tool: &str, arguments: &Value) -> String {
    let mut shown = vec![tool.to_owned()];
    for (key, value) in arguments.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => shown.push(format!("{key}={}", cut(text.lines().next().unwrap_or_default(), 48))),
            Value::Array(words) if words.is_empty() => {}
            Value::Array(words) if key == "argv" && words.iter().all(Value::is_string) => {
                let line = command(words.iter().filter_map(Value::as_str)).replace('\n', "⏎");
                shown.insert(1, cut(&line, 100));
            }
            other => shown.push(format!("{key}={}", cut(&other.to_string(), 60))),
        }
    }
    cut(&shown.join(" "), 160)
}

pub(crate) fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters - 1).chain(['…']).collect()
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A stretch of time, as exactly as people care for.
pub(crate) fn stretch(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0..60 => "a moment".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// How long it is until then.
pub(crate) fn until(at: Timestamp) -> String {
    match at.since(now()) {
        ..1000 => "at once".to_owned(),
        soon @ 1000..60_000 => format!("in {} s", soon / 1000),
        later => format!("in {}", stretch(later)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        assert_eq!(command(["sh", "-c", "echo hi; echo oops"]), "sh -c 'echo hi; echo oops'");
        assert_eq!(command(["printf", "it's", "", "文件.txt", "a-b_c.txt"]), "printf 'it'\\''s' '' '文件.txt' a-b_c.txt");
    }

    #[test]
    fn a_title_leaves_out_what_is_empty_and_begins_with_the_command() {
        let arguments = json!({"directory": "", "argv": ["sh", "-c", "a b"], "timeout_s": 120, "env": null, "inputs": []});
        assert_eq!(call_title("run_command", &arguments), "run_command sh -c 'a b' timeout_s=120");
        assert_eq!(call_title("list_files", &json!({})), "list_files");
    }

    #[test]
    fn counts_and_stretches_of_time() {
        assert_eq!((counted(1, "call", "calls"), counted(2, "call", "calls")), ("1 call".to_owned(), "2 calls".to_owned()));
        for (seconds, words) in [(-5, "a moment"), (59, "a moment"), (61, "1 min"), (7_300, "2 h"), (200_000, "2 days")] {
            assert_eq!(stretch(seconds * 1000), words);
        }
    }
}
