//! The whole running state as one document of at most 32 KiB, however long the history is (H2).

use crate::brief::brief;
use crate::session::Session;
use crate::views::{entities, step};
use crate::words::excerpt;
use baton_proto::{
    Capabilities, EntityView, MAX_SNAPSHOT_BYTES, MemoryRef, Omitted, Snapshot, SnapshotState, SnapshotTask, StepStatus, TaskProgress,
    Timestamp,
};
use std::collections::BTreeMap;

/// Bytes that each section may take; together with the brief and the fixed fields they stay under the whole.
const DIALOGUE_BYTES: usize = 8 * 1024;
const CALLS_BYTES: usize = 6 * 1024;
const FACTS_BYTES: usize = 4 * 1024;
const NOTES_BYTES: usize = 3 * 1024;
const REQUESTS_BYTES: usize = 3 * 1024;
const TASKS_BYTES: usize = 4 * 1024;

/// The snapshot of a state. `timeline` is the latest messages and calls, oldest first, as ends were shown them.
pub fn snapshot(state: &Session, timeline: &[EntityView], capabilities: Capabilities, saved_at: Timestamp) -> Snapshot {
    let mut omitted = BTreeMap::new();
    let all = entities(state);
    let of = |kind: &str| all.iter().filter(|entity| entity.kind() == kind).cloned().collect::<Vec<_>>();
    let mut dialogue: Vec<_> = timeline.iter().filter(|entity| matches!(entity, EntityView::Message(_))).map(shorten).collect();
    dialogue.reverse();
    let mut dialogue = keep("dialogue_history", dialogue, DIALOGUE_BYTES, "history", &mut omitted);
    dialogue.reverse();
    let in_flight: Vec<_> = timeline
        .iter()
        .filter(|entity| matches!(entity, EntityView::Call(call) if state.calls.get(&call.id).is_some_and(|known| !known.is_settled())))
        .map(shorten)
        .collect();
    let mut facts = of("fact");
    facts.reverse();
    let mut notes = BTreeMap::new();
    let mut note_bytes = 0;
    for (key, note) in &state.notes {
        note_bytes += key.len() + note.value.len() + 8;
        if note_bytes > NOTES_BYTES {
            count("short_term_memory", "view", &mut omitted);
        } else {
            notes.insert(key.clone(), note.value.clone());
        }
    }
    let mut tasks = BTreeMap::new();
    let mut task_bytes = 0;
    for id in state.stack.iter().rev().chain(state.turn.as_ref().and_then(|turn| turn.task_id.as_ref())) {
        let Some(task) = state.tasks.get(id) else { continue };
        let mut intent = task.intent.clone();
        intent.goal = excerpt(&intent.goal, 600);
        let entry = SnapshotTask {
            title: task.title.clone(),
            core_intent: intent,
            phase: task.phase,
            task_progress: TaskProgress {
                current_step: task.current_step().map(|step| step.id.clone()),
                completed_steps: task.steps.iter().filter(|step| step.status == StepStatus::Done).rev().take(8).map(step).collect(),
                remaining_steps: task.open_steps().take(12).map(step).collect(),
                percent: task.progress,
                line: task.line.clone(),
            },
        };
        task_bytes += size(&entry);
        if task_bytes > TASKS_BYTES && !tasks.is_empty() {
            count("tasks", "view", &mut omitted);
        } else {
            tasks.insert(*id, entry);
        }
    }
    let mut snapshot = Snapshot {
        session_id: state.id,
        user_id: state.user,
        device_from: state.holder.transfer.as_ref().map(|transfer| transfer.from),
        device_to: state.holder.transfer.as_ref().map(|transfer| transfer.to),
        saved_at,
        version: state.version,
        epoch: state.holder.epoch,
        holder: state.holder.device,
        state: SnapshotState {
            dialogue_history: dialogue,
            task_stack: state.stack.clone(),
            tasks,
            tool_state: keep("tool_state", in_flight, CALLS_BYTES, "view", &mut omitted),
            skill_state: BTreeMap::new(),
            short_term_memory: notes,
            facts: keep("facts", facts, FACTS_BYTES, "view", &mut omitted),
            approvals: keep("approvals", of("approval").iter().map(shorten).collect(), REQUESTS_BYTES, "view", &mut omitted),
            questions: keep("questions", of("question"), REQUESTS_BYTES, "view", &mut omitted),
            workspace: state.workspace.as_ref().map(|workspace| workspace.baseline.clone()),
            capabilities,
            memory: MemoryRef::default(),
        },
        brief: brief(state),
        omitted,
    };
    while size(&snapshot) > MAX_SNAPSHOT_BYTES && !snapshot.state.dialogue_history.is_empty() {
        snapshot.state.dialogue_history.remove(0);
        count("dialogue_history", "history", &mut snapshot.omitted);
    }
    snapshot
}

/// As many as the budget allows, in the given order; what is left out is counted and referenced.
fn keep(section: &str, entries: Vec<EntityView>, budget: usize, place: &str, omitted: &mut BTreeMap<String, Omitted>) -> Vec<EntityView> {
    let mut used = 0;
    let mut kept = Vec::new();
    for entry in entries {
        used += size(&entry);
        if used > budget {
            count(section, place, omitted);
        } else {
            kept.push(entry);
        }
    }
    kept
}

fn count(section: &str, place: &str, omitted: &mut BTreeMap<String, Omitted>) {
    omitted.entry(section.to_owned()).or_insert_with(|| Omitted { count: 0, r#ref: place.to_owned() }).count += 1;
}

fn size<T: serde::Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

/// Long texts by their beginning; the whole is in the history.
fn shorten(entity: &EntityView) -> EntityView {
    match entity.clone() {
        EntityView::Message(mut message) => {
            message.text = excerpt(&message.text, 1200);
            message.thinking = None;
            EntityView::Message(message)
        }
        EntityView::Call(mut call) => {
            call.result = None;
            if call.arguments.to_string().len() > 1500 {
                call.arguments = serde_json::json!({"digest": baton_proto::Digest::of_json(&call.arguments)});
            }
            EntityView::Call(call)
        }
        EntityView::Approval(mut approval) => {
            approval.binding.preview = excerpt(&approval.binding.preview, 800);
            if approval.arguments.to_string().len() > 800 {
                approval.arguments = serde_json::json!({"digest": approval.binding.argument_digest});
            }
            EntityView::Approval(approval)
        }
        other => other,
    }
}
