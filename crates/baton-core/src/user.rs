//! A user's devices and invitations: a stream of its own beside the sessions, folded and decided in the same way (H9, O3, S4, S5).

use crate::context::Ids;
use crate::policy;
use baton_proto::{
    Actor, Baseline, Capabilities, ClientType, DeviceId, DeviceRecord, Digest, ErrorBody, ErrorCode, Event, InvitationId, JournalId, Lane,
    MAX_NAME_CHARS, PAIRING_S, Risk, Rule, RuleId, Timestamp, ToolSpec, Trust, UserEvent, UserId, Workspace,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Devices of one user at most. Revoked ones don't count; beyond this number the oldest of them are forgotten.
const MAX_DEVICES: usize = 200;
/// Remembered approvals of one user, at most.
const MAX_RULES: usize = 200;
/// Open invitations of one user, at most; the oldest goes first.
const MAX_INVITATIONS: usize = 20;

/// A user's state: the fold of the user's stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    pub id: UserId,
    pub name: String,
    pub seq: u64,
    pub devices: BTreeMap<DeviceId, PairedDevice>,
    pub invitations: BTreeMap<InvitationId, OpenInvitation>,
    /// Approvals that are remembered (E5), the oldest first.
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedDevice {
    pub record: DeviceRecord,
    pub token_hash: Digest,
}

impl PairedDevice {
    pub const fn is_active(&self) -> bool {
        self.record.revoked_at.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenInvitation {
    pub secret_hash: Digest,
    pub trust: Trust,
    pub expires_at: Timestamp,
    /// The event that made it: their order, whatever the clock says (C45).
    pub made_seq: u64,
}

/// What can be asked of a user's stream.
#[derive(Clone, Debug)]
pub enum UserCommand {
    Create {
        name: String,
    },
    Invite {
        secret_hash: Digest,
        trust: Trust,
    },
    /// Pairs a device by an invitation.
    Claim {
        secret_hash: Digest,
        name: String,
        client_type: ClientType,
        capabilities: Capabilities,
        token_hash: Digest,
    },
    /// Pairs a device that a trusted one approved, or that the hub's own start brings along.
    Pair {
        name: String,
        client_type: ClientType,
        capabilities: Capabilities,
        trust: Trust,
        token_hash: Digest,
    },
    Rename {
        device: DeviceId,
        name: String,
    },
    SetTrust {
        device: DeviceId,
        trust: Trust,
    },
    Revoke {
        device: DeviceId,
    },
    /// Remembers an approval.
    AddRule {
        rule: Box<Rule>,
    },
    RemoveRule {
        rule_id: RuleId,
        reason: String,
    },
    /// A device says what it can do; kept so that an absent one can be waited for.
    Describe {
        device: DeviceId,
        capabilities: Capabilities,
        tools: Vec<ToolSpec>,
        workspaces: Vec<Workspace>,
        /// `None` says nothing about it.
        journal: Option<JournalId>,
    },
}

impl User {
    pub fn empty(id: UserId) -> Self {
        Self { id, name: String::new(), seq: 0, devices: BTreeMap::new(), invitations: BTreeMap::new(), rules: Vec::new() }
    }

    pub fn apply(&mut self, event: &Event<UserEvent>) {
        self.seq += 1;
        match &event.body {
            UserEvent::UserCreated { name, .. } => self.name.clone_from(name),
            UserEvent::DevicePaired { device, token_hash } => {
                self.devices.insert(device.device_id, PairedDevice { record: device.clone(), token_hash: token_hash.clone() });
                while self.devices.len() > MAX_DEVICES {
                    let revoked = self.devices.values().filter(|device| !device.is_active());
                    let Some(oldest) = revoked.min_by_key(|device| device.record.revoked_at).map(|device| device.record.device_id) else {
                        break;
                    };
                    self.devices.remove(&oldest);
                }
            }
            UserEvent::DeviceRenamed { device_id, name } => self.change(*device_id, |record| record.name.clone_from(name)),
            UserEvent::DeviceTrustSet { device_id, trust } => self.change(*device_id, |record| record.trust = *trust),
            UserEvent::DeviceRevoked { device_id } => self.change(*device_id, |record| record.revoked_at = Some(event.at)),
            UserEvent::DeviceDescribed { device_id, capabilities, tools, workspaces, journal } => self.change(*device_id, |record| {
                record.capabilities.clone_from(capabilities);
                record.tools.clone_from(tools);
                record.workspaces.clone_from(workspaces);
                record.journal = journal.or(record.journal);
            }),
            UserEvent::InvitationMade { invitation_id, secret_hash, trust, expires_at } => {
                let made = OpenInvitation { secret_hash: secret_hash.clone(), trust: *trust, expires_at: *expires_at, made_seq: self.seq };
                self.invitations.insert(*invitation_id, made);
                while self.invitations.len() > MAX_INVITATIONS {
                    let Some(oldest) = self.invitations.iter().min_by_key(|(_, made)| made.made_seq).map(|(id, _)| *id) else { break };
                    self.invitations.remove(&oldest);
                }
            }
            UserEvent::InvitationClaimed { invitation_id, .. } => {
                self.invitations.remove(invitation_id);
            }
            UserEvent::RuleMade { rule } => {
                self.rules.push(rule.clone());
            }
            UserEvent::RuleRemoved { rule_id, .. } => self.rules.retain(|rule| rule.rule_id != *rule_id),
        }
    }

    fn change(&mut self, device: DeviceId, change: impl FnOnce(&mut DeviceRecord)) {
        if let Some(found) = self.devices.get_mut(&device) {
            change(&mut found.record);
        }
    }

    /// What follows from a command, or why it can't be done.
    pub fn decide(&self, command: &UserCommand, now: Timestamp, ids: &Ids) -> Result<Vec<Event<UserEvent>>, ErrorBody> {
        let event = |body| Event { at: now, lane: Lane::default(), actor: Actor::Hub, operation_id: None, body };
        let bodies = match command {
            UserCommand::Create { name } => {
                if self.seq > 0 {
                    return Err(ErrorBody::new(ErrorCode::IllegalTransition, "That user exists already.", "Choose another name."));
                }
                vec![UserEvent::UserCreated { user_id: self.id, name: checked_name(name)? }]
            }
            UserCommand::Invite { secret_hash, trust } => {
                let expires_at = now.plus(i64::try_from(PAIRING_S).unwrap_or(300) * 1000);
                vec![UserEvent::InvitationMade { invitation_id: ids.fresh(), secret_hash: secret_hash.clone(), trust: *trust, expires_at }]
            }
            UserCommand::Claim { secret_hash, name, client_type, capabilities, token_hash } => {
                let found =
                    self.invitations.iter().find(|(_, invitation)| invitation.secret_hash == *secret_hash && invitation.expires_at > now);
                let Some((invitation_id, invitation)) = found else { return Err(unknown_invitation()) };
                let device = self.fresh_device(name, *client_type, capabilities, invitation.trust, now, ids)?;
                let device_id = device.device_id;
                vec![
                    UserEvent::DevicePaired { device, token_hash: token_hash.clone() },
                    UserEvent::InvitationClaimed { invitation_id: *invitation_id, device_id },
                ]
            }
            UserCommand::Pair { name, client_type, capabilities, trust, token_hash } => {
                vec![UserEvent::DevicePaired {
                    device: self.fresh_device(name, *client_type, capabilities, *trust, now, ids)?,
                    token_hash: token_hash.clone(),
                }]
            }
            UserCommand::Rename { device, name } => {
                self.active(*device)?;
                vec![UserEvent::DeviceRenamed { device_id: *device, name: checked_name(name)? }]
            }
            UserCommand::SetTrust { device, trust } => {
                let before = self.active(*device)?.record.trust;
                let mut events = vec![UserEvent::DeviceTrustSet { device_id: *device, trust: *trust }];
                // What it granted was granted on its trust; a device that gains trust has lost nothing (H9).
                if *trust != before && policy::covers(*trust, Risk::Sensitive, false).is_err() {
                    events.extend(self.rules_of(*device, "its granter lost trust"));
                }
                events
            }
            UserCommand::Revoke { device } => {
                self.active(*device)?;
                let rules = self.rules_of(*device, "its granter was revoked");
                std::iter::once(UserEvent::DeviceRevoked { device_id: *device }).chain(rules).collect()
            }
            UserCommand::AddRule { rule } => {
                self.active(rule.granted_by.device_id)?;
                if self.rules.iter().any(|known| known.rule_id == rule.rule_id) {
                    return Ok(Vec::new());
                }
                let made = UserEvent::RuleMade { rule: (**rule).clone() };
                if self.rules.len() < MAX_RULES {
                    return Ok(vec![event(made)]);
                }
                // The oldest for a single task goes: its task has ended, as a rule.
                let Some(oldest) = self.rules.iter().find(|rule| rule.only.is_some()) else {
                    return Err(ErrorBody::new(
                        ErrorCode::TooLarge,
                        format!("{MAX_RULES} approvals are remembered already."),
                        "Remove some: `baton rules` lists them.",
                    ));
                };
                let reason = "it made room for a newer one".to_owned();
                vec![UserEvent::RuleRemoved { rule_id: oldest.rule_id, reason }, made]
            }
            UserCommand::RemoveRule { rule_id, reason } => {
                if !self.rules.iter().any(|known| known.rule_id == *rule_id) {
                    return Err(ErrorBody::not_found("rule"));
                }
                vec![UserEvent::RuleRemoved { rule_id: *rule_id, reason: reason.clone() }]
            }
            UserCommand::Describe { device, capabilities, tools, workspaces, journal } => {
                let known = &self.active(*device)?.record;
                let same_journal = journal.is_none() || known.journal == *journal;
                if known.capabilities == *capabilities
                    && known.tools == *tools
                    && same_places(&known.workspaces, workspaces)
                    && same_journal
                {
                    return Ok(Vec::new());
                }
                vec![UserEvent::DeviceDescribed {
                    device_id: *device,
                    capabilities: capabilities.clone(),
                    tools: tools.clone(),
                    workspaces: workspaces.clone(),
                    journal: *journal,
                }]
            }
        };
        Ok(bodies.into_iter().map(event).collect())
    }

    /// The end of what a device granted.
    fn rules_of(&self, device: DeviceId, reason: &str) -> Vec<UserEvent> {
        let granted = self.rules.iter().filter(|rule| rule.granted_by.device_id == device);
        granted.map(|rule| UserEvent::RuleRemoved { rule_id: rule.rule_id, reason: reason.to_owned() }).collect()
    }

    fn active(&self, device: DeviceId) -> Result<&PairedDevice, ErrorBody> {
        self.devices.get(&device).filter(|device| device.is_active()).ok_or_else(|| ErrorBody::not_found("device"))
    }

    fn fresh_device(
        &self,
        name: &str,
        client_type: ClientType,
        capabilities: &Capabilities,
        trust: Trust,
        now: Timestamp,
        ids: &Ids,
    ) -> Result<DeviceRecord, ErrorBody> {
        if self.devices.values().filter(|device| device.is_active()).count() >= MAX_DEVICES {
            return Err(ErrorBody::new(
                ErrorCode::TooLarge,
                format!("A user has at most {MAX_DEVICES} devices."),
                "Revoke devices that are no longer used.",
            ));
        }
        Ok(DeviceRecord {
            device_id: ids.fresh(),
            name: checked_name(name)?,
            client_type,
            trust,
            paired_at: now,
            revoked_at: None,
            capabilities: capabilities.clone(),
            tools: Vec::new(),
            workspaces: Vec::new(),
            journal: None,
        })
    }
}

/// Whether workspaces are the same but for what changes with each file that is saved, which is no news of the device's.
fn same_places(known: &[Workspace], told: &[Workspace]) -> bool {
    fn place(workspace: &Workspace) -> Workspace {
        let baseline = Baseline { branch: None, commit: None, dirty: None, ..workspace.baseline.clone() };
        Workspace { baseline, ..workspace.clone() }
    }
    known.len() == told.len() && known.iter().all(|one| told.iter().any(|other| place(one) == place(other)))
}

/// What an invitation that doesn't exist, is used up or has expired is answered; which of these is nobody's business.
pub fn unknown_invitation() -> ErrorBody {
    ErrorBody::new(ErrorCode::NotFound, "This link is used up, expired or wrong.", "Ask for a new one: they work once, for five minutes.")
}

/// A name for people, without characters that deceive.
pub fn checked_name(name: &str) -> Result<String, ErrorBody> {
    let name = name.trim();
    let count = name.chars().count();
    if count == 0 || count > MAX_NAME_CHARS {
        return Err(ErrorBody::invalid(format!("A name has 1 to {MAX_NAME_CHARS} characters.")));
    }
    if name.contains(['\n', '\t']) || baton_proto::make_visible(name) != name {
        return Err(ErrorBody::invalid("A name may not contain control, zero-width or bidirectional characters."));
    }
    Ok(name.to_owned())
}
