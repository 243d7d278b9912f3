//! How an event changes a session: one file a machine. It can't fail, and it decides nothing.

mod call;
mod origins;
mod request;
mod task;
mod turn;

pub(crate) use turn::repeat_key;

use crate::machine::{Fact, Holder, Note, Transfer};
use crate::session::Session;
use baton_proto::{ApprovalState, Baseline, Event, FactScope, SessionEvent, Timestamp};

/// Valid facts that are kept.
const KEPT_FACTS: usize = 200;
/// Resets of the context that can be taken back, one after the other.
const KEPT_RESETS: usize = 16;
/// Attachments that are kept for the agent to read.
const KEPT_ATTACHMENTS: usize = 50;
/// Days whose tokens are counted.
const KEPT_DAYS: usize = 7;
/// Bytes of what is told of changes that somebody else made to the workspace.
const NEWS_BYTES: usize = 1000;

impl Session {
    /// Brings the state one event further. It can't fail: what may happen was decided before the event was written.
    pub fn apply(&mut self, event: &Event) {
        self.seq += 1;
        if !is_of_the_list(&event.body) {
            self.updated_at = event.at;
        }
        // Being taken up is the last event of its commit; whatever happens after it shows that the hub lived on.
        self.resumes_in_a_row = match event.body {
            SessionEvent::Recovered { in_a_row, .. } => in_a_row,
            _ => 0,
        };
        let (seq, at) = (self.seq, event.at);
        self.note_origins(&event.body);
        match &event.body {
            SessionEvent::SessionCreated { user_id, title, language, workspace, holder, epoch } => {
                self.user = *user_id;
                self.title.clone_from(title);
                self.language = *language;
                self.created_at = at;
                self.workspace.clone_from(workspace);
                self.workspace_version = seq;
                self.holder = Holder { device: *holder, epoch: *epoch, transfer: None };
            }
            // What somebody else's session used is none of this user's spending.
            SessionEvent::SessionImported { .. } => {
                self.usage.clear();
                self.beyond_day = None;
                self.archived = false;
                self.pinned = false;
            }
            SessionEvent::SessionTitled { title, language } => {
                self.title.clone_from(title);
                self.language = *language;
            }
            SessionEvent::SessionRenamed { title } => self.title.clone_from(title),
            SessionEvent::SessionPinned { pinned } => self.pinned = *pinned,
            SessionEvent::SessionArchived { archived } => self.archived = *archived,
            SessionEvent::MessageAdded { attachments, .. } => {
                for attachment in attachments {
                    self.attachments.retain(|known| known.digest != attachment.digest || known.name != attachment.name);
                    self.attachments.push(attachment.clone());
                }
                let old = self.attachments.len().saturating_sub(KEPT_ATTACHMENTS);
                self.attachments.drain(..old);
            }
            SessionEvent::ConflictRefused { .. } | SessionEvent::Recovered { .. } | SessionEvent::DriverReleased { .. } => {}
            SessionEvent::WorkspaceSeen { baseline, changed } => self.see_workspace(baseline, changed.as_deref()),
            SessionEvent::FactRecorded { fact_id, key, value, scope, task_id, source, confidence, origins } => {
                self.close_facts(|fact| {
                    fact.key == *key && fact.scope == *scope && (*scope == FactScope::Session || fact.task_id == *task_id)
                });
                let fact = Fact {
                    id: *fact_id,
                    version: seq,
                    key: key.clone(),
                    value: value.clone(),
                    scope: *scope,
                    task_id: *task_id,
                    source: source.clone(),
                    confidence: *confidence,
                    at,
                    origins: origins.clone(),
                };
                self.facts.insert(*fact_id, fact);
                while self.facts.len() > KEPT_FACTS {
                    // The oldest by sequence; ids carry a clock, and clocks step back (C45).
                    let Some(oldest) = self.facts.values().min_by_key(|fact| fact.version).map(|fact| fact.id) else { break };
                    self.close_facts(|fact| fact.id == oldest);
                }
            }
            SessionEvent::FactForgotten { fact_id } => self.close_facts(|fact| fact.id == *fact_id),
            SessionEvent::NoteSet { key, value } => {
                self.notes.insert(key.clone(), Note { version: seq, value: value.clone() });
            }
            SessionEvent::NoteForgotten { key } => {
                self.notes.remove(key);
            }
            SessionEvent::ContextReset {} => self.reset_context(),
            SessionEvent::ContextRestored {} => {
                self.context_resets.pop();
            }
            SessionEvent::BudgetExtended { task_id, day } => {
                if let Some(task) = task_id.and_then(|id| self.tasks.get_mut(&id)) {
                    task.budget_from = task.usage.total();
                    task.version = seq;
                }
                if day.is_some() {
                    self.beyond_day.clone_from(day);
                }
            }
            body => {
                self.count_usage(body, at);
                self.apply_to_holder(body);
                self.apply_to_turn(body, at);
                self.apply_to_task(body, at);
                self.apply_to_call(body, at);
                self.apply_to_requests(body, at);
                self.touch_waiting_task(body);
            }
        }
        self.version = seq;
    }

