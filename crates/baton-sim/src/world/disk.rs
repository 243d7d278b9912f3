//! A disk that outlives the hubs that open it, and the store on it. It keeps the contract of [`baton_store::Store`]; what goes wrong
//! with it is decided by whoever watches.

use async_trait::async_trait;
use baton_proto::{Digest, OperationId, Timestamp, UserId, searched_text};
use baton_store::{
    Append, Appended, FoundText, FoundTexts, Head, OperationRow, StateCache, Store, StoreError, StoredEvent, StreamId, StreamKind, holds,
    limits,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use uuid::Uuid;

/// Who watches a disk may delay a call, fail it, or never let it return, as when the hub that made it has died.
#[async_trait]
pub trait Watch: Send + Sync + Debug + 'static {
    async fn before(&self, incarnation: u64, writes: bool) -> Result<Duration, StoreError>;
    async fn after(&self, incarnation: u64, writes: bool);
    /// Whether the disk fails to sync at this commit, and if so, whether what was written got there all the same.
    fn sync_fails(&self, incarnation: u64) -> Option<bool>;
    /// Whether another hub may open the same disk.
    fn may_be_shared(&self) -> bool;
    /// Something of this stream became durable.
    fn committed(&self, user: UserId, stream: StreamId);
    /// A state was cached.
    fn cached(&self, stream: StreamId, state: &StateCache);
}

/// What is durable, and what is on its way there.
#[derive(Debug, Default)]
pub struct Disk {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    contents: Contents,
    openings: u64,
    tickets: u64,
    /// Handed over and not yet synced, in order. A crash keeps the first so many of them.
    queue: VecDeque<(u64, u64, Write)>,
    results: BTreeMap<u64, Result<u64, StoreError>>,
    /// What a drive that lies about syncing would go back to.
    unsynced: Option<Contents>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    streams: BTreeMap<(UserId, StreamId), Stream>,
    operations: BTreeMap<(UserId, OperationId), OperationRow>,
    blobs: BTreeMap<(UserId, Digest), Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Stream {
    made: usize,
    head: Head,
    events: Vec<StoredEvent>,
    state: Option<StateCache>,
}

#[derive(Clone, Debug)]
enum Write {
    Append(Append),
    Remember(UserId, OperationRow),
    State(UserId, StreamId, StateCache),
    Blob(UserId, Digest, Vec<u8>),
}

impl Disk {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Opens the store on this disk anew; its incarnation is larger than each before.
    pub fn open(self: &Arc<Self>, watch: Option<Arc<dyn Watch>>) -> Arc<DiskStore> {
        let mut inner = self.inner();
        inner.openings += 1;
        Arc::new(DiskStore { disk: Arc::clone(self), incarnation: inner.openings, watch, end: Mutex::default() })
    }

    /// The hub of that incarnation dies: of what it had handed over, the first `kept` writes got to the disk, the rest is torn and
    /// counts for nothing. Returns the streams that changed by it.
    pub fn crash(&self, incarnation: u64, kept: usize) -> Vec<(UserId, StreamId)> {
        let mut inner = self.inner();
        let inner = &mut *inner;
        let mut touched = Vec::new();
        let mut left = kept;
        for (ticket, of, write) in std::mem::take(&mut inner.queue) {
            if of != incarnation {
                inner.queue.push_back((ticket, of, write));
            } else if left > 0 {
                left -= 1;
                let stream = write.stream();
                if inner.contents.perform(write).is_ok() {
                    touched.extend(stream);
                }
            }
        }
        if let Some(before) = inner.unsynced.take() {
            inner.contents = before;
        }
        touched
    }

    pub fn in_flight(&self, incarnation: u64) -> usize {
        self.inner().queue.iter().filter(|(_, of, _)| *of == incarnation).count()
    }

    /// From here on until [`Disk::synced`], a crash takes back what was written: a drive that says that it synced and didn't.
    pub fn lies(&self) {
        let mut inner = self.inner();
        if inner.unsynced.is_none() {
            inner.unsynced = Some(inner.contents.clone());
        }
    }

    pub fn synced(&self) {
        self.inner().unsynced = None;
    }

