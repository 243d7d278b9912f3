use super::begin;
use crate::args::Send;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{Until, follow};
use crate::{pick, profile};
use baton_client::Http;
use baton_proto::{Attachment, Delivery, Intent, MAX_TEXT_BYTES, SessionId};
use serde_json::json;
use std::io::Read;
use std::path::Path;

/// Files that go with one message.
const MAX_ATTACHED: usize = 10;
/// The hub's limit of one upload.
const MAX_ATTACHED_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(args: Send, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let profile = profile::load(profile)?;
    let http = profile.http()?;
    let (text, mut files) = text(args.text)?;
    for path in &args.attach {
        files.push(file(path)?);
    }
    if files.len() > MAX_ATTACHED {
        let message = format!("{} files are attached; {MAX_ATTACHED} go with one message.", files.len());
        return Err(Failure::usage(message, "Send them in several messages."));
    }
    let mut attachments = Vec::with_capacity(files.len());
    for file in files {
        let bytes = file.bytes.len() as u64;
        let digest = http.upload(&file.bytes).await?;
        attachments.push(Attachment { digest, name: file.name, media_type: file.media_type.to_owned(), bytes });
    }
    let new = args.new || args.workspace.is_some();
    let Target { session, epoch, before, begun } = target(&http, args.session.as_deref(), new, args.workspace.as_deref()).await?;
    let delivery = delivery(args.queue, args.interrupt);
    let intent = Intent::Say { text, selection: None, attachments, delivery };
    let reply = match pick::operate(&http, Some(session), Some(epoch), intent, args.confirm).await {
        Ok(reply) => reply,
        Err(failure) => {
            // Only where the hub did refuse: what it may have taken in isn't put away.
            if begun && failure.is_refusal() {
                begin::put_away(&http, session).await;
            }
            return Err(failure);
        }
    };
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

/// A file to attach.
struct File {
    name: String,
    media_type: &'static str,
    bytes: Vec<u8>,
}

/// What is said, with the files that go with it. Standard input that is too long for a message goes with it as a file, whole.
fn text(given: String) -> Result<(String, Vec<File>), Failure> {
    if given != "-" {
        // Refused here, before a session is opened for it.
        return if in_json(&given) > MAX_TEXT_BYTES { Err(too_long(in_json(&given))) } else { Ok((given, Vec::new())) };
    }
    // Bytes, since a character may lie across the limit.
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_ATTACHED_BYTES + 1).read_to_end(&mut bytes)?;
    let bytes = within_limit("Standard input", bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage("Standard input isn't text in UTF-8.", "Attach it with --attach."))?;
    // As the hub counts it: line ends and quotes take two bytes.
    if in_json(&text) <= MAX_TEXT_BYTES {
        return Ok((text, Vec::new()));
    }
    let attached = File { name: "stdin.txt".to_owned(), media_type: "text/plain", bytes: text.into_bytes() };
    Ok(("Read the attached text, stdin.txt.".to_owned(), vec![attached]))
}

fn in_json(text: &str) -> usize {
    serde_json::to_string(text).map_or(usize::MAX, |json| json.len() - 2)
}

fn too_long(bytes: usize) -> Failure {
    Failure::usage(
        format!("The message has {bytes} bytes in JSON; {MAX_TEXT_BYTES} is the limit of a message."),
        "Pipe it in with `-`, or put it into a file and attach that with --attach.",
    )
}

fn within_limit(what: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if bytes.len() as u64 > MAX_ATTACHED_BYTES {
        return Err(Failure::usage(
            format!("{what} has more than {MAX_ATTACHED_BYTES} bytes, which is the limit of an attached file."),
            "Put it into the workspace and name it.",
        ));
    }
    Ok(bytes)
}

/// A file as it is attached.
fn file(path: &Path) -> Result<File, Failure> {
    let shown = path.display().to_string();
    let refused = |error: std::io::Error| Failure::usage(format!("{shown} can't be read: {error}."), "Name a file that exists.");
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|opened| opened.take(MAX_ATTACHED_BYTES + 1).read_to_end(&mut bytes)).map_err(refused)?;
    let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
    Ok(File { media_type: media_type(&name), bytes: within_limit(&shown, bytes)?, name })
}

/// By the end of its name; what it is shown as.
fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase()).as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        Some("txt" | "md" | "log" | "csv" | "html" | "css" | "js" | "ts" | "rs" | "py" | "toml" | "yaml" | "yml" | "sh") => "text/plain",
        _ => "application/octet-stream",
    }
}

/// The session that is meant.
struct Target {
    session: SessionId,
    epoch: u64,
    /// The sequence number before what is about to be said.
    before: u64,
    /// Whether it was opened for it.
    begun: bool,
}

async fn target(http: &Http, named: Option<&str>, new: bool, workspace: Option<&str>) -> Result<Target, Failure> {
    let session = match named {
        Some(named) => Some(pick::session(http, named).await?),
        None if new => None,
        None => pick::newest(http).await?.map(|session| session.session_id),
    };
    if let Some(session) = session {
        let view = http.session(session).await?;
        return Ok(Target { session, epoch: pick::entity(&view)?.epoch, before: view.seq, begun: false });
    }
    let (session, reply) = begin::session(http, workspace).await?;
    Ok(Target { session, epoch: reply.epoch, before: reply.version, begun: true })
}
