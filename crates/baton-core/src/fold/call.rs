use super::joined;
use crate::machine::tool_call::{CallStage, GivenUp, ToolCall, Waiting};
use crate::session::Session;
use baton_proto::{CallId, QuestionId, Reconciliation, SessionEvent, Timestamp};
use std::sync::Arc;

/// Calls that were given up and are remembered, for a late word of their devices.
const KEPT_GIVEN_UP: usize = 32;

impl Session {
    pub(super) fn apply_to_call(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        if let SessionEvent::ToolProposed { call_id, turn_id, task_id, step_id, tool, arguments, origin, terms } = body {
            let call = ToolCall {
                id: *call_id,
                version: seq,
                created_seq: seq,
                turn_id: *turn_id,
                task_id: *task_id,
                step_id: step_id.clone(),
                tool: tool.clone(),
                arguments: Arc::new(arguments.clone()),
                origin: *origin,
                terms: terms.clone(),
                stage: CallStage::Proposed,
                attempt: 0,
                journal: None,
                digests: Arc::default(),
                risk: terms.risk,
                approval: None,
                approved: false,
                question: None,
                at,
                started_at: None,
                ended_at: None,
            };
            self.calls.insert(*call_id, call);
            return;
        }
        let call_id = match body {
            SessionEvent::ToolPrepared { call_id, .. }
            | SessionEvent::ToolPlanned { call_id, .. }
            | SessionEvent::ToolStarted { call_id, .. }
            | SessionEvent::ToolAttemptFailed { call_id, .. }
            | SessionEvent::ToolUnknown { call_id, .. }
            | SessionEvent::ToolReconciled { call_id, .. }
            | SessionEvent::ToolSucceeded { call_id, .. }
            | SessionEvent::ToolFailed { call_id, .. }
            | SessionEvent::ToolCancelRequested { call_id, .. }
            | SessionEvent::ToolCancelled { call_id, .. } => *call_id,
            _ => return,
        };
        if let SessionEvent::ToolReconciled { finding: Reconciliation::Late { known }, .. } = body {
            self.given_up.remove(&call_id);
            self.workspace_news = joined(self.workspace_news.take(), Some(known.clone()));
            return;
        }
        let Some(call) = self.calls.get_mut(&call_id) else { return };
        call.version = seq;
        match body {
            SessionEvent::ToolPrepared { prepared, .. } => {
                call.digests = Arc::new(prepared.digests.clone());
                call.risk = call.risk.max(prepared.risk);
            }
            SessionEvent::ToolPlanned { attempt, journal, .. } => {
                call.attempt = *attempt;
                call.journal = *journal;
                call.stage = CallStage::Planned { attempt: *attempt };
            }
            SessionEvent::ToolStarted { attempt, .. } => {
                call.stage = CallStage::Started { attempt: *attempt };
                call.started_at = Some(at);
            }
            SessionEvent::ToolUnknown { attempt, cause, .. } => {
                call.stage = CallStage::Unknown { attempt: *attempt, cause: *cause, waiting: Waiting::Device };
            }
            SessionEvent::ToolReconciled { attempt, finding, .. } => call.reconcile(*attempt, finding),
            SessionEvent::ToolSucceeded { .. } => call.settle(CallStage::Succeeded, at),
            SessionEvent::ToolFailed { .. } => call.settle(CallStage::Failed, at),
            SessionEvent::ToolCancelled { .. } => {
                call.settle(CallStage::Cancelled, at);
                if let (Some(device_id), attempt @ 1..) = (call.terms.device_id, call.attempt) {
                    let given_up = GivenUp { device_id, attempt, tool: call.tool.clone(), seq };
                    self.remember_given_up(call_id, given_up);
                }
            }
            SessionEvent::ToolCancelRequested { reason, .. } => {
                call.stage = CallStage::Cancelling { attempt: call.attempt, reason: reason.clone() };
            }
            _ => {}
        }
    }
}

impl Session {
    fn remember_given_up(&mut self, call_id: CallId, given_up: GivenUp) {
        self.given_up.insert(call_id, given_up);
        while self.given_up.len() > KEPT_GIVEN_UP {
            let Some(oldest) = self.given_up.iter().min_by_key(|(_, kept)| kept.seq).map(|(id, _)| *id) else { return };
            self.given_up.remove(&oldest);
        }
    }
}

impl ToolCall {
    fn settle(&mut self, stage: CallStage, at: Timestamp) {
        self.stage = stage;
        self.ended_at = Some(at);
    }

    pub(super) fn ask(&mut self, question_id: QuestionId) {
        self.question = Some(question_id);
        self.stage = match &self.stage {
            CallStage::Unknown { attempt, cause, .. } => {
                CallStage::Unknown { attempt: *attempt, cause: *cause, waiting: Waiting::Human { question_id } }
            }
            _ => CallStage::AwaitingAnswer { question_id },
        };
    }

    /// What a finding makes of a call. Where it ends or is planned anew, an event of its own follows in the same commit.
    fn reconcile(&mut self, attempt: u32, finding: &Reconciliation) {
        self.stage = match finding {
            Reconciliation::StillRunning => CallStage::Started { attempt },
            Reconciliation::Unclear { .. } => match &self.stage {
                CallStage::Unknown { cause, .. } => CallStage::Unknown { attempt, cause: *cause, waiting: Waiting::Lookup },
                other => other.clone(),
            },
            _ => self.stage.clone(),
        };
    }
}
