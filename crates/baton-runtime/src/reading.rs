//! What ends read: lists from head rows, views from the state and the latest of the timeline, pages of history (H2, H3, H4, D4).

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::fit::{ROOM, fit_open, shorten, size};
use crate::hub::{Hub, Shared};
use baton_core::entities;
use baton_core::snapshot::snapshot;
use baton_proto::{
    Brief, Change, EntityView, ErrorBody, ErrorCode, Event, History, SessionEvent, SessionId, SessionView, Snapshot, UserId,
};
use baton_store::{StoredEvent, StreamId, StreamKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Timeline entries of a view.
const VIEW_ENTRIES: usize = 60;
/// Bytes of a view's latest entries that are shown whole; of what is settled before them, long texts are shortened.
const WHOLE_BYTES: usize = 96 * 1024;
/// Timeline entries of a page of history, at most.
const MAX_PAGE: usize = 100;
/// Bytes of a page of history, unless a single event brought more.
const PAGE_BYTES: usize = 256 * 1024;
/// Bytes of a page of changes, unless a single one has more.
const CHANGES_BYTES: usize = 4 * 1024 * 1024;
/// Stored events that are read in one go; the largest are some hundred KiB.
const READ_AT_ONCE: u32 = 64;
/// Event types that bring timeline entries, for reading them back.
const TIMELINE: [&str; 21] = [
    "message_added",
    "model_finished",
    "tool_proposed",
    "tool_prepared",
    "tool_planned",
    "tool_started",
    "tool_attempt_failed",
    "tool_unknown",
    "tool_reconciled",
    "tool_succeeded",
    "tool_failed",
    "tool_cancel_requested",
    "tool_cancelled",
    "approval_requested",
    "approval_decided",
    "approval_expired",
    "approval_voided",
    "question_asked",
    "question_answered",
    "question_voided",
    "workspace_seen",
];

/// How much of a timeline is asked for.
#[derive(Clone, Copy, Debug)]
struct Extent {
    entries: usize,
    bytes: usize,
    /// Entries beyond so many bytes are shortened.
    whole: usize,
    /// Whether one event's entries are given even if they are more than that.
    at_least_one: bool,
}

impl Shared {
    /// The view of a session at its present sequence number.
    pub(crate) async fn view(self: &Arc<Self>, user: UserId, session: SessionId) -> Result<SessionView, ErrorBody> {
        let state = self.state(user, session).await?;
        let mut entities = fit_open(entities(&state));
        let known = entities.iter().map(|entity| (entity.kind(), entity.id())).collect();
        let left = ROOM.saturating_sub(entities.iter().map(|entity| size(entity) + 1).sum());
        let extent = Extent { entries: VIEW_ENTRIES, bytes: left, whole: WHOLE_BYTES.min(left / 2), at_least_one: false };
        let (timeline, before) = self.timeline(user, session, state.seq + 1, extent, known).await?;
        entities.extend(timeline);
        Ok(SessionView { session_id: session, seq: state.seq, entities, history_before: before })
    }

    /// The newest version of timeline entries that were touched before `before`, oldest first, and where to go on. Those in `seen` are
    /// left out.
    async fn timeline(
        &self,
        user: UserId,
        session: SessionId,
        before: u64,
        extent: Extent,
        mut seen: BTreeSet<(&'static str, String)>,
    ) -> Result<(Vec<EntityView>, Option<u64>), ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: session.0 };
        let mut entries: Vec<EntityView> = Vec::new();
        let mut bytes = 0;
        let mut cursor = before;
        loop {
            let page =
                self.store.read_back(user, stream, cursor, &TIMELINE, READ_AT_ONCE).await.map_err(|error| told(&HubError::Store(error)))?;
            let last = page.len() < READ_AT_ONCE as usize;
            for stored in page {
                let mut brought: Vec<_> = upserts_of(&stored)?.into_iter().filter(belongs).collect();
                brought.retain(|entity| !seen.contains(&(entity.kind(), entity.id())));
                let all = brought.iter().map(|entity| size(entity) + 1).sum::<usize>();
                if bytes + all > extent.whole {
                    brought.iter_mut().for_each(shorten);
                }
                let all = brought.iter().map(|entity| size(entity) + 1).sum::<usize>();
                let excused = extent.at_least_one && entries.is_empty();
                if bytes + all > extent.bytes && !excused {
                    entries.sort_by_key(created);
                    return Ok((entries, Some(stored.seq + 1)));
                }
                bytes += all;
                cursor = stored.seq;
                seen.extend(brought.iter().map(|entity| (entity.kind(), entity.id())));
                entries.extend(brought);
                if entries.len() >= extent.entries {
                    entries.sort_by_key(created);
                    return Ok((entries, (cursor > 1).then_some(cursor)));
                }
            }
            if last {
                entries.sort_by_key(created);
                return Ok((entries, None));
            }
        }
    }
}

