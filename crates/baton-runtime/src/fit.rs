//! What ends are sent, small enough for a frame. Whatever is shortened says so, and where the whole is; what still waits for somebody's
//! decision is never shortened (S19).

use baton_core::words::excerpt;
use baton_proto::{ApprovalState, CallEntity, Change, EntityView, MAX_FRAME_BYTES, ToolResult};
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// The entities of a view or change are at most this large, in bytes; the rest of a frame is for what surrounds them.
pub(crate) const ROOM: usize = MAX_FRAME_BYTES - 8 * 1024;
/// The open things of a view leave the rest to the timeline.
const OPEN_ROOM: usize = ROOM - 64 * 1024;
/// Characters of text that a shortened entity keeps of each of its long texts.
const KEPT: usize = 1024;
/// A text this much longer than what is kept isn't worth a note.
const WORTH_IT: usize = 512;

/// Bytes that a value takes as JSON.
pub(crate) fn size(value: &impl Serialize) -> usize {
    let mut counted = Counter(0);
    match serde_json::to_writer(&mut counted, value) {
        Ok(()) => counted.0,
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Shortens the long texts of what is settled.
pub(crate) fn shorten(entity: &mut EntityView) {
    match entity {
        EntityView::Call(call) if call.state.is_settled() => shorten_call(call),
        EntityView::Approval(approval) if approval.state != ApprovalState::Open => {
            shorten_value(&mut approval.arguments);
            shorten_text(&mut approval.binding.preview);
        }
        EntityView::Task(task) if task.phase.is_ended() => {
            for step in &mut task.steps {
                [&mut step.conclusion, &mut step.evidence, &mut step.product].into_iter().flatten().for_each(|text| clip(text, 160));
            }
        }
        _ => {}
    }
}

fn shorten_call(call: &mut CallEntity) {
    shorten_value(&mut call.arguments);
    if let Some(result) = &mut call.result {
        shorten_result(result);
    }
    if let Some(error) = &mut call.error {
        shorten_text(&mut error.message);
        shorten_text(&mut error.hint);
    }
}

fn shorten_result(result: &mut ToolResult) {
    shorten_text(&mut result.content);
    let listed = result.changes.len();
    if listed > 20 {
        result.changes.truncate(20);
        result.content = format!("{}\n[{} more changed files: see the history]", result.content, listed - 20);
    }
}

fn shorten_value(value: &mut Value) {
    match value {
        Value::String(text) => shorten_text(text),
        Value::Array(items) => {
            let all = items.len();
            if all > 50 {
                items.truncate(50);
                items.push(Value::String(format!("[{} more: see the history]", all - 50)));
            }
            items.iter_mut().for_each(shorten_value);
        }
        Value::Object(fields) => fields.values_mut().for_each(shorten_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps the beginning and the end of a long text, and says between them what is missing and where it is.
fn shorten_text(text: &mut String) {
    if text.len() <= KEPT + WORTH_IT {
        return;
    }
    let (mut head, mut tail) = (KEPT / 2, text.len() - KEPT / 2);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    *text = format!("{}\n[… {} bytes not shown here: see the history …]\n{}", &text[..head], tail - head, &text[tail..]);
}

fn clip(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        *text = excerpt(text, bytes);
    }
}

/// The open part of a view in at most its share of a frame, in the order in which it came. What doesn't fit even when it is shortened
/// is left out: first notes and facts, the oldest first, then ended tasks, then requests for approval, the newest first. Those are in the
/// timeline too, and so in the history.
pub(crate) fn fit_open(mut entities: Vec<EntityView>) -> Vec<EntityView> {
    let mut bytes: usize = entities.iter().map(|entity| size(entity) + 1).sum();
    if bytes <= OPEN_ROOM {
        return entities;
    }
    for width in [1024, 256] {
        for entity in &mut entities {
            narrow(entity, width);
        }
    }
    bytes = entities.iter().map(|entity| size(entity) + 1).sum();
    let before = entities.len();
    while bytes > OPEN_ROOM {
        let Some(least) = (0..entities.len()).filter_map(|index| Some((worth(&entities[index])?, index))).min() else { break };
        bytes -= size(&entities.remove(least.1)) + 1;
    }
    if entities.len() < before {
        tracing::warn!(left_out = before - entities.len(), "a view has more than fits a frame");
    }
    entities
}

/// Shortens what people wrote at length, the settled first.
fn narrow(entity: &mut EntityView, width: usize) {
    shorten(entity);
    match entity {
        EntityView::Call(call) => shorten_call(call),
        EntityView::Fact(fact) => clip(&mut fact.value, width),
        EntityView::Note(note) => note.value.iter_mut().for_each(|value| clip(value, width)),
        EntityView::Task(task) => {
            for step in &mut task.steps {
                clip(&mut step.title, width);
                [&mut step.conclusion, &mut step.evidence, &mut step.product].into_iter().flatten().for_each(|text| clip(text, width / 2));
            }
            clip(&mut task.core_intent.goal, width * 4);
            task.core_intent.constraints.iter_mut().chain(&mut task.core_intent.acceptance).for_each(|text| clip(text, width));
            [&mut task.summary, &mut task.last_error].into_iter().flatten().for_each(|text| clip(text, width));
        }
        _ => {}
    }
}

/// What is left out first has the least; `None` is never left out.
fn worth(entity: &EntityView) -> Option<(u8, u64)> {
    match entity {
        EntityView::Note(note) => Some((0, note.version)),
        EntityView::Fact(fact) => Some((0, fact.version)),
        EntityView::Task(task) if task.phase.is_ended() => Some((1, task.version)),
        EntityView::Task(task) => Some((2, task.version)),
        EntityView::Approval(approval) => Some((3, u64::MAX - approval.created_seq)),
        _ => None,
    }
}

/// A change that fits a frame, and whether entities had to be left out of it, so that its reader needs the view anew.
pub(crate) fn fit_change(change: Arc<Change>) -> (Arc<Change>, bool) {
    if size(&*change) <= ROOM {
        return (change, false);
    }
    let mut change = Arc::unwrap_or_clone(change);
    for entity in &mut change.upserts {
        narrow(entity, 256);
    }
    let mut bytes = size(&change);
    let mut left_out = false;
    while bytes > ROOM {
        let Some(last) = change.upserts.pop() else { break };
        bytes -= size(&last).min(bytes);
        left_out = true;
    }
    (Arc::new(change), left_out)
}
