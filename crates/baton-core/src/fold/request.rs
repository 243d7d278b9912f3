use crate::machine::tool_call::CallStage;
use crate::machine::{Approval, Question};
use crate::session::Session;
use baton_proto::{ApprovalBinding, ApprovalId, ApprovalState, CallId, Decision, QuestionState, SessionEvent, Timestamp};
use std::sync::Arc;

impl Session {
    pub(super) fn apply_to_requests(&mut self, body: &SessionEvent, at: Timestamp) {
        let seq = self.seq;
        match body {
            SessionEvent::ApprovalRequested { approval_id, call_id, binding } => {
                let approval = asked(*approval_id, seq, *call_id, binding, at);
                self.approvals.insert(*approval_id, approval);
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.stage = CallStage::AwaitingApproval { approval_id: *approval_id };
                    call.approval = Some(*approval_id);
                    call.version = seq;
                }
            }
            SessionEvent::ApprovalGranted { approval_id, call_id, binding, rule_id, by } => {
                let decided = Some((Decision::Approve, by.clone(), at));
                let asked = asked(*approval_id, seq, *call_id, binding, at);
                let approval = Approval { state: ApprovalState::Approved, decided, rule: Some(*rule_id), ..asked };
                self.approvals.insert(*approval_id, approval);
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.approval = Some(*approval_id);
                    call.approved = true;
                    call.version = seq;
                }
            }
            SessionEvent::ApprovalDecided { approval_id, decision, by } => {
                if let Some(approval) = self.approvals.get_mut(approval_id) {
                    approval.state = if *decision == Decision::Approve { ApprovalState::Approved } else { ApprovalState::Rejected };
                    approval.decided = Some((*decision, by.clone(), at));
                    approval.version = seq;
                    if let Some(call) = self.calls.get_mut(&approval.call_id) {
                        call.approved = *decision == Decision::Approve;
                    }
                }
            }
            SessionEvent::ApprovalExpired { approval_id, reason } => {
                if let Some(approval) = self.approvals.get_mut(approval_id) {
                    approval.state = ApprovalState::Voided;
                    approval.reason = Some(reason.clone());
                    approval.version = seq;
                    // Back to where it was before it was asked on: its device looks again, and it is asked anew.
                    if let Some(call) = self.calls.get_mut(&approval.call_id) {
                        call.stage = CallStage::Proposed;
                        call.version = seq;
                    }
                }
            }
            SessionEvent::ApprovalVoided { approval_id, reason } => {
                if let Some(approval) = self.approvals.get_mut(approval_id) {
                    approval.state = ApprovalState::Voided;
                    approval.reason = Some(reason.clone());
                    approval.version = seq;
                }
            }
            SessionEvent::QuestionAsked { question_id, kind, call_id, task_id, text, options, known, cause } => {
                let question = Question {
                    id: *question_id,
                    version: seq,
                    created_seq: seq,
                    kind: *kind,
                    call_id: *call_id,
                    task_id: *task_id,
                    text: text.clone(),
                    options: options.clone(),
                    known: known.clone(),
                    cause: *cause,
                    state: QuestionState::Open,
                    answer: None,
                    reason: None,
                    at,
                };
                self.questions.insert(*question_id, question);
                if let Some(call) = self.calls.get_mut(call_id) {
                    call.ask(*question_id);
                    call.version = seq;
                }
            }
            SessionEvent::QuestionAnswered { question_id, answer, by } => {
                if let Some(question) = self.questions.get_mut(question_id) {
                    question.state = QuestionState::Answered;
                    question.answer = Some((answer.clone(), by.clone()));
                    question.version = seq;
                }
            }
            SessionEvent::QuestionVoided { question_id, reason } => {
                if let Some(question) = self.questions.get_mut(question_id) {
                    question.state = QuestionState::Voided;
                    question.reason = Some(reason.clone());
                    question.version = seq;
                }
            }
            _ => {}
        }
    }
}

/// A request for approval as it is when it is made.
fn asked(id: ApprovalId, seq: u64, call_id: CallId, binding: &ApprovalBinding, at: Timestamp) -> Approval {
    Approval {
        id,
        version: seq,
        created_seq: seq,
        call_id,
        binding: Arc::new(binding.clone()),
        state: ApprovalState::Open,
        at,
        decided: None,
        rule: None,
        reason: None,
        workspace_changed: false,
    }
}
