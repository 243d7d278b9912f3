use crate::args::Place;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

/// Puts a session away, or brings it back.
pub(crate) async fn run(args: Place, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session(&http, &args.id).await?;
    let archived = !args.undo;
    pick::operate(&http, Some(session), None, Intent::Archive { archived }, false).await?;
    let told = if archived { "Put away. Speaking in it, or `baton archive ID --undo`, brings it back." } else { "It is back in the list." };
    out.say(&json!({"event": "session_archived", "session_id": session, "archived": archived}), told);
    Ok(0)
}
