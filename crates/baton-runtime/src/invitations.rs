//! Links that a user's devices make (S4). Whoever opens one first asks to be let in, and nobody else can; the device that made it is shown
//! what asks, and decides. They are kept in memory only: after a restart there are none, so none works twice.

use crate::directory::Identity;
use crate::pairing::{Admitted, Claimed, MAX_WRONG_FOR_ONE, MadeInvitation, Pairing, five_minutes_after, no_randomness, wrong_number};
use crate::secret::{hash, random_token};
use baton_core::Ids;
use baton_core::user::{checked_name, unknown_invitation};
use baton_proto::{
    Asking, Capabilities, Changed, Digest, ErrorBody, ErrorCode, InvitationClaim, InvitationId, InvitationStanding, InvitationState,
    InvitationView, PairingId, Timestamp, Trust, pairing_number,
};
use std::net::IpAddr;

/// Links of one user that are kept at once; the oldest goes first.
const MAX_LINKS: usize = 20;

#[derive(Debug)]
pub(crate) struct Link {
    id: InvitationId,
    by: Identity,
    secret_hash: Digest,
    trust: Trust,
    expires_at: Timestamp,
    standing: InvitationStanding,
    asker: Option<Asker>,
    /// Tries after the first one.
    others: u32,
}

/// The device that opened a link first.
#[derive(Debug)]
struct Asker {
    pairing_id: PairingId,
    secret_hash: Digest,
    shown: Asking,
    capabilities: Capabilities,
    wrong: u32,
    /// Whether its token was given, which happens once.
    entered: bool,
}

impl Link {
    fn view(&self) -> InvitationView {
        InvitationView {
            invitation_id: self.id,
            trust: self.trust,
            expires_at: self.expires_at,
            standing: self.standing,
            asking: self.asker.as_ref().map(|asker| asker.shown.clone()),
            others: self.others,
        }
    }
}

/// What became of the device that opened a link; `None` where none has that secret.
pub(crate) fn claim(links: &mut [Link], id: PairingId, secret_hash: &Digest, now: Timestamp) -> Option<Result<Claimed, ErrorBody>> {
    let link = links.iter_mut().find(|link| link.asker.as_ref().is_some_and(|asker| asker.pairing_id == id) && link.expires_at > now)?;
    let asker = link.asker.as_mut()?;
    if asker.secret_hash != *secret_hash {
        asker.wrong += 1;
        if asker.wrong >= MAX_WRONG_FOR_ONE && link.standing == InvitationStanding::Asking {
            link.standing = InvitationStanding::Refused;
        }
        return None;
    }
    match link.standing {
        InvitationStanding::Open | InvitationStanding::Asking => Some(Ok(Claimed::Waiting(link.expires_at))),
        InvitationStanding::Refused => Some(Err(ErrorBody::new(
            ErrorCode::Forbidden,
            "The device that made the link has refused.",
            "If that was a mistake, ask for a new link.",
        ))),
        InvitationStanding::Approved if asker.entered => None,
        InvitationStanding::Approved => {
            asker.entered = true;
            Some(Ok(Claimed::Admitted(Admitted {
                by: link.by,
                trust: link.trust,
                name: asker.shown.name.clone(),
                client_type: asker.shown.client_type,
                capabilities: asker.capabilities.clone(),
            })))
        }
    }
}

pub(crate) fn may_enter_again(links: &mut [Link], id: PairingId) {
    if let Some(asker) = links.iter_mut().filter_map(|link| link.asker.as_mut()).find(|asker| asker.pairing_id == id) {
        asker.entered = false;
    }
}

impl Pairing {
    /// A trusted device makes a link.
    pub(crate) fn make_link(&self, by: Identity, trust: Trust) -> Result<MadeInvitation, ErrorBody> {
        self.trusted(by)?;
        let secret = random_token().ok_or_else(no_randomness)?;
        let now = self.clock.now();
        let (id, expires_at) = (Ids::new(now, self.clock.random()).fresh(), five_minutes_after(now));
        let mut open = self.open();
        open.links.retain(|link| link.expires_at > now);
        if open.links.iter().filter(|link| link.by.user_id == by.user_id).count() >= MAX_LINKS
            && let Some(oldest) = open.links.iter().position(|link| link.by.user_id == by.user_id)
        {
            open.links.remove(oldest);
        }
        let secret_hash = hash(&secret);
        let standing = InvitationStanding::Open;
        open.links.push(Link { id, by, secret_hash, trust, expires_at, standing, asker: None, others: 0 });
        Ok(MadeInvitation { invitation_id: id, secret, expires_at })
    }

    /// The links that this device made and that haven't expired, the newest first.
    pub(crate) fn links(&self, by: Identity) -> Vec<InvitationView> {
        let now = self.clock.now();
        let open = self.open();
        open.links.iter().rev().filter(|link| link.by == by && link.expires_at > now).map(Link::view).collect()
    }

