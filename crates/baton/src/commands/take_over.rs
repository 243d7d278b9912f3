use crate::args::TakeOver;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

pub(crate) async fn run(args: TakeOver, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let epoch = pick::entity(&http.session(session).await?)?.epoch;
    let reply = pick::operate(&http, Some(session), Some(epoch), Intent::TakeOver { force: args.force }, args.confirm).await?;
    let brief = http.brief(session).await?;
    out.say(
        &json!({"event": "taken_over", "session_id": session, "epoch": reply.epoch, "version": reply.version, "brief": brief}),
        &format!("This terminal holds the session now.\n{}", brief.text),
    );
    Ok(0)
}
