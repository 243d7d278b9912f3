use crate::args::Place;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

/// Keeps a session at the top of lists, or no longer.
pub(crate) async fn run(args: Place, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session(&http, &args.id).await?;
    let pinned = !args.undo;
    pick::operate(&http, Some(session), None, Intent::Pin { pinned }, false).await?;
    let told = if pinned { "Pinned." } else { "No longer pinned." };
    out.say(&json!({"event": "session_pinned", "session_id": session, "pinned": pinned}), told);
    Ok(0)
}
