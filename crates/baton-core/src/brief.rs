//! Where the work stands, by template and without a model call (H4): for the agent that goes on with it, and for a person who takes it up.

use crate::session::Session;
use crate::views::waiting_on;
use crate::words::excerpt;
use baton_proto::{Brief, Language, MAX_BRIEF_BYTES, StepStatus, WaitingOn};
use std::fmt::Write as _;

/// The brief of a session, at most 2 KiB whatever the length of its history.
pub fn brief(state: &Session) -> Brief {
    let last = state.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| state.tasks.get(&id));
    let task = state.active_task().or(last);
    let mut brief = Brief { workspace: state.workspace.as_ref().map(|workspace| workspace.baseline.clone()), ..Brief::default() };
    if let Some(task) = task {
        brief.goal = excerpt(&task.intent.goal, 320);
        brief.constraints = task.intent.constraints.iter().take(4).map(|text| excerpt(text, 80)).collect();
        let done: Vec<_> = task.steps.iter().filter(|step| step.status == StepStatus::Done).collect();
        brief.completed_steps = done
            .iter()
            .rev()
            .take(5)
            .rev()
            .map(|step| excerpt(&format!("{}: {}", step.title, step.conclusion.as_deref().unwrap_or_default()), 110))
            .collect();
        brief.next_step = task.current_step().map(|step| excerpt(&step.title, 120));
        brief.waiting_on = waiting_on(state, task);
        brief.deferred = state
            .stack
            .iter()
            .rev()
            .filter(|id| **id != task.id)
            .filter_map(|id| state.tasks.get(id))
            .take(3)
            .map(|task| excerpt(&task.title, 60))
            .collect();
    }
    brief.text = text(state.language, &brief);
    while serde_json::to_vec(&brief).map_or(0, |bytes| bytes.len()) > MAX_BRIEF_BYTES {
        if brief.completed_steps.len() > 1 {
            brief.completed_steps.remove(0);
            brief.text = text(state.language, &brief);
        } else if brief.text.len() > 64 {
            brief.text = excerpt(&brief.text, brief.text.len() * 2 / 3);
        } else if brief.goal.len() > 64 {
            brief.goal = excerpt(&brief.goal, brief.goal.len() * 2 / 3);
        } else {
            brief.workspace = None;
            brief.constraints.clear();
            brief.deferred.clear();
            break;
        }
    }
    brief
}

fn text(language: Language, brief: &Brief) -> String {
    let zh = language == Language::Zh;
    let mut text = String::new();
    let mut line = |en: &str, cn: &str, value: &str| {
        let _ = if zh { writeln!(text, "{cn}:{value}") } else { writeln!(text, "{en}: {value}") };
    };
    if brief.goal.is_empty() {
        line("Goal", "目标", if zh { "尚无任务" } else { "no task yet" });
        return text.trim_end().to_owned();
    }
    line("Goal", "目标", &brief.goal);
    if !brief.constraints.is_empty() {
        line("Constraints", "约束", &brief.constraints.join("; "));
    }
    if !brief.completed_steps.is_empty() {
        line("Done", "已完成", &brief.completed_steps.join("; "));
    }
    if let Some(next) = &brief.next_step {
        line("Next", "下一步", next);
    }
    let waits = match (&brief.waiting_on, zh) {
        (None, _) => None,
        (Some(WaitingOn::Approval { .. }), false) => Some("your approval"),
        (Some(WaitingOn::Approval { .. }), true) => Some("你的批准"),
        (Some(WaitingOn::Question { .. }), false) => Some("your answer"),
        (Some(WaitingOn::Question { .. }), true) => Some("你的回答"),
        (Some(WaitingOn::Device { .. }), false) => Some("a device that is offline"),
        (Some(WaitingOn::Device { .. }), true) => Some("离线的设备"),
        (Some(WaitingOn::Model { .. }), false) => Some("the model, which is tried again"),
        (Some(WaitingOn::Model { .. }), true) => Some("模型(稍后重试)"),
    };
    if let Some(waits) = waits {
        line("Waiting for", "等待", waits);
    }
    if !brief.deferred.is_empty() {
        line("Put off", "已搁置", &brief.deferred.join("; "));
    }
    text.trim_end().to_owned()
}