    pub fn head(&self, user: UserId, stream: StreamId) -> Option<Head> {
        self.inner().contents.streams.get(&(user, stream)).map(|stream| stream.head.clone())
    }

    pub fn events(&self, user: UserId, stream: StreamId, after: u64) -> Vec<StoredEvent> {
        let inner = self.inner();
        let from = usize::try_from(after).unwrap_or(usize::MAX);
        inner.contents.streams.get(&(user, stream)).and_then(|stream| stream.events.get(from..)).unwrap_or_default().to_vec()
    }

    pub fn operation(&self, user: UserId, id: OperationId) -> Option<OperationRow> {
        self.inner().contents.operations.get(&(user, id)).cloned()
    }

    pub fn sessions(&self) -> Vec<(UserId, StreamId)> {
        self.inner().contents.streams.keys().filter(|(_, stream)| stream.kind == StreamKind::Session).copied().collect()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write {
    const fn stream(&self) -> Option<(UserId, StreamId)> {
        match self {
            Self::Append(append) => Some((append.user, append.stream)),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        let at_most = |what: &'static str, size: usize, limit: usize| {
            if size > limit { Err(StoreError::TooLarge { what, size: size as u64, limit: limit as u64 }) } else { Ok(()) }
        };
        match self {
            Self::Append(append) => {
                at_most("the number of events in one append", append.rows.len(), limits::APPEND_ROWS)?;
                for row in &append.rows {
                    at_most("an event", row.event.len(), limits::EVENT_BYTES)?;
                    at_most("the views of an event", row.upserts.len(), limits::UPSERTS_BYTES)?;
                }
                at_most("the summary of a stream", append.head.summary.len(), limits::SUMMARY_BYTES)
            }
            Self::Remember(_, operation) => at_most("a reply", operation.reply.len(), limits::REPLY_BYTES),
            Self::State(_, _, state) => at_most("a cached state", state.bytes.len(), limits::STATE_BYTES),
            Self::Blob(_, _, bytes) => at_most("a blob", bytes.len(), limits::BLOB_BYTES),
        }
    }
}

impl Contents {
    /// Does one write, or changes nothing.
    fn perform(&mut self, write: Write) -> Result<u64, StoreError> {
        match write {
            Write::Append(append) => self.append(append),
            Write::Remember(user, operation) => {
                self.known(user, &operation)?;
                self.operations.insert((user, operation.operation_id), operation);
                Ok(0)
            }
            Write::State(user, id, state) => match self.streams.get_mut(&(user, id)) {
                Some(stream) if state.seq <= stream.head.seq => {
                    stream.state = Some(state);
                    Ok(0)
                }
                behind => Err(StoreError::Conflict { expected: state.seq, found: behind.map_or(0, |stream| stream.head.seq) }),
            },
            Write::Blob(user, digest, bytes) => {
                self.blobs.insert((user, digest), bytes);
                Ok(0)
            }
        }
    }

    fn known(&self, user: UserId, operation: &OperationRow) -> Result<(), StoreError> {
        self.operations.get(&(user, operation.operation_id)).map_or(Ok(()), |row| Err(StoreError::OperationExists(row.clone())))
    }

    fn append(&mut self, append: Append) -> Result<u64, StoreError> {
        if let Some(operation) = &append.operation {
            self.known(append.user, operation)?;
        }
        let made = self.streams.len();
        let present = self.streams.get_mut(&(append.user, append.stream));
        let found = present.as_ref().map_or(0, |stream| stream.head.seq);
        if let Some(stream) = &present
            && stream.head.fence > append.fence
        {
            return Err(StoreError::Fenced { own: append.fence, found: stream.head.fence });
        }
        if found != append.expected_seq {
            return Err(StoreError::Conflict { expected: append.expected_seq, found });
        }
        let seq = found + append.rows.len() as u64;
        let head = Head {
            stream: append.stream,
            user: append.user,
            seq,
            epoch: append.head.epoch,
            fence: append.fence,
            active: append.head.active,
            wake_at: append.head.wake_at,
            updated_at: append.head.updated_at,
            summary: append.head.summary,
        };
        let rows = append.rows.into_iter().zip(found + 1..).map(|(row, seq)| StoredEvent {
            seq,
            kind: row.kind,
            event: row.event,
            upserts: row.upserts,
        });
        if let Some(stream) = present {
            stream.head = head;
            stream.events.extend(rows);
        } else {
            let stream = Stream { made, head, events: rows.collect(), state: None };
            self.streams.insert((append.user, append.stream), stream);
        }
        if let Some(operation) = append.operation {
            self.operations.insert((append.user, operation.operation_id), operation);
        }
        Ok(seq)
    }

    fn heads(&self, wanted: impl Fn(&Head) -> bool) -> Vec<Head> {
        let mut found: Vec<_> = self.streams.values().filter(|stream| wanted(&stream.head)).collect();
        found.sort_by_key(|stream| stream.made);
        found.into_iter().map(|stream| stream.head.clone()).collect()
    }
}

/// One opening of a disk.
#[derive(Debug)]
pub struct DiskStore {
    disk: Arc<Disk>,
    incarnation: u64,
    watch: Option<Arc<dyn Watch>>,
    end: Mutex<Option<StoreError>>,
}

impl DiskStore {
    fn alive(&self) -> Result<(), StoreError> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }

    fn ended(&self, error: StoreError) -> StoreError {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error).clone()
    }