    /// Somebody opens a link. One that the hub's own machine made lets in at once; for any other its maker is asked.
    pub(crate) async fn open_link(&self, from: IpAddr, claim: &InvitationClaim) -> Result<InvitationState, ErrorBody> {
        let name = checked_name(&claim.name)?;
        match self.take_link(from, claim, name)? {
            Some(asking) => Ok(asking),
            None => self.claim_invitation(from, claim).await.map(InvitationState::Approved),
        }
    }

    fn take_link(&self, from: IpAddr, claim: &InvitationClaim, name: String) -> Result<Option<InvitationState>, ErrorBody> {
        let now = self.clock.now();
        let secret_hash = hash(&claim.secret);
        let (maker, taken) = {
            let mut open = self.open();
            open.may_try(from, now)?;
            let Some(position) = open.links.iter().position(|link| link.secret_hash == secret_hash && link.expires_at > now) else {
                return Ok(None);
            };
            let link = &mut open.links[position];
            let maker = link.by;
            if link.standing == InvitationStanding::Open && self.trusted(maker).is_ok() {
                (maker, Some(link.taken(from, claim, name, Ids::new(now, self.clock.random()).fresh(), now)?))
            } else {
                link.others = link.others.saturating_add(1);
                open.count_wrong(from, now);
                (maker, None)
            }
        };
        self.directory.notify(maker.user_id, Changed::Invitations);
        taken.map(Some).ok_or_else(unknown_invitation)
    }

    pub(crate) fn approve_link(&self, by: Identity, id: InvitationId, number: &str) -> Result<InvitationView, ErrorBody> {
        self.decide_link(by, id, |link| {
            let Some(asker) = &mut link.asker else {
                return Err(ErrorBody::new(ErrorCode::IllegalTransition, "Nobody has opened this link yet.", "Open it on the new device."));
            };
            if asker.shown.number != number {
                asker.wrong += 1;
                let dead = asker.wrong >= MAX_WRONG_FOR_ONE;
                if dead && link.standing == InvitationStanding::Asking {
                    link.standing = InvitationStanding::Refused;
                }
                return Err(wrong_number(dead));
            }
            if link.standing == InvitationStanding::Refused {
                let message = "This device was refused already.";
                return Err(ErrorBody::new(ErrorCode::IllegalTransition, message, "Make a new link for it."));
            }
            link.standing = InvitationStanding::Approved;
            Ok(())
        })
    }

    /// Turns away what asks; a link that nobody has opened is withdrawn.
    pub(crate) fn refuse_link(&self, by: Identity, id: InvitationId) -> Result<InvitationView, ErrorBody> {
        self.decide_link(by, id, |link| {
            if link.standing == InvitationStanding::Approved {
                let message = "This device was let in already.";
                return Err(ErrorBody::new(ErrorCode::IllegalTransition, message, "Revoke it in the list of devices."));
            }
            link.standing = InvitationStanding::Refused;
            Ok(())
        })
    }

    /// Only the device that made a link decides about it; for any other it isn't there.
    fn decide_link(
        &self,
        by: Identity,
        id: InvitationId,
        decide: impl FnOnce(&mut Link) -> Result<(), ErrorBody>,
    ) -> Result<InvitationView, ErrorBody> {
        self.trusted(by)?;
        let now = self.clock.now();
        let decided = {
            let mut open = self.open();
            let found = open.links.iter_mut().find(|link| link.id == id && link.by == by && link.expires_at > now);
            let link = found.ok_or_else(|| {
                ErrorBody::new(ErrorCode::NotFound, "This device has made no such link, or it has expired.", "Make a new one.")
            })?;
            decide(link).map(|()| link.view())
        };
        self.directory.notify(by.user_id, Changed::Invitations);
        decided
    }
}

impl Link {
    fn taken(
        &mut self,
        from: IpAddr,
        claim: &InvitationClaim,
        name: String,
        pairing_id: PairingId,
        now: Timestamp,
    ) -> Result<InvitationState, ErrorBody> {
        let secret = random_token().ok_or_else(no_randomness)?;
        let number = pairing_number(pairing_id, &secret);
        // A person needs time to look at both screens, also when the link was opened at its last moment.
        self.expires_at = five_minutes_after(now);
        self.standing = InvitationStanding::Asking;
        let shown = Asking { name, client_type: claim.client_type, from: from.to_canonical().to_string(), number: number.clone() };
        let capabilities = claim.capabilities.clone();
        self.asker = Some(Asker { pairing_id, secret_hash: hash(&secret), shown, capabilities, wrong: 0, entered: false });
        Ok(InvitationState::Asking { pairing_id, secret, number, expires_at: self.expires_at })
    }
}
