//! Taking up sessions that have something to do and that nobody drives here: at the start, after a read that failed then, and when another
//! hub on the same store has left them (O2, R1).

use crate::error::HubError;
use crate::hub::Shared;
use baton_proto::{ErrorCode, SessionId, UserId};
use baton_store::StreamKind;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks for sessions that nobody drives.
const EVERY: Duration = Duration::from_secs(5);
/// The longest pause between two tries to read what can't be read.
const LONGEST: Duration = Duration::from_mins(1);
/// A start waits at most this long for sessions that can't be read; the rest is taken up behind its back.
const PATIENCE: Duration = Duration::from_secs(10);

/// Before something that couldn't be read is read again. Whoever asked for it waits so long, before being told in words.
pub(crate) const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(300), Duration::from_secs(1), Duration::from_secs(3)];

/// Reads again what couldn't be read, as long as that may help and for a while.
pub(crate) async fn patiently<T, F: Future<Output = Result<T, HubError>>>(mut read: impl FnMut() -> F) -> Result<T, HubError> {
    for pause in PAUSES {
        match read().await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "reading again what couldn't be read");
                tokio::time::sleep(pause).await;
            }
            done => return done,
        }
    }
    read().await
}

/// What a hub knows of its sessions that wait to be driven.
#[derive(Debug, Default)]
pub(crate) struct TakingUp {
    /// Written by a newer version, so that trying again is useless.
    unreadable: BTreeSet<(UserId, SessionId)>,
    /// Some sessions couldn't be read at the last look.
    behind: bool,
}

impl TakingUp {
    /// Starts the owners of all sessions that have something to do, one after the other.
    pub(crate) async fn start(shared: &Arc<Shared>) -> Result<Self, HubError> {
        let mut taking_up = Self::default();
        taking_up.look(shared, Some(Instant::now() + PATIENCE)).await?;
        Ok(taking_up)
    }

    async fn look(&mut self, shared: &Arc<Shared>, until: Option<Instant>) -> Result<(), HubError> {
        let active = patiently(|| {
            let store = Arc::clone(&shared.store);
            async move { Ok(store.active(StreamKind::Session).await?) }
        });
        let active = active.await?;
        self.behind = false;
        for head in active {
            let (user, id) = (head.user, SessionId(head.stream.id));
            // A newer hub drives it, and this one would be refused.
            let fenced = head.fence > shared.store.incarnation();
            if fenced || self.unreadable.contains(&(user, id)) || shared.is_loaded(user, id) {
                continue;
            }
            if self.behind && until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            // The state is awaited, so that its workspace is held before anybody else can be granted it.
            if let Err(error) = shared.take_up(user, id).await {
                tracing::error!(session = %id, %error, "this session can't be taken up");
                if error.code == ErrorCode::UnsupportedVersion {
                    self.unreadable.insert((user, id));
                } else {
                    self.behind = true;
                }
            }
        }
        Ok(())
    }

    /// Goes on looking for as long as the hub lives, where there is something to find.
    pub(crate) fn go_on(mut self, shared: &Arc<Shared>) {
        let may_be_shared = shared.store.may_be_shared();
        let shared = Arc::downgrade(shared);
        tokio::spawn(async move {
            let mut pause = EVERY;
            while self.behind || may_be_shared {
                tokio::time::sleep(pause).await;
                let Some(shared) = Weak::upgrade(&shared).filter(|shared| !shared.is_closing()) else { return };
                match self.look(&shared, None).await {
                    Ok(()) if !self.behind => pause = EVERY,
                    Ok(()) => pause = (pause * 2).min(LONGEST),
                    Err(error) if error.may_pass() => pause = (pause * 2).min(LONGEST),
                    Err(_) => return,
                }
            }
        });
    }
}
