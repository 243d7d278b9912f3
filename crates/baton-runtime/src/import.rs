//! Sessions that come in as a file (O1). What such a file says is data (S23): it is understood as a whole before anything is written, it
//! becomes the importing user's, and nothing that was open in it goes on, is asked, or counts as allowed.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::{Hub, Shared};
use crate::owner::{head, repeated, row, rows};
use baton_core::words::excerpt;
use baton_core::{Budgets, Command, Context, Ids, STATE_FORMAT, Session, decide, summary, upserts};
use baton_proto::{
    Changed, ClientType, DeviceId, Digest, EXPORT_FORMAT, ErrorBody, ErrorCode, Event, EventError, ExportEnd, ExportHead, MAX_EVENT_BYTES,
    MAX_JSON_DEPTH, OperationId, Reply, ReplyStatus, SessionEvent, SessionId, SessionImport, Timestamp, Trust, UserId, make_visible,
};
use baton_store::{Append, EventRow, OperationRow, StateCache, StoreError, StreamId, StreamKind, limits};
use std::sync::Arc;

/// Things of one kind that an imported session may have; one that was lived through has far fewer.
const MAX_OF_A_KIND: usize = 2_000;
/// Numbers that count on from what the file says stay below this, so that counting on can't overflow.
const MAX_COUNT: u64 = 1 << 30;
/// Bytes that the events and their views may take together; they are written in one transaction.
const MAX_WRITTEN: usize = limits::APPEND_BYTES / 2;
/// Other ids that are tried where the session's own is taken.
const MAX_TRIES: usize = 3;

/// A file, understood.
struct Understood {
    session_id: SessionId,
    events: Vec<Event>,
}

/// A log that is ready to be written under an id.
struct Ready {
    state: Session,
    rows: Vec<EventRow>,
}

impl Hub {
    /// Makes a session of an uploaded file, under the id it had where the user has none of that id, else under a fresh one. Nothing is written of a file
    /// that isn't understood as a whole.
    pub async fn import(&self, who: Identity, import: SessionImport) -> Result<Reply, ErrorBody> {
        let shared = &self.shared;
        may_import(shared, who)?;
        let digest = Digest::of_bytes(format!("import {}", import.blob).as_bytes());
        let failed = |error| told(&HubError::Store(error));
        if let Some(first) = shared.store.operation(who.user_id, import.operation_id).await.map_err(failed)? {
            return Ok(repeated(&first, &digest, import.operation_id));
        }
        // One at a time: each takes as much memory as its file and its views do.
        let _turn = self.importing.lock().await;
        let file = self.blob(who, &import.blob).await?;
        let Understood { session_id, events } = apart(move || understand(&file)).await??;
        let events = Arc::new(events);
        let mut id = session_id;
        for _ in 0..MAX_TRIES {
            let (of_task, at) = (Arc::clone(&events), context(shared, who));
            let Ready { state, rows } = apart(move || ready(id, &of_task, who, &at)).await??;
            let reply = reply(import.operation_id, &state);
            let append = Append {
                stream: StreamId { kind: StreamKind::Session, id: id.0 },
                user: who.user_id,
                expected_seq: 0,
                fence: shared.store.incarnation(),
                rows,
                head: head(&state, &summary(&state)),
                operation: Some(OperationRow {
                    operation_id: import.operation_id,
                    digest: digest.clone(),
                    reply: serde_json::to_vec(&reply).unwrap_or_default(),
                }),
            };
            match shared.store.append(append).await {
                Ok(_) => {
                    keep_state(shared, who, &state).await;
                    shared.directory.notify(who.user_id, Changed::Sessions);
                    return Ok(reply);
                }
                Err(StoreError::OperationExists(first)) => return Ok(repeated(&first, &digest, import.operation_id)),
                // A session of that id is there already, and is left as it is.
                Err(StoreError::Conflict { .. }) => id = Ids::new(shared.clock.now(), shared.clock.random()).fresh(),
                Err(error @ StoreError::TooLarge { .. }) => return Err(too_large(&error.to_string())),
                Err(error) => return Err(failed(error)),
            }
        }
        Err(ErrorBody::new(ErrorCode::Internal, "No free id was found for the session.", "Try again."))
    }
}

/// Whether an exported session would become one here, with nothing written; the number of events it would have, those that close what was
/// open in it included.
pub fn examine_export(file: &[u8]) -> Result<usize, ErrorBody> {
    let Understood { session_id, events } = understand(file)?;
    let nobody = Identity { user_id: UserId(session_id.0), device_id: DeviceId(session_id.0) };
    let now = events.first().map_or(Timestamp(0), |event| event.at);
    let at = Context {
        now,
        ids: Ids::new(now, 0),
        sender: None,
        around: Arc::default(),
        model: None,
        budgets: Budgets::default(),
        workspace_held_by: None,
        so_far: None,
    };
    Ok(ready(session_id, &events, nobody, &at)?.rows.len())
}

