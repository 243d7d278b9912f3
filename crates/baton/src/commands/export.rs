use crate::args::Export;
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, pick, profile};
use baton_client::{ChangeEntry, Http};
use baton_proto::{Digest, EXPORT_FORMAT, ExportEnd, ExportHead, SessionId, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

/// Events of a page.
const PAGE: u32 = 1000;

/// A session's log as a file.
struct Exported {
    file: Vec<u8>,
    events: u64,
    /// Digests of what the events name and the file doesn't hold: the wholes of long outputs, and files that went with messages.
    named: BTreeSet<String>,
}

/// Writes a session's log to a file, for keeping or for another hub.
pub(crate) async fn run(args: Export, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let path = args.file.unwrap_or_else(|| PathBuf::from(format!("baton-session-{session}.jsonl")));
    // Asked before the work, and made sure of when it is written.
    if path.symlink_metadata().is_ok() {
        return Err(files::exists(&path));
    }
    let Exported { file, events, named } = exported(&http, session).await?;
    files::write_private_new(&path, &file)?;
    let missing = match named.len() {
        0 => String::new(),
        1 => "\nIt names a file or a long output that is not in it.".to_owned(),
        count => format!("\nIt names {count} files or long outputs that are not in it."),
    };
    out.say(
        &json!({"event": "exported", "session_id": session, "file": path, "events": events, "bytes": file.len(), "not_included": named}),
        &format!("{} holds the session with its {events} events. Keep it as you keep the hub's data.{missing}", path.display()),
    );
    Ok(0)
}

/// The session as it was when the export began; what is said meanwhile is not in it.
async fn exported(http: &Http, session: SessionId) -> Result<Exported, Failure> {
    let view = http.session(session).await?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (mut file, mut named) = (Vec::new(), BTreeSet::new());
    let head = ExportHead {
        baton_session: EXPORT_FORMAT,
        session_id: session,
        title: pick::entity(&view)?.title.clone(),
        events: view.seq,
        exported_at: Timestamp(i64::try_from(now.as_millis()).unwrap_or(0)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    line(&mut file, &head)?;
    let mut after = 0;
    while after < view.seq {
        let page = http.events(session, after, Some(PAGE)).await?;
        for entry in page.changes.iter().filter(|entry| entry.seq() <= view.seq) {
            let ChangeEntry::Known(change) = entry else {
                return Err(Failure::failed(
                    format!("Event {} is of a kind that this version of Baton doesn't know. Nothing was exported.", entry.seq()),
                    "Use a `baton` of the hub's version.",
                ));
            };
            if change.seq != after + 1 {
                return Err(Failure::failed(format!("The hub left out event {}.", after + 1), "Look at the hub's log."));
            }
            line(&mut file, &change.event)?;
            name_digests(&serde_json::to_value(&change.event).unwrap_or_default(), &mut named);
            after = change.seq;
        }
        if page.changes.is_empty() {
            return Err(Failure::failed(format!("The hub has no event {}.", after + 1), "Look at the hub's log."));
        }
    }
    let end = ExportEnd { events: view.seq, digest: Digest::of_bytes(&file) };
    line(&mut file, &end)?;
    Ok(Exported { file, events: view.seq, named })
}

/// Wherever something is named by what it consists of, the name stands under `digest`.
fn name_digests(value: &Value, named: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            named.extend(fields.get("digest").and_then(Value::as_str).filter(|digest| digest.len() == 64).map(str::to_owned));
            fields.values().for_each(|value| name_digests(value, named));
        }
        Value::Array(items) => items.iter().for_each(|item| name_digests(item, named)),
        _ => {}
    }
}

fn line(file: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(&mut *file, value)
        .map_err(|error| Failure::failed(format!("The session can't be written: {error}."), "Report this."))?;
    file.push(b'\n');
    Ok(())
}
