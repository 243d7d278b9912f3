use crate::args::Answering;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::{Decision, Intent};
use serde_json::json;

pub(crate) async fn run(args: Answering, approve: bool, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let (session, approval) = pick::approval(&http, &args.id).await?;
    let decision = if approve { Decision::Approve } else { Decision::Reject };
    let reply = pick::operate(&http, Some(session), None, Intent::Confirm { approval_id: approval.id, decision }, args.confirm).await?;
    let (word, text) = if approve { ("approved", "Approved: ") } else { ("rejected", "Rejected: ") };
    out.say(
        &json!({"event": word, "approval_id": approval.id, "session_id": session, "version": reply.version}),
        &format!("{text}{}", approval.binding.preview),
    );
    Ok(0)
}
