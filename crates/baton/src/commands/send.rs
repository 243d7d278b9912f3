use crate::args::Send;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Until, follow};
use crate::{pick, profile};
use baton_client::Http;
use baton_proto::{Delivery, Intent, MAX_TEXT_BYTES, SessionId};
use serde_json::json;
use std::io::Read;

pub(crate) async fn run(args: Send, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let profile = profile::load(profile)?;
    let http = profile.http()?;
    let text = text(args.text)?;
    let (session, epoch, before) = target(&http, args.session.as_deref(), args.new).await?;
    let delivery = delivery(args.queue, args.interrupt);
    let intent = Intent::Say { text, selection: None, delivery };
    let reply = pick::operate(&http, Some(session), Some(epoch), intent, args.confirm).await?;
    out.say(
        &json!({"event": "sent", "session_id": session, "operation_id": reply.operation_id, "version": reply.version, "epoch": reply.epoch, "turn_id": reply.turn_id, "task_id": reply.task_id}),
        &if args.wait { String::new() } else { format!("Sent to session {session}.") },
    );
    if !args.wait {
        return Ok(0);
    }
    let until = if delivery == Delivery::Steer { Until::Rest(reply.turn_id) } else { Until::RestBehind };
    follow(&profile, session, before, until, false, out).await
}

const fn delivery(queue: bool, interrupt: bool) -> Delivery {
    match (queue, interrupt) {
        (true, _) => Delivery::Queue,
        (false, true) => Delivery::Interrupt,
        (false, false) => Delivery::Steer,
    }
}

fn text(given: String) -> Result<String, Failure> {
    if given != "-" {
        return Ok(given);
    }
    let mut text = String::new();
    let limit = u64::try_from(MAX_TEXT_BYTES).unwrap_or(u64::MAX);
    std::io::stdin().lock().take(limit + 1).read_to_string(&mut text)?;
    if text.len() > MAX_TEXT_BYTES {
        return Err(Failure::usage(
            format!("Standard input has more than {MAX_TEXT_BYTES} bytes, which is the limit of a message."),
            "Put the text into a file of the workspace and name it.",
        ));
    }
    Ok(text)
}

/// The session that is meant, its epoch, and the sequence number before what is about to be said.
async fn target(http: &Http, named: Option<&str>, new: bool) -> Result<(SessionId, u64, u64), Failure> {
    let session = match named {
        Some(named) => Some(pick::session(http, named).await?),
        None if new => None,
        None => pick::newest(http).await?.map(|session| session.session_id),
    };
    if let Some(session) = session {
        let view = http.session(session).await?;
        return Ok((session, pick::entity(&view)?.epoch, view.seq));
    }
    let reply = pick::operate(http, None, None, Intent::NewSession { title: None, workspace: None }, false).await?;
    let session = reply
        .session_id
        .ok_or_else(|| Failure::failed("The hub opened a session without naming it.", "Are hub and terminal of the same version?"))?;
    Ok((session, reply.epoch, reply.version))
}
