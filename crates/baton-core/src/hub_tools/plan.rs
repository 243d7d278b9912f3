use super::{Done, read, refusal, set_phase, task_of};
use crate::draft::Draft;
use crate::machine::tool_call::ToolCall;
use crate::words;
use baton_proto::{ModelTool, Phase, PlanStep, SessionEvent, StepStatus, ToolError};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

const MAX_STEPS: usize = 30;
/// Steps of a task, finished ones included, over all its plans.
const MAX_STEPS_OF_A_TASK: usize = 100;

pub(super) fn set_plan() -> ModelTool {
    ModelTool {
        name: "set_plan".to_owned(),
        description: "Set or revise the plan of the task, before work that takes more than two or three calls. Finished steps are kept whatever you give. At most 30 steps.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["steps"], "properties": {"steps": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": {
            "type": "object", "additionalProperties": false, "required": ["id", "title"], "properties": {
                "id": {"type": "string", "minLength": 1, "maxLength": 40, "description": "short and unique, such as 1 or home-page"},
                "title": {"type": "string", "minLength": 1, "maxLength": 200},
                "depends_on": {"type": "array", "items": {"type": "string"}, "description": "ids of steps that must be finished first"}}}}}}),
    }
}

pub(super) fn start_step() -> ModelTool {
    ModelTool {
        name: "start_step".to_owned(),
        description: "Say that you begin a step of the plan. Its dependencies must be finished.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["step_id"], "properties": {"step_id": {"type": "string"}}}),
    }
}

pub(super) fn finish_step() -> ModelTool {
    ModelTool {
        name: "finish_step".to_owned(),
        description: "Say that a step of the plan is finished, with what came of it.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["step_id", "conclusion"], "properties": {
            "step_id": {"type": "string"},
            "conclusion": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "one or two sentences"},
            "evidence": {"type": "string", "maxLength": 1000, "description": "how you know"},
            "product": {"type": "string", "maxLength": 400, "description": "where the result lies, such as a path"}}}),
    }
}

#[derive(Deserialize)]
struct Plan {
    steps: Vec<GivenStep>,
}

#[derive(Deserialize)]
struct GivenStep {
    id: String,
    title: String,
    #[serde(default)]
    depends_on: Vec<String>,
}

pub(super) fn perform_set_plan(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let task_id = task_of(call)?;
    let plan: Plan = read(&call.arguments)?;
    if plan.steps.is_empty() || plan.steps.len() > MAX_STEPS {
        return Err(refusal("invalid_plan", format!("A plan has 1 to {MAX_STEPS} steps."), "Make each step larger."));
    }
    let mut ids = BTreeSet::new();
    if let Some(double) = plan.steps.iter().find(|step| !ids.insert(step.id.clone())) {
        return Err(refusal("invalid_plan", format!("The step id '{}' occurs twice.", double.id), "Give each step an id of its own."));
    }
    let done: BTreeSet<String> = draft
        .state
        .tasks
        .get(&task_id)
        .into_iter()
        .flat_map(|task| &task.steps)
        .filter(|step| step.status == StepStatus::Done)
        .map(|step| step.id.clone())
        .collect();
    if done.len() + plan.steps.len() > MAX_STEPS_OF_A_TASK {
        return Err(refusal(
            "invalid_plan",
            format!("With the finished ones, a task has at most {MAX_STEPS_OF_A_TASK} steps."),
            "Finish this task, and say what is left.",
        ));
    }
    for step in &plan.steps {
        if let Some(missing) = step.depends_on.iter().find(|id| !ids.contains(*id) && !done.contains(*id)) {
            return Err(refusal(
                "invalid_plan",
                format!("Step '{}' depends on '{missing}', which isn't in the plan.", step.id),
                "Name steps of this plan.",
            ));
        }
    }
    if circular(&plan.steps) {
        return Err(refusal("invalid_plan", "The steps depend on each other in a circle.", "Remove one of the dependencies."));
    }
    let count = plan.steps.len();
    let steps = plan.steps.into_iter().map(|step| PlanStep { step_id: step.id, title: step.title, depends_on: step.depends_on }).collect();
    draft.emit(SessionEvent::TaskPlanned { task_id, steps });
    progress(draft, call);
    Ok(Done::Now(format!("The plan has {count} steps. Begin with start_step.")))
}

