use super::joined;
use crate::machine::{ModelCall, ModelStage, QueuedInput, Stop, Turn, TurnEnd};
use crate::session::Session;
use baton_proto::{ApprovalState, MessageId, QuestionState, SessionEvent, TaskId, Timestamp, TurnId, TurnState};
use std::collections::BTreeMap;

/// Closed approvals and questions that are kept, so that a late answer is told what became of them.
const KEPT_CLOSED: usize = 48;

impl Session {
    pub(super) fn apply_to_turn(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        if let SessionEvent::TurnStarted { turn_id, task_id, message_id, literal } = body {
            self.start_turn(*turn_id, *task_id, *message_id, *literal, at);
            return;
        }
        let Some(turn) = &mut self.turn else { return };
        let touched = match body {
            SessionEvent::TurnInputQueued { message_id, goal: Some(goal), .. } => {
                self.queue.push(QueuedInput { message_id: *message_id, goal: goal.clone() });
                false
            }
            SessionEvent::TurnInputQueued { message_id, goal: None, .. } => {
                self.queue.retain(|queued| queued.message_id != *message_id);
                turn.unread.push(*message_id);
                turn.rested = false;
                true
            }
            SessionEvent::WorkspaceWaited { behind, title, .. } => {
                turn.behind = Some((*behind, title.clone()));
                true
            }
            SessionEvent::WorkspaceGranted { .. } => {
                turn.behind = None;
                true
            }
            SessionEvent::TurnStopRequested { reason, pause, for_input, .. } => {
                turn.stop = Some(Stop { reason: reason.clone(), pause: *pause, for_input: *for_input });
                self.workspace_news = joined(turn.model.take().and_then(|call| call.news), self.workspace_news.take());
                true
            }
            SessionEvent::TurnFinished { reason, .. } => turn.close(TurnState::Finished, reason, at),
            SessionEvent::TurnInterrupted { reason, .. } => turn.close(TurnState::Interrupted, reason, at),
            SessionEvent::TurnFailed { reason, .. } => turn.close(TurnState::Failed, reason, at),
            SessionEvent::ModelStarted { model_call_id, attempt, iteration, message_id, read, .. } => {
                let before = turn.model.take().filter(|call| call.id == *model_call_id);
                let failures = before.as_ref().map_or(0, |call| call.failures);
                let told = before.and_then(|call| call.news);
                turn.model = Some(ModelCall {
                    id: *model_call_id,
                    attempt: *attempt,
                    message_id: *message_id,
                    failures,
                    stage: ModelStage::Started,
                    news: joined(told, self.workspace_news.take()),
                });
                turn.iterations = *iteration;
                turn.unread.retain(|message| !read.contains(message));
                turn.rested = false;
                true
            }
            SessionEvent::ModelFailed { retry_at, .. } => {
                match (&mut turn.model, retry_at) {
                    (Some(call), Some(retry_at)) => {
                        call.failures += 1;
                        call.stage = ModelStage::Failed { retry_at: *retry_at };
                    }
                    (model, _) => self.workspace_news = joined(model.take().and_then(|call| call.news), self.workspace_news.take()),
                }
                true
            }
            SessionEvent::ModelFinished { calls, .. } => {
                turn.model = None;
                turn.rested = calls.is_empty();
                true
            }
            SessionEvent::ToolProposed { tool, arguments, .. } => {
                *turn.repeats.entry(repeat_key(tool, arguments)).or_insert(0) += 1;
                false
            }
            SessionEvent::ToolSucceeded { call_id, .. } => {
                if self
                    .calls
                    .get(call_id)
                    .is_some_and(|call| call.terms.device_id.is_some() && call.terms.effect != baton_proto::Effect::Read)
                {
                    turn.repeats.clear();
                }
                false
            }
            _ => false,
        };
        if touched {
            turn.version = seq;
        }
    }

    /// A turn begins; what the last one left behind goes.
    fn start_turn(&mut self, turn_id: TurnId, task_id: Option<TaskId>, message_id: Option<MessageId>, literal: bool, at: Timestamp) {
        let seq = self.seq;
        self.forget_closed();
        self.queue.retain(|queued| Some(queued.message_id) != message_id);
        // The task that is worked on is the one that input goes to.
        if let Some(place) = task_id.and_then(|task_id| self.stack.iter().position(|id| *id == task_id)) {
            let active = self.stack.remove(place);
            self.stack.push(active);
        }
        self.turn = Some(Turn {
            id: turn_id,
            version: seq,
            created_seq: seq,
            task_id,
            literal,
            iterations: 0,
            unread: message_id.iter().copied().collect(),
            model: None,
            rested: false,
            behind: None,
            stop: None,
            repeats: BTreeMap::new(),
            started_at: at,
            end: None,
        });
    }

    /// What the last turn leaves behind goes when the next one starts; a bounded rest stays for late answers.
    fn forget_closed(&mut self) {
        self.calls.retain(|_, call| !call.is_settled());
        while self.approvals.len() > KEPT_CLOSED {
            let Some(oldest) = self
                .approvals
                .values()
                .filter(|approval| approval.state != ApprovalState::Open)
                .min_by_key(|approval| approval.version)
                .map(|approval| approval.id)
            else {
                break;
            };
            self.approvals.remove(&oldest);
        }
        while self.questions.len() > KEPT_CLOSED {
            let Some(oldest) = self
                .questions
                .values()
                .filter(|question| question.state != QuestionState::Open)
                .min_by_key(|question| question.version)
                .map(|question| question.id)
            else {
                break;
            };
            self.questions.remove(&oldest);
        }
    }
}

impl Turn {
    fn close(&mut self, state: TurnState, reason: &str, at: Timestamp) -> bool {
        self.end = Some(TurnEnd { state, reason: reason.to_owned(), at });
        self.model = None;
        true
    }
}

/// Names a call with its arguments, to recognise it when it comes again.
pub(crate) fn repeat_key(tool: &str, arguments: &serde_json::Value) -> String {
    format!("{tool} {}", baton_proto::Digest::of_json(arguments).short())
}
