use super::tools::{self, Proposal};
use super::{answers, budget, list, stop};
use crate::context::ActingDevice;
use crate::draft::Draft;
use crate::slash::{self, Literal};
use crate::words;
use baton_proto::{
    Attachment, CallId, CallOrigin, CoreIntent, Delivery, ErrorBody, ErrorCode, MAX_NAME_CHARS, MAX_TEXT_BYTES, MessageId, Phase,
    QuestionKind, Role, Selection, SessionEvent, TaskId, Trust, TurnId, TurnState, WorkspaceId,
};
use serde_json::json;

/// Tasks of a session that haven't ended, at most: its state stays small whatever is asked of it.
const MAX_OPEN_TASKS: usize = 40;

/// Files that go with one message.
pub const MAX_ATTACHMENTS: usize = 10;

/// Characters of a file's name.
const MAX_FILE_NAME: usize = 200;

/// Messages that may wait for the end of a turn.
const MAX_QUEUED: usize = 20;

pub(super) fn new_session(
    draft: &mut Draft<'_>,
    sender: &ActingDevice,
    title: Option<&str>,
    workspace: Option<WorkspaceId>,
) -> Result<(), ErrorBody> {
    if sender.trust == Trust::Guest {
        return Err(ErrorBody::new(
            ErrorCode::TrustTooLow,
            "A guest device may not open a session.",
            "Raise its trust on a trusted device.",
        ));
    }
    if draft.state.exists() {
        return Err(ErrorBody::new(ErrorCode::IllegalTransition, "A session of that id exists.", "Leave the session id out."));
    }
    let title = list::checked_title(title.unwrap_or_default())?;
    let known = &draft.at.around.workspaces;
    let workspace = match workspace {
        Some(id) => Some(known.iter().find(|known| known.workspace_id == id).ok_or_else(|| ErrorBody::not_found("workspace"))?.clone()),
        None if known.len() == 1 => known.first().cloned(),
        // Among several, one that is reachable is meant; nobody is asked at the start.
        None => known
            .iter()
            .find(|known| known.device_id.is_some_and(|device| draft.at.around.online.contains(&device)))
            .or_else(|| known.first())
            .cloned(),
    };
    draft.emit(SessionEvent::SessionCreated {
        user_id: draft.state.user,
        language: words::language_of(&title).unwrap_or_default(),
        title,
        workspace,
        holder: Some(sender.device_id),
        epoch: 1,
    });
    Ok(())
}

/// What a user says: words, what is selected in the editor, and files.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) selection: Option<&'a Selection>,
    pub(super) attachments: &'a [Attachment],
    /// The calls that a slash command means by a task or step.
    pub(super) named_calls: &'a [CallId],
}

impl<'a> Said<'a> {
    const fn words(text: &'a str) -> Self {
        Self { text, selection: None, attachments: &[], named_calls: &[] }
    }

    /// What it is about, for a task that begins with it.
    fn topic(&self) -> &str {
        match self.attachments.first() {
            Some(first) if self.text.is_empty() => &first.name,
            _ => self.text,
        }
    }

    fn check(&self) -> Result<(), ErrorBody> {
        if self.text.is_empty() && self.attachments.is_empty() {
            return Err(ErrorBody::new(ErrorCode::Invalid, "There is nothing in the message.", "Write something, or attach a file."));
        }
        let size = words::json_len(self.text) + self.selection.map_or(0, |selection| words::json_len(&selection.text));
        if size > MAX_TEXT_BYTES {
            return Err(ErrorBody::new(
                ErrorCode::TooLarge,
                format!("The message takes {size} bytes in JSON; at most {MAX_TEXT_BYTES} are taken."),
                "Upload the text and attach it to the message, or put it into a file of the workspace and name it here.",
            ));
        }
        if self.attachments.len() > MAX_ATTACHMENTS {
            let message = format!("{} files are attached; at most {MAX_ATTACHMENTS} go with one message.", self.attachments.len());
            return Err(ErrorBody::new(ErrorCode::TooLarge, message, "Send them in several messages."));
        }
        let plain = |text: &str, chars: usize| {
            !text.trim().is_empty()
                && text.chars().count() <= chars
                && !text.chars().any(|c| c.is_control() || c == '/' && chars == MAX_FILE_NAME)
        };
        match self.attachments.iter().find(|it| !plain(&it.name, MAX_FILE_NAME) || !plain(&it.media_type, MAX_NAME_CHARS)) {
            Some(odd) => Err(ErrorBody::invalid(format!(
                "The attachment '{}' needs a `name` of 1 to {MAX_FILE_NAME} characters without slashes, and a `media_type` such as text/plain.",
                baton_proto::make_visible(&words::excerpt(&odd.name, 100)),
            ))),
            None => Ok(()),
        }
    }
}