    async fn write(&self, write: Write) -> Result<u64, StoreError> {
        self.alive()?;
        write.check()?;
        let Some(watch) = &self.watch else { return self.disk.inner().contents.perform(write) };
        let delay = watch.before(self.incarnation, true).await?;
        let cached = match &write {
            Write::State(_, id, state) => Some((*id, state.clone())),
            _ => None,
        };
        let ticket = {
            let mut inner = self.disk.inner();
            inner.tickets += 1;
            let ticket = inner.tickets;
            inner.queue.push_back((ticket, self.incarnation, write));
            ticket
        };
        tokio::time::sleep(delay).await;
        // Others of the same group are synced with it.
        let (result, synced) = self.sync(ticket, watch.as_ref());
        for (user, id) in synced {
            watch.committed(user, id);
        }
        if let (Some((id, state)), Ok(_)) = (cached, &result) {
            watch.cached(id, &state);
        }
        watch.after(self.incarnation, true).await;
        result
    }

    /// Makes everything durable that was handed over up to this ticket.
    fn sync(&self, ticket: u64, watch: &dyn Watch) -> (Result<u64, StoreError>, Vec<(UserId, StreamId)>) {
        let mut inner = self.disk.inner();
        let inner = &mut *inner;
        let mut synced = Vec::new();
        if let Err(error) = self.alive() {
            inner.queue.retain(|(_, of, _)| *of != self.incarnation);
            return (Err(error), synced);
        }
        while inner.queue.front().is_some_and(|(at, ..)| *at <= ticket) {
            let Some((at, of, write)) = inner.queue.pop_front() else { break };
            let fails = if of == self.incarnation { watch.sync_fails(of) } else { None };
            let stream = write.stream();
            let result = match fails {
                None => inner.contents.perform(write),
                Some(kept) => {
                    if kept && inner.contents.perform(write).is_ok() {
                        synced.extend(stream);
                    }
                    Err(self.ended(StoreError::Poisoned("a simulated sync failed".to_owned())))
                }
            };
            if result.is_ok() {
                synced.extend(stream);
            }
            inner.results.insert(at, result);
        }
        let result = inner.results.remove(&ticket).unwrap_or(Err(StoreError::Io("the write was lost with its hub".to_owned())));
        (result, synced)
    }

    async fn look<T>(&self, read: impl FnOnce(&Contents) -> T + Send) -> Result<T, StoreError> {
        self.alive()?;
        if let Some(watch) = &self.watch {
            let delay = watch.before(self.incarnation, false).await?;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
        self.alive()?;
        let found = read(&self.disk.inner().contents);
        if let Some(watch) = &self.watch {
            watch.after(self.incarnation, false).await;
        }
        Ok(found)
    }
}

#[async_trait]
impl Store for DiskStore {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn may_be_shared(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.may_be_shared())
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        self.write(Write::Append(append)).await.map(|seq| Appended { seq })
    }

