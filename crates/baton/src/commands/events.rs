use crate::args::Events;
use crate::failure::Failure;
use crate::output::{Output, json_line};
use crate::progress::{Until, follow};
use crate::{pick, profile};
use baton_client::ChangeEntry;

/// Prints events as JSON, one a line, whichever form was asked for: they are for programs and for looking closely.
pub(crate) async fn run(args: Events, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let profile = profile::load(profile)?;
    let http = profile.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    if args.follow {
        return follow(&profile, session, args.after, Until::Interrupted, true, out).await;
    }
    let mut after = args.after;
    loop {
        let page = http.events(session, after, Some(500)).await?;
        let Some(last) = page.changes.last().map(ChangeEntry::seq) else { return Ok(0) };
        for entry in &page.changes {
            match entry {
                ChangeEntry::Known(change) => json_line(&serde_json::to_string(change).unwrap_or_default()),
                ChangeEntry::Unknown(change) => {
                    json_line(&serde_json::json!({"session_id": session, "seq": change.seq, "event": null}).to_string());
                }
            }
        }
        after = last;
    }
}