pub(super) fn say(draft: &mut Draft<'_>, sender: &ActingDevice, said: &Said<'_>, delivery: Delivery) -> Result<(), ErrorBody> {
    said.check()?;
    let text = said.text;
    if let Some(literal) = slash::parse(text) {
        if !said.attachments.is_empty() {
            return Err(ErrorBody::new(
                ErrorCode::Invalid,
                "A slash command takes no attachments.",
                "Send the files with a message of their own.",
            ));
        }
        return literal_request(draft, sender, said, literal?);
    }
    if draft.at.model.is_none() {
        return Err(ErrorBody::new(
            ErrorCode::ModelUnavailable,
            "No model is configured, so nobody would read this.",
            "Start Baton with --model-url and --model, or set them in baton.toml. Without one these work: /show, /find, /replace, /run, /undo.",
        ));
    }
    entitle(draft, said.topic());
    if let Some((turn_id, stopping)) = draft.state.open_turn().map(|turn| (turn.id, turn.stop.is_some())) {
        match delivery {
            Delivery::Steer if !stopping => steer(draft, sender, turn_id, said, delivery),
            Delivery::Steer | Delivery::Queue => queue(draft, sender, turn_id, said, Delivery::Queue)?,
            Delivery::Interrupt => {
                queue(draft, sender, turn_id, said, delivery)?;
                if !stopping {
                    let reason = words::interrupted_by_input(draft.state.language);
                    stop::begin(draft, reason, stop::After::QueuedInput);
                }
            }
        }
        return Ok(());
    }
    let active = draft.state.active_task().map(|task| task.id);
    let task_id = active.unwrap_or_else(|| create_task(draft, said.topic(), said.topic(), &[]));
    start_turn(draft, sender, task_id, said);
    Ok(())
}

/// Input that waits for the end of the turn under way (T10).
fn queue(draft: &mut Draft<'_>, sender: &ActingDevice, turn_id: TurnId, said: &Said<'_>, delivery: Delivery) -> Result<(), ErrorBody> {
    if draft.state.queue.len() >= MAX_QUEUED {
        return Err(ErrorBody::new(
            ErrorCode::RateLimited,
            format!("{MAX_QUEUED} messages wait for the agent already."),
            "Wait until it has read some of them.",
        ));
    }
    let message_id = add_message(draft, sender, None, None, said);
    draft.emit(SessionEvent::TurnInputQueued { turn_id, message_id, delivery, goal: Some(words::excerpt(said.topic(), 1000)) });
    Ok(())
}

/// The next queued input begins a turn of its own: when the last one ended by itself, or was stopped for it. After a stop or a failure it
/// waits for the user's next word, since that may be about it.
pub(super) fn start_queued(draft: &mut Draft<'_>) -> bool {
    let ended_well = draft.state.turn.as_ref().is_some_and(|turn| {
        let for_input = turn.stop.as_ref().is_some_and(|stop| stop.for_input);
        turn.end.as_ref().is_some_and(|end| end.state == TurnState::Finished || for_input)
    });
    let Some(next) = draft.state.queue.first().cloned().filter(|_| ended_well && draft.at.model.is_some()) else { return false };
    let active = draft.state.active_task().map(|task| task.id);
    let task_id = active.unwrap_or_else(|| create_task(draft, &next.goal, &next.goal, &[]));
    let turn_id = draft.at.ids.fresh();
    open_turn(draft, turn_id, task_id, Some(next.message_id));
    true
}

/// What still waits is read in this turn.
pub(super) fn read_queued(draft: &mut Draft<'_>, turn_id: TurnId) {
    for queued in draft.state.queue.clone() {
        draft.emit(SessionEvent::TurnInputQueued { turn_id, message_id: queued.message_id, delivery: Delivery::Steer, goal: None });
    }
}

