use crate::args::Sessions;
use crate::failure::Failure;
use crate::output::Output;
use crate::{profile, words};
use baton_proto::{SessionFilter, WorkState};
use serde_json::{Value, json};

pub(crate) async fn run(args: Sessions, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let filter = SessionFilter { archived: args.archived, waiting: args.waiting, pinned: args.pinned };
    let list = profile::load(profile)?.http()?.sessions_that(filter, None, Some(args.limit.clamp(1, 200))).await?;
    if list.sessions.is_empty() {
        let none = match (args.waiting, args.archived, args.pinned) {
            (true, ..) => "Nothing waits for you.",
            (_, true, _) => "No session is archived.",
            (_, _, true) => "No session is pinned. `baton pin ID` pins one.",
            _ => "No session yet. Open one with `baton send --new TEXT`.",
        };
        out.say(&Value::Null, none);
    }
    for session in list.sessions {
        let mut value = serde_json::to_value(&session).unwrap_or_default();
        value["event"] = json!("session");
        let waits = if session.waiting > 0 { format!("  ● {} waiting for you", session.waiting) } else { String::new() };
        let pinned = if session.pinned { "  (pinned)" } else { "" };
        let state = words::state(session.state);
        let title = if session.title.is_empty() { "(nothing said yet)" } else { &session.title };
        // One that rests says why, so that nobody takes it for one that is merely slow.
        let rests = matches!(session.state, WorkState::Pending | WorkState::Failed) && !session.line.is_empty();
        let why = if rests { format!("\n    {}", session.line) } else { String::new() };
        out.say(&value, &format!("{}  {state:<13} {:>3} %  {title}{pinned}{waits}{why}", session.session_id, session.progress));
    }
    Ok(0)
}