    async fn remember(&self, user: UserId, operation: OperationRow) -> Result<(), StoreError> {
        self.write(Write::Remember(user, operation)).await.map(|_| ())
    }

    async fn operation(&self, user: UserId, id: OperationId) -> Result<Option<OperationRow>, StoreError> {
        self.look(|contents| contents.operations.get(&(user, id)).cloned()).await
    }

    async fn head(&self, user: UserId, stream: StreamId) -> Result<Option<Head>, StoreError> {
        self.look(|contents| contents.streams.get(&(user, stream)).map(|stream| stream.head.clone())).await
    }

    async fn heads(&self, user: UserId, kind: StreamKind, before: Option<(Timestamp, Uuid)>, limit: u32) -> Result<Vec<Head>, StoreError> {
        self.look(|contents| {
            let mut heads = contents.heads(|head| head.user == user && head.stream.kind == kind);
            heads.sort_by_key(|head| std::cmp::Reverse((head.updated_at, head.stream.id)));
            heads.retain(|head| before.is_none_or(|before| (head.updated_at, head.stream.id) < before));
            heads.truncate(limit as usize);
            heads
        })
        .await
    }

    async fn active(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.look(|contents| contents.heads(|head| head.stream.kind == kind && (head.active || head.wake_at.is_some()))).await
    }

    async fn all(&self, kind: StreamKind) -> Result<Vec<Head>, StoreError> {
        self.look(|contents| contents.heads(|head| head.stream.kind == kind)).await
    }

    async fn read(&self, user: UserId, stream: StreamId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(|contents| {
            let from = usize::try_from(after).unwrap_or(usize::MAX);
            let events = contents.streams.get(&(user, stream)).and_then(|stream| stream.events.get(from..)).unwrap_or_default();
            events.iter().take(limit as usize).cloned().collect()
        })
        .await
    }

    async fn read_back(
        &self,
        user: UserId,
        stream: StreamId,
        before: u64,
        kinds: &[&str],
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.look(|contents| {
            let events = contents.streams.get(&(user, stream)).map(|stream| stream.events.as_slice()).unwrap_or_default();
            let wanted = |event: &&StoredEvent| event.seq < before && kinds.contains(&event.kind.as_str());
            events.iter().rev().filter(wanted).take(limit as usize).cloned().collect()
        })
        .await
    }

    /// Without an index, and in the order in which sessions are listed.
    async fn search(&self, user: UserId, words: &str, limit: u32) -> Result<FoundTexts, StoreError> {
        self.look(|contents| {
            let mut streams: Vec<_> = contents.streams.iter().filter(|((owner, _), _)| *owner == user).collect();
            streams.sort_by_key(|((_, id), stream)| std::cmp::Reverse((stream.head.updated_at, id.id)));
            let found = streams.into_iter().flat_map(|((_, id), stream)| {
                let holds = |event: &&StoredEvent| searched_text(&event.kind, &event.event).is_some_and(|text| holds(&text, words));
                stream.events.iter().rev().filter(holds).map(|event| FoundText {
                    stream: *id,
                    seq: event.seq,
                    kind: event.kind.clone(),
                    event: event.event.clone(),
                    summary: stream.head.summary.clone(),
                })
            });
            FoundTexts { texts: found.take(limit as usize).collect(), incomplete: false }
        })
        .await
    }

    async fn state(&self, user: UserId, stream: StreamId) -> Result<Option<StateCache>, StoreError> {
        self.look(|contents| contents.streams.get(&(user, stream)).and_then(|stream| stream.state.clone())).await
    }

    async fn put_state(&self, user: UserId, stream: StreamId, state: StateCache) -> Result<(), StoreError> {
        self.write(Write::State(user, stream, state)).await.map(|_| ())
    }

    async fn put_blob(&self, user: UserId, bytes: Vec<u8>) -> Result<Digest, StoreError> {
        let digest = Digest::of_bytes(&bytes);
        self.write(Write::Blob(user, digest.clone(), bytes)).await.map(|_| digest)
    }

    async fn blob(&self, user: UserId, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.look(|contents| contents.blobs.get(&(user, digest.clone())).cloned()).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.ended(StoreError::Closed);
        Ok(())
    }
}
