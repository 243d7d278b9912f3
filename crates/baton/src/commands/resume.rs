use crate::args::OfSession;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

pub(crate) async fn run(args: OfSession, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let epoch = pick::entity(&http.session(session).await?)?.epoch;
    let reply = pick::operate(&http, Some(session), Some(epoch), Intent::Resume { task_id: None }, false).await?;
    out.say(&json!({"event": "resumed", "session_id": session, "version": reply.version, "turn_id": reply.turn_id}), "Going on.");
    Ok(0)
}
