//! What each command does to a session: one file a family, one shape. Every decision ends in [`advance`], which takes the state
//! as far as it goes by itself, so that a result and the intention that follows from it are one commit.

mod advance;
mod answers;
mod budget;
mod context;
mod devices;
mod handoff;
mod imported;
mod list;
mod model;
mod notes;
mod say;
mod stop;
mod tools;

use crate::command::Command;
use crate::context::{ActingDevice, Context};
use crate::draft::Draft;
use crate::policy;
use crate::session::Session;
use baton_proto::{Actor, ClientType, EntityView, ErrorBody, ErrorCode, Event, Intent, Operation, SessionEvent, TaskId, TurnId};

pub(crate) use advance::advance;

/// What follows from a command: events to append, the state that they lead to, and what the asker is told of them.
#[derive(Clone, Debug)]
pub struct Decided {
    pub events: Vec<Event>,
    /// For each event the entities that it touched, as they were right after it ([`crate::upserts`]).
    pub upserts: Vec<Vec<EntityView>>,
    /// The state after the last event.
    pub next: Session,
    pub turn_id: Option<TurnId>,
    pub task_id: Option<TaskId>,
}

impl Decided {
    /// That nothing follows.
    pub fn nothing(state: &Session) -> Self {
        Self { events: Vec::new(), upserts: Vec::new(), next: state.clone(), turn_id: None, task_id: None }
    }
}

/// A no, with what is to be traced of it (H8).
#[derive(Clone, Debug)]
pub struct Rejection {
    pub error: ErrorBody,
    pub trace: Option<Decided>,
}

/// What a command does to a session. It may say no, and then nothing is changed but the trace.
pub fn decide(state: &Session, command: &Command, at: &Context) -> Result<Decided, Box<Rejection>> {
    if !state.exists() && !matches!(command, Command::Operation(_)) {
        return Ok(Decided::nothing(state));
    }
    let mut draft = match command {
        Command::Operation(operation) => {
            let sender = at.sender.clone().ok_or_else(|| {
                without_trace(ErrorBody::new(ErrorCode::Unauthenticated, "Nobody is signed in.", "Pair this device first."))
            })?;
            return decide_operation(state, operation, &sender, at).map_err(|error| Box::new(traced(state, operation, &sender, error, at)));
        }
        Command::Model { .. } => Draft::new(state, at, None, Actor::Agent),
        Command::Prepared { device, .. }
        | Command::ToolStarted { device, .. }
        | Command::ToolResult { device, .. }
        | Command::Probed { device, .. }
        | Command::DeviceReported { device, .. }
        | Command::Imported { device } => Draft::new(state, at, None, Actor::Device(*device)),
        Command::DeviceLost { .. }
        | Command::Resumed { .. }
        | Command::Released { .. }
        | Command::Tick
        | Command::WorkspaceSeen { .. }
        | Command::WorkspaceGranted { .. } => Draft::new(state, at, None, Actor::Hub),
    };
    match command {
        Command::Operation(_) => {}
        Command::Model { model_call_id, attempt, outcome } => model::ended(&mut draft, *model_call_id, *attempt, outcome),
        Command::Prepared { call_id, device, prepared } => tools::prepared(&mut draft, *call_id, *device, prepared),
        Command::ToolStarted { call_id, attempt, device } => tools::started(&mut draft, *call_id, *attempt, *device),
        Command::ToolResult { call_id, attempt, device, outcome } => tools::ended(&mut draft, *call_id, *attempt, *device, outcome),
        Command::Probed { call_id, attempt, device, finding } => tools::probed(&mut draft, *call_id, *attempt, *device, finding),
        Command::DeviceReported { device, running } => devices::reported(&mut draft, *device, running),
        Command::DeviceLost { device } => devices::lost(&mut draft, *device),
        Command::Resumed { incarnation } => {
            devices::resumed(&mut draft, *incarnation);
            return Ok(draft.decided());
        }
        Command::Imported { device } => {
            imported::imported(&mut draft, *device);
            return Ok(draft.decided());
        }
        Command::Released { incarnation } => devices::released(&mut draft, *incarnation),
        Command::WorkspaceGranted { baseline } => devices::workspace_granted(&mut draft, baseline.as_ref()),
        Command::WorkspaceSeen { baseline, files, files_left_out } => {
            devices::workspace_changed(&mut draft, baseline, files, *files_left_out);
            answers::ask_dangerous_anew(&mut draft);
        }
        Command::Tick => {
            model::retry_if_due(&mut draft);
            handoff::expire_if_due(&mut draft);
            answers::expire_if_due(&mut draft);
        }
    }
    advance(&mut draft);
    Ok(draft.decided())
}

