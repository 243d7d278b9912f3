use crate::fold::changes_waiting;
use crate::machine::tool_call::{CallStage, ToolCall};
use crate::machine::{Approval, Fact, ModelStage, Question, Task, Transfer, Turn};
use crate::rules;
use crate::session::Session;
use baton_proto::{
    Activity, ApprovalEntity, ApprovalState, CallEntity, CallId, DayUsage, EntityView, Event, FactEntity, HandoffEntity, HandoffState,
    MessageEntity, NoteEntity, Phase, QuestionEntity, Role, SessionEntity, SessionEvent, SessionSummary, StepView, TaskEntity, TaskId,
    ToolError, ToolResult, TurnEntity, TurnState, WaitingOn, WorkState, WorkspaceEntity,
};

/// The entities that the last applied event touched, as ends are shown them (D4). `state` is the state right after it.
pub fn upserts(state: &Session, event: &Event) -> Vec<EntityView> {
    let mut touched = Vec::new();
    match &event.body {
        SessionEvent::SessionCreated { .. } => touched.extend(workspace(state)),
        SessionEvent::MessageAdded { message_id, role, text, turn_id, task_id, sender, selection, attachments } => {
            touched.push(EntityView::Message(MessageEntity {
                id: *message_id,
                version: state.seq,
                created_seq: state.seq,
                role: *role,
                text: text.clone(),
                thinking: None,
                turn_id: *turn_id,
                task_id: *task_id,
                sender: sender.clone(),
                selection: selection.clone(),
                attachments: attachments.clone(),
                at: event.at,
            }));
        }
        SessionEvent::ModelFinished { message_id, text, thinking, .. } if !text.trim().is_empty() || !thinking.trim().is_empty() => {
            let turn = state.turn.as_ref();
            touched.push(EntityView::Message(MessageEntity {
                id: *message_id,
                version: state.seq,
                created_seq: state.seq,
                role: Role::Agent,
                text: text.clone(),
                thinking: (!thinking.trim().is_empty()).then(|| thinking.clone()),
                turn_id: turn.map(|turn| turn.id),
                task_id: turn.and_then(|turn| turn.task_id),
                sender: None,
                selection: None,
                attachments: Vec::new(),
                at: event.at,
            }));
        }
        SessionEvent::FactRecorded { fact_id, .. } => touched.extend(fact(state, *fact_id)),
        SessionEvent::NoteSet { key, value } => {
            touched.push(EntityView::Note(NoteEntity { id: key.clone(), version: state.seq, value: Some(value.clone()) }));
        }
        SessionEvent::NoteForgotten { key } => {
            touched.push(EntityView::Note(NoteEntity { id: key.clone(), version: state.seq, value: None }));
        }
        SessionEvent::WorkspaceSeen { changed, .. } => {
            touched.extend(workspace(state));
            if changed.is_some() {
                touched.extend(state.open_approvals().map(|open| approval(state, open)));
            }
        }
        _ => {}
    }
    touched.extend(state.closed_facts.iter().filter(|fact| fact.version == state.seq).map(|fact| fact_entity(fact, false)));
    if touches_turn(&event.body) {
        touched.extend(state.turn.as_ref().map(turn));
    }
    let waiting = state.turn.as_ref().and_then(|turn| turn.task_id).filter(|_| changes_waiting(&event.body));
    if let Some(id) = task_of(&event.body).or(waiting) {
        touched.extend(state.tasks.get(&id).map(|found| task(state, found)));
    }
    if let Some(id) = call_of(&event.body, state) {
        touched.extend(state.calls.get(&id).map(|found| call(found, &event.body)));
    }
    touched.extend(request_of(&event.body, state));
    // A session's version is that of its last event, whatever that was.
    touched.push(session(state));
    touched
}

const fn touches_turn(body: &SessionEvent) -> bool {
    matches!(
        body,
        SessionEvent::TurnStarted { .. }
            | SessionEvent::TurnInputQueued { .. }
            | SessionEvent::TurnStopRequested { .. }
            | SessionEvent::TurnFinished { .. }
            | SessionEvent::TurnInterrupted { .. }
            | SessionEvent::TurnFailed { .. }
            | SessionEvent::ModelStarted { .. }
            | SessionEvent::ModelFailed { .. }
            | SessionEvent::ModelFinished { .. }
            | SessionEvent::WorkspaceWaited { .. }
            | SessionEvent::WorkspaceGranted { .. }
    )
}

