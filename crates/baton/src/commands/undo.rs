use crate::args::Undo;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Until, follow};
use crate::{pick, profile};
use baton_proto::{Delivery, Intent};
use serde_json::json;

/// Takes changes back, those of a task or the newest, as a literal request that goes through the ledger like any other.
pub(crate) async fn run(args: Undo, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let profile = profile::load(profile)?;
    let http = profile.http()?;
    let session = pick::session_or_newest(&http, args.work.session.as_deref()).await?;
    let view = http.session(session).await?;
    let task = match &args.work.task {
        Some(named) => Some(pick::task(&view, named)?),
        None => match pick::newest_change(&view) {
            Some(newest) if args.work.step.is_none() => newest.task_id,
            _ => pick::tasks(&view).last().copied(),
        },
    };
    let text = match (task, &args.work.step) {
        (Some(task), None) => format!("/undo {task}"),
        (Some(task), Some(step)) => format!("/undo {task} {}", quoted(step)),
        (None, Some(_)) => {
            return Err(Failure::failed(
                "That session has no task with steps.",
                "Without --step the newest recorded change is taken back.",
            ));
        }
        // What a slash command changed belongs to no task. `baton diff` shows the same.
        (None, None) => "/undo".to_owned(),
    };
    let intent = Intent::Say { text, selection: None, attachments: Vec::new(), delivery: Delivery::Steer };
    let reply = pick::operate(&http, Some(session), Some(pick::entity(&view)?.epoch), intent, args.confirm).await?;
    out.say(
        &json!({"event": "sent", "session_id": session, "operation_id": reply.operation_id, "version": reply.version, "epoch": reply.epoch, "turn_id": reply.turn_id, "task_id": task}),
        "",
    );
    follow(&profile, session, view.seq, Until::Rest(reply.turn_id), false, out).await
}

/// A word of a command, whatever it consists of.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
