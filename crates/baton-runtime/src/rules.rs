//! Remembered approvals: made with the approval they come from, listed, removed (E5).

use crate::directory::Identity;
use crate::hub::Hub;
use baton_core::rule_of;
use baton_core::user::UserCommand;
use baton_proto::{
    ApprovalEntity, ApprovalId, ApprovalState, Decision, EntityView, ErrorBody, ErrorCode, Intent, Operation, Rule, RuleId, SessionId,
    Trust,
};

impl Hub {
    /// A user's remembered approvals, the oldest first.
    pub fn rules(&self, who: Identity) -> Vec<Rule> {
        self.shared.directory.rules(who.user_id)
    }

    /// Forgets a remembered approval; calls like it are asked about again.
    pub async fn remove_rule(&self, who: Identity, rule_id: RuleId) -> Result<(), ErrorBody> {
        let acting = self.shared.directory.acting(who).ok_or_else(|| ErrorBody::not_found("device"))?;
        // Taking a permission back is as free as stopping is.
        if acting.trust == Trust::Guest {
            return Err(ErrorBody::new(ErrorCode::TrustTooLow, "A guest device may look, not act.", "Remove it on a trusted device."));
        }
        let reason = "it was removed".to_owned();
        self.shared.directory.submit(who.user_id, UserCommand::RemoveRule { rule_id, reason }).await.map(|_| ())
    }

    /// Makes the rule that an approval asks for, before the approval itself is given: whoever is cut off in between sends the same operation
    /// again. Answers what is to be undone if the approval is refused after all.
    pub(crate) async fn remember_first(&self, who: Identity, operation: &Operation) -> Result<Option<RuleId>, ErrorBody> {
        let (Intent::Confirm { approval_id, decision, remember: Some(remember), .. }, Some(session)) =
            (&operation.intent, operation.session_id)
        else {
            return Ok(None);
        };
        if *decision != Decision::Approve {
            return Err(ErrorBody::invalid("Only an approval can be remembered."));
        }
        let Some(sender) = self.shared.directory.acting(who) else { return Ok(None) };
        // One that is closed is refused, or known, by the session itself.
        let Some(approval) = self.open_approval(who, session, *approval_id).await? else { return Ok(None) };
        baton_core::may_approve(&sender, approval.binding.risk, operation.confirmed)?;
        let rule = rule_of(&approval, session, *remember, sender.sender(), self.shared.clock.now())?;
        let rule_id = rule.rule_id;
        let made = self.shared.directory.submit(who.user_id, UserCommand::AddRule { rule: Box::new(rule) }).await?;
        Ok((!made.is_empty()).then_some(rule_id))
    }

    /// Takes back a rule whose approval was refused.
    pub(crate) async fn forget_again(&self, who: Identity, rule_id: RuleId) {
        let reason = "its approval was refused".to_owned();
        if let Err(error) = self.shared.directory.submit(who.user_id, UserCommand::RemoveRule { rule_id, reason }).await {
            tracing::warn!(%rule_id, error = %error.message, "a rule whose approval was refused is still there");
        }
    }

    async fn open_approval(&self, who: Identity, session: SessionId, id: ApprovalId) -> Result<Option<Box<ApprovalEntity>>, ErrorBody> {
        let view = self.view(who, session).await?;
        Ok(view.entities.into_iter().find_map(|entity| match entity {
            EntityView::Approval(approval) if approval.id == id && approval.state == ApprovalState::Open => Some(approval),
            _ => None,
        }))
    }
}