pub(super) fn new_task(
    draft: &mut Draft<'_>,
    sender: &ActingDevice,
    title: &str,
    description: &str,
    acceptance: &[String],
) -> Result<(), ErrorBody> {
    let title = title.trim();
    let size = title.len() + description.len() + acceptance.iter().map(String::len).sum::<usize>();
    if title.is_empty() || title.chars().count() > MAX_NAME_CHARS {
        return Err(ErrorBody::invalid(format!("A task's title has 1 to {MAX_NAME_CHARS} characters.")));
    }
    if size > MAX_TEXT_BYTES || acceptance.len() > 20 {
        return Err(ErrorBody::new(ErrorCode::TooLarge, "A task is described in at most 32 KiB, with at most 20 criteria.", "Shorten it."));
    }
    if draft.at.model.is_none() {
        return Err(ErrorBody::new(
            ErrorCode::ModelUnavailable,
            "No model is configured to work on it.",
            "Start Baton with --model-url and --model.",
        ));
    }
    if draft.state.open_turn().is_some() {
        return Err(ErrorBody::new(
            ErrorCode::IllegalTransition,
            "The agent is working on another task.",
            "Wait until it rests, or stop it first.",
        ));
    }
    if draft.state.stack.len() >= MAX_OPEN_TASKS {
        return Err(ErrorBody::new(
            ErrorCode::TooLarge,
            format!("A session keeps at most {MAX_OPEN_TASKS} open tasks."),
            "Resume or cancel some of them first, or open another session.",
        ));
    }
    let goal = if description.trim().is_empty() { title } else { description };
    entitle(draft, title);
    let task_id = create_task(draft, title, goal, acceptance);
    put_others_aside(draft, task_id);
    start_turn(draft, sender, task_id, &Said::words(goal));
    Ok(())
}

/// One task is worked on at a time; a switch pauses the others (T5).
pub(super) fn put_others_aside(draft: &mut Draft<'_>, task_id: TaskId) {
    let others: Vec<_> = draft.state.stack.iter().copied().filter(|id| *id != task_id).collect();
    for other in others {
        stop::set_phase(draft, other, Phase::Paused, Some(words::put_aside(draft.state.language).to_owned()));
    }
}

/// A literal request doesn't wait for another session's turn to end: it is told who is there (E6).
fn workspace_is_free(draft: &Draft<'_>) -> Result<(), ErrorBody> {
    match &draft.at.workspace_held_by {
        Some((other, title)) if *other != draft.state.id => Err(ErrorBody::new(
            ErrorCode::WorkspaceBusy,
            format!("Another session works in this workspace at the moment: '{title}' ({other})."),
            "Wait until it rests or stop it, then send again.",
        )),
        _ => Ok(()),
    }
}

/// Names the session after the first thing said in it, and follows the language the user speaks.
fn entitle(draft: &mut Draft<'_>, text: &str) {
    let language = words::language_of(text).unwrap_or(draft.state.language);
    if draft.state.title.is_empty() {
        draft.emit(SessionEvent::SessionTitled { title: words::headline(text), language });
    } else if language != draft.state.language {
        draft.emit(SessionEvent::SessionTitled { title: draft.state.title.clone(), language });
    }
}

fn create_task(draft: &mut Draft<'_>, title: &str, goal: &str, acceptance: &[String]) -> TaskId {
    let task_id = draft.at.ids.fresh();
    let core_intent = CoreIntent {
        goal: words::excerpt(goal, 2000),
        constraints: Vec::new(),
        acceptance: acceptance.to_vec(),
        version: 1,
        source: "user".to_owned(),
    };
    draft.emit(SessionEvent::TaskCreated { task_id, title: words::headline(title), core_intent });
    task_id
}

fn start_turn(draft: &mut Draft<'_>, sender: &ActingDevice, task_id: TaskId, said: &Said<'_>) {
    let turn_id = draft.at.ids.fresh();
    let message_id = add_message(draft, sender, Some(turn_id), Some(task_id), said);
    open_turn(draft, turn_id, task_id, Some(message_id));
    read_queued(draft, turn_id);
}

