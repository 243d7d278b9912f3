//! Pairing by code and by link (S4): one claim, five minutes, and an approving device that was shown what asks and compared a number.

use crate::clock::Clock;
use crate::directory::{Directory, Identity};
use crate::invitations::{self, Link};
use crate::secret::{hash, random_code, random_token};
use baton_core::Ids;
use baton_core::user::{UserCommand, checked_name};
use baton_proto::{
    Capabilities, ClientType, Credentials, Digest, ErrorBody, ErrorCode, Event, InvitationClaim, InvitationId, PAIRING_S, PairingApproval,
    PairingId, PairingPreview, PairingRequest, PairingStarted, PairingState, Timestamp, Trust, UserEvent, UserId, pairing_number,
};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that may be open at once. When one more comes, the oldest of the place that has most goes.
const MAX_OPEN: usize = 64;
/// Requests that may be open from one place; people pair one device at a time.
const MAX_OPEN_FROM_ONE: usize = 8;
/// Wrong codes or secrets from one place in the time a code lives, before it has to wait (S3: from loopback too).
const MAX_WRONG: u32 = 10;
/// Wrong numbers or secrets for one request, before it is dead.
pub(crate) const MAX_WRONG_FOR_ONE: u32 = 3;

/// A made invitation; the secret is shown once.
#[derive(Clone, Debug)]
pub struct MadeInvitation {
    pub invitation_id: InvitationId,
    pub secret: String,
    pub expires_at: Timestamp,
}

#[derive(Debug)]
pub(crate) struct Pairing {
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: Arc<dyn Clock>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
pub(crate) struct Open {
    requests: Vec<Request>,
    pub(crate) links: Vec<Link>,
    wrong: HashMap<IpAddr, (u32, Timestamp)>,
}

/// Whose doing it is as far as an address tells: who has one address of version 6 has all that share its first half.
fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// A device that isn't anybody's yet. Kept in memory only: after a restart it simply asks again.
#[derive(Debug)]
struct Request {
    id: PairingId,
    code: String,
    secret_hash: Digest,
    number: String,
    name: String,
    client_type: ClientType,
    capabilities: Capabilities,
    expires_at: Timestamp,
    approved: Option<(Identity, Trust)>,
    /// Whether its token is being given, which happens once.
    entered: bool,
    address: IpAddr,
    from: IpAddr,
    /// Wrong numbers and secrets so far.
    wrong: u32,
}

impl Request {
    fn preview(&self) -> PairingPreview {
        PairingPreview {
            name: self.name.clone(),
            client_type: self.client_type,
            code: shown(&self.code),
            number: self.number.clone(),
            from: self.address.to_string(),
            expires_at: self.expires_at,
        }
    }
}

/// What a new device is to become, once it was approved.
pub(crate) struct Admitted {
    pub(crate) by: Identity,
    pub(crate) trust: Trust,
    pub(crate) name: String,
    pub(crate) client_type: ClientType,
    pub(crate) capabilities: Capabilities,
}

/// What became of a request that its device asks about.
pub(crate) enum Claimed {
    Waiting(Timestamp),
    Admitted(Admitted),
}

impl Pairing {
    pub(crate) fn new(directory: Arc<Directory>, clock: Arc<dyn Clock>) -> Self {
        Self { directory, clock, open: Mutex::default() }
    }

    pub(crate) fn start(&self, address: IpAddr, request: PairingRequest) -> Result<PairingStarted, ErrorBody> {
        let from = place(address);
        let name = checked_name(&request.name)?;
        let now = self.clock.now();
        let (Some(code), Some(secret)) = (random_code(), random_token()) else { return Err(no_randomness()) };
        let expires_at = five_minutes_after(now);
        let id = Ids::new(now, self.clock.random()).fresh();
        let number = pairing_number(id, &secret);
        let mut open = self.open();
        open.requests.retain(|request| request.expires_at > now);
        open.make_room(from)?;
        open.requests.push(Request {
            id,
            code: code.clone(),
            secret_hash: hash(&secret),
            number: number.clone(),
            name,
            client_type: request.client_type,
            capabilities: request.capabilities,
            expires_at,
            approved: None,
            entered: false,
            address: address.to_canonical(),
            from,
            wrong: 0,
        });
        Ok(PairingStarted { pairing_id: id, code: shown(&code), secret, number, expires_at })
    }

    pub(crate) fn preview(&self, from: IpAddr, code: &str) -> Result<PairingPreview, ErrorBody> {
        let mut open = self.open();
        let position = open.find(from, code, self.clock.now())?;
        Ok(open.requests[position].preview())
    }

