use super::tools;
use crate::context::ActingDevice;
use crate::draft::Draft;
use crate::machine::tool_call::{CallStage, Waiting};
use crate::policy;
use crate::words;
use baton_proto::{
    APPROVAL_S, ApprovalId, ApprovalState, Decision, ErrorBody, ErrorCode, MAX_TEXT_BYTES, Operation, QuestionId, QuestionKind,
    QuestionState, Reconciliation, Risk, SessionEvent, StateModified, ToolError, ToolResult,
};

/// The three ways out of an unknown outcome (E3).
pub(crate) const OUTCOME_OPTIONS: [&str; 3] = ["happened", "do_it", "skip"];

/// What was decided, and why not.
pub(super) struct Verdict<'a> {
    pub(super) decision: Decision,
    pub(super) reason: Option<&'a str>,
}

/// Bytes of the words that go with a rejection.
const MAX_REASON_BYTES: usize = 2000;

/// A decision on an approval: bound to one call, used once, the first valid one wins (E5).
pub(super) fn confirm(
    draft: &mut Draft<'_>,
    operation: &Operation,
    sender: &ActingDevice,
    approval_id: ApprovalId,
    Verdict { decision, reason }: Verdict<'_>,
) -> Result<(), ErrorBody> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.len() > MAX_REASON_BYTES || decision == Decision::Approve) {
        return Err(ErrorBody::invalid(format!("A reason goes with a rejection, and has at most {MAX_REASON_BYTES} bytes.")));
    }
    let approval = draft.state.approvals.get(&approval_id).cloned().ok_or_else(|| ErrorBody::not_found("approval"))?;
    if approval.state != ApprovalState::Open {
        return Err(closed(
            ErrorCode::ApprovalClosed,
            &approval_words(approval.state, approval.decided.as_ref().map(|decided| decided.1.name.as_str())),
        ));
    }
    let call = draft.state.calls.get(&approval.call_id).cloned();
    let Some(call) = call.filter(|call| call.stage == CallStage::AwaitingApproval { approval_id }) else {
        return Err(closed(ErrorCode::ApprovalMismatch, "The call it was for is no longer waiting"));
    };
    if baton_proto::Digest::of_json(&call.arguments) != approval.binding.argument_digest {
        return Err(closed(ErrorCode::ApprovalMismatch, "The call's arguments aren't those that were shown"));
    }
    if decision == Decision::Approve {
        policy::covers(sender.trust, approval.binding.risk, operation.confirmed)?;
    }
    draft.emit(SessionEvent::ApprovalDecided { approval_id, decision, by: sender.sender() });
    match decision {
        Decision::Approve => tools::plan(draft, call.id, call.attempt + 1),
        Decision::Reject => draft.emit(SessionEvent::ToolFailed {
            call_id: call.id,
            attempt: 0,
            error: ToolError {
                code: "rejected".to_owned(),
                message: match reason {
                    Some(reason) => format!("The user said no to this call; it was not run. Their reason: {reason}"),
                    None => "The user said no to this call; it was not run.".to_owned(),
                },
                hint: "Don't repeat it. Find another way, or ask what the user wants instead.".to_owned(),
                state_modified: StateModified::No,
            },
            result: None,
        }),
    }
    Ok(())
}

fn approval_words(state: ApprovalState, by: Option<&str>) -> String {
    let by = by.map(|name| format!(" on {name}")).unwrap_or_default();
    match state {
        ApprovalState::Approved => format!("It was approved{by} already"),
        ApprovalState::Rejected => format!("It was rejected{by} already"),
        ApprovalState::Voided | ApprovalState::Open => "It was set aside".to_owned(),
    }
}

fn closed(code: ErrorCode, what: &str) -> ErrorBody {
    ErrorBody::new(code, format!("{what}."), "Nothing was run for this answer. Look at what is open now.")
}

/// An answer to a question; the first valid one wins (T11).
pub(super) fn answer(
    draft: &mut Draft<'_>,
    operation: &Operation,
    sender: &ActingDevice,
    question_id: QuestionId,
    text: Option<&str>,
    option: Option<&str>,
) -> Result<(), ErrorBody> {
    let question = draft.state.questions.get(&question_id).cloned().ok_or_else(|| ErrorBody::not_found("question"))?;
    if question.state != QuestionState::Open {
        let by = question.answer.as_ref().map(|(_, by)| format!(" on {}", by.name)).unwrap_or_default();
        return Err(closed(ErrorCode::QuestionClosed, &format!("The question was closed{by} already")));
    }
    let given = option.or(text).map(str::trim).unwrap_or_default();
    if given.is_empty() || given.len() > MAX_TEXT_BYTES {
        return Err(ErrorBody::new(
            ErrorCode::Invalid,
            "An answer is `text` or `option`, neither empty nor over 32 KiB.",
            "Write a few words, or choose one of the options.",
        ));
    }
    if option.is_some() && !question.options.iter().any(|known| known == given) {
        return Err(ErrorBody::new(
            ErrorCode::Invalid,
            format!("The options are: {}.", question.options.join(", ")),
            "Choose one of them, or answer in words of your own.",
        ));
    }
    if question.kind == QuestionKind::Outcome {
        if !OUTCOME_OPTIONS.contains(&given) {
            return Err(ErrorBody::new(
                ErrorCode::Invalid,
                "The answer is one of `happened`, `do_it`, `skip`.",
                "Look whether it happened: answer `happened` if it did, `do_it` to do it now, or `skip` to leave it.",
            ));
        }
        let risk = draft.state.calls.get(&question.call_id).map(|call| call.risk);
        if let (Some(risk), "do_it") = (risk, given) {
            policy::covers(sender.trust, risk, operation.confirmed)?;
        }
    }
    settle_question(draft, sender, question_id, given);
    Ok(())
}