/// Whoever may open a session may import one (requirements, "Who may do what").
fn may_import(shared: &Shared, who: Identity) -> Result<(), ErrorBody> {
    let sender = shared
        .directory
        .acting(who)
        .ok_or_else(|| ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't paired.", "Pair it first."))?;
    if sender.trust == Trust::Guest {
        let hint = "Raise its trust on a trusted device.";
        return Err(ErrorBody::new(ErrorCode::TrustTooLow, "A guest device may not import a session.", hint));
    }
    if sender.client_type == ClientType::Device {
        let hint = "Use a phone, a browser or a terminal.";
        return Err(ErrorBody::new(ErrorCode::Forbidden, "This token belongs to a device that only acts.", hint));
    }
    Ok(())
}

/// Work that takes seconds for a large file, on a thread where it keeps nobody waiting.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ErrorBody> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "an import came to no end");
        ErrorBody::new(ErrorCode::Invalid, "The file can't be made sense of; nothing was imported.", "Export the session again.")
    })
}

fn context(shared: &Shared, who: Identity) -> Context {
    let now = shared.clock.now();
    let around = shared.directory.around(who.user_id);
    let sender = around.devices.get(&who.device_id).cloned();
    Context {
        now,
        ids: Ids::new(now, shared.clock.random()),
        sender,
        around,
        model: None,
        budgets: Budgets::default(),
        workspace_held_by: None,
        so_far: None,
    }
}

fn understand(file: &[u8]) -> Result<Understood, ErrorBody> {
    let body = file.strip_suffix(b"\n").ok_or_else(cut_short)?;
    let end_at = body.iter().rposition(|byte| *byte == b'\n').ok_or_else(cut_short)? + 1;
    let end: ExportEnd = serde_json::from_slice(&body[end_at..]).map_err(|_| cut_short())?;
    let told = &body[..end_at];
    if Digest::of_bytes(told) != end.digest {
        return Err(refused("It was changed, or damaged on its way: its digest isn't the one it ends with."));
    }
    let mut lines = told[..end_at - 1].split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    check_line(1, first)?;
    let format = serde_json::from_slice::<serde_json::Value>(first).ok().and_then(|head| head.get("baton_session")?.as_u64());
    match format {
        Some(format) if format == u64::from(EXPORT_FORMAT) => {}
        Some(format) => {
            let message =
                format!("The file has format {format}, and this version of Baton reads format {EXPORT_FORMAT}. Nothing was imported.");
            return Err(ErrorBody::new(ErrorCode::UnsupportedVersion, message, "Install the Baton that wrote it, or a newer one."));
        }
        None => return Err(refused("It is no exported session: its first line doesn't say so.")),
    }
    let head: ExportHead =
        serde_json::from_slice(first).map_err(|error| refused(&format!("Its first line can't be read: {}.", shown(&error.to_string()))))?;
    let mut events = Vec::new();
    for (number, line) in (2_usize..).zip(lines) {
        check_line(number, line)?;
        let event = Event::<SessionEvent>::decode(line).map_err(|error| unreadable(number, &error))?;
        let created = matches!(event.body, SessionEvent::SessionCreated { .. });
        if created != events.is_empty() {
            return Err(refused(&format!("Line {number} is no event that can stand there: a session is created once, at its beginning.")));
        }
        if !counts_sanely(&event.body) {
            return Err(refused(&format!("Line {number} counts in a way that no session does.")));
        }
        if events.len() >= limits::APPEND_ROWS {
            return Err(too_large(&format!("it has more than {} events", limits::APPEND_ROWS)));
        }
        events.push(event);
    }
    let count = events.len() as u64;
    if events.is_empty() || head.events != count || end.events != count {
        return Err(refused("It has another number of events than it says."));
    }
    Ok(Understood { session_id: head.session_id, events })
}

fn check_line(number: usize, line: &[u8]) -> Result<(), ErrorBody> {
    if line.len() > MAX_EVENT_BYTES + 4 * 1024 {
        return Err(too_large(&format!("line {number} has {} bytes, and an event has at most {MAX_EVENT_BYTES}", line.len())));
    }
    if depth(line) > MAX_JSON_DEPTH {
        return Err(refused(&format!("Line {number} is nested more than {MAX_JSON_DEPTH} levels deep.")));
    }
    Ok(())
}

