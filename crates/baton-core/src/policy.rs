use crate::context::{ActingDevice, Context};
use crate::session::Session;
use baton_proto::{ErrorBody, ErrorCode, Intent, Operation, Risk, Trust};

/// How the sender of an operation stands to the session: the columns of the table "Who may do what" in docs/requirements.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Holder,
    /// A device that follows, with the current epoch.
    Follower,
    /// The session is being handed to this device.
    Target,
    /// Whoever asks for what depends on no epoch: answering and stopping.
    Anyone,
}

/// Where the sender stands, or why this intent isn't for it. The one place in which the table is enforced.
pub(crate) fn standing(state: &Session, operation: &Operation, sender: &ActingDevice, at: &Context) -> Result<Standing, ErrorBody> {
    if sender.trust == Trust::Guest {
        return Err(ErrorBody::new(
            ErrorCode::TrustTooLow,
            "This device is a guest: it may look, not act.",
            "Raise its trust on a trusted device, under Devices.",
        ));
    }
    if !operation.intent.needs_epoch() {
        return Ok(Standing::Anyone);
    }
    let Some(epoch) = operation.epoch else {
        return Err(ErrorBody::invalid(format!(
            "'{}' needs the session's epoch, which is {} now.",
            operation.intent.name(),
            state.holder.epoch
        )));
    };
    if epoch != state.holder.epoch {
        return Err(ErrorBody::new(
            ErrorCode::StaleEpoch,
            format!("The session has moved since: its epoch is {}, yours was {epoch}.", state.holder.epoch),
            "Look at the newer state; what you wrote is kept, and can be sent again from there.",
        ));
    }
    if let Some(transfer) = &state.holder.transfer {
        let is_target = transfer.to == sender.device_id;
        let for_target = matches!(
            operation.intent,
            Intent::AcceptHandoff { .. }
                | Intent::DeclineHandoff { .. }
                | Intent::TakeOver { .. }
                | Intent::Say { .. }
                | Intent::NewTask { .. }
                | Intent::Resume { .. }
        );
        if is_target && for_target {
            return Ok(Standing::Target);
        }
        let to = at.around.devices.get(&transfer.to).map_or("another device", |device| device.name.as_str());
        return Err(ErrorBody::new(
            ErrorCode::Transferring,
            format!("The session is being handed to {to}, until {}.", transfer.deadline),
            "Wait until it is accepted or reverts by itself, then send again.",
        ));
    }
    if state.holder.device == Some(sender.device_id) {
        return Ok(Standing::Holder);
    }
    match operation.intent {
        Intent::Handoff { .. }
        | Intent::Release {}
        | Intent::SetNote { .. }
        | Intent::Forget { .. }
        | Intent::ResetContext {}
        | Intent::UndoReset {} => Err(ErrorBody::new(
            ErrorCode::NotHolder,
            format!("'{}' is for the device that holds the session.", operation.intent.name()),
            "Take the session over first.",
        )),
        _ => Ok(Standing::Follower),
    }
}

/// Whether a device may approve a call of that risk, with or without its extra confirmation.
pub fn may_approve(device: &ActingDevice, risk: Risk, confirmed: bool) -> Result<(), ErrorBody> {
    covers(device.trust, risk, confirmed)
}

/// Whether a device's trust covers a risk: the second table in docs/requirements.md.
pub(crate) fn covers(trust: Trust, risk: Risk, confirmed: bool) -> Result<(), ErrorBody> {
    let confirm = || {
        ErrorBody::new(
            ErrorCode::NeedsConfirmation,
            match risk {
                Risk::Dangerous => "This is dangerous.",
                _ => "This device isn't fully trusted, and this is sensitive.",
            },
            "Confirm once more: send the same operation with `confirmed: true`.",
        )
    };
    match (trust, risk) {
        (Trust::Guest, _) => {
            Err(ErrorBody::new(ErrorCode::TrustTooLow, "A guest device may not approve anything.", "Answer on a trusted device."))
        }
        (Trust::Standard, Risk::Dangerous) => Err(ErrorBody::new(
            ErrorCode::TrustTooLow,
            "A dangerous call can be allowed on a trusted device only.",
            "Answer on a trusted device.",
        )),
        (Trust::Standard, Risk::Sensitive) | (Trust::Trusted, Risk::Dangerous) if !confirmed => Err(confirm()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_covers_risk_as_the_table_says() {
        use ErrorCode::{NeedsConfirmation, TrustTooLow};
        let rows = [
            (Trust::Trusted, Risk::Safe, None, None),
            (Trust::Trusted, Risk::Sensitive, None, None),
            (Trust::Trusted, Risk::Dangerous, Some(NeedsConfirmation), None),
            (Trust::Standard, Risk::Safe, None, None),
            (Trust::Standard, Risk::Sensitive, Some(NeedsConfirmation), None),
            (Trust::Standard, Risk::Dangerous, Some(TrustTooLow), Some(TrustTooLow)),
            (Trust::Guest, Risk::Safe, Some(TrustTooLow), Some(TrustTooLow)),
            (Trust::Guest, Risk::Sensitive, Some(TrustTooLow), Some(TrustTooLow)),
            (Trust::Guest, Risk::Dangerous, Some(TrustTooLow), Some(TrustTooLow)),
        ];
        for (trust, risk, plain, confirmed) in rows {
            assert_eq!(covers(trust, risk, false).err().map(|e| e.code), plain, "{trust:?} {risk:?}");
            assert_eq!(covers(trust, risk, true).err().map(|e| e.code), confirmed, "{trust:?} {risk:?} confirmed");
        }
    }
}