const fn belongs(entity: &EntityView) -> bool {
    matches!(entity, EntityView::Message(_) | EntityView::Call(_) | EntityView::Approval(_) | EntityView::Question(_))
}

const fn created(entity: &EntityView) -> u64 {
    match entity {
        EntityView::Message(it) => it.created_seq,
        EntityView::Call(it) => it.created_seq,
        EntityView::Approval(it) => it.created_seq,
        EntityView::Question(it) => it.created_seq,
        other => other.version(),
    }
}

fn upserts_of(stored: &StoredEvent) -> Result<Vec<EntityView>, ErrorBody> {
    serde_json::from_slice(&stored.upserts).map_err(|error| unreadable(stored.seq, &error.to_string()))
}

/// A stored event as it is sent.
pub(crate) fn change_of(session_id: SessionId, stored: &StoredEvent) -> Result<Change, ErrorBody> {
    let event = Event::<SessionEvent>::decode(&stored.event).map_err(|error| unreadable(stored.seq, &error.to_string()))?;
    Ok(Change { session_id, seq: stored.seq, event, upserts: upserts_of(stored)? })
}

fn unreadable(seq: u64, why: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::UnsupportedVersion, format!("Event {seq} can't be read: {why}."), "Run the version of Baton that wrote it.")
}

impl Hub {
    pub async fn view(&self, who: Identity, session: SessionId) -> Result<SessionView, ErrorBody> {
        self.may_look(who)?;
        self.shared.view(who.user_id, session).await
    }

    /// Older timeline entries, before the sequence number `before`.
    pub async fn history(&self, who: Identity, session: SessionId, before: Option<u64>, limit: usize) -> Result<History, ErrorBody> {
        self.may_look(who)?;
        self.shared.session(who.user_id, session).await?;
        let extent = Extent { entries: limit.clamp(1, MAX_PAGE), bytes: PAGE_BYTES, whole: usize::MAX, at_least_one: true };
        let before = before.unwrap_or(u64::MAX);
        let (entries, before) = self.shared.timeline(who.user_id, session, before, extent, BTreeSet::new()).await?;
        Ok(History { entries, before })
    }

    /// Changes after `after`, at most `limit`, and the last sequence number there is. Long ones make a shorter page.
    pub async fn changes(&self, who: Identity, session: SessionId, after: u64, limit: u32) -> Result<(Vec<Change>, u64), ErrorBody> {
        self.may_look(who)?;
        let stream = StreamId { kind: StreamKind::Session, id: session.0 };
        let failed = |error| told(&HubError::Store(error));
        let head = self.shared.store.head(who.user_id, stream).await.map_err(failed)?.ok_or_else(|| ErrorBody::not_found("session"))?;
        let limit = limit.clamp(1, 1000) as usize;
        let mut changes: Vec<Change> = Vec::new();
        let mut bytes = 0;
        while changes.len() < limit && bytes < CHANGES_BYTES {
            let next = changes.last().map_or(after, |change| change.seq);
            let wanted = READ_AT_ONCE.min(u32::try_from(limit - changes.len()).unwrap_or(READ_AT_ONCE));
            let stored = self.shared.store.read(who.user_id, stream, next, wanted).await.map_err(failed)?;
            for stored in &stored {
                bytes += stored.event.len() + stored.upserts.len();
                if bytes < CHANGES_BYTES || changes.is_empty() {
                    changes.push(change_of(session, stored)?);
                }
            }
            if stored.len() < wanted as usize {
                break;
            }
        }
        Ok((changes, head.seq))
    }

    pub async fn snapshot(&self, who: Identity, session: SessionId) -> Result<Snapshot, ErrorBody> {
        self.may_look(who)?;
        let state = self.shared.state(who.user_id, session).await?;
        let extent = Extent { entries: VIEW_ENTRIES, bytes: ROOM, whole: WHOLE_BYTES, at_least_one: false };
        let (timeline, _) = self.shared.timeline(who.user_id, session, state.seq + 1, extent, BTreeSet::new()).await?;
        let holder = state.holder.device.and_then(|device_id| self.device(Identity { user_id: who.user_id, device_id }));
        let capabilities = holder.map(|record| record.capabilities).unwrap_or_default();
        Ok(snapshot(&state, &timeline, capabilities, self.shared.clock.now()))
    }

    pub async fn brief(&self, who: Identity, session: SessionId) -> Result<Brief, ErrorBody> {
        Ok(baton_core::brief::brief(&*self.shared.state(who.user_id, session).await?))
    }
}
