use crate::args::Release;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

/// Gives the session up, so that whoever speaks next has it.
pub(crate) async fn run(args: Release, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    let epoch = pick::entity(&http.session(session).await?)?.epoch;
    let reply = pick::operate(&http, Some(session), Some(epoch), Intent::Release {}, args.confirm).await?;
    out.say(
        &json!({"event": "released", "session_id": session, "epoch": reply.epoch, "version": reply.version}),
        "Released. Whichever device speaks next has the session.",
    );
    Ok(0)
}