fn decide_operation(state: &Session, operation: &Operation, sender: &ActingDevice, at: &Context) -> Result<Decided, ErrorBody> {
    check_sender(operation, sender)?;
    let mut draft = Draft::new(state, at, Some(operation.operation_id), Actor::Device(sender.device_id));
    if let Intent::NewSession { title, workspace } = &operation.intent {
        say::new_session(&mut draft, sender, title.as_deref(), *workspace)?;
        return Ok(draft.decided());
    }
    if !state.exists() {
        return Err(ErrorBody::not_found("session"));
    }
    let standing = policy::standing(state, operation, sender, at)?;
    match &operation.intent {
        Intent::NewSession { .. } => {}
        Intent::Say { text, selection, attachments, delivery } => {
            budget::of_the_day(&mut draft, operation, standing)?;
            handoff::take_over_first(&mut draft, operation, sender, standing)?;
            list::bring_back(&mut draft);
            let said = say::Said { text: text.trim(), selection: selection.as_ref(), attachments, named_calls: &operation.named_calls };
            say::say(&mut draft, sender, &said, *delivery)?;
        }
        Intent::NewTask { title, description, acceptance } => {
            budget::of_the_day(&mut draft, operation, standing)?;
            handoff::take_over_first(&mut draft, operation, sender, standing)?;
            list::bring_back(&mut draft);
            say::new_task(&mut draft, sender, title, description, acceptance)?;
        }
        Intent::Resume { task_id } => {
            budget::of_the_day(&mut draft, operation, standing)?;
            handoff::take_over_first(&mut draft, operation, sender, standing)?;
            list::bring_back(&mut draft);
            stop::resume(&mut draft, *task_id)?;
        }
        Intent::Confirm { approval_id, decision, remember: _, reason } => {
            answers::confirm(
                &mut draft,
                operation,
                sender,
                *approval_id,
                answers::Verdict { decision: *decision, reason: reason.as_deref() },
            )?;
        }
        Intent::Answer { question_id, text, option } => {
            answers::answer(&mut draft, operation, sender, *question_id, text.as_deref(), option.as_deref())?;
        }
        Intent::Cancel { task_id } => stop::stop(&mut draft, sender, *task_id, stop::Kind::Cancel)?,
        Intent::Pause { task_id } => stop::stop(&mut draft, sender, *task_id, stop::Kind::Pause)?,
        Intent::Handoff { to_device } => handoff::offer(&mut draft, operation, sender, *to_device)?,
        Intent::AcceptHandoff { handoff_id } => handoff::accept(&mut draft, sender, *handoff_id)?,
        Intent::DeclineHandoff { handoff_id } => handoff::decline(&mut draft, sender, *handoff_id)?,
        Intent::TakeOver { force } => handoff::take_over(&mut draft, operation, sender, standing, *force)?,
        Intent::Release {} => handoff::release(&mut draft, sender),
        Intent::SetNote { key, value } => notes::set(&mut draft, operation, key, value)?,
        Intent::Forget { key } => notes::forget(&mut draft, operation, key)?,
        Intent::Rename { title } => list::rename(&mut draft, title)?,
        Intent::Pin { pinned } => list::pin(&mut draft, *pinned),
        Intent::Archive { archived } => list::archive(&mut draft, *archived)?,
        Intent::ResetContext {} => context::reset(&mut draft, operation)?,
        Intent::UndoReset {} => context::undo_reset(&mut draft)?,
    }
    advance(&mut draft);
    let turn_id = draft.state.open_turn().map(|turn| turn.id);
    let task_id = draft.state.turn.as_ref().and_then(|turn| turn.task_id);
    Ok(Decided { turn_id, task_id, ..draft.decided() })
}

/// The envelope may repeat who sends; it may not claim somebody else (S5).
fn check_sender(operation: &Operation, sender: &ActingDevice) -> Result<(), ErrorBody> {
    let other_id = operation.sender_id.is_some_and(|id| id != sender.device_id);
    let other_type = operation.client_type.is_some_and(|kind| kind != sender.client_type);
    if other_id || other_type {
        return Err(ErrorBody::invalid("The envelope names another sender than the token's device."));
    }
    if sender.client_type == ClientType::Device {
        return Err(ErrorBody::new(
            ErrorCode::Forbidden,
            "This token belongs to a device that only acts; it has no user in front of it.",
            "Pair a phone, a browser or a terminal, and use that.",
        ));
    }
    Ok(())
}

fn without_trace(error: ErrorBody) -> Rejection {
    Rejection { error, trace: None }
}

/// Conflicts stay in the session's trace (H8); a refusal of a stranger doesn't.
fn traced(state: &Session, operation: &Operation, sender: &ActingDevice, error: ErrorBody, at: &Context) -> Rejection {
    let mut trace = None;
    if state.exists()
        && matches!(error.code, ErrorCode::StaleEpoch | ErrorCode::StaleVersion | ErrorCode::ApprovalClosed | ErrorCode::QuestionClosed)
    {
        let mut draft = Draft::new(state, at, Some(operation.operation_id), Actor::Device(sender.device_id));
        draft.emit(SessionEvent::ConflictRefused {
            intent: operation.intent.name().to_owned(),
            code: error.code,
            device_id: sender.device_id,
        });
        trace = Some(draft.decided());
    }
    Rejection { error, trace }
}

pub(crate) use advance::conclude;
pub use advance::needs_workspace;
pub(crate) use answers::result_of as answers_result;
pub use model::MAX_CALLS;
pub(crate) use notes::check_note;
pub use say::MAX_ATTACHMENTS;
pub(crate) use stop::set_phase;
