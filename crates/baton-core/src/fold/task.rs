use crate::machine::{Step, Task};
use crate::session::Session;
use baton_proto::{FactScope, Phase, SessionEvent, StepStatus, Timestamp, Usage};

/// Ended tasks that are kept in the state, with their summaries; older ones are in the log.
const KEPT_TASKS: usize = 12;

impl Session {
    pub(super) fn apply_to_task(&mut self, body: &SessionEvent, at: Timestamp) {
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
                    usage: Usage::default(),
                    budget_from: 0,
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
}
