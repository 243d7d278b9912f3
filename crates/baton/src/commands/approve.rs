use crate::args::{Approve, Reject, Scope};
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::{Decision, Intent, Remember, RememberScope};
use serde_json::json;

pub(crate) async fn approve(args: Approve, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let scope = args.remember.map(|scope| match scope {
        Scope::Task => RememberScope::Task,
        Scope::Always => RememberScope::Always,
    });
    let remember = scope.map(|scope| Remember { scope, prefix_words: args.prefix });
    decide(&args.id, Decision::Approve, remember, None, args.confirm, profile, out).await
}

pub(crate) async fn reject(args: Reject, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    decide(&args.id, Decision::Reject, None, args.reason, false, profile, out).await
}

async fn decide(
    id: &str,
    decision: Decision,
    remember: Option<Remember>,
    reason: Option<String>,
    confirmed: bool,
    profile: Option<&str>,
    out: &Output,
) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let (session, approval) = pick::approval(&http, id).await?;
    let intent = Intent::Confirm { approval_id: approval.id, decision, remember, reason };
    let reply = pick::operate(&http, Some(session), None, intent, confirmed).await?;
    let (word, text) = match (decision, remember.is_some()) {
        (Decision::Approve, false) => ("approved", "Approved: "),
        (Decision::Approve, true) => ("approved", "Approved, and remembered (`baton rules` lists what is): "),
        (Decision::Reject, _) => ("rejected", "Rejected: "),
    };
    out.say(
        &json!({"event": word, "approval_id": approval.id, "session_id": session, "version": reply.version}),
        &format!("{text}{}", approval.binding.preview),
    );
    Ok(0)
}