/// Opens a turn on a task, which is worked on from here.
pub(super) fn open_turn(draft: &mut Draft<'_>, turn_id: TurnId, task_id: TaskId, message_id: Option<MessageId>) {
    budget::extend_for(draft, task_id);
    draft.emit(SessionEvent::TurnStarted { turn_id, task_id: Some(task_id), message_id, literal: false });
    let planned = draft.state.tasks.get(&task_id).is_some_and(|task| !task.steps.is_empty());
    stop::set_phase(draft, task_id, if planned { Phase::Executing } else { Phase::Planning }, None);
}

fn add_message(
    draft: &mut Draft<'_>,
    sender: &ActingDevice,
    turn_id: Option<TurnId>,
    task_id: Option<TaskId>,
    said: &Said<'_>,
) -> MessageId {
    let message_id = draft.at.ids.fresh();
    draft.emit(SessionEvent::MessageAdded {
        message_id,
        role: Role::User,
        text: said.text.to_owned(),
        turn_id,
        task_id,
        sender: Some(sender.sender()),
        selection: said.selection.cloned(),
        attachments: said.attachments.to_vec(),
    });
    message_id
}

/// Input in the middle of a turn (T10). It is read before the next model call. An open question of the agent's takes it as the answer;
/// open approvals are set aside, since what they asked may no longer be wanted: they can't be approved any more, and the agent asks anew.
fn steer(draft: &mut Draft<'_>, sender: &ActingDevice, turn_id: TurnId, said: &Said<'_>, delivery: Delivery) {
    let (literal, turn_task) = draft.state.open_turn().map_or((false, None), |turn| (turn.literal, turn.task_id));
    // No model reads along with a literal request; what is said meanwhile is taken up as soon as it is done.
    let task_id = if literal {
        let active = draft.state.active_task().map(|task| task.id);
        Some(active.unwrap_or_else(|| create_task(draft, said.topic(), said.topic(), &[])))
    } else {
        turn_task
    };
    let message_id = add_message(draft, sender, Some(turn_id), task_id, said);
    draft.emit(SessionEvent::TurnInputQueued { turn_id, message_id, delivery, goal: None });
    let questions: Vec<_> =
        draft.state.open_questions().filter(|question| question.kind == QuestionKind::Agent).map(|question| question.id).collect();
    if let [only] = questions.as_slice() {
        answers::settle_question(draft, sender, *only, said.topic());
    }
    let reason = words::something_new_was_said(draft.state.language);
    answers::set_approvals_aside(draft, reason);
}

/// A slash command: one call, asked for word by word (R7).
fn literal_request(draft: &mut Draft<'_>, sender: &ActingDevice, said: &Said<'_>, literal: Literal) -> Result<(), ErrorBody> {
    let text = said.text;
    if draft.state.open_turn().is_some() {
        return Err(ErrorBody::new(
            ErrorCode::IllegalTransition,
            "The agent is at work, and a command in between could cross it.",
            "Wait until it rests, or stop it first.",
        ));
    }
    workspace_is_free(draft)?;
    let Some(offered) = tools::offered(draft, &literal.tool) else {
        return Err(ErrorBody::new(
            ErrorCode::NoCapability,
            format!("No device of yours offers '{}'.", literal.tool),
            "Start a device with a workspace: baton device --workspace PATH.",
        ));
    };
    if !draft.at.around.online.contains(&offered.device_id) {
        return Err(ErrorBody::new(
            ErrorCode::DeviceOffline,
            "The device that holds the workspace is offline.",
            "Bring it back, then send again.",
        ));
    }
    let arguments = match &literal.named {
        None => literal.arguments,
        Some(_) if said.named_calls.is_empty() => {
            return Err(ErrorBody::new(
                ErrorCode::NotFound,
                "No call of that task or step could have changed anything, or this session has no such task.",
                "Name a task of this session by its whole id; 'baton diff' shows what it changed.",
            ));
        }
        Some(_) => json!({"call_ids": said.named_calls}),
    };
    entitle(draft, text);
    let turn_id = draft.at.ids.fresh();
    add_message(draft, sender, Some(turn_id), None, &Said::words(text));
    draft.emit(SessionEvent::TurnStarted { turn_id, task_id: None, message_id: None, literal: true });
    tools::propose(
        draft,
        &Proposal { call_id: draft.at.ids.fresh(), tool: literal.tool, arguments, origin: CallOrigin::User, turn_id, task_id: None },
        &offered,
    );
    Ok(())
}
