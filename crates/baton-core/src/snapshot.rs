//! The whole running state as one document of at most 32 KiB, however long the history is (H2).

use crate::brief::brief;
use crate::machine::{Step, Task};
use crate::session::Session;
use crate::views::{entities, open_call, step};
use crate::words;
use baton_proto::{
    Capabilities, CoreIntent, Digest, EntityView, MAX_SNAPSHOT_BYTES, MemoryRef, Omitted, Snapshot, SnapshotState, SnapshotTask,
    StepStatus, StepView, TaskId, TaskProgress, Timestamp, redact,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes that each section may take; together with the brief and the fixed fields they stay under the whole.
const DIALOGUE_BYTES: usize = 8 * 1024;
const CALLS_BYTES: usize = 6 * 1024;
const FACTS_BYTES: usize = 4 * 1024;
const NOTES_BYTES: usize = 3 * 1024;
const REQUESTS_BYTES: usize = 3 * 1024;
const TASKS_BYTES: usize = 4 * 1024;
/// Bytes of one text in a section whose entries are many.
const TEXT_BYTES: usize = 300;
/// Capabilities and open tasks that are named.
const NAMED: usize = 40;

/// The snapshot of a state. `timeline` is the latest messages, oldest first, as ends were shown them; calls in flight are taken from the
/// state, since a long dialogue may have gone on over them.
pub fn snapshot(state: &Session, timeline: &[EntityView], capabilities: Capabilities, saved_at: Timestamp) -> Snapshot {
    let mut omitted = Left::default();
    let messages = timeline.iter().rev().filter(|entity| matches!(entity, EntityView::Message(_)));
    let mut dialogue_history = omitted.keep("dialogue_history", messages, DIALOGUE_BYTES, "history");
    dialogue_history.reverse();
    let all = entities(state);
    let of = |kind: &'static str| all.iter().filter(move |entity| entity.kind() == kind);
    let mut facts: Vec<_> = of("fact").collect();
    facts.sort_by_key(|fact| std::cmp::Reverse(fact.version()));
    let in_flight: Vec<_> = state.unsettled_calls().map(open_call).collect();
    let mut task_stack = state.stack.clone();
    while task_stack.len() > NAMED {
        task_stack.remove(0);
        omitted.count("task_stack", "view");
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
            dialogue_history,
            task_stack,
            tasks: tasks(state, &mut omitted),
            tool_state: omitted.keep("tool_state", in_flight.iter(), CALLS_BYTES, "view"),
            skill_state: BTreeMap::new(),
            short_term_memory: notes(state, &mut omitted),
            facts: omitted.keep("facts", facts.into_iter(), FACTS_BYTES, "view"),
            approvals: omitted.keep("approvals", of("approval"), REQUESTS_BYTES, "view"),
            questions: omitted.keep("questions", of("question"), REQUESTS_BYTES, "view"),
            workspace: None,
            capabilities: named(capabilities, &mut omitted),
            memory: MemoryRef::default(),
        },
        brief: brief(state),
        omitted: BTreeMap::new(),
    };
    // As a device names it, shortened as the brief has it: a path may be longer than anything else here.
    snapshot.state.workspace.clone_from(&snapshot.brief.workspace);
    snapshot.omitted = omitted.0;
    fit(&mut snapshot);
    snapshot
}

/// The sections' budgets leave room; should one text of a device's or a model's break them all the same, whole entries go, the oldest first.
fn fit(snapshot: &mut Snapshot) {
    while size(snapshot) > MAX_SNAPSHOT_BYTES {
        let mut omitted = Left(std::mem::take(&mut snapshot.omitted));
        let state = &mut snapshot.state;
        if !state.dialogue_history.is_empty() {
            state.dialogue_history.remove(0);
            omitted.count("dialogue_history", "history");
        } else if state.facts.pop().is_some() {
            omitted.count("facts", "view");
        } else if state.tool_state.pop().is_some() {
            omitted.count("tool_state", "view");
        } else if state.short_term_memory.pop_last().is_some() {
            omitted.count("short_term_memory", "view");
        } else {
            snapshot.omitted = omitted.0;
            break;
        }
        snapshot.omitted = omitted.0;
    }
}

