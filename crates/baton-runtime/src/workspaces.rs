//! Which session works in which workspace, and who waits for it (E6). It follows from the sessions' states, so nothing of it is stored.

use baton_proto::{Baseline, SessionId, UserId, Workspace, WorkspaceId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A workspace is its user's: a device of another user's that names the same id means another one (O3).
type Key = (UserId, WorkspaceId);

#[derive(Debug, Default)]
pub(crate) struct Workspaces {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    held: BTreeMap<Key, Holder>,
    waiting: BTreeMap<Key, VecDeque<Holder>>,
    /// As each was last seen, by whichever session.
    seen: BTreeMap<Key, Baseline>,
    /// Nothing is granted to those who wait before every session is loaded: one that is loaded later may hold it.
    granting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder {
    session: SessionId,
    title: String,
}

impl Workspaces {
    /// Takes a free workspace, or keeps one that is held already; otherwise names who has it. Taken before deciding, so that two
    /// sessions can't both find it free. Those who wait go first.
    pub(crate) fn claim(&self, user: UserId, workspace: WorkspaceId, session: SessionId, title: &str) -> Result<(), (SessionId, String)> {
        let mut table = self.table();
        let key = (user, workspace);
        let other = match table.held.get(&key) {
            Some(holder) if holder.session == session => return Ok(()),
            Some(holder) => Some(holder.clone()),
            // While sessions are being loaded, one that was at work goes on before one that waited for it.
            None if !table.granting => None,
            None => table.waiting.get(&key).and_then(|waiting| waiting.front()).filter(|first| first.session != session).cloned(),
        };
        if let Some(holder) = other {
            return Err((holder.session, holder.title));
        }
        table.leave(key, session);
        table.held.insert(key, Holder { session, title: title.to_owned() });
        Ok(())
    }

    pub(crate) fn holds(&self, user: UserId, workspace: WorkspaceId, session: SessionId) -> bool {
        self.table().held.get(&(user, workspace)).is_some_and(|holder| holder.session == session)
    }

    /// Stands in line; `true` when the workspace is granted at once.
    pub(crate) fn wait(&self, user: UserId, workspace: WorkspaceId, session: SessionId, title: &str) -> bool {
        let mut table = self.table();
        let key = (user, workspace);
        if table.held.get(&key).is_some_and(|holder| holder.session == session) {
            return true;
        }
        let waiting = table.waiting.entry(key).or_default();
        if !waiting.iter().any(|holder| holder.session == session) {
            waiting.push_back(Holder { session, title: title.to_owned() });
        }
        table.grant(key) == Some(session)
    }

    /// Gives the workspace up, or its place in the line; returns who has it next.
    pub(crate) fn release(&self, user: UserId, workspace: WorkspaceId, session: SessionId) -> Option<SessionId> {
        let mut table = self.table();
        let key = (user, workspace);
        table.leave(key, session);
        if table.held.get(&key).is_none_or(|holder| holder.session != session) {
            return None;
        }
        table.held.remove(&key);
        table.grant(key)
    }

    /// Every session is loaded: those who wait for what is free are granted it.
    pub(crate) fn open(&self) -> Vec<(UserId, SessionId)> {
        let mut table = self.table();
        table.granting = true;
        let keys: Vec<_> = table.waiting.keys().copied().collect();
        keys.into_iter().filter_map(|key| table.grant(key).map(|session| (key.0, session))).collect()
    }

    pub(crate) fn saw(&self, user: UserId, workspace: WorkspaceId, baseline: &Baseline) {
        self.table().seen.insert((user, workspace), baseline.clone());
    }

    pub(crate) fn last_seen(&self, user: UserId, workspace: WorkspaceId) -> Option<Baseline> {
        self.table().seen.get(&(user, workspace)).cloned()
    }

    /// Workspaces as their devices described them, each as it was last seen.
    pub(crate) fn bring_up_to_date(&self, user: UserId, workspaces: &mut [Workspace]) {
        let table = self.table();
        for workspace in workspaces {
            if let Some(seen) = table.seen.get(&(user, workspace.workspace_id)) {
                workspace.baseline.clone_from(seen);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn leave(&mut self, key: Key, session: SessionId) {
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.retain(|holder| holder.session != session);
            if waiting.is_empty() {
                self.waiting.remove(&key);
            }
        }
    }

    /// The first in line gets a free workspace.
    fn grant(&mut self, key: Key) -> Option<SessionId> {
        if !self.granting || self.held.contains_key(&key) {
            return None;
        }
        let next = self.waiting.get_mut(&key)?.pop_front()?;
        let session = next.session;
        self.leave(key, session);
        self.held.insert(key, next);
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_workspace_is_held_by_one_and_passed_on_in_order() {
        let (user, workspace) = (UserId(Uuid::from_u128(1)), WorkspaceId(Uuid::from_u128(2)));
        let session = |n| SessionId(Uuid::from_u128(n));
        let workspaces = Workspaces::default();
        assert_eq!(workspaces.open(), []);
        assert_eq!(workspaces.claim(user, workspace, session(1), "one"), Ok(()));
        assert_eq!(workspaces.claim(user, workspace, session(1), "one"), Ok(()), "it is its own already");
        assert_eq!(workspaces.claim(user, workspace, session(2), "two"), Err((session(1), "one".to_owned())));
        assert_eq!(workspaces.claim(UserId(Uuid::from_u128(9)), workspace, session(9), "nine"), Ok(()), "another user's is another one");
        assert!(!workspaces.wait(user, workspace, session(2), "two"));
        assert!(!workspaces.wait(user, workspace, session(3), "three"));
        assert!(!workspaces.wait(user, workspace, session(2), "two"), "standing in line twice is standing once");
        assert_eq!(workspaces.release(user, workspace, session(3)), None, "whoever leaves the line passes nothing on");
        assert!(!workspaces.wait(user, workspace, session(3), "three"));
        assert_eq!(workspaces.release(user, workspace, session(1)), Some(session(2)));
        assert_eq!(workspaces.claim(user, workspace, session(1), "one"), Err((session(2), "two".to_owned())));
        assert_eq!(workspaces.release(user, workspace, session(2)), Some(session(3)));
        assert_eq!(workspaces.release(user, workspace, session(3)), None);
        assert!(workspaces.wait(user, workspace, session(4), "four"), "what is free is granted at once");
    }

    #[test]
    fn nothing_is_granted_before_every_session_is_loaded() {
        let (user, workspace) = (UserId(Uuid::from_u128(1)), WorkspaceId(Uuid::from_u128(2)));
        let session = |n| SessionId(Uuid::from_u128(n));
        let workspaces = Workspaces::default();
        assert!(!workspaces.wait(user, workspace, session(2), "two"));
        assert_eq!(workspaces.claim(user, workspace, session(1), "one"), Ok(()), "it was at work before the restart");
        assert_eq!(workspaces.open(), []);
        assert_eq!(workspaces.release(user, workspace, session(1)), Some(session(2)));
    }
}
