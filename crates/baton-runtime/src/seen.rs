//! When each device was last heard (ux 8), kept in the head row of its user's stream, which is written over: a device that comes and goes
//! for years adds nothing to the log.

use baton_proto::{DeviceId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is heard is written this often at most, in milliseconds, unless a device leaves. A hub that is killed forgets no more than that.
const KEEP_EVERY_MS: i64 = 5 * 60 * 1000;

#[derive(Debug, Default)]
pub(crate) struct Seen {
    users: Mutex<BTreeMap<UserId, OfUser>>,
}

#[derive(Debug, Default)]
struct OfUser {
    at: BTreeMap<DeviceId, Timestamp>,
    kept_at: Option<Timestamp>,
}

/// The head row's summary of a user's stream.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    seen: BTreeMap<DeviceId, Timestamp>,
}

impl Seen {
    /// Takes in what was kept. A summary that can't be read costs only these times.
    pub(crate) fn load(&self, user: UserId, summary: &[u8]) {
        let kept: Kept = serde_json::from_slice(summary).unwrap_or_default();
        self.users().entry(user).or_default().at = kept.seen;
    }

    /// A sign of life; whether it is time to write down what was heard.
    pub(crate) fn hear(&self, user: UserId, device: DeviceId, now: Timestamp) -> bool {
        let mut users = self.users();
        let of_user = users.entry(user).or_default();
        let at = of_user.at.entry(device).or_insert(now);
        *at = now.max(*at);
        let due = of_user.kept_at.is_none_or(|kept| now.since(kept).abs() >= KEEP_EVERY_MS);
        if due {
            // Whoever hears the next sign of life needn't write again while this is being written.
            of_user.kept_at = Some(now);
        }
        due
    }

    pub(crate) fn last(&self, user: UserId, device: DeviceId) -> Option<Timestamp> {
        self.users().get(&user)?.at.get(&device).copied()
    }

    /// What the head row keeps, of the devices that are still known.
    pub(crate) fn summary(&self, user: UserId, known: impl Fn(&DeviceId) -> bool) -> Vec<u8> {
        let mut users = self.users();
        let of_user = users.entry(user).or_default();
        of_user.at.retain(|device, _| known(device));
        serde_json::to_vec(&Kept { seen: of_user.at.clone() }).unwrap_or_else(|_| b"{}".to_vec())
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<UserId, OfUser>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_heartbeat_is_not_a_write() {
        let (seen, user, device) = (Seen::default(), UserId(Uuid::now_v7()), DeviceId(Uuid::now_v7()));
        let hears = |seconds: i64| seen.hear(user, device, Timestamp(seconds * 1000));
        assert_eq!([0, 10, 20, 299, 300, 310].map(hears), [true, false, false, false, true, false]);
        assert_eq!(seen.last(user, device), Some(Timestamp(310_000)));
        assert!(!hears(100), "a clock that steps back a little is no reason to write");
        assert_eq!(seen.last(user, device), Some(Timestamp(310_000)), "nor does it make a device older");
    }

    #[test]
    fn what_was_kept_is_read_again_without_what_is_forgotten() {
        let (seen, user) = (Seen::default(), UserId(Uuid::now_v7()));
        let (stays, goes) = (DeviceId(Uuid::now_v7()), DeviceId(Uuid::now_v7()));
        seen.hear(user, stays, Timestamp(1000));
        seen.hear(user, goes, Timestamp(2000));
        let kept = seen.summary(user, |device| *device == stays);
        let again = Seen::default();
        again.load(user, &kept);
        assert_eq!((again.last(user, stays), again.last(user, goes)), (Some(Timestamp(1000)), None));
        again.load(user, b"not what was written");
        assert_eq!(again.last(user, stays), None);
    }
}
