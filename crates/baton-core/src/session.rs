use crate::machine::tool_call::{CallStage, ToolCall, Waiting};
use crate::machine::{Approval, Fact, Holder, ModelCall, ModelStage, Note, Question, Step, Stop, Task, Transfer, Turn, TurnEnd};
use baton_proto::{
    ApprovalId, ApprovalState, CallId, Decision, Event, FactId, FactScope, Language, Phase, QuestionId, QuestionState, Reconciliation,
    SessionEvent, SessionId, StepStatus, TaskId, Timestamp, TurnState, UserId, Workspace,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Ended tasks that are kept in the state, with their summaries; older ones are in the log.
const KEPT_TASKS: usize = 12;
/// Closed approvals and questions that are kept, so that a late answer is told what became of them.
const KEPT_CLOSED: usize = 48;
/// Valid facts that are kept.
const KEPT_FACTS: usize = 200;
/// Bytes of what is told of changes that somebody else made to the workspace.
const NEWS_BYTES: usize = 1000;

/// The whole state of a session: the fold of its log. Bounded whatever the length of the history, since dialogue and results stay in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub user: UserId,
    /// The last sequence number; the session's version.
    pub seq: u64,
    pub version: u64,
    pub title: String,
    pub language: Language,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub holder: Holder,
    pub workspace: Option<Workspace>,
    pub workspace_version: u64,
    /// What somebody else changed in the workspace, to be said to the model at its next step (E7).
    pub workspace_news: Option<String>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Tasks that aren't ended, the active one last.
    pub stack: Vec<TaskId>,
    /// The last turn, open or ended.
    pub turn: Option<Turn>,
    /// Calls of the last turn.
    pub calls: BTreeMap<CallId, ToolCall>,
    pub approvals: BTreeMap<ApprovalId, Approval>,
    pub questions: BTreeMap<QuestionId, Question>,
    pub facts: BTreeMap<FactId, Fact>,
    pub notes: BTreeMap<String, Note>,
    /// The transfer that was closed last, for its entity.
    pub closed_transfer: Option<(Transfer, baton_proto::HandoffState)>,
    /// Facts that were last replaced or forgotten, for their entities; their version is the event that did it.
    pub closed_facts: Vec<Fact>,
    pub recoveries: u32,
}

impl Session {
    /// A session before its first event.
    pub fn empty(id: SessionId) -> Self {
        Self {
            id,
            user: UserId(Uuid::nil()),
            seq: 0,
            version: 0,
            title: String::new(),
            language: Language::En,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            holder: Holder::default(),
            workspace: None,
            workspace_version: 0,
            workspace_news: None,
            tasks: BTreeMap::new(),
            stack: Vec::new(),
            turn: None,
            calls: BTreeMap::new(),
            approvals: BTreeMap::new(),
            questions: BTreeMap::new(),
            facts: BTreeMap::new(),
            notes: BTreeMap::new(),
            closed_transfer: None,
            closed_facts: Vec::new(),
            recoveries: 0,
        }
    }

    pub const fn exists(&self) -> bool {
        self.seq > 0
    }

    pub fn open_turn(&self) -> Option<&Turn> {
        self.turn.as_ref().filter(|turn| turn.end.is_none())
    }

    /// The task that input goes to.
    pub fn active_task(&self) -> Option<&Task> {
        self.stack.last().and_then(|id| self.tasks.get(id))
    }