const fn task_of(body: &SessionEvent) -> Option<TaskId> {
    match body {
        SessionEvent::TaskCreated { task_id, .. }
        | SessionEvent::TaskIntentRevised { task_id, .. }
        | SessionEvent::TaskPlanned { task_id, .. }
        | SessionEvent::TaskPhaseChanged { task_id, .. }
        | SessionEvent::TaskProgressed { task_id, .. }
        | SessionEvent::TaskConcluded { task_id, .. }
        | SessionEvent::StepStarted { task_id, .. }
        | SessionEvent::StepFinished { task_id, .. } => Some(*task_id),
        SessionEvent::BudgetExtended { task_id, .. } => *task_id,
        _ => None,
    }
}

fn call_of(body: &SessionEvent, state: &Session) -> Option<CallId> {
    match body {
        SessionEvent::ToolProposed { call_id, .. }
        | SessionEvent::ToolPrepared { call_id, .. }
        | SessionEvent::ToolPlanned { call_id, .. }
        | SessionEvent::ToolStarted { call_id, .. }
        | SessionEvent::ToolAttemptFailed { call_id, .. }
        | SessionEvent::ToolUnknown { call_id, .. }
        | SessionEvent::ToolReconciled { call_id, .. }
        | SessionEvent::ToolSucceeded { call_id, .. }
        | SessionEvent::ToolFailed { call_id, .. }
        | SessionEvent::ToolCancelRequested { call_id, .. }
        | SessionEvent::ToolCancelled { call_id, .. }
        | SessionEvent::ApprovalRequested { call_id, .. }
        | SessionEvent::ApprovalGranted { call_id, .. }
        | SessionEvent::QuestionAsked { call_id, .. } => Some(*call_id),
        SessionEvent::ApprovalDecided { approval_id, .. } | SessionEvent::ApprovalExpired { approval_id, .. } => {
            state.approvals.get(approval_id).map(|approval| approval.call_id)
        }
        _ => None,
    }
}

fn request_of(body: &SessionEvent, state: &Session) -> Option<EntityView> {
    match body {
        SessionEvent::ApprovalRequested { approval_id, .. }
        | SessionEvent::ApprovalGranted { approval_id, .. }
        | SessionEvent::ApprovalDecided { approval_id, .. }
        | SessionEvent::ApprovalExpired { approval_id, .. }
        | SessionEvent::ApprovalVoided { approval_id, .. } => state.approvals.get(approval_id).map(|found| approval(state, found)),
        SessionEvent::QuestionAsked { question_id, .. }
        | SessionEvent::QuestionAnswered { question_id, .. }
        | SessionEvent::QuestionVoided { question_id, .. } => state.questions.get(question_id).map(question),
        SessionEvent::HandoffOffered { .. } => {
            state.holder.transfer.as_ref().map(|transfer| handoff(state.seq, transfer, HandoffState::Offered))
        }
        SessionEvent::HandoffAccepted { .. }
        | SessionEvent::HandoffDeclined { .. }
        | SessionEvent::HandoffExpired { .. }
        | SessionEvent::HandoffTakenOver { .. }
        | SessionEvent::HandoffReleased { .. } => state.closed_transfer.as_ref().map(|(transfer, end)| handoff(state.seq, transfer, *end)),
        _ => None,
    }
}

/// Everything that is open, as entities: the part of a view that doesn't come from the timeline.
pub fn entities(state: &Session) -> Vec<EntityView> {
    let mut all = vec![session(state)];
    all.extend(workspace(state));
    all.extend(state.tasks.values().map(|found| task(state, found)));
    all.extend(state.turn.as_ref().map(turn));
    all.extend(state.open_approvals().map(|found| approval(state, found)));
    all.extend(state.open_questions().map(question));
    all.extend(state.facts.keys().filter_map(|id| fact(state, *id)));
    all.extend(
        state
            .notes
            .iter()
            .map(|(key, note)| EntityView::Note(NoteEntity { id: key.clone(), version: note.version, value: Some(note.value.clone()) })),
    );
    all.extend(state.holder.transfer.as_ref().map(|transfer| handoff(state.seq, transfer, HandoffState::Offered)));
    all
}

