use crate::context::ActingDevice;
use crate::draft::Draft;
use crate::policy::Standing;
use baton_proto::{ClientType, DeviceId, ErrorBody, ErrorCode, HandoffId, Operation, SessionEvent, TRANSFER_S, Trust};

/// Speaking on another trusted or standard device is consent enough: it takes the session over, from a live device too (H6).
pub(super) fn take_over_first(
    draft: &mut Draft<'_>,
    operation: &Operation,
    sender: &ActingDevice,
    standing: Standing,
) -> Result<(), ErrorBody> {
    match standing {
        Standing::Follower => {
            confirm_lasting(draft, operation)?;
            take(draft, sender, false);
        }
        Standing::Target => complete(draft, sender),
        Standing::Holder | Standing::Anyone => {}
    }
    Ok(())
}

/// What a move of the session would happen in the middle of: an effect that outlasts it (H6).
pub(super) fn lasting(draft: &Draft<'_>, standing: Standing) -> Option<String> {
    let call = draft.state.unsettled_calls().find(|call| call.is_lasting_in_flight()).filter(|_| standing == Standing::Follower)?;
    Some(format!("'{}' is under way, with a lasting effect outside.", call.tool))
}

/// While such an effect is in flight, moving needs an explicit word.
fn confirm_lasting(draft: &Draft<'_>, operation: &Operation) -> Result<(), ErrorBody> {
    match lasting(draft, Standing::Follower) {
        Some(what) if !operation.confirmed => Err(ErrorBody::new(
            ErrorCode::NeedsConfirmation,
            what,
            "Moving the session now is possible: confirm by sending the same operation with `confirmed: true`.",
        )),
        _ => Ok(()),
    }
}

fn take(draft: &mut Draft<'_>, sender: &ActingDevice, forced: bool) {
    let (from, epoch) = (draft.state.holder.device, draft.state.holder.epoch + 1);
    draft.emit(SessionEvent::HandoffTakenOver { from, to: sender.device_id, epoch, forced });
}

fn complete(draft: &mut Draft<'_>, sender: &ActingDevice) {
    let epoch = draft.state.holder.epoch + 1;
    if let Some(transfer) = draft.state.holder.transfer.clone() {
        draft.emit(SessionEvent::HandoffAccepted { handoff_id: transfer.handoff_id, from: transfer.from, to: sender.device_id, epoch });
    }
}

pub(super) fn take_over(
    draft: &mut Draft<'_>,
    operation: &Operation,
    sender: &ActingDevice,
    standing: Standing,
    force: bool,
) -> Result<(), ErrorBody> {
    match standing {
        Standing::Holder | Standing::Anyone => return Ok(()),
        Standing::Target => {
            complete(draft, sender);
            return Ok(());
        }
        Standing::Follower => {}
    }
    let alive = draft.state.holder.device.is_some_and(|holder| draft.at.around.online.contains(&holder));
    if alive && !force {
        let name = draft
            .state
            .holder
            .device
            .and_then(|holder| draft.at.around.devices.get(&holder))
            .map_or("Another device", |device| device.name.as_str());
        return Err(ErrorBody::new(
            ErrorCode::NotHolder,
            format!("{name} holds the session and is connected."),
            "Take over by force, or just say something: that moves the session too.",
        ));
    }
    confirm_lasting(draft, operation)?;
    take(draft, sender, alive);
    Ok(())
}

pub(super) fn offer(draft: &mut Draft<'_>, operation: &Operation, sender: &ActingDevice, to: DeviceId) -> Result<(), ErrorBody> {
    let target = draft.at.around.devices.get(&to).ok_or_else(|| ErrorBody::not_found("device"))?;
    if to == sender.device_id {
        return Err(ErrorBody::new(ErrorCode::IllegalTransition, "The session is on this device already.", "Name another device."));
    }
    if target.trust == Trust::Guest || target.client_type == ClientType::Device {
        return Err(ErrorBody::new(
            ErrorCode::TrustTooLow,
            format!("{} can't hold a session.", target.name),
            "Choose a trusted or standard device with a user in front of it.",
        ));
    }
    confirm_lasting(draft, operation)?;
    let deadline = draft.at.now.plus(i64::try_from(TRANSFER_S).unwrap_or(30) * 1000);
    let handoff_id = draft.at.ids.fresh();
    draft.emit(SessionEvent::HandoffOffered { handoff_id, from: sender.device_id, to, deadline });
    Ok(())
}

pub(super) fn accept(draft: &mut Draft<'_>, sender: &ActingDevice, handoff_id: HandoffId) -> Result<(), ErrorBody> {
    open_offer(draft, sender, handoff_id)?;
    complete(draft, sender);
    Ok(())
}

pub(super) fn decline(draft: &mut Draft<'_>, sender: &ActingDevice, handoff_id: HandoffId) -> Result<(), ErrorBody> {
    open_offer(draft, sender, handoff_id)?;
    draft.emit(SessionEvent::HandoffDeclined { handoff_id });
    Ok(())
}

fn open_offer(draft: &Draft<'_>, sender: &ActingDevice, handoff_id: HandoffId) -> Result<(), ErrorBody> {
    let open =
        draft.state.holder.transfer.as_ref().is_some_and(|transfer| transfer.handoff_id == handoff_id && transfer.to == sender.device_id);
    if open {
        return Ok(());
    }
    Err(ErrorBody::new(
        ErrorCode::IllegalTransition,
        "There is no open offer of that id to this device.",
        "It may have expired; take the session over instead.",
    ))
}

pub(super) fn release(draft: &mut Draft<'_>, sender: &ActingDevice) {
    let epoch = draft.state.holder.epoch + 1;
    draft.emit(SessionEvent::HandoffReleased { from: sender.device_id, epoch });
}

/// An offer that nobody accepted reverts by itself (H5).
pub(super) fn expire_if_due(draft: &mut Draft<'_>) {
    let due = draft.state.holder.transfer.as_ref().filter(|transfer| transfer.deadline <= draft.at.now).map(|transfer| transfer.handoff_id);
    if let Some(handoff_id) = due {
        draft.emit(SessionEvent::HandoffExpired { handoff_id });
    }
}
