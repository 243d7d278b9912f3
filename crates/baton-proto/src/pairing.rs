//! How a new device gets in (S4): by a code or a link, and never without a number that was compared on two screens.

use crate::{Capabilities, ClientType, DeviceId, Digest, InvitationId, PairingId, Timestamp, Trust, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /v1/pairings`: a new device asks to be paired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairingRequest {
    pub name: String,
    pub client_type: ClientType,
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// The hub's answer to it. `secret` is for the new device alone; `code` is read to the approving one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairingStarted {
    pub pairing_id: PairingId,
    /// Eight characters of an alphabet without look-alikes, shown as `ABCD-EFGH`.
    pub code: String,
    pub secret: String,
    /// Shown on both screens, for a person to compare: [`pairing_number`].
    #[serde(default)]
    pub number: String,
    pub expires_at: Timestamp,
}

/// `GET /v1/pairings/{code}` by a trusted device: what asks, shown before it is approved (S4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairingPreview {
    pub name: String,
    pub client_type: ClientType,
    pub code: String,
    /// The new device has to show the same.
    #[serde(default)]
    pub number: String,
    /// The address it asks from, as far as the hub can see.
    #[serde(default)]
    pub from: String,
    pub expires_at: Timestamp,
}

/// `POST /v1/pairings/{code}/approve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairingApproval {
    pub trust: Trust,
    /// The number that the new device shows: whoever approves has looked at it.
    pub number: String,
}

/// `POST /v1/pairings/{pairing_id}/claim` with the secret: what became of the request. The token is in it once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PairingState {
    Waiting { expires_at: Timestamp },
    Approved(Credentials),
}

/// `POST /v1/pairings/{pairing_id}/claim`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairingClaim {
    pub secret: String,
    /// Set the token as a cookie and leave it out of the body (browsers).
    #[serde(default)]
    pub cookie: bool,
}

/// What a newly paired device is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Credentials {
    pub device_id: DeviceId,
    pub user_id: UserId,
    pub name: String,
    pub trust: Trust,
    /// Shown once. Empty for a browser, which gets it as a cookie that its scripts can't read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

/// `POST /v1/invitations`: a trusted device makes a one-time link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvitationRequest {
    pub trust: Trust,
}

/// The link's secret, shown once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Invitation {
    pub invitation_id: InvitationId,
    pub secret: String,
    pub url: String,
    pub expires_at: Timestamp,
}

/// `POST /v1/invitations/claim`: whoever opened the link names itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvitationClaim {
    pub secret: String,
    pub name: String,
    pub client_type: ClientType,
    #[serde(default)]
    pub capabilities: Capabilities,
    #[serde(default)]
    pub cookie: bool,
}

/// The answer to it. Only a link that the hub's own machine made lets in at once; any other one asks the device that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum InvitationState {
    /// Shows `number`, and asks `POST /v1/pairings/{pairing_id}/claim` with `secret` what became of it.
    Asking {
        pairing_id: PairingId,
        secret: String,
        number: String,
        expires_at: Timestamp,
    },
    Approved(Credentials),
}

/// `GET /v1/invitations`: a link that the asking device made, until it expires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvitationView {
    pub invitation_id: InvitationId,
    pub trust: Trust,
    pub expires_at: Timestamp,
    pub standing: InvitationStanding,
    /// Whoever opened the link first; nobody else can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
    /// How often the link was tried after it was taken. Somebody else knows it.
    #[serde(default)]
    pub others: u32,
}

/// How far a link has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvitationStanding {
    /// Nobody has opened it.
    Open,
    /// A device asks to be let in: `asking`.
    Asking,
    /// That device was let in.
    Approved,
    /// It was refused, or too many wrong numbers were given.
    Refused,
}

/// What asks to be let in by a link, shown to the device that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asking {
    pub name: String,
    pub client_type: ClientType,
    /// The address it asks from, as far as the hub can see.
    pub from: String,
    /// The new device has to show the same.
    pub number: String,
}

/// `POST /v1/invitations/{id}/approve`, by the device that made the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InvitationApproval {
    /// The number that the new device shows: whoever approves has looked at it.
    pub number: String,
}

/// The number that both screens show: three digits that follow from what only the hub and the new device know. Nobody chooses it.
pub fn pairing_number(id: PairingId, secret: &str) -> String {
    let digest = Digest::of_bytes(format!("{id}:{secret}").as_bytes());
    let leading = digest.0.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    format!("{:03}", leading % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_the_number_follows_from_id_and_secret_and_has_three_digits() {
        let id: PairingId = "0199d2a4-6f00-7a00-8000-000000000001".parse().unwrap();
        let other: PairingId = "0199d2a4-6f00-7a00-8000-000000000002".parse().unwrap();
        assert_eq!(pairing_number(id, "secret"), pairing_number(id, "secret"));
        let numbers: std::collections::BTreeSet<_> = (0..1000).map(|n| pairing_number(id, &n.to_string())).collect();
        assert!(numbers.len() > 500 && numbers.iter().all(|number| number.len() == 3 && number.parse::<u16>().is_ok()));
        assert_ne!(pairing_number(id, "secret"), pairing_number(other, "secret"));
    }
}