/// One line of the list of sessions.
pub fn summary(state: &Session) -> SessionSummary {
    let (work, activity) = standing(state);
    let shown = state.active_task().or_else(|| state.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| state.tasks.get(&id)));
    SessionSummary {
        session_id: state.id,
        title: state.title.clone(),
        language: state.language,
        state: work,
        activity,
        // Why it rests matters more than what it did last.
        line: shown.map(|task| task.last_error.clone().unwrap_or_else(|| task.line.clone())).unwrap_or_default(),
        progress: shown.map_or(0, |task| task.progress),
        pinned: state.pinned,
        archived: state.archived,
        task_id: shown.map(|task| task.id),
        waiting: waiting(state),
        epoch: state.holder.epoch,
        holder: state.holder.device,
        workspace_id: state.workspace.as_ref().map(|workspace| workspace.workspace_id),
        seq: state.seq,
        updated_at: state.updated_at,
        usage: state.usage.iter().map(|(day, usage)| DayUsage { day: day.clone(), usage: *usage, cost: None }).collect(),
    }
}

fn waiting(state: &Session) -> u32 {
    u32::try_from(state.open_approvals().count() + state.open_questions().count()).unwrap_or(u32::MAX)
}

fn session(state: &Session) -> EntityView {
    let (work, activity) = standing(state);
    EntityView::Session(Box::new(SessionEntity {
        id: state.id,
        version: state.version,
        title: state.title.clone(),
        language: state.language,
        created_at: state.created_at,
        updated_at: state.updated_at,
        epoch: state.holder.epoch,
        holder: state.holder.device,
        transfer: state.holder.transfer.as_ref().map(|transfer| transfer.handoff_id),
        pinned: state.pinned,
        archived: state.archived,
        context_tokens: state.context_tokens,
        state: work,
        activity,
        active_task: state.active_task().map(|task| task.id),
        workspace_id: state.workspace.as_ref().map(|workspace| workspace.workspace_id),
        waiting: waiting(state),
        queued: state.queue.iter().map(|queued| queued.message_id).collect(),
        context_from: Some(state.context_from()).filter(|from| *from > 0),
    }))
}

/// What a session is doing, at a glance and in the loop's own terms (T3).
fn standing(state: &Session) -> (WorkState, Activity) {
    let asks = waiting(state) > 0;
    let Some(turn) = state.open_turn() else {
        let ended = state.turn.as_ref().and_then(|turn| turn.end.as_ref().map(|end| end.state));
        let task = state.active_task().or_else(|| state.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| state.tasks.get(&id)));
        let work = match (task.map(|task| task.phase), ended) {
            (Some(Phase::Paused | Phase::WaitingDevice | Phase::Idle), _) | (None, None) => WorkState::Pending,
            (Some(Phase::WaitingUser), _) => WorkState::AwaitingInput,
            (Some(Phase::Failed), _) | (None, Some(TurnState::Failed)) => WorkState::Failed,
            (Some(Phase::Cancelled), _) | (None, Some(TurnState::Interrupted)) => WorkState::Cancelled,
            _ => WorkState::Completed,
        };
        let activity = if ended == Some(TurnState::Failed) { Activity::Error } else { Activity::Idle };
        return (work, activity);
    };
    if turn.stop.is_some() {
        return (WorkState::Running, Activity::Stopping);
    }
    if turn.behind.is_some() {
        return (WorkState::Pending, Activity::AwaitingWorkspace);
    }
    if asks {
        return (WorkState::AwaitingInput, Activity::AwaitingUser);
    }
    match turn.model.as_ref().map(|call| &call.stage) {
        Some(ModelStage::Started) => return (WorkState::Running, Activity::Thinking),
        Some(ModelStage::Failed { .. }) => return (WorkState::Running, Activity::Retrying),
        None => {}
    }
    if state.unsettled_calls().any(|call| matches!(call.stage, CallStage::Started { .. })) {
        return (WorkState::Running, Activity::Executing);
    }
    let absent = turn.task_id.and_then(|id| state.tasks.get(&id)).is_some_and(|task| task.phase == Phase::WaitingDevice);
    let unknown = state.unsettled_calls().any(|call| matches!(call.stage, CallStage::Unknown { .. }));
    if absent || unknown { (WorkState::Pending, Activity::AwaitingDevice) } else { (WorkState::Running, Activity::AwaitingTool) }
}