/// Whether some step can never start.
fn circular(steps: &[GivenStep]) -> bool {
    let mut settled: BTreeSet<&str> = BTreeSet::new();
    let ids: BTreeSet<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    loop {
        let before = settled.len();
        for step in steps {
            if step.depends_on.iter().all(|id| settled.contains(id.as_str()) || !ids.contains(id.as_str())) {
                settled.insert(&step.id);
            }
        }
        if settled.len() == before {
            return before < steps.len();
        }
    }
}

#[derive(Deserialize)]
struct Start {
    step_id: String,
}

pub(super) fn perform_start_step(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let task_id = task_of(call)?;
    let start: Start = read(&call.arguments)?;
    let Some(task) = draft.state.tasks.get(&task_id) else { return Err(refusal("no_task", "There is no task here.", "Answer in words.")) };
    let Some(step) = task.steps.iter().find(|step| step.id == start.step_id) else { return Err(no_step(draft, call, &start.step_id)) };
    match step.status {
        StepStatus::Done => {
            return Err(refusal("illegal_transition", format!("Step '{}' is finished already.", step.id), "Go on with the next one."));
        }
        StepStatus::Running => return Ok(Done::Now(format!("Step '{}' is under way.", step.id))),
        StepStatus::Pending => {}
    }
    let open: Vec<_> = step
        .depends_on
        .iter()
        .filter(|id| task.steps.iter().any(|other| &other.id == *id && other.status != StepStatus::Done))
        .cloned()
        .collect();
    if !open.is_empty() {
        return Err(refusal(
            "illegal_transition",
            format!("Step '{}' waits for {}.", step.id, open.join(", ")),
            "Finish those first, or revise the plan.",
        ));
    }
    draft.emit(SessionEvent::StepStarted { task_id, step_id: start.step_id.clone() });
    progress(draft, call);
    set_phase(draft, task_id, Phase::Executing, None);
    Ok(Done::Now(format!("Step '{}' is under way.", start.step_id)))
}

#[derive(Deserialize)]
struct Finish {
    step_id: String,
    conclusion: String,
    #[serde(default)]
    evidence: Option<String>,
    #[serde(default)]
    product: Option<String>,
}

pub(super) fn perform_finish_step(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let task_id = task_of(call)?;
    let finish: Finish = read(&call.arguments)?;
    let step = draft.state.tasks.get(&task_id).and_then(|task| task.steps.iter().find(|step| step.id == finish.step_id)).cloned();
    let Some(step) = step else { return Err(no_step(draft, call, &finish.step_id)) };
    if step.status == StepStatus::Done {
        return Err(refusal("illegal_transition", format!("Step '{}' is finished already.", step.id), "Go on with the next one."));
    }
    draft.emit(SessionEvent::StepFinished {
        task_id,
        step_id: step.id,
        conclusion: finish.conclusion,
        evidence: finish.evidence,
        product: finish.product,
    });
    progress(draft, call);
    let next =
        draft.state.tasks.get(&task_id).and_then(|task| task.next_step()).map(|step| format!("Next is '{}': {}.", step.id, step.title));
    Ok(Done::Now(next.unwrap_or_else(|| "Every step is finished. Check the result against the goal, then finish_task.".to_owned())))
}

fn no_step(draft: &Draft<'_>, call: &ToolCall, given: &str) -> ToolError {
    let known: Vec<_> = call
        .task_id
        .and_then(|id| draft.state.tasks.get(&id))
        .into_iter()
        .flat_map(|task| &task.steps)
        .map(|step| step.id.clone())
        .collect();
    let hint =
        if known.is_empty() { "There is no plan yet: use set_plan.".to_owned() } else { format!("The steps are: {}.", known.join(", ")) };
    refusal("unknown_step", format!("The plan has no step '{given}'."), hint)
}

/// Progress is the share of finished steps; the line says what is being done, in the user's language.
fn progress(draft: &mut Draft<'_>, call: &ToolCall) {
    let Some(task) = call.task_id.and_then(|id| draft.state.tasks.get(&id)) else { return };
    let done = task.steps.iter().filter(|step| step.status == StepStatus::Done).count();
    let percent = u8::try_from(done * 100 / task.steps.len().max(1)).unwrap_or(100).min(99);
    let line = task.current_step().map_or_else(|| words::checking(draft.state.language).to_owned(), |step| step.title.clone());
    let task_id = task.id;
    draft.emit(SessionEvent::TaskProgressed { task_id, progress: percent, line });
}