/// Open tasks and the last turn's, the latest first in the budget.
fn tasks(state: &Session, omitted: &mut Left) -> BTreeMap<TaskId, SnapshotTask> {
    let mut tasks = BTreeMap::new();
    let mut used = 0;
    let worked_on = state.turn.as_ref().and_then(|turn| turn.task_id);
    let ids: Vec<_> = state.stack.iter().rev().copied().chain(worked_on.filter(|id| !state.stack.contains(id))).collect();
    for task in ids.iter().filter_map(|id| state.tasks.get(id)) {
        // The first one is always there, with as much of its detail as fits.
        let entry = [(300, 6), (120, 4), (60, 2)]
            .iter()
            .map(|(bytes, entries)| snapshot_task(task, *bytes, *entries))
            .find(|entry| used + size(entry) <= TASKS_BYTES)
            .or_else(|| tasks.is_empty().then(|| snapshot_task(task, 40, 1)));
        match entry {
            Some(entry) => {
                used += size(&entry);
                tasks.insert(task.id, entry);
            }
            None => omitted.count("tasks", "view"),
        }
    }
    tasks
}

fn snapshot_task(task: &Task, bytes: usize, entries: usize) -> SnapshotTask {
    let texts = |texts: &[String]| texts.iter().take(entries).map(|text| excerpt(text, bytes)).collect();
    let done: Vec<_> = task.steps.iter().filter(|step| step.status == StepStatus::Done).collect();
    SnapshotTask {
        title: excerpt(&task.title, bytes),
        core_intent: CoreIntent {
            goal: excerpt(&task.intent.goal, bytes * 2),
            constraints: texts(&task.intent.constraints),
            acceptance: texts(&task.intent.acceptance),
            version: task.intent.version,
            source: excerpt(&task.intent.source, bytes),
        },
        phase: task.phase,
        task_progress: TaskProgress {
            current_step: task.current_step().map(|step| excerpt(&step.id, bytes)),
            completed_steps: done.iter().skip(done.len().saturating_sub(entries)).map(|step| short_step(step, bytes)).collect(),
            remaining_steps: task.open_steps().take(entries).map(|step| short_step(step, bytes)).collect(),
            percent: task.progress,
            line: excerpt(&task.line, bytes),
        },
    }
}

fn short_step(of: &Step, bytes: usize) -> StepView {
    let full = step(of);
    let short = |text: Option<String>| text.map(|text| excerpt(&text, bytes));
    StepView {
        step_id: excerpt(&full.step_id, bytes),
        title: excerpt(&full.title, bytes),
        status: full.status,
        depends_on: full.depends_on.into_iter().take(4).map(|id| excerpt(&id, 40)).collect(),
        conclusion: short(full.conclusion),
        evidence: short(full.evidence),
        product: short(full.product),
    }
}

/// Notes by key. A long value by its beginning, so that it doesn't push the others out.
fn notes(state: &Session, omitted: &mut Left) -> BTreeMap<String, String> {
    let mut notes = BTreeMap::new();
    let mut used = 0;
    for (key, note) in &state.notes {
        let value = excerpt(&note.value, TEXT_BYTES);
        let bytes = size(key) + size(&value) + 2;
        if used + bytes > NOTES_BYTES {
            omitted.count("short_term_memory", "view");
        } else {
            used += bytes;
            notes.insert(key.clone(), value);
        }
    }
    notes
}

fn named(mut capabilities: Capabilities, omitted: &mut Left) -> Capabilities {
    for names in [&mut capabilities.inputs, &mut capabilities.features] {
        let all = names.len();
        *names = names.iter().filter(|name| name.len() <= 64).take(NAMED).cloned().collect();
        for _ in names.len()..all {
            omitted.count("capabilities", "devices");
        }
    }
    capabilities.language = capabilities.language.filter(|language| language.len() <= 64);
    capabilities
}

