use super::{Done, read, task_of};
use crate::draft::Draft;
use crate::machine::tool_call::ToolCall;
use crate::words;
use baton_proto::{CoreIntent, ModelTool, QuestionKind, SessionEvent, ToolError};
use serde::Deserialize;
use serde_json::json;

pub(super) fn ask_user() -> ModelTool {
    ModelTool {
        name: "ask_user".to_owned(),
        description: "Ask the user one question and wait for the answer. Use it when something only the user knows decides how to go on, never for what you can find out yourself.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["question"], "properties": {
            "question": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "in the user's language"},
            "options": {"type": "array", "maxItems": 8, "items": {"type": "string", "minLength": 1, "maxLength": 120}}}}),
    }
}

pub(super) fn propose_intent_change() -> ModelTool {
    ModelTool {
        name: "propose_intent_change".to_owned(),
        description:
            "Propose another goal, constraints or acceptance criteria for the task. The user decides; the goal never changes otherwise."
                .to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["goal", "reason"], "properties": {
            "goal": {"type": "string", "minLength": 1, "maxLength": 1000},
            "constraints": {"type": "array", "maxItems": 12, "items": {"type": "string", "maxLength": 300}},
            "acceptance": {"type": "array", "maxItems": 12, "items": {"type": "string", "maxLength": 300}},
            "reason": {"type": "string", "minLength": 1, "maxLength": 500}}}),
    }
}

#[derive(Deserialize)]
struct Ask {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

pub(super) fn perform_ask_user(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    let ask: Ask = read(&call.arguments)?;
    question(draft, call, ask.question, ask.options);
    Ok(Done::WhenAnswered)
}

fn question(draft: &mut Draft<'_>, call: &ToolCall, text: String, options: Vec<String>) {
    draft.emit(SessionEvent::QuestionAsked {
        question_id: draft.at.ids.fresh(),
        kind: QuestionKind::Agent,
        call_id: call.id,
        task_id: call.task_id,
        text,
        options,
        known: None,
        cause: None,
    });
}

#[derive(Deserialize)]
struct Change {
    goal: String,
    #[serde(default)]
    constraints: Vec<String>,
    #[serde(default)]
    acceptance: Vec<String>,
    reason: String,
}

pub(super) fn perform_propose(draft: &mut Draft<'_>, call: &ToolCall) -> Result<Done, ToolError> {
    task_of(call)?;
    let change: Change = read(&call.arguments)?;
    let (text, options) = words::intent_question(draft.state.language, &change.goal, &change.reason);
    question(draft, call, text, options);
    Ok(Done::WhenAnswered)
}

/// The user's word on a proposed goal: yes makes a new version, anything else leaves the goal as it is (T6).
pub(super) fn intent_decided(draft: &mut Draft<'_>, call: &ToolCall, answer: &str) -> String {
    let shown = call.question.and_then(|id| draft.state.questions.get(&id)).and_then(|question| question.options.first());
    let accepted = shown.is_some_and(|yes| yes == answer) || words::is_yes(answer);
    let (Some(task_id), Ok(change)) = (call.task_id, read::<Change>(&call.arguments)) else { return format!("The user answers: {answer}") };
    if !accepted {
        return format!("The goal stays as it is. The user answers: {answer}");
    }
    let version = draft.state.tasks.get(&task_id).map_or(1, |task| task.intent.version + 1);
    let core_intent = CoreIntent {
        goal: change.goal,
        constraints: change.constraints,
        acceptance: change.acceptance,
        version,
        source: "user".to_owned(),
    };
    draft.emit(SessionEvent::TaskIntentRevised { task_id, core_intent });
    "The user accepts the new goal.".to_owned()
}
