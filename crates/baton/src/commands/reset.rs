use crate::args::Reset;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

/// Resets what the agent sees of a session, or takes the latest reset back (D7).
pub(crate) async fn run(args: Reset, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    let epoch = pick::entity(&http.session(session).await?)?.epoch;
    let (intent, event, told) = if args.undo {
        (Intent::UndoReset {}, "context_restored", "Taken back. The agent sees again what it saw before.")
    } else {
        let told = "Reset. The agent begins afresh; open tasks, facts and notes stay. `baton reset --undo` takes it back.";
        (Intent::ResetContext {}, "context_reset", told)
    };
    let reply = pick::operate(&http, Some(session), Some(epoch), intent, args.confirm).await?;
    out.say(&json!({"event": event, "session_id": session, "version": reply.version}), told);
    Ok(0)
}