    /// A trusted device lets a new one in, having compared the number that both show.
    pub(crate) fn approve(&self, by: Identity, from: IpAddr, code: &str, approval: &PairingApproval) -> Result<PairingPreview, ErrorBody> {
        self.trusted(by)?;
        let mut open = self.open();
        let position = open.find(from, code, self.clock.now())?;
        let request = &mut open.requests[position];
        if request.number != approval.number {
            request.wrong += 1;
            let dead = request.wrong >= MAX_WRONG_FOR_ONE;
            if dead {
                open.requests.remove(position);
            }
            return Err(wrong_number(dead));
        }
        request.approved = Some((by, approval.trust));
        Ok(request.preview())
    }

    /// The new device asks what became of its request. Its token is made only now, and given once.
    pub(crate) async fn claim(&self, from: IpAddr, id: PairingId, secret: &str) -> Result<PairingState, ErrorBody> {
        let now = self.clock.now();
        let secret_hash = hash(secret);
        let claimed = {
            let mut open = self.open();
            open.may_try(from, now)?;
            let claimed = match open.claim(id, &secret_hash, now) {
                None => invitations::claim(&mut open.links, id, &secret_hash, now),
                found => found,
            };
            let Some(claimed) = claimed else {
                open.count_wrong(from, now);
                return Err(ErrorBody::new(ErrorCode::NotFound, "This pairing is over or was never begun.", "Start pairing anew."));
            };
            claimed?
        };
        match claimed {
            Claimed::Waiting(expires_at) => Ok(PairingState::Waiting { expires_at }),
            Claimed::Admitted(admitted) => {
                // Whoever approved may have been revoked, or lost trust, since.
                self.trusted(admitted.by)?;
                let Admitted { by, trust, name, client_type, capabilities } = admitted;
                let paired = self.pair(by.user_id, name, client_type, capabilities, trust).await;
                match &paired {
                    Ok(_) => self.open().requests.retain(|request| request.id != id),
                    Err(_) => self.open().may_enter_again(id),
                }
                paired.map(PairingState::Approved)
            }
        }
    }

    pub(crate) async fn pair(
        &self,
        user: UserId,
        name: String,
        client_type: ClientType,
        capabilities: Capabilities,
        trust: Trust,
    ) -> Result<Credentials, ErrorBody> {
        let token = random_token().ok_or_else(no_randomness)?;
        let command = UserCommand::Pair { name, client_type, capabilities, trust, token_hash: hash(&token) };
        let events = self.directory.submit(user, command).await?;
        credentials(user, &events, token)
    }

    /// A link made on the hub's own machine. It is the only one that lets in whoever opens it first.
    pub(crate) async fn invite(&self, user: UserId, trust: Trust) -> Result<MadeInvitation, ErrorBody> {
        let secret = random_token().ok_or_else(no_randomness)?;
        let events = self.directory.submit(user, UserCommand::Invite { secret_hash: hash(&secret), trust }).await?;
        events
            .iter()
            .find_map(|event| match &event.body {
                UserEvent::InvitationMade { invitation_id, expires_at, .. } => {
                    Some(MadeInvitation { invitation_id: *invitation_id, secret: secret.clone(), expires_at: *expires_at })
                }
                _ => None,
            })
            .ok_or_else(|| ErrorBody::new(ErrorCode::Internal, "The invitation was not made.", "Try again."))
    }

    /// Pairs the first device of a user, by a link that was made on the hub's own machine.
    pub(crate) async fn claim_invitation(&self, from: IpAddr, claim: &InvitationClaim) -> Result<Credentials, ErrorBody> {
        let now = self.clock.now();
        self.open().may_try(from, now)?;
        checked_name(&claim.name)?;
        let secret_hash = hash(&claim.secret);
        let user = self.directory.invited_by(&secret_hash).inspect_err(|_| self.open().count_wrong(from, now))?;
        let token = random_token().ok_or_else(no_randomness)?;
        let command = UserCommand::Claim {
            secret_hash,
            name: claim.name.clone(),
            client_type: claim.client_type,
            capabilities: claim.capabilities.clone(),
            token_hash: hash(&token),
        };
        let events = self.directory.submit(user, command).await?;
        credentials(user, &events, token)
    }

    /// Only a trusted device may let others in or change their trust (H9).
    pub(crate) fn trusted(&self, by: Identity) -> Result<(), ErrorBody> {
        match self.directory.record(by) {
            Some(record) if record.trust == Trust::Trusted && record.client_type != ClientType::Device => Ok(()),
            Some(_) => Err(ErrorBody::new(ErrorCode::TrustTooLow, "Only a trusted device may do this.", "Use a trusted device.")),
            None => Err(ErrorBody::new(ErrorCode::Unauthenticated, "This device isn't paired.", "Pair it first.")),
        }
    }

