use crate::args::Stop;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

pub(crate) async fn run(args: Stop, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let intent = if args.pause { Intent::Pause { task_id: None } } else { Intent::Cancel { task_id: None } };
    let reply = pick::operate(&http, Some(session), None, intent, false).await?;
    let (event, text) = if args.pause { ("pausing", "Pausing.") } else { ("stopping", "Stopping.") };
    out.say(&json!({"event": event, "session_id": session, "version": reply.version}), text);
    Ok(0)
}
