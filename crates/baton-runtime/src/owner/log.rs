//! An owner's side of the log: reading it, writing it, and noticing what another hub has written to it.

use super::Owner;
use crate::error::HubError;
use crate::live::Signal;
use crate::reading::change_of;
use crate::take_up::PAUSES;
use baton_core::{Decided, Effect, STATE_FORMAT, Session, pending, summary};
use baton_proto::{
    Change, Changed, Digest, EntityView, ErrorBody, ErrorCode, Event, EventBody as _, OperationId, Reply, ReplyStatus, SessionEvent,
    SessionSummary,
};
use baton_store::{Append, EventRow, HeadWrite, OperationRow, StateCache, StoreError, StoredEvent, StreamId, StreamKind};
use std::sync::Arc;

/// Events between two caches of the state.
const CACHE_EVERY: u64 = 256;
/// Events that are read in one go when a state is folded.
const PAGE: u32 = 1000;

impl Owner {
    /// Reads the session. A read that may succeed later is tried for a while before the session is given up.
    pub(super) async fn load(&mut self) -> Result<(), HubError> {
        for pause in PAUSES {
            match self.try_load().await {
                Err(error) if error.may_pass() => {
                    tracing::warn!(session = %self.id, %error, "reading this session again");
                    tokio::time::sleep(pause).await;
                }
                done => return done,
            }
        }
        self.try_load().await
    }

    async fn try_load(&mut self) -> Result<(), HubError> {
        if let Some(cache) = self.shared.store.state(self.user, self.stream()).await?
            && cache.format == STATE_FORMAT
            && cache.seq > self.state.seq
            && let Ok(state) = serde_json::from_slice::<Session>(&cache.bytes)
            && state.seq == cache.seq
        {
            self.cached_at = state.seq;
            self.state = state;
        }
        while !self.read_on().await?.is_empty() {}
        Ok(())
    }

    /// Folds the next events of the log into the state, and returns them.
    async fn read_on(&mut self) -> Result<Vec<StoredEvent>, HubError> {
        let page = self.shared.store.read(self.user, self.stream(), self.state.seq, PAGE).await?;
        for stored in &page {
            self.state.apply(&Event::<SessionEvent>::decode(&stored.event)?);
        }
        Ok(page)
    }

    /// Takes in what another hub has added, if any did; whether there was something. An error is a newer hub's that has overtaken this
    /// one, or the store's.
    pub(super) async fn catch_up(&mut self) -> Result<bool, HubError> {
        if !self.shared.store.may_be_shared() {
            return Ok(false);
        }
        let Some(head) = self.shared.store.head(self.user, self.stream()).await?.filter(|head| head.seq > self.state.seq) else {
            return Ok(false);
        };
        let own = self.shared.store.incarnation();
        if head.fence > own {
            return Err(StoreError::Fenced { own, found: head.fence }.into());
        }
        self.reload().await?;
        Ok(true)
    }

    /// How much waits for the user is known without reading a list.
    pub(super) fn note_waiting(&self) {
        let waiting = self.state.open_approvals().count() + self.state.open_questions().count();
        self.shared.waiting.set(self.user, self.id, u32::try_from(waiting).unwrap_or(u32::MAX));
    }

    pub(super) fn stream(&self) -> StreamId {
        StreamId { kind: StreamKind::Session, id: self.id.0 }
    }

    pub(super) async fn append(
        &mut self,
        decided: Decided,
        rows: Vec<EventRow>,
        operation: Option<OperationRow>,
    ) -> Result<(), StoreError> {
        let Decided { events, upserts, next, .. } = decided;
        let line = summary(&next);
        let append = Append {
            stream: self.stream(),
            user: self.user,
            expected_seq: self.state.seq,
            fence: self.shared.store.incarnation(),
            rows,
            head: head(&next, &line),
            operation,
        };
        self.shared.store.append(append).await?;
        let first = self.state.seq + 1;
        self.state = next;
        self.note_waiting();
        for ((event, upserts), seq) in events.into_iter().zip(upserts).zip(first..) {
            if let SessionEvent::ModelFinished { usage, .. } = &event.body {
                self.shared.spending.add(self.user, event.at, *usage);
            }
            if matches!(
                event.body,
                SessionEvent::ModelFinished { .. }
                    | SessionEvent::ModelFailed { .. }
                    | SessionEvent::TurnStopRequested { .. }
                    | SessionEvent::ModelStarted { .. }
            ) {
                self.live.clear();
            }
            self.live.send(Signal::Change(Arc::new(Change { session_id: self.id, seq, event, upserts })));
        }
        if self.last_summary.as_ref().is_none_or(|last| differs(last, &line)) {
            self.shared.directory.notify(self.user, Changed::Sessions);
            self.last_summary = Some(line);
        }
        if self.state.seq >= self.cached_at + CACHE_EVERY {
            self.cache().await;
        }
        Ok(())
    }

