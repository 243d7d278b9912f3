use super::{Done, read, refusal, task_of};
use crate::decide::conclude;
use crate::draft::Draft;
use crate::machine::tool_call::ToolCall;
use baton_proto::{MessageId, ModelTool, Role, SessionEvent, ToolError};
use serde::Deserialize;
use serde_json::json;

pub(super) fn finish_task() -> ModelTool {
    ModelTool {
        name: "finish_task".to_owned(),
        description: "Say that the task is done, after you checked the result against the goal. Refused while steps of the plan are open."
            .to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["summary"], "properties": {
            "summary": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "for the user, in the user's language: what was done, and what was found"}}}),
    }
}

#[derive(Deserialize)]
struct Finish {
    summary: String,
}

pub(super) fn perform(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let task_id = task_of(call)?;
    let finish: Finish = read(&call.arguments)?;
    let Some(task) = draft.state.tasks.get(&task_id) else { return Err(refusal("no_task", "There is no task here.", "Answer in words.")) };
    let open: Vec<_> = task.open_steps().map(|step| step.id.clone()).collect();
    if !open.is_empty() {
        return Err(refusal(
            "illegal_transition",
            format!("These steps aren't finished: {}.", open.join(", ")),
            "Finish them with finish_step, or set a plan without them, then finish the task.",
        ));
    }
    if draft.state.open_turn().is_some_and(|turn| !turn.unread.is_empty()) {
        return Err(refusal(
            "illegal_transition",
            "The user has said something new meanwhile.",
            "Read it, then decide whether the task is done.",
        ));
    }
    if draft.state.unsettled_calls().any(|other| other.id != call.id) {
        return Err(refusal("illegal_transition", "Other calls are still under way.", "Wait for their results, then finish the task."));
    }
    if !conclude(draft, task_id, Some(&finish.summary)) {
        return Err(refusal("illegal_transition", "The task can't be finished in the phase it is in.", "Stop here."));
    }
    if !said_something(draft) {
        let message_id: MessageId = draft.at.ids.fresh();
        draft.emit(SessionEvent::MessageAdded {
            message_id,
            role: Role::Agent,
            text: finish.summary,
            turn_id: Some(call.turn_id),
            task_id: Some(task_id),
            sender: None,
            selection: None,
            attachments: Vec::new(),
        });
    }
    Ok(Done::Now("The task is done.".to_owned()))
}

/// Whether the answer that made this call has words of its own; without them the summary is shown as the answer.
fn said_something(draft: &Draft<'_>) -> bool {
    draft.events.iter().any(|event| matches!(&event.body, SessionEvent::ModelFinished { text, .. } if !text.trim().is_empty()))
}