    pub(crate) fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Where the request with that code stands, unless it is approved already.
    fn find(&mut self, from: IpAddr, code: &str, now: Timestamp) -> Result<usize, ErrorBody> {
        self.may_try(from, now)?;
        let wanted: String = code.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect();
        let position =
            self.requests.iter().position(|request| request.code == wanted && request.expires_at > now && request.approved.is_none());
        position.ok_or_else(|| {
            self.count_wrong(from, now);
            ErrorBody::new(
                ErrorCode::NotFound,
                "No device waits with this code.",
                "Check the code on the new device; it lives for five minutes.",
            )
        })
    }

    /// What became of a request by code; `None` where there is none with that secret.
    fn claim(&mut self, id: PairingId, secret_hash: &Digest, now: Timestamp) -> Option<Result<Claimed, ErrorBody>> {
        let position = self.requests.iter().position(|request| request.id == id && request.expires_at > now)?;
        let request = &mut self.requests[position];
        if request.secret_hash != *secret_hash {
            request.wrong += 1;
            if request.wrong >= MAX_WRONG_FOR_ONE {
                self.requests.remove(position);
            }
            return None;
        }
        let Some((by, trust)) = request.approved else { return Some(Ok(Claimed::Waiting(request.expires_at))) };
        if std::mem::replace(&mut request.entered, true) {
            return None;
        }
        let (name, capabilities) = (request.name.clone(), request.capabilities.clone());
        Some(Ok(Claimed::Admitted(Admitted { by, trust, name, client_type: request.client_type, capabilities })))
    }

    /// A device that was let in couldn't be written down: it may ask again.
    fn may_enter_again(&mut self, id: PairingId) {
        if let Some(request) = self.requests.iter_mut().find(|request| request.id == id) {
            request.entered = false;
        }
        invitations::may_enter_again(&mut self.links, id);
    }

    /// Nobody's requests push out another's: whoever floods is refused, and a flood from many places pushes out its own.
    fn make_room(&mut self, from: IpAddr) -> Result<(), ErrorBody> {
        let mut by_place: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for request in &self.requests {
            *by_place.entry(request.from).or_default() += 1;
        }
        if by_place.get(&from).is_some_and(|count| *count >= MAX_OPEN_FROM_ONE) {
            let message = format!("{MAX_OPEN_FROM_ONE} devices from here wait to be paired already.");
            return Err(ErrorBody::new(ErrorCode::RateLimited, message, "Finish one of them, or wait five minutes."));
        }
        if self.requests.len() >= MAX_OPEN
            && let Some((most, _)) = by_place.into_iter().max_by_key(|(_, count)| *count)
            && let Some(oldest) = self.requests.iter().position(|request| request.from == most)
        {
            self.requests.remove(oldest);
        }
        Ok(())
    }

    pub(crate) fn may_try(&mut self, from: IpAddr, now: Timestamp) -> Result<(), ErrorBody> {
        self.wrong.retain(|_, (_, until)| *until > now);
        match self.wrong.get(&place(from)) {
            Some((count, _)) if *count >= MAX_WRONG => {
                Err(ErrorBody::new(ErrorCode::RateLimited, "Too many wrong codes from here.", "Wait five minutes, then try again."))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn count_wrong(&mut self, from: IpAddr, now: Timestamp) {
        let until = five_minutes_after(now);
        let entry = self.wrong.entry(place(from)).or_insert((0, until));
        entry.0 += 1;
    }
}

fn credentials(user_id: UserId, events: &[Event<UserEvent>], token: String) -> Result<Credentials, ErrorBody> {
    events
        .iter()
        .find_map(|event| match &event.body {
            UserEvent::DevicePaired { device, .. } => Some(Credentials {
                device_id: device.device_id,
                user_id,
                name: device.name.clone(),
                trust: device.trust,
                token: token.clone(),
            }),
            _ => None,
        })
        .ok_or_else(|| ErrorBody::new(ErrorCode::Internal, "The device was not paired.", "Try again."))
}

fn shown(code: &str) -> String {
    format!("{}-{}", &code[..4], &code[4..])
}

pub(crate) fn five_minutes_after(now: Timestamp) -> Timestamp {
    now.plus(i64::try_from(PAIRING_S).unwrap_or(300) * 1000)
}

/// `dead`: one wrong number too many was given.
pub(crate) fn wrong_number(dead: bool) -> ErrorBody {
    let hint = if dead { "It was refused. The new device has to begin anew." } else { "Compare again; if they differ, refuse it." };
    ErrorBody::new(ErrorCode::Invalid, "That isn't the number of the device that asks.", hint)
}

pub(crate) fn no_randomness() -> ErrorBody {
    ErrorBody::new(ErrorCode::Internal, "The hub's machine gives no randomness.", "Look at the hub's machine.")
}