/// How deep JSON is nested, counted before anything follows it down.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Folds the log under an id and a user of this hub, and closes what was open in it.
fn ready(id: SessionId, events: &[Event], who: Identity, at: &Context) -> Result<Ready, ErrorBody> {
    let mut state = Session::empty(id);
    let mut all = Vec::with_capacity(events.len());
    let mut written = 0;
    for event in events {
        let event = owned(event, who, at);
        state.apply(&event);
        check_size(&state)?;
        let row = row(&event, &upserts(&state, &event))?;
        written += row.event.len() + row.upserts.len();
        if written > MAX_WRITTEN {
            return Err(too_large(&format!("its events and what they show take more than {MAX_WRITTEN} bytes")));
        }
        all.push(row);
    }
    let decided = decide(&state, &Command::Imported { device: who.device_id }, at).map_err(|rejection| rejection.error)?;
    all.extend(rows(&decided)?);
    Ok(Ready { state: decided.next, rows: all })
}

/// The event as it would have been written here: of the importing user, and in a workspace of that user's or in none.
fn owned(event: &Event, who: Identity, at: &Context) -> Event {
    let mut event = event.clone();
    if let SessionEvent::SessionCreated { user_id, workspace, .. } = &mut event.body {
        *user_id = who.user_id;
        let told = workspace.take();
        *workspace = told.and_then(|told| at.around.workspaces.iter().find(|own| own.workspace_id == told.workspace_id).cloned());
    }
    event
}

fn counts_sanely(body: &SessionEvent) -> bool {
    match body {
        SessionEvent::SessionCreated { epoch, .. }
        | SessionEvent::HandoffAccepted { epoch, .. }
        | SessionEvent::HandoffTakenOver { epoch, .. }
        | SessionEvent::HandoffReleased { epoch, .. } => *epoch <= MAX_COUNT,
        SessionEvent::TaskCreated { core_intent, .. } | SessionEvent::TaskIntentRevised { core_intent, .. } => {
            u64::from(core_intent.version) <= MAX_COUNT
        }
        SessionEvent::TaskProgressed { progress, .. } => *progress <= 100,
        _ => true,
    }
}

/// Bounds what a state holds, before a file that was made to harm lets it grow without end.
fn check_size(state: &Session) -> Result<(), ErrorBody> {
    let sizes = [
        ("tasks", state.tasks.len()),
        ("calls at once", state.calls.len()),
        ("approvals", state.approvals.len()),
        ("questions", state.questions.len()),
        ("notes", state.notes.len()),
        ("messages in line", state.queue.len()),
    ];
    match sizes.into_iter().find(|(_, size)| *size > MAX_OF_A_KIND) {
        Some((what, _)) => Err(too_large(&format!("it has more than {MAX_OF_A_KIND} {what}"))),
        None => Ok(()),
    }
}

fn reply(operation_id: OperationId, state: &Session) -> Reply {
    Reply {
        operation_id,
        status: ReplyStatus::Accepted,
        session_id: Some(state.id),
        version: state.seq,
        epoch: state.holder.epoch,
        turn_id: None,
        task_id: None,
        error: None,
    }
}

/// Spares the first opening the fold. Disposable: a failure only costs time.
async fn keep_state(shared: &Shared, who: Identity, state: &Session) {
    let Ok(bytes) = serde_json::to_vec(state) else { return };
    let stream = StreamId { kind: StreamKind::Session, id: state.id.0 };
    if let Err(error) = shared.store.put_state(who.user_id, stream, StateCache { seq: state.seq, format: STATE_FORMAT, bytes }).await {
        tracing::debug!(session = %state.id, %error, "the state was not cached");
    }
}

fn unreadable(line: usize, error: &EventError) -> ErrorBody {
    match error {
        EventError::UnknownType(_) | EventError::NewerVersion { .. } => ErrorBody::new(
            ErrorCode::UnsupportedVersion,
            format!("Line {line} can't be imported: {}. Nothing was imported.", shown(&error.to_string())),
            "Import it with the Baton that wrote it, or a newer one.",
        ),
        EventError::Malformed(_) => refused(&format!("Line {line} can't be read: {}.", shown(&error.to_string()))),
    }
}

fn cut_short() -> ErrorBody {
    refused("It is cut short: its last line is missing.")
}

fn refused(why: &str) -> ErrorBody {
    ErrorBody::new(
        ErrorCode::Invalid,
        format!("The file can't be imported. {why} Nothing was imported."),
        "Export the session again with `baton export`, and import that file unchanged.",
    )
}

fn too_large(why: &str) -> ErrorBody {
    ErrorBody::new(
        ErrorCode::TooLarge,
        format!("The session is too large to be imported: {why}. Nothing was imported."),
        "Move all of the hub's data with `baton backup` instead.",
    )
}

/// What a reader says of a file may repeat what stands in it: bounded, and with nothing that deceives the eye.
fn shown(reason: &str) -> String {
    make_visible(&excerpt(reason, 300))
}