/// What was left out of each section, and where the whole is.
#[derive(Default)]
struct Left(BTreeMap<String, Omitted>);

impl Left {
    /// As many as the budget allows, shortened, in the given order; what is left out is counted and referenced.
    fn keep<'a>(&mut self, section: &str, entries: impl Iterator<Item = &'a EntityView>, budget: usize, place: &str) -> Vec<EntityView> {
        let mut used = 0;
        let mut kept = Vec::new();
        for entry in entries {
            if used <= budget {
                let entry = shorten(entry);
                used += size(&entry);
                if used <= budget {
                    kept.push(entry);
                    continue;
                }
            }
            self.count(section, place);
        }
        kept
    }

    fn count(&mut self, section: &str, place: &str) {
        self.0.entry(section.to_owned()).or_insert_with(|| Omitted { count: 0, r#ref: place.to_owned() }).count += 1;
    }
}

/// Bytes of the longest secret that is recognised whole; of a longer one the beginning is.
const SECRET_BYTES: usize = 4096;

/// The beginning of a text, without what is plainly a secret (E9). What JSON makes of it counts: a control character takes six bytes.
fn excerpt(text: &str, bytes: usize) -> String {
    // A secret that begins in what is kept is recognised by what follows it.
    let cut = words::excerpt(&redact(&words::excerpt(text, bytes + SECRET_BYTES)), bytes);
    let size = size(&cut);
    if size <= bytes * 3 / 2 + 2 { cut } else { words::excerpt(text, bytes * bytes / size) }
}

fn size<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(0, |bytes| bytes.len())
}

/// Long texts by their beginning; the whole is in the history or in the view.
fn shorten(entity: &EntityView) -> EntityView {
    match entity.clone() {
        EntityView::Message(mut message) => {
            message.text = excerpt(&message.text, 1200);
            message.thinking = None;
            if let Some(selection) = &mut message.selection {
                selection.text = excerpt(&selection.text, TEXT_BYTES);
                selection.path = excerpt(&selection.path, TEXT_BYTES);
            }
            EntityView::Message(message)
        }
        EntityView::Call(mut call) => {
            call.arguments = short_arguments(call.arguments);
            call.reason = call.reason.map(|reason| excerpt(&reason, TEXT_BYTES));
            EntityView::Call(call)
        }
        EntityView::Approval(mut approval) => {
            approval.binding.preview = excerpt(&approval.binding.preview, TEXT_BYTES);
            approval.binding.risk_reason = excerpt(&approval.binding.risk_reason, TEXT_BYTES);
            approval.binding.directory = approval.binding.directory.map(|directory| excerpt(&directory, TEXT_BYTES));
            while approval.binding.file_digests.len() > 4 {
                approval.binding.file_digests.pop_last();
            }
            approval.arguments = short_arguments(approval.arguments);
            EntityView::Approval(approval)
        }
        EntityView::Question(mut question) => {
            question.text = excerpt(&question.text, 600);
            question.known = question.known.map(|known| excerpt(&known, TEXT_BYTES));
            question.options = question.options.iter().map(|option| excerpt(option, 80)).collect();
            EntityView::Question(question)
        }
        EntityView::Fact(mut fact) => {
            fact.key = excerpt(&fact.key, TEXT_BYTES);
            fact.value = excerpt(&fact.value, TEXT_BYTES);
            fact.source = excerpt(&fact.source, 80);
            EntityView::Fact(fact)
        }
        other => other,
    }
}

/// Arguments that are too long are named by their digest.
fn short_arguments(arguments: Value) -> Value {
    if size(&arguments) > 600 { json!({"digest": Digest::of_json(&arguments)}) } else { without_secrets(arguments) }
}

fn without_secrets(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(&text)),
        Value::Array(items) => items.into_iter().map(without_secrets).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, without_secrets(value))).collect(),
        other => other,
    }
}