fn task(state: &Session, task: &Task) -> EntityView {
    EntityView::Task(Box::new(TaskEntity {
        id: task.id,
        version: task.version,
        title: task.title.clone(),
        core_intent: task.intent.clone(),
        phase: task.phase,
        state: work_state(task.phase),
        progress: task.progress,
        line: task.line.clone(),
        waiting_on: waiting_on(state, task),
        steps: task.steps.iter().map(step).collect(),
        current_step: task.current_step().map(|step| step.id.clone()),
        last_error: task.last_error.clone(),
        usage: task.usage,
        summary: task.summary.clone(),
        created_at: task.created_at,
        updated_at: task.updated_at,
    }))
}

pub(crate) fn step(step: &crate::machine::Step) -> StepView {
    StepView {
        step_id: step.id.clone(),
        title: step.title.clone(),
        status: step.status,
        depends_on: step.depends_on.clone(),
        conclusion: step.conclusion.clone(),
        evidence: step.evidence.clone(),
        product: step.product.clone(),
    }
}

const fn work_state(phase: Phase) -> WorkState {
    match phase {
        Phase::Idle | Phase::Paused | Phase::WaitingDevice => WorkState::Pending,
        Phase::Planning | Phase::Executing | Phase::Checking => WorkState::Running,
        Phase::WaitingUser => WorkState::AwaitingInput,
        Phase::Done => WorkState::Completed,
        Phase::Failed => WorkState::Failed,
        Phase::Cancelled => WorkState::Cancelled,
    }
}

/// Whom a task waits for, where it waits.
pub(crate) fn waiting_on(state: &Session, task: &Task) -> Option<WaitingOn> {
    if state.open_turn().and_then(|turn| turn.task_id) != Some(task.id) {
        return None;
    }
    if let Some(approval) = state.open_approvals().next() {
        return Some(WaitingOn::Approval { id: approval.id });
    }
    if let Some(question) = state.open_questions().next() {
        return Some(WaitingOn::Question { id: question.id });
    }
    if let Some(ModelStage::Failed { retry_at }) = state.open_turn().and_then(|turn| turn.model.as_ref()).map(|call| &call.stage) {
        return Some(WaitingOn::Model { retry_at: *retry_at });
    }
    if let Some((behind, title)) = state.open_turn().and_then(|turn| turn.behind.clone()) {
        return Some(WaitingOn::Workspace { behind, title });
    }
    if task.phase == Phase::WaitingDevice {
        return state.unsettled_calls().find_map(|call| call.terms.device_id).map(|id| WaitingOn::Device { id });
    }
    None
}

fn turn(turn: &Turn) -> EntityView {
    let state = match (&turn.end, &turn.stop) {
        (Some(end), _) => end.state,
        (None, Some(_)) => TurnState::Stopping,
        (None, None) => TurnState::Running,
    };
    EntityView::Turn(TurnEntity {
        id: turn.id,
        version: turn.version,
        created_seq: turn.created_seq,
        task_id: turn.task_id,
        state,
        iterations: turn.iterations,
        unread: turn.unread.clone(),
        started_at: turn.started_at,
        ended_at: turn.end.as_ref().map(|end| end.at),
        reason: turn.end.as_ref().map(|end| end.reason.clone()).or_else(|| turn.stop.as_ref().map(|stop| stop.reason.clone())),
        answering: turn.model.as_ref().filter(|call| call.stage == ModelStage::Started).map(|call| call.message_id),
    })
}

/// A call that isn't settled, as far as the state knows it.
pub(crate) fn open_call(call: &ToolCall) -> EntityView {
    let mut reason = None;
    if let CallStage::Cancelling { reason: why, .. } = &call.stage {
        reason = Some(why.clone());
    }
    call_entity(call, None, None, reason)
}

/// A call with what the event says of its end; results aren't kept in the state.
fn call(call: &ToolCall, body: &SessionEvent) -> EntityView {
    let mut result: Option<ToolResult> = None;
    let mut error: Option<ToolError> = None;
    let mut reason = None;
    match body {
        SessionEvent::ToolSucceeded { result: given, .. } => result = Some(given.clone()),
        SessionEvent::ToolFailed { error: given, result: partial, .. } => {
            error = Some(given.clone());
            result.clone_from(partial);
        }
        SessionEvent::ToolAttemptFailed { error: given, .. } => error = Some(given.clone()),
        SessionEvent::ToolCancelled { reason: given, result: partial, .. } => {
            reason = Some(given.clone());
            result.clone_from(partial);
        }
        SessionEvent::ToolUnknown { known, .. } => reason = Some(known.clone()),
        SessionEvent::ToolCancelRequested { reason: given, .. } => reason = Some(given.clone()),
        _ => {}
    }
    call_entity(call, result, error, reason)
}

