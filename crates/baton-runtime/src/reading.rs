//! What ends read: lists from head rows, views from the state and the latest of the timeline, pages of history (H2, H3, H4, D4).

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::{Hub, Shared};
use baton_core::entities;
use baton_core::snapshot::snapshot;
use baton_proto::{
    Brief, Change, EntityView, ErrorBody, ErrorCode, Event, History, SessionEvent, SessionId, SessionList, SessionSummary, SessionView,
    Snapshot, Timestamp, UserId,
};
use baton_store::{StoredEvent, StreamId, StreamKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Timeline entries of a view.
const VIEW_ENTRIES: usize = 60;
/// Timeline entries of a page of history, at most.
const MAX_PAGE: usize = 100;
/// Event types that bring timeline entries, for reading them back.
const TIMELINE: [&str; 18] = [
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
    "approval_voided",
    "question_asked",
    "question_answered",
];

impl Shared {
    /// The view of a session at its present sequence number.
    pub(crate) async fn view(self: &Arc<Self>, user: UserId, session: SessionId) -> Result<SessionView, ErrorBody> {
        let state = self.state(user, session).await?;
        let mut entities = entities(&state);
        let (timeline, before) = self.timeline(user, session, state.seq + 1, VIEW_ENTRIES).await?;
        let known: BTreeSet<_> = entities.iter().map(|entity| (entity.kind(), entity.id())).collect();
        entities.extend(timeline.into_iter().filter(|entry| !known.contains(&(entry.kind(), entry.id()))));
        Ok(SessionView { session_id: session, seq: state.seq, entities, history_before: before })
    }

    /// The newest version of at most `limit` timeline entries that were touched before `before`, oldest first, and where to go on.
    async fn timeline(
        &self,
        user: UserId,
        session: SessionId,
        before: u64,
        limit: usize,
    ) -> Result<(Vec<EntityView>, Option<u64>), ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: session.0 };
        let mut entries: Vec<EntityView> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut cursor = before;
        loop {
            let page = self.store.read_back(user, stream, cursor, &TIMELINE, 200).await.map_err(|error| told(&HubError::Store(error)))?;
            let last = page.len() < 200;
            for stored in page {
                cursor = stored.seq;
                for entity in upserts_of(&stored)? {
                    let belongs =
                        matches!(entity, EntityView::Message(_) | EntityView::Call(_) | EntityView::Approval(_) | EntityView::Question(_));
                    if belongs && seen.insert((entity.kind(), entity.id())) {
                        entries.push(entity);
                    }
                }
                if entries.len() >= limit {
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
    /// A page of the user's sessions, newest first, read from head rows.
    pub async fn sessions(&self, who: Identity, before: Option<&str>, limit: u32) -> Result<SessionList, ErrorBody> {
        let before = before.map(cursor).transpose()?;
        let limit = limit.clamp(1, 200);
        let heads = self
            .shared
            .store
            .heads(who.user_id, StreamKind::Session, before, limit)
            .await
            .map_err(|error| told(&HubError::Store(error)))?;
        let next =
            (heads.len() == limit as usize).then(|| heads.last().map(|head| format!("{}_{}", head.updated_at.0, head.stream.id))).flatten();
        let sessions = heads.iter().filter_map(|head| serde_json::from_slice::<SessionSummary>(&head.summary).ok()).collect();
        Ok(SessionList { sessions, next })
    }

    pub async fn view(&self, who: Identity, session: SessionId) -> Result<SessionView, ErrorBody> {
        self.shared.view(who.user_id, session).await
    }

    /// Older timeline entries, before the sequence number `before`.
    pub async fn history(&self, who: Identity, session: SessionId, before: Option<u64>, limit: usize) -> Result<History, ErrorBody> {
        self.shared.session(who.user_id, session).await?;
        let (entries, before) = self.shared.timeline(who.user_id, session, before.unwrap_or(u64::MAX), limit.clamp(1, MAX_PAGE)).await?;
        Ok(History { entries, before })
    }

    /// Changes after `after`, at most `limit`, and the last sequence number there is.
    pub async fn changes(&self, who: Identity, session: SessionId, after: u64, limit: u32) -> Result<(Vec<Change>, u64), ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: session.0 };
        let failed = |error| told(&HubError::Store(error));
        let head = self.shared.store.head(who.user_id, stream).await.map_err(failed)?.ok_or_else(|| ErrorBody::not_found("session"))?;
        let stored = self.shared.store.read(who.user_id, stream, after, limit.clamp(1, 1000)).await.map_err(failed)?;
        let changes = stored.iter().map(|stored| change_of(session, stored)).collect::<Result<_, _>>()?;
        Ok((changes, head.seq))
    }

    pub async fn snapshot(&self, who: Identity, session: SessionId) -> Result<Snapshot, ErrorBody> {
        let state = self.shared.state(who.user_id, session).await?;
        let (timeline, _) = self.shared.timeline(who.user_id, session, state.seq + 1, VIEW_ENTRIES).await?;
        let holder = state.holder.device.and_then(|device_id| self.device(Identity { user_id: who.user_id, device_id }));
        let capabilities = holder.map(|record| record.capabilities).unwrap_or_default();
        Ok(snapshot(&state, &timeline, capabilities, self.shared.clock.now()))
    }

    pub async fn brief(&self, who: Identity, session: SessionId) -> Result<Brief, ErrorBody> {
        Ok(baton_core::brief::brief(&*self.shared.state(who.user_id, session).await?))
    }
}

fn cursor(text: &str) -> Result<(Timestamp, uuid::Uuid), ErrorBody> {
    let parsed = text.split_once('_').and_then(|(time, id)| Some((Timestamp(time.parse().ok()?), id.parse().ok()?)));
    parsed.ok_or_else(|| ErrorBody::invalid("The page's `before` isn't one that a list gave as `next`."))
}
