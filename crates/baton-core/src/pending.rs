use crate::machine::ModelStage;
use crate::machine::tool_call::{CallStage, Waiting};
use crate::session::Session;
use baton_proto::{APPROVAL_S, CallId, DeviceId, Effect as ToolEffect, HandoffId, ModelCallId, Timestamp, WorkspaceId};

/// One thing that is owed to the world. The runtime compares what is owed with what it is doing, starts what is new and drops what has
/// vanished; there is no second list to keep in step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    CallModel {
        model_call_id: ModelCallId,
        attempt: u32,
    },
    Prepare {
        call_id: CallId,
        device: DeviceId,
    },
    Dispatch {
        call_id: CallId,
        attempt: u32,
        device: DeviceId,
    },
    Cancel {
        call_id: CallId,
        attempt: u32,
        device: DeviceId,
    },
    Probe {
        call_id: CallId,
        attempt: u32,
        device: DeviceId,
    },
    /// The session's turn waits for its workspace.
    HoldWorkspace {
        workspace_id: WorkspaceId,
    },
    Offer {
        handoff_id: HandoffId,
        to: DeviceId,
    },
    /// A tick is due at that time.
    Wake {
        at: Timestamp,
    },
}

/// What a state owes to the world: a pure function of it, so that after a crash it is simply asked again.
pub fn pending(state: &Session) -> Vec<Effect> {
    let mut owed = Vec::new();
    let mut wake: Option<Timestamp> = None;
    if let Some(transfer) = &state.holder.transfer {
        owed.push(Effect::Offer { handoff_id: transfer.handoff_id, to: transfer.to });
        wake = Some(transfer.deadline);
    }
    if let Some(call) = state.open_turn().and_then(|turn| turn.model.as_ref()) {
        match call.stage {
            ModelStage::Started => owed.push(Effect::CallModel { model_call_id: call.id, attempt: call.attempt }),
            ModelStage::Failed { retry_at } => wake = Some(wake.map_or(retry_at, |at| at.min(retry_at))),
        }
    }
    let behind = state.open_turn().is_some_and(|turn| turn.behind.is_some());
    if let Some(workspace) = state.workspace.as_ref().filter(|_| behind) {
        owed.push(Effect::HoldWorkspace { workspace_id: workspace.workspace_id });
    }
    let asks = state.open_approvals().next().is_some() || state.open_questions().next().is_some();
    for call in state.unsettled_calls() {
        let Some(device) = call.terms.device_id else { continue };
        let call_id = call.id;
        match call.stage {
            CallStage::Proposed if call.terms.prepare => owed.push(Effect::Prepare { call_id, device }),
            // Nothing starts in a workspace that another session works in.
            CallStage::Planned { .. } if behind => {}
            // While a human is asked, nothing with a side effect starts but what that human has just allowed (T3, C02).
            CallStage::Planned { attempt } if !asks || call.approved || call.terms.effect == ToolEffect::Read => {
                owed.push(Effect::Dispatch { call_id, attempt, device });
            }
            // Under way since its device wrote it down; it stays owed so that it isn't taken for one that vanished.
            CallStage::Started { attempt } => owed.push(Effect::Dispatch { call_id, attempt, device }),
            CallStage::Cancelling { attempt, .. } => owed.push(Effect::Cancel { call_id, attempt, device }),
            CallStage::Unknown { attempt, waiting: Waiting::Lookup, .. } => owed.push(Effect::Probe { call_id, attempt, device }),
            _ => {}
        }
    }
    let expiry = state.open_approvals().map(|approval| approval.at.plus(i64::try_from(APPROVAL_S).unwrap_or(i64::MAX / 1000) * 1000)).min();
    let wake = wake.into_iter().chain(expiry).min();
    owed.extend(wake.map(|at| Effect::Wake { at }));
    owed
}