    fn see_workspace(&mut self, baseline: &Baseline, changed: Option<&str>) {
        let seq = self.seq;
        if let Some(workspace) = &mut self.workspace {
            workspace.baseline.clone_from(baseline);
        }
        self.workspace_version = seq;
        let Some(changed) = changed else { return };
        self.workspace_news = joined(self.workspace_news.take(), Some(changed.to_owned()));
        for approval in self.approvals.values_mut().filter(|approval| approval.state == ApprovalState::Open) {
            approval.workspace_changed = true;
            approval.version = seq;
        }
    }

    fn reset_context(&mut self) {
        self.context_tokens = 0;
        self.context_resets.push(self.seq);
        if self.context_resets.len() > KEPT_RESETS {
            self.context_floor = self.context_resets.remove(0);
        }
    }

    /// Counts what a model call used, for its task and its day.
    fn count_usage(&mut self, body: &SessionEvent, at: Timestamp) {
        let SessionEvent::ModelFinished { usage, .. } = body else { return };
        let seq = self.seq;
        self.context_tokens = usage.total();
        self.usage.entry(at.day()).or_default().add(*usage);
        while self.usage.len() > KEPT_DAYS {
            self.usage.pop_first();
        }
        if let Some(task) = self.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| self.tasks.get_mut(&id)) {
            task.usage.add(*usage);
            task.version = seq;
        }
    }

    /// Takes facts out of force, and remembers them as this event's doing, so that ends are told.
    pub(super) fn close_facts(&mut self, closes: impl Fn(&Fact) -> bool) {
        let seq = self.seq;
        let ended: Vec<_> = self.facts.values().filter(|fact| closes(fact)).map(|fact| fact.id).collect();
        if ended.is_empty() {
            return;
        }
        self.closed_facts.retain(|fact| fact.version == seq);
        for id in ended {
            self.closed_facts.extend(self.facts.remove(&id).map(|fact| Fact { version: seq, ..fact }));
        }
    }

    pub(super) fn apply_to_holder(&mut self, body: &SessionEvent) {
        use baton_proto::HandoffState as State;
        match body {
            SessionEvent::HandoffOffered { handoff_id, from, to, deadline } => {
                self.holder.transfer = Some(Transfer { handoff_id: *handoff_id, from: *from, to: *to, deadline: *deadline });
            }
            SessionEvent::HandoffAccepted { to, epoch, .. } => self.move_to(Some(*to), *epoch, State::Accepted),
            SessionEvent::HandoffDeclined { .. } => self.close_transfer(State::Declined),
            SessionEvent::HandoffExpired { .. } => self.close_transfer(State::Expired),
            SessionEvent::HandoffTakenOver { to, epoch, .. } => self.move_to(Some(*to), *epoch, State::Declined),
            SessionEvent::HandoffReleased { epoch, .. } => self.move_to(None, *epoch, State::Declined),
            _ => {}
        }
    }

    fn move_to(&mut self, device: Option<baton_proto::DeviceId>, epoch: u64, transfer: baton_proto::HandoffState) {
        self.close_transfer(transfer);
        self.holder.device = device;
        self.holder.epoch = epoch;
    }

    fn close_transfer(&mut self, state: baton_proto::HandoffState) {
        if let Some(transfer) = self.holder.transfer.take() {
            self.closed_transfer = Some((transfer, state));
        }
    }

    /// Whom a task waits for is part of its entity, so what changes that touches the task (D4).
    fn touch_waiting_task(&mut self, body: &SessionEvent) {
        if !changes_waiting(body) {
            return;
        }
        let seq = self.seq;
        if let Some(task) = self.turn.as_ref().and_then(|turn| turn.task_id).and_then(|id| self.tasks.get_mut(&id)) {
            task.version = seq;
        }
    }
}

/// Whether an event is only about where a session stands in a list, which is no news of its work.
const fn is_of_the_list(body: &SessionEvent) -> bool {
    matches!(body, SessionEvent::SessionRenamed { .. } | SessionEvent::SessionPinned { .. } | SessionEvent::SessionArchived { .. })
}

/// Two pieces of news as one, the older first, bounded.
fn joined(earlier: Option<String>, later: Option<String>) -> Option<String> {
    match (earlier, later) {
        (Some(earlier), Some(later)) if earlier != later => Some(crate::words::excerpt(&format!("{earlier} {later}"), NEWS_BYTES)),
        (earlier, later) => earlier.or(later),
    }
}

/// Whether an event can change whom the turn's task waits for.
pub(crate) const fn changes_waiting(body: &SessionEvent) -> bool {
    matches!(
        body,
        SessionEvent::ApprovalRequested { .. }
            | SessionEvent::ApprovalDecided { .. }
            | SessionEvent::ApprovalVoided { .. }
            | SessionEvent::QuestionAsked { .. }
            | SessionEvent::QuestionAnswered { .. }
            | SessionEvent::QuestionVoided { .. }
            | SessionEvent::ModelStarted { .. }
            | SessionEvent::ModelFailed { .. }
            | SessionEvent::ModelFinished { .. }
            | SessionEvent::ApprovalExpired { .. }
            | SessionEvent::WorkspaceWaited { .. }
            | SessionEvent::WorkspaceGranted { .. }
            | SessionEvent::TurnStarted { .. }
            | SessionEvent::TurnStopRequested { .. }
            | SessionEvent::TurnFinished { .. }
            | SessionEvent::TurnInterrupted { .. }
            | SessionEvent::TurnFailed { .. }
    )
}
