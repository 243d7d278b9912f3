//! A user's sessions as a list, read from head rows (ux 27), and how much in them waits for the user.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::Hub;
use baton_proto::{ErrorBody, SessionFilter, SessionId, SessionList, SessionSummary, Timestamp, UserId};
use baton_store::{Head, StreamKind};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions of a page at most.
const MAX_PAGE: u32 = 200;
/// Head rows that are read in one go where some of them are left out.
const AT_ONCE: u32 = 500;
/// Head rows that one page is looked for in. A page that found fewer than it may have goes on at `next`.
const LOOKED_AT: usize = 10_000;

/// How many approvals and questions wait, by session. What waits has an open turn, and every session that has one is loaded when a hub starts,
/// so this is complete without reading the list.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    users: Mutex<BTreeMap<UserId, BTreeMap<SessionId, u32>>>,
}

impl Waiting {
    pub(crate) fn set(&self, user: UserId, session: SessionId, waiting: u32) {
        let mut users = self.users();
        if waiting > 0 {
            users.entry(user).or_default().insert(session, waiting);
        } else if let Some(sessions) = users.get_mut(&user) {
            sessions.remove(&session);
        }
    }

    fn total(&self, user: UserId) -> u32 {
        self.users().get(&user).map_or(0, |sessions| sessions.values().fold(0, |sum, waiting| sum.saturating_add(*waiting)))
    }

    fn sessions(&self, user: UserId) -> usize {
        self.users().get(&user).map_or(0, BTreeMap::len)
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<UserId, BTreeMap<SessionId, u32>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    /// A page of the user's sessions, newest first, without those that are archived.
    pub async fn sessions(&self, who: Identity, before: Option<&str>, limit: u32) -> Result<SessionList, ErrorBody> {
        self.sessions_that(who, SessionFilter::default(), before, limit).await
    }

    /// A page of those of the user's sessions that a filter lets through, newest first.
    pub async fn sessions_that(
        &self,
        who: Identity,
        filter: SessionFilter,
        before: Option<&str>,
        limit: u32,
    ) -> Result<SessionList, ErrorBody> {
        let limit = limit.clamp(1, MAX_PAGE) as usize;
        let mut before = before.map(cursor).transpose()?;
        let waiting = self.shared.waiting.sessions(who.user_id);
        let mut sessions: Vec<SessionSummary> = Vec::new();
        let mut looked_at = 0;
        let picky = filter != SessionFilter::default();
        let next = loop {
            let wanted = if picky || looked_at > 0 { AT_ONCE } else { u32::try_from(limit - sessions.len()).unwrap_or(MAX_PAGE) };
            let heads = self.shared.store.heads(who.user_id, StreamKind::Session, before, wanted).await;
            let heads = heads.map_err(|error| told(&HubError::Store(error)))?;
            for head in &heads {
                before = Some((head.updated_at, head.stream.id));
                looked_at += 1;
                sessions.extend(serde_json::from_slice(&head.summary).ok().filter(|summary| passes(filter, summary)));
                if sessions.len() == limit {
                    break;
                }
            }
            let rest = heads.len() == wanted as usize || heads.last().is_some_and(|last| Some(place(last)) != before);
            // Everything that waits is found, as a rule near the top.
            let found_all = filter.waiting && sessions.len() >= waiting;
            if !rest || found_all {
                break None;
            }
            if sessions.len() == limit || looked_at >= LOOKED_AT {
                break before.map(|(time, id)| format!("{}_{id}", time.0));
            }
        };
        Ok(SessionList { sessions, next, waiting_total: self.shared.waiting.total(who.user_id) })
    }
}

const fn passes(filter: SessionFilter, summary: &SessionSummary) -> bool {
    summary.archived == filter.archived && (!filter.waiting || summary.waiting > 0) && (!filter.pinned || summary.pinned)
}

const fn place(head: &Head) -> (Timestamp, uuid::Uuid) {
    (head.updated_at, head.stream.id)
}

fn cursor(text: &str) -> Result<(Timestamp, uuid::Uuid), ErrorBody> {
    let parsed = text.split_once('_').and_then(|(time, id)| Some((Timestamp(time.parse().ok()?), id.parse().ok()?)));
    parsed.ok_or_else(|| ErrorBody::invalid("The page's `before` isn't one that a list gave as `next`."))
}