    pub fn open_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approvals.values().filter(|approval| approval.state == ApprovalState::Open)
    }

    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.values().filter(|question| question.state == QuestionState::Open)
    }

    pub fn unsettled_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.calls.values().filter(|call| !call.is_settled())
    }

    /// Brings the state one event further. It can't fail: what may happen was decided before the event was written.
    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        self.updated_at = event.at;
        let (seq, at) = (self.seq, event.at);
        match &event.body {
            SessionEvent::SessionCreated { user_id, title, language, workspace, holder, epoch } => {
                self.user = *user_id;
                self.title.clone_from(title);
                self.language = *language;
                self.created_at = at;
                self.workspace.clone_from(workspace);
                self.workspace_version = seq;
                self.holder = Holder { device: *holder, epoch: *epoch, transfer: None };
            }
            SessionEvent::SessionTitled { title, language } => {
                self.title.clone_from(title);
                self.language = *language;
            }
            SessionEvent::MessageAdded { .. } | SessionEvent::ConflictRefused { .. } => {}
            SessionEvent::Recovered { .. } => self.recoveries += 1,
            SessionEvent::WorkspaceSeen { baseline, changed } => {
                if let Some(workspace) = &mut self.workspace {
                    workspace.baseline.clone_from(baseline);
                }
                self.workspace_version = seq;
                if let Some(changed) = changed {
                    self.workspace_news = joined(self.workspace_news.take(), Some(changed.clone()));
                    for approval in self.approvals.values_mut().filter(|approval| approval.state == ApprovalState::Open) {
                        approval.workspace_changed = true;
                        approval.version = seq;
                    }
                }
            }
            SessionEvent::FactRecorded { fact_id, key, value, scope, task_id, source, confidence } => {
                self.close_facts(|fact| {
                    fact.key == *key && fact.scope == *scope && (*scope == FactScope::Session || fact.task_id == *task_id)
                });
                let fact = Fact {
                    id: *fact_id,
                    version: seq,
                    key: key.clone(),
                    value: value.clone(),
                    scope: *scope,
                    task_id: *task_id,
                    source: source.clone(),
                    confidence: *confidence,
                    at,
                };
                self.facts.insert(*fact_id, fact);
                while self.facts.len() > KEPT_FACTS {
                    // The oldest by sequence; ids carry a clock, and clocks step back (C45).
                    let Some(oldest) = self.facts.values().min_by_key(|fact| fact.version).map(|fact| fact.id) else { break };
                    self.close_facts(|fact| fact.id == oldest);
                }
            }
            SessionEvent::FactForgotten { fact_id } => self.close_facts(|fact| fact.id == *fact_id),
            SessionEvent::NoteSet { key, value } => {
                self.notes.insert(key.clone(), Note { version: seq, value: value.clone() });
            }
            SessionEvent::NoteForgotten { key } => {
                self.notes.remove(key);
            }
            body => {
                self.apply_to_holder(body);
                self.apply_to_turn(body, at);
                self.apply_to_task(body, at);
                self.apply_to_call(body, at);
                self.apply_to_requests(body, at);
                self.touch_waiting_task(body);
            }
        }
        self.version = seq;
    }

    /// Takes facts out of force, and remembers them as this event's doing, so that ends are told.
    fn close_facts(&mut self, closes: impl Fn(&Fact) -> bool) {
        let seq = self.seq;
        let ended: Vec<_> = self.facts.values().filter(|fact| closes(fact)).map(|fact| fact.id).collect();
        if ended.is_empty() {
            return;
        }
        self.closed_facts.retain(|fact| fact.version == seq);
        for id in ended {
            self.closed_facts.extend(self.facts.remove(&id).map(|fact| Fact { version: seq, ..fact }));
        }
    }

    fn apply_to_holder(&mut self, body: &SessionEvent) {
        use baton_proto::HandoffState as State;
        match body {
            SessionEvent::HandoffOffered { handoff_id, from, to, deadline } => {
                self.holder.transfer = Some(Transfer { handoff_id: *handoff_id, from: *from, to: *to, deadline: *deadline });
            }
            SessionEvent::HandoffAccepted { to, epoch, .. } => self.move_to(Some(*to), *epoch, State::Accepted),
            SessionEvent::HandoffDeclined { .. } => self.close_transfer(State::Declined),
            SessionEvent::HandoffExpired { .. } => self.close_transfer(State::Expired),
            SessionEvent::HandoffTakenOver { to, epoch, .. } => self.move_to(Some(*to), *epoch, State::Declined),
            SessionEvent::HandoffReleased { epoch, .. } => self.move_to(None, *epoch, State::Declined),
            _ => {}
        }
    }

    fn move_to(&mut self, device: Option<baton_proto::DeviceId>, epoch: u64, transfer: baton_proto::HandoffState) {
        self.close_transfer(transfer);
        self.holder.device = device;
        self.holder.epoch = epoch;
    }

    fn close_transfer(&mut self, state: baton_proto::HandoffState) {
        if let Some(transfer) = self.holder.transfer.take() {
            self.closed_transfer = Some((transfer, state));
        }
    }

    fn apply_to_turn(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        if let SessionEvent::TurnStarted { turn_id, task_id, message_id, literal } = body {
            self.forget_closed();
            // The task that is worked on is the one that input goes to.
            if let Some(place) = task_id.and_then(|task_id| self.stack.iter().position(|id| *id == task_id)) {
                let active = self.stack.remove(place);
                self.stack.push(active);
            }
            self.turn = Some(Turn {
                id: *turn_id,
                version: seq,
                created_seq: seq,
                task_id: *task_id,
                literal: *literal,
                iterations: 0,
                unread: message_id.iter().copied().collect(),
                model: None,
                rested: false,
                stop: None,
                repeats: BTreeMap::new(),
                started_at: at,
                end: None,
            });
            return;
        }
        let Some(turn) = &mut self.turn else { return };
        let touched = match body {
            SessionEvent::TurnInputQueued { message_id, .. } => {
                turn.unread.push(*message_id);
                turn.rested = false;
                true
            }
            SessionEvent::TurnStopRequested { reason, pause, .. } => {
                turn.stop = Some(Stop { reason: reason.clone(), pause: *pause });
                self.workspace_news = joined(turn.model.take().and_then(|call| call.news), self.workspace_news.take());
                true
            }
            SessionEvent::TurnFinished { reason, .. } => turn.close(TurnState::Finished, reason, at),
            SessionEvent::TurnInterrupted { reason, .. } => turn.close(TurnState::Interrupted, reason, at),
            SessionEvent::TurnFailed { reason, .. } => turn.close(TurnState::Failed, reason, at),
            SessionEvent::ModelStarted { model_call_id, attempt, iteration, message_id, read, .. } => {
                let before = turn.model.take().filter(|call| call.id == *model_call_id);
                let failures = before.as_ref().map_or(0, |call| call.failures);
                let told = before.and_then(|call| call.news);
                turn.model = Some(ModelCall {
                    id: *model_call_id,
                    attempt: *attempt,
                    message_id: *message_id,
                    failures,
                    stage: ModelStage::Started,
                    news: joined(told, self.workspace_news.take()),
                });
                turn.iterations = *iteration;
                turn.unread.retain(|message| !read.contains(message));
                turn.rested = false;
                true
            }
            SessionEvent::ModelFailed { retry_at, .. } => {
                match (&mut turn.model, retry_at) {
                    (Some(call), Some(retry_at)) => {
                        call.failures += 1;
                        call.stage = ModelStage::Failed { retry_at: *retry_at };
                    }
                    (model, _) => self.workspace_news = joined(model.take().and_then(|call| call.news), self.workspace_news.take()),
                }
                true
            }
            SessionEvent::ModelFinished { calls, .. } => {
                turn.model = None;
                turn.rested = calls.is_empty();
                true
            }
            SessionEvent::ToolProposed { tool, arguments, .. } => {
                *turn.repeats.entry(repeat_key(tool, arguments)).or_insert(0) += 1;
                false
            }
            SessionEvent::ToolSucceeded { call_id, .. } => {
                if self
                    .calls
                    .get(call_id)
                    .is_some_and(|call| call.terms.device_id.is_some() && call.terms.effect != baton_proto::Effect::Read)
                {
                    turn.repeats.clear();
                }
                false
            }
            _ => false,
        };
        if touched {
            turn.version = seq;
        }
    }

    /// What the last turn leaves behind goes when the next one starts; a bounded rest stays for late answers.
    fn forget_closed(&mut self) {
        self.calls.retain(|_, call| !call.is_settled());
        while self.approvals.len() > KEPT_CLOSED {
            let Some(oldest) = self
                .approvals
                .values()
                .filter(|approval| approval.state != ApprovalState::Open)
                .min_by_key(|approval| approval.version)
                .map(|approval| approval.id)
            else {
                break;
            };
            self.approvals.remove(&oldest);
        }
        while self.questions.len() > KEPT_CLOSED {
            let Some(oldest) = self
                .questions
                .values()
                .filter(|question| question.state != QuestionState::Open)
                .min_by_key(|question| question.version)
                .map(|question| question.id)
            else {
                break;
            };
            self.questions.remove(&oldest);
        }
    }

    fn apply_to_task(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        let task_id = match body {
            SessionEvent::TaskCreated { task_id, title, core_intent } => {
                let task = Task {
                    id: *task_id,
                    version: seq,
                    title: title.clone(),
                    intent: core_intent.clone(),
                    phase: Phase::Idle,
                    steps: Vec::new(),
                    progress: 0,
                    line: String::new(),
                    last_error: None,
                    summary: None,
                    created_at: at,
                    updated_at: at,
                };
                self.tasks.insert(*task_id, task);
                self.stack.push(*task_id);
                return;
            }
            SessionEvent::TaskIntentRevised { task_id, .. }
            | SessionEvent::TaskPlanned { task_id, .. }
            | SessionEvent::TaskPhaseChanged { task_id, .. }
            | SessionEvent::TaskProgressed { task_id, .. }
            | SessionEvent::TaskConcluded { task_id, .. }
            | SessionEvent::StepStarted { task_id, .. }
            | SessionEvent::StepFinished { task_id, .. } => *task_id,
            _ => return,
        };
        let Some(task) = self.tasks.get_mut(&task_id) else { return };
        task.version = seq;
        task.updated_at = at;
        match body {
            SessionEvent::TaskIntentRevised { core_intent, .. } => task.intent = core_intent.clone(),
            SessionEvent::TaskPlanned { steps, .. } => {
                let done: Vec<Step> = task.steps.drain(..).filter(|step| step.status == StepStatus::Done).collect();
                let kept = |id: &str| done.iter().any(|step| step.id == id);
                let fresh = steps.iter().filter(|step| !kept(&step.step_id)).map(|step| Step {
                    id: step.step_id.clone(),
                    title: step.title.clone(),
                    depends_on: step.depends_on.clone(),
                    status: StepStatus::Pending,
                    conclusion: None,
                    evidence: None,
                    product: None,
                });
                let fresh: Vec<Step> = fresh.collect();
                task.steps = done;
                task.steps.extend(fresh);
            }
            SessionEvent::TaskPhaseChanged { to, reason, .. } => {
                task.phase = *to;
                task.last_error = match to {
                    Phase::Paused | Phase::Failed => reason.clone(),
                    _ => None,
                };
                if to.is_ended() {
                    self.stack.retain(|id| *id != task_id);
                    self.forget_ended_tasks();
                }
            }
            SessionEvent::TaskProgressed { progress, line, .. } => {
                task.progress = *progress;
                task.line.clone_from(line);
            }
            SessionEvent::TaskConcluded { summary, .. } => task.summary = Some(summary.clone()),
            SessionEvent::StepStarted { step_id, .. } => {
                if let Some(step) = task.steps.iter_mut().find(|step| step.id == *step_id) {
                    step.status = StepStatus::Running;
                }
            }
            SessionEvent::StepFinished { step_id, conclusion, evidence, product, .. } => {
                if let Some(step) = task.steps.iter_mut().find(|step| step.id == *step_id) {
                    step.status = StepStatus::Done;
                    step.conclusion = Some(conclusion.clone());
                    step.evidence.clone_from(evidence);
                    step.product.clone_from(product);
                }
            }
            _ => {}
        }
    }

    fn forget_ended_tasks(&mut self) {
        while self.tasks.values().filter(|task| task.phase.is_ended()).count() > KEPT_TASKS {
            let Some(oldest) = self.tasks.values().filter(|task| task.phase.is_ended()).min_by_key(|task| task.version).map(|task| task.id)
            else {
                break;
            };
            self.tasks.remove(&oldest);
            self.close_facts(|fact| fact.task_id == Some(oldest) && fact.scope == FactScope::Task);
        }
    }

    /// Whom a task waits for is part of its entity, so what changes that touches the task (D4).
    fn touch_waiting_task(&mut self, body: &SessionEvent) {
        if !changes_waiting(body) {
            return;
        }
        let seq = self.seq;
        if let Some(task) = self.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| self.tasks.get_mut(&id)) {
            task.version = seq;
        }
    }

    fn apply_to_call(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        if let SessionEvent::ToolProposed { call_id, turn_id, task_id, step_id, tool, arguments, origin, terms } = body {
            let call = ToolCall {
                id: *call_id,
                version: seq,
                created_seq: seq,
                turn_id: *turn_id,
                task_id: *task_id,
                step_id: step_id.clone(),
                tool: tool.clone(),
                arguments: Arc::new(arguments.clone()),
                origin: *origin,
                terms: terms.clone(),
                stage: CallStage::Proposed,
                attempt: 0,
                digests: Arc::default(),
                risk: terms.risk,
                approval: None,
                approved: false,
                question: None,
                at,
                started_at: None,
                ended_at: None,
            };
            self.calls.insert(*call_id, call);
            return;
        }
        let call_id = match body {
            SessionEvent::ToolPrepared { call_id, .. }
            | SessionEvent::ToolPlanned { call_id, .. }
            | SessionEvent::ToolStarted { call_id, .. }
            | SessionEvent::ToolAttemptFailed { call_id, .. }
            | SessionEvent::ToolUnknown { call_id, .. }
            | SessionEvent::ToolReconciled { call_id, .. }
            | SessionEvent::ToolSucceeded { call_id, .. }
            | SessionEvent::ToolFailed { call_id, .. }
            | SessionEvent::ToolCancelRequested { call_id, .. }
            | SessionEvent::ToolCancelled { call_id, .. } => *call_id,
            _ => return,
        };
        let Some(call) = self.calls.get_mut(&call_id) else { return };
        call.version = seq;
        match body {
            SessionEvent::ToolPrepared { prepared, .. } => {
                call.digests = Arc::new(prepared.digests.clone());
                call.risk = call.risk.max(prepared.risk);
            }
            SessionEvent::ToolPlanned { attempt, .. } => {
                call.attempt = *attempt;
                call.stage = CallStage::Planned { attempt: *attempt };
            }
            SessionEvent::ToolStarted { attempt, .. } => {
                call.stage = CallStage::Started { attempt: *attempt };
                call.started_at = Some(at);
            }
            SessionEvent::ToolUnknown { attempt, cause, .. } => {
                call.stage = CallStage::Unknown { attempt: *attempt, cause: *cause, waiting: Waiting::Device };
            }
            SessionEvent::ToolReconciled { attempt, finding, .. } => call.reconcile(*attempt, finding),
            SessionEvent::ToolSucceeded { .. } => call.settle(CallStage::Succeeded, at),
            SessionEvent::ToolFailed { .. } => call.settle(CallStage::Failed, at),
            SessionEvent::ToolCancelled { .. } => call.settle(CallStage::Cancelled, at),
            SessionEvent::ToolCancelRequested { reason, .. } => {
                call.stage = CallStage::Cancelling { attempt: call.attempt, reason: reason.clone() };
            }
            _ => {}
        }
    }

    fn apply_to_requests(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        match body {
            SessionEvent::ApprovalRequested { approval_id, call_id, binding } => {
                let approval = Approval {
                    id: *approval_id,
                    version: seq,
                    created_seq: seq,
                    call_id: *call_id,
                    binding: Arc::new(binding.clone()),
                    state: ApprovalState::Open,
                    at,
                    decided: None,
                    reason: None,
                    workspace_changed: false,
                };
                self.approvals.insert(*approval_id, approval);
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.stage = CallStage::AwaitingApproval { approval_id: *approval_id };
                    call.approval = Some(*approval_id);
                    call.version = seq;
                }
            }
            SessionEvent::ApprovalDecided { approval_id, decision, by } => {
                if let Some(approval) = self.approvals.get_mut(approval_id) {
                    approval.state = if *decision == Decision::Approve { ApprovalState::Approved } else { ApprovalState::Rejected };
                    approval.decided = Some((*decision, by.clone(), at));
                    approval.version = seq;
                    if let Some(call) = self.calls.get_mut(&approval.call_id) {
                        call.approved = *decision == Decision::Approve;
                    }
                }
            }
            SessionEvent::ApprovalVoided { approval_id, reason } => {
                if let Some(approval) = self.approvals.get_mut(approval_id) {
                    approval.state = ApprovalState::Voided;
                    approval.reason = Some(reason.clone());
                    approval.version = seq;
                }
            }
            SessionEvent::QuestionAsked { question_id, kind, call_id, task_id, text, options, known } => {
                let question = Question {
                    id: *question_id,
                    version: seq,
                    created_seq: seq,
                    kind: *kind,
                    call_id: *call_id,
                    task_id: *task_id,
                    text: text.clone(),
                    options: options.clone(),
                    known: known.clone(),
                    state: QuestionState::Open,
                    answer: None,
                    reason: None,
                    at,
                };
                self.questions.insert(*question_id, question);
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.ask(*question_id);
                    call.version = seq;
                }
            }
            SessionEvent::QuestionAnswered { question_id, answer, by } => {
                if let Some(question) = self.questions.get_mut(question_id) {
                    question.state = QuestionState::Answered;
                    question.answer = Some((answer.clone(), by.clone()));
                    question.version = seq;
                }
            }
            SessionEvent::QuestionVoided { question_id, reason } => {
                if let Some(question) = self.questions.get_mut(question_id) {
                    question.state = QuestionState::Voided;
                    question.reason = Some(reason.clone());
                    question.version = seq;
                }
            }
            _ => {}
        }
    }
}