fn call_entity(call: &ToolCall, result: Option<ToolResult>, error: Option<ToolError>, reason: Option<String>) -> EntityView {
    EntityView::Call(Box::new(CallEntity {
        id: call.id,
        version: call.version,
        created_seq: call.created_seq,
        turn_id: call.turn_id,
        task_id: call.task_id,
        step_id: call.step_id.clone(),
        tool: call.tool.clone(),
        arguments: (*call.arguments).clone(),
        origin: call.origin,
        effect: call.terms.effect,
        risk: call.risk,
        state: call.state(),
        attempt: call.attempt,
        device_id: call.terms.device_id,
        approval_id: call.approval,
        question_id: call.question,
        unknown: match call.stage {
            CallStage::Unknown { cause, .. } => Some(cause),
            _ => None,
        },
        result,
        error,
        reason,
        at: call.at,
        started_at: call.started_at,
        ended_at: call.ended_at,
    }))
}

fn approval(state: &Session, approval: &Approval) -> EntityView {
    let arguments = state.calls.get(&approval.call_id).map(|call| (*call.arguments).clone()).unwrap_or_default();
    let (remember, not_remembered) = match approval.state {
        ApprovalState::Open => rules::choices(&approval.binding, &arguments),
        _ => (Vec::new(), None),
    };
    EntityView::Approval(Box::new(ApprovalEntity {
        id: approval.id,
        version: approval.version,
        created_seq: approval.created_seq,
        call_id: approval.call_id,
        state: approval.state,
        arguments,
        binding: (*approval.binding).clone(),
        at: approval.at,
        decided_by: approval.decided.as_ref().map(|(_, by, _)| by.clone()),
        rule_id: approval.rule,
        decided_at: approval.decided.as_ref().map(|(_, _, at)| *at),
        reason: approval.reason.clone(),
        workspace_changed: approval.workspace_changed,
        remember,
        not_remembered,
    }))
}

fn question(question: &Question) -> EntityView {
    EntityView::Question(QuestionEntity {
        id: question.id,
        version: question.version,
        created_seq: question.created_seq,
        question_kind: question.kind,
        call_id: question.call_id,
        task_id: question.task_id,
        text: question.text.clone(),
        options: question.options.clone(),
        known: question.known.clone(),
        cause: question.cause,
        state: question.state,
        answer: question.answer.as_ref().map(|(answer, _)| answer.clone()),
        answered_by: question.answer.as_ref().map(|(_, by)| by.clone()),
        reason: question.reason.clone(),
        at: question.at,
    })
}

fn fact(state: &Session, id: baton_proto::FactId) -> Option<EntityView> {
    state.facts.get(&id).map(|fact| fact_entity(fact, true))
}

fn fact_entity(fact: &Fact, valid: bool) -> EntityView {
    EntityView::Fact(FactEntity {
        id: fact.id,
        version: fact.version,
        key: fact.key.clone(),
        value: fact.value.clone(),
        scope: fact.scope,
        task_id: fact.task_id,
        source: fact.source.clone(),
        confidence: fact.confidence,
        at: fact.at,
        valid,
        origins: fact.origins.clone(),
    })
}

fn handoff(version: u64, transfer: &Transfer, state: HandoffState) -> EntityView {
    EntityView::Handoff(HandoffEntity {
        id: transfer.handoff_id,
        version,
        from: transfer.from,
        to: transfer.to,
        deadline: transfer.deadline,
        state,
    })
}

fn workspace(state: &Session) -> Option<EntityView> {
    let workspace = state.workspace.as_ref()?;
    Some(EntityView::Workspace(WorkspaceEntity {
        id: workspace.workspace_id,
        version: state.workspace_version,
        device_id: workspace.device_id,
        name: workspace.name.clone(),
        baseline: workspace.baseline.clone(),
    }))
}