    /// Another writer was first: its events come in, and what was decided is decided anew.
    pub(super) async fn reload(&mut self) -> Result<(), HubError> {
        tracing::warn!(session = %self.id, "another writer was first; deciding anew");
        self.overtaken = true;
        loop {
            let page = self.read_on().await?;
            if page.is_empty() {
                break;
            }
            self.live.clear();
            for stored in page {
                match change_of(self.id, &stored) {
                    Ok(change) => self.live.send(Signal::Change(Arc::new(change))),
                    Err(error) => tracing::error!(session = %self.id, %error, "a change can't be shown"),
                }
            }
        }
        self.note_waiting();
        self.shared.directory.notify(self.user, Changed::Sessions);
        self.last_summary = Some(summary(&self.state));
        Ok(())
    }

    /// Keeps the folded state, so that opening a long session doesn't read its whole log. Disposable: a failure only costs time.
    pub(super) async fn cache(&mut self) {
        if self.state.seq == self.cached_at {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&self.state) else { return };
        let cache = StateCache { seq: self.state.seq, format: STATE_FORMAT, bytes };
        match self.shared.store.put_state(self.user, self.stream(), cache).await {
            Ok(()) => self.cached_at = self.state.seq,
            Err(error) => tracing::debug!(session = %self.id, %error, "the state was not cached"),
        }
    }

    /// The store says that this owner can't go on.
    pub(super) fn report(&self, error: &StoreError) {
        tracing::error!(session = %self.id, %error, "this session can't be driven any more");
        if matches!(error, StoreError::Poisoned(_) | StoreError::Fenced { .. }) {
            self.shared.fail(error.to_string());
        }
    }
}

/// The head row that belongs to a state.
pub(crate) fn head(state: &Session, line: &SessionSummary) -> HeadWrite {
    HeadWrite {
        epoch: state.holder.epoch,
        active: state.open_turn().is_some(),
        wake_at: pending(state).iter().find_map(|effect| match effect {
            Effect::Wake { at } => Some(*at),
            _ => None,
        }),
        updated_at: state.updated_at,
        summary: serde_json::to_vec(line).unwrap_or_default(),
    }
}

/// Events as they are stored, each with the entities that it touched.
pub(crate) fn rows(decided: &Decided) -> Result<Vec<EventRow>, ErrorBody> {
    decided.events.iter().zip(&decided.upserts).map(|(event, upserts)| row(event, upserts)).collect()
}

pub(crate) fn row(event: &Event, upserts: &[EntityView]) -> Result<EventRow, ErrorBody> {
    let unwritable =
        |error: serde_json::Error| ErrorBody::new(ErrorCode::Internal, format!("An event can't be written: {error}."), "Report this.");
    Ok(EventRow {
        kind: event.body.name().to_owned(),
        event: serde_json::to_vec(event).map_err(unwritable)?,
        upserts: serde_json::to_vec(upserts).map_err(unwritable)?,
    })
}

/// The first outcome of an operation, or that its id is taken by another one.
pub(crate) fn repeated(row: &OperationRow, digest: &Digest, operation_id: OperationId) -> Reply {
    if row.digest != *digest {
        let error = ErrorBody::new(
            ErrorCode::OperationConflict,
            "This operation id was used for something else.",
            "Use a fresh id for each thing you ask for.",
        );
        return Reply::rejected(operation_id, None, error);
    }
    match serde_json::from_slice::<Reply>(&row.reply) {
        Ok(first) => Reply { status: ReplyStatus::Duplicate, ..first },
        Err(_) => {
            Reply::rejected(operation_id, None, ErrorBody::new(ErrorCode::Internal, "The first outcome can't be read.", "Report this."))
        }
    }
}

/// Whether a list of sessions would look different.
fn differs(a: &SessionSummary, b: &SessionSummary) -> bool {
    let shown = |summary: &SessionSummary| (summary.state, summary.activity, summary.progress, summary.waiting, summary.holder);
    let place = |summary: &SessionSummary| (summary.pinned, summary.archived);
    a.title != b.title || a.line != b.line || shown(a) != shown(b) || place(a) != place(b)
}