/// Two pieces of news as one, the older first, bounded.
fn joined(earlier: Option<String>, later: Option<String>) -> Option<String> {
    match (earlier, later) {
        (Some(earlier), Some(later)) if earlier != later => Some(crate::words::excerpt(&format!("{earlier} {later}"), NEWS_BYTES)),
        (earlier, later) => earlier.or(later),
    }
}

impl Turn {
    fn close(&mut self, state: TurnState, reason: &str, at: Timestamp) -> bool {
        self.end = Some(TurnEnd { state, reason: reason.to_owned(), at });
        self.model = None;
        true
    }
}

impl ToolCall {
    fn settle(&mut self, stage: CallStage, at: Timestamp) {
        self.stage = stage;
        self.ended_at = Some(at);
    }

    fn ask(&mut self, question_id: QuestionId) {
        self.question = Some(question_id);
        self.stage = match &self.stage {
            CallStage::Unknown { attempt, cause, .. } => {
                CallStage::Unknown { attempt: *attempt, cause: *cause, waiting: Waiting::Human { question_id } }
            }
            _ => CallStage::AwaitingAnswer { question_id },
        };
    }

    /// What a finding makes of a call. Where it ends or is planned anew, an event of its own follows in the same commit.
    fn reconcile(&mut self, attempt: u32, finding: &Reconciliation) {
        self.stage = match finding {
            Reconciliation::StillRunning => CallStage::Started { attempt },
            Reconciliation::Unclear { .. } => match &self.stage {
                CallStage::Unknown { cause, .. } => CallStage::Unknown { attempt, cause: *cause, waiting: Waiting::Lookup },
                other => other.clone(),
            },
            _ => self.stage.clone(),
        };
    }
}

/// Whether an event can change whom the turn's task waits for.
pub(crate) const fn changes_waiting(body: &SessionEvent) -> bool {
    matches!(
        body,
        SessionEvent::ApprovalRequested { .. }
            | SessionEvent::ApprovalDecided { .. }
            | SessionEvent::ApprovalVoided { .. }
            | SessionEvent::QuestionAsked { .. }
            | SessionEvent::QuestionAnswered { .. }
            | SessionEvent::QuestionVoided { .. }
            | SessionEvent::ModelStarted { .. }
            | SessionEvent::ModelFailed { .. }
            | SessionEvent::ModelFinished { .. }
            | SessionEvent::TurnStarted { .. }
            | SessionEvent::TurnStopRequested { .. }
            | SessionEvent::TurnFinished { .. }
            | SessionEvent::TurnInterrupted { .. }
            | SessionEvent::TurnFailed { .. }
    )
}

/// Names a call with its arguments, to recognise it when it comes again.
pub(crate) fn repeat_key(tool: &str, arguments: &serde_json::Value) -> String {
    format!("{tool} {}", baton_proto::Digest::of_json(arguments).short())
}
