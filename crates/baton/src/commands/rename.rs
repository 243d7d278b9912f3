use crate::args::Rename;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

/// A title of the user's own, which stays.
pub(crate) async fn run(args: Rename, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    let title = args.title.trim().to_owned();
    pick::operate(&http, Some(session), None, Intent::Rename { title: title.clone() }, false).await?;
    out.say(&json!({"event": "session_renamed", "session_id": session, "title": title}), &format!("Renamed to '{title}'."));
    Ok(0)
}
