//! Where the work stands, by template and without a model call (H4): for the agent that goes on with it, and for a person who takes it up.

use crate::session::Session;
use crate::views::waiting_on;
use crate::words::excerpt;
use baton_proto::{Baseline, Brief, Language, MAX_BRIEF_BYTES, StepStatus, WaitingOn, redact};
use std::fmt::Write as _;

/// How much of each part is said, in bytes and entries.
struct Scale {
    goal: usize,
    constraints: (usize, usize),
    done: (usize, usize),
    next: usize,
    deferred: (usize, usize),
    path: usize,
}

/// From ample to bare. Each part gives way a little before any is lost.
const SCALES: [Scale; 5] = [
    Scale { goal: 320, constraints: (4, 80), done: (5, 110), next: 120, deferred: (3, 60), path: 400 },
    Scale { goal: 220, constraints: (3, 64), done: (4, 80), next: 100, deferred: (3, 48), path: 200 },
    Scale { goal: 160, constraints: (2, 56), done: (3, 64), next: 80, deferred: (2, 40), path: 120 },
    Scale { goal: 100, constraints: (1, 40), done: (2, 48), next: 60, deferred: (1, 32), path: 80 },
    Scale { goal: 48, constraints: (0, 0), done: (1, 24), next: 32, deferred: (0, 0), path: 32 },
];

/// The brief of a session, at most 2 KiB whatever the length of its history.
pub fn brief(state: &Session) -> Brief {
    let mut last = Brief::default();
    for scale in &SCALES {
        last = at_scale(state, scale);
        if serde_json::to_vec(&last).map_or(0, |bytes| bytes.len()) <= MAX_BRIEF_BYTES {
            break;
        }
    }
    last
}

fn at_scale(state: &Session, scale: &Scale) -> Brief {
    let last = state.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| state.tasks.get(&id));
    let task = state.active_task().or(last);
    let workspace = state.workspace.as_ref().map(|workspace| Baseline {
        path: plain(&workspace.baseline.path, scale.path),
        branch: workspace.baseline.branch.as_ref().map(|branch| plain(branch, scale.path)),
        commit: workspace.baseline.commit.as_ref().map(|commit| plain(commit, 64)),
        dirty: workspace.baseline.dirty.clone(),
    });
    let mut brief = Brief { workspace, ..Brief::default() };
    if let Some(task) = task {
        brief.goal = plain(&task.intent.goal, scale.goal);
        brief.constraints = task.intent.constraints.iter().take(scale.constraints.0).map(|text| plain(text, scale.constraints.1)).collect();
        let done: Vec<_> = task.steps.iter().filter(|step| step.status == StepStatus::Done).collect();
        brief.completed_steps = done
            .iter()
            .rev()
            .take(scale.done.0)
            .rev()
            .map(|step| plain(&format!("{}: {}", step.title, step.conclusion.as_deref().unwrap_or_default()), scale.done.1))
            .collect();
        brief.next_step = task.current_step().map(|step| plain(&step.title, scale.next));
        brief.waiting_on = waiting_on(state, task);
        brief.deferred = state
            .stack
            .iter()
            .rev()
            .filter(|id| **id != task.id)
            .filter_map(|id| state.tasks.get(id))
            .take(scale.deferred.0)
            .map(|task| plain(&task.title, scale.deferred.1))
            .collect();
    }
    brief.text = text(state.language, &brief);
    brief
}

/// One line of a text without what is plainly a secret, at most `bytes` long. Control characters would take six bytes each on the wire.
fn plain(text: &str, bytes: usize) -> String {
    let line: Vec<_> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    excerpt(&redact(&line.join(" ")), bytes)
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
        (Some(WaitingOn::Workspace { .. }), false) => Some("another session that works in the workspace"),
        (Some(WaitingOn::Workspace { .. }), true) => Some("正在同一工作区中工作的另一会话"),
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
