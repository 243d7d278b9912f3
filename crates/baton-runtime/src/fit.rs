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

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::{Event, SessionId};
    use serde_json::json;

    const ID: &str = "0199d2a4-6f00-7a00-8000-000000000001";

    fn approval(number: u64, state: &str, preview: &str) -> EntityView {
        let id = uuid::Uuid::from_u128(u128::from(number));
        let binding = json!({
            "task_id": null, "turn_id": ID, "tool": "run_command", "argument_digest": "00", "file_digests": {}, "risk": "sensitive",
            "risk_reason": "", "preview": preview, "directory": null, "device_id": null, "epoch": 1
        });
        let approval = json!({
            "kind": "approval", "id": id, "version": 9, "created_seq": number, "call_id": ID, "state": state, "arguments": {}, "binding": binding,
            "at": "2026-11-30T10:00:00.000Z", "workspace_changed": true
        });
        serde_json::from_value(approval).unwrap()
    }

    fn call(state: &str, content: &str) -> EntityView {
        let call = json!({
            "kind": "call", "id": ID, "version": 9, "created_seq": 3, "turn_id": ID, "tool": "write_file", "origin": "model", "effect": "once",
            "arguments": {"path": "a", "content": content}, "risk": "safe", "state": state, "attempt": 1, "at": "2026-11-30T10:00:00.000Z",
            "result": {"content": content, "bytes": content.len()}
        });
        serde_json::from_value(call).unwrap()
    }

    fn change(upserts: Vec<EntityView>) -> Arc<Change> {
        let event = json!({
            "type": "note_set", "v": 1, "at": "2026-11-30T10:00:00.000Z", "lane": "main", "actor": {"kind": "agent"},
            "data": {"key": "k", "value": "v".repeat(60_000)}
        });
        let event: Event = serde_json::from_value(event).unwrap();
        Arc::new(Change { session_id: SessionId(ID.parse().unwrap()), seq: 9, event, upserts })
    }

    #[test]
    fn a_change_that_fits_is_sent_as_it_is() {
        let whole = change(vec![call("succeeded", &"x".repeat(56 * 1024)), approval(1, "open", &"y".repeat(32 * 1024))]);
        assert_eq!(fit_change(Arc::clone(&whole)), (whole, false));
    }

    #[test]
    fn a_change_that_does_not_fit_is_shortened_where_nobody_decides_by_it() {
        let preview = "z".repeat(32 * 1024);
        let (fitted, left_out) = fit_change(change(vec![
            call("started", &"\u{1}".repeat(16 * 1024)),
            approval(1, "open", &preview),
            approval(2, "voided", &preview),
        ]));
        assert!(size(&*fitted) <= ROOM && !left_out);
        let text = serde_json::to_string(&*fitted).unwrap();
        assert!(text.contains("see the history") && text.contains(&preview));
    }

    #[test]
    fn what_waits_for_a_decision_is_left_out_rather_than_cut() {
        let preview = "p".repeat(32 * 1024);
        let open: Vec<_> = (1..=16).map(|number| approval(number, "open", &preview)).collect();
        let (fitted, left_out) = fit_change(change(open.clone()));
        assert!(size(&*fitted) <= ROOM && left_out);
        let kept = fit_open(open.clone());
        // Those asked first are decided first.
        assert_eq!(kept, open[..kept.len()]);
        assert!((4..16).contains(&kept.len()) && kept.iter().map(size).sum::<usize>() <= OPEN_ROOM, "{}", kept.len());
        assert!(fitted.upserts.iter().all(|entity| serde_json::to_string(entity).unwrap().contains(&preview)));
    }

    #[test]
    fn a_shortened_text_keeps_both_ends_and_whole_characters() {
        let mut text = format!("begin{}end", "é".repeat(5000));
        shorten_text(&mut text);
        assert!(text.starts_with("begin") && text.ends_with("end") && text.contains("bytes not shown here") && text.len() < 1300);
        let mut short = "é".repeat(700);
        shorten_text(&mut short);
        assert_eq!(short, "é".repeat(700));
    }
}