/// Closes an open question with an answer, and lets its call go on.
pub(super) fn settle_question(draft: &mut Draft<'_>, sender: &ActingDevice, question_id: QuestionId, answer: &str) {
    let Some(question) = draft.state.questions.get(&question_id).cloned() else { return };
    draft.emit(SessionEvent::QuestionAnswered { question_id, answer: answer.to_owned(), by: sender.sender() });
    let Some(call) = draft.state.calls.get(&question.call_id).cloned().filter(|call| waits_for(&call.stage, question_id)) else { return };
    match (question.kind, answer) {
        (QuestionKind::Agent, _) => crate::hub_tools::answered(draft, &call, answer),
        (QuestionKind::Outcome, "happened") => {
            draft.emit(SessionEvent::ToolReconciled {
                call_id: call.id,
                attempt: call.attempt,
                finding: Reconciliation::HumanSaysHappened { by_device: sender.sender() },
            });
            let content = format!(
                "The device died while this ran; the user checked and says that it happened. What is known: {}",
                question.known.unwrap_or_default()
            );
            draft.emit(SessionEvent::ToolSucceeded { call_id: call.id, attempt: call.attempt, result: result_of(content) });
        }
        (QuestionKind::Outcome, "do_it") => {
            draft.emit(SessionEvent::ToolReconciled {
                call_id: call.id,
                attempt: call.attempt,
                finding: Reconciliation::HumanSaysDoIt { by_device: sender.sender() },
            });
            tools::plan(draft, call.id, call.attempt + 1);
        }
        (QuestionKind::Outcome, _) => {
            draft.emit(SessionEvent::ToolReconciled {
                call_id: call.id,
                attempt: call.attempt,
                finding: Reconciliation::HumanSaysSkip { by_device: sender.sender() },
            });
            draft.emit(SessionEvent::ToolFailed {
                call_id: call.id,
                attempt: call.attempt,
                error: ToolError {
                    code: "skipped".to_owned(),
                    message: "The device died while this ran, whether it took effect is unknown, and the user chose to skip it.".to_owned(),
                    hint: "Don't run it again. Go on without it.".to_owned(),
                    state_modified: StateModified::Unknown,
                },
                result: None,
            });
        }
    }
}

/// Whether a call goes on with the answer to this question, and with nothing else.
fn waits_for(stage: &CallStage, question: QuestionId) -> bool {
    matches!(stage,
        CallStage::AwaitingAnswer { question_id } | CallStage::Unknown { waiting: Waiting::Human { question_id }, .. } if *question_id == question)
}

pub(crate) fn result_of(content: String) -> ToolResult {
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    ToolResult { content, bytes, ..ToolResult::default() }
}

/// Approvals that nobody decided on in time are asked anew, as long as their task waits: silence is never yes, and never the end (E5).
pub(super) fn expire_if_due(draft: &mut Draft<'_>) {
    let limit = i64::try_from(APPROVAL_S).unwrap_or(i64::MAX / 1000) * 1000;
    let due: Vec<_> =
        draft.state.open_approvals().filter(|approval| draft.at.now.since(approval.at) >= limit).map(|approval| approval.id).collect();
    for approval_id in due {
        let reason = words::expired(draft.state.language).to_owned();
        draft.emit(SessionEvent::ApprovalExpired { approval_id, reason });
    }
}

/// What is dangerous and was asked on another state of the workspace is asked anew (E5); the rest says so on its card.
pub(super) fn ask_dangerous_anew(draft: &mut Draft<'_>) {
    let stale: Vec<_> = draft
        .state
        .open_approvals()
        .filter(|approval| approval.workspace_changed && approval.binding.risk == Risk::Dangerous)
        .map(|approval| approval.id)
        .collect();
    for approval_id in stale {
        let reason = words::workspace_changed_meanwhile(draft.state.language).to_owned();
        draft.emit(SessionEvent::ApprovalExpired { approval_id, reason });
    }
}

/// Voids every open approval and cancels its call, so that a late answer authorises nothing (C04).
pub(super) fn set_approvals_aside(draft: &mut Draft<'_>, reason: &str) {
    let open: Vec<_> = draft.state.open_approvals().map(|approval| (approval.id, approval.call_id)).collect();
    for (approval_id, call_id) in open {
        draft.emit(SessionEvent::ApprovalVoided { approval_id, reason: reason.to_owned() });
        tools::cancel_unstarted(draft, call_id, reason);
    }
}
