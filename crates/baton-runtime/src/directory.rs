//! Users and their devices: who a token belongs to, who is connected, what each device offers (H9, O3).

use crate::clock::Clock;
use crate::error::{HubError, told};
use crate::link::{Connected, LinkFrame};
use crate::secret::hash;
use crate::seen::Seen;
use baton_core::user::{PairedDevice, User, UserCommand, unknown_invitation};
use baton_core::{ActingDevice, Ids, OfferedTool, Surroundings};
use baton_proto::{
    Changed, DeviceId, DeviceRecord, DeviceView, Digest, ErrorBody, ErrorCode, Event, HubFrame, Rule, Timestamp, Trust, UserEvent, UserId,
    Workspace,
};
use baton_store::{Append, EventRow, HeadWrite, Store, StoreError, StreamId, StreamKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::broadcast;

/// Events of a user's stream that are read in one go.
const PAGE: u32 = 500;

/// Whose token it was: a device, and the user it belongs to. Name, trust and type are looked up at each use, since they may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub user_id: UserId,
    pub device_id: DeviceId,
}

#[derive(Debug)]
pub(crate) struct Directory {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    seen: Seen,
    /// Serialises writes to users' streams; they are rare and short.
    writing: tokio::sync::Mutex<()>,
    notices: broadcast::Sender<(UserId, Changed)>,
}

#[derive(Debug, Default)]
struct Known {
    users: BTreeMap<UserId, Entry>,
    tokens: HashMap<Digest, Identity>,
    links: BTreeMap<DeviceId, Vec<Connected>>,
}

#[derive(Debug)]
struct Entry {
    user: User,
    around: Arc<Surroundings>,
}

impl Directory {
    /// Reads every user's stream. Users are few; sessions are read when they are needed.
    pub(crate) async fn load(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<Self, HubError> {
        let (mut known, seen) = (Known::default(), Seen::default());
        for head in store.all(StreamKind::User).await? {
            let user = read_on(&*store, User::empty(UserId(head.stream.id))).await?;
            seen.load(user.id, &head.summary);
            let _ = known.put(user);
        }
        Ok(Self { store, clock, known: RwLock::new(known), seen, writing: tokio::sync::Mutex::new(()), notices: broadcast::channel(256).0 })
    }

    pub(crate) fn notices(&self) -> broadcast::Receiver<(UserId, Changed)> {
        self.notices.subscribe()
    }

    /// Tells a user's ends that a list they may be showing is out of date.
    pub(crate) fn notify(&self, user: UserId, what: Changed) {
        // Nobody listening is no failure.
        let _ = self.notices.send((user, what));
    }

    pub(crate) fn users(&self) -> Vec<(UserId, String)> {
        let mut users: Vec<_> = self.read().users.values().map(|entry| (entry.user.id, entry.user.name.clone())).collect();
        users.sort();
        users
    }

    pub(crate) fn identify(&self, token: &str) -> Option<Identity> {
        self.read().tokens.get(&hash(token)).copied()
    }

    pub(crate) fn record(&self, who: Identity) -> Option<DeviceRecord> {
        let known = self.read();
        let device = known.users.get(&who.user_id)?.user.devices.get(&who.device_id)?;
        device.is_active().then(|| device.record.clone())
    }

    pub(crate) fn acting(&self, who: Identity) -> Option<ActingDevice> {
        self.around(who.user_id).devices.get(&who.device_id).cloned()
    }

    pub(crate) fn around(&self, user: UserId) -> Arc<Surroundings> {
        self.read().users.get(&user).map(|entry| Arc::clone(&entry.around)).unwrap_or_default()
    }

    pub(crate) fn workspaces(&self, user: UserId) -> Vec<Workspace> {
        self.around(user).workspaces.clone()
    }

    pub(crate) fn views(&self, who: Identity) -> Vec<DeviceView> {
        let known = self.read();
        let Some(entry) = known.users.get(&who.user_id) else { return Vec::new() };
        let mut views: Vec<_> = entry
            .user
            .devices
            .values()
            .filter(|device| device.is_active())
            .map(|device| known.view(&device.record, who.device_id, self.seen.last(who.user_id, device.record.device_id)))
            .collect();
        views.sort_by_key(|view| view.paired_at);
        views
    }

    pub(crate) fn rules(&self, user: UserId) -> Vec<Rule> {
        self.around(user).rules.clone()
    }

    /// The user whose open invitation has that secret.
    pub(crate) fn invited_by(&self, secret_hash: &Digest) -> Result<UserId, ErrorBody> {
        let now = self.clock.now();
        let known = self.read();
        let found = known.users.values().find(|entry| {
            entry.user.invitations.values().any(|invitation| invitation.secret_hash == *secret_hash && invitation.expires_at > now)
        });
        found.map(|entry| entry.user.id).ok_or_else(unknown_invitation)
    }

    /// Decides and appends; what is answered is durable. It comes to its end also when nobody waits for it any more: what is written and not
    /// known here would be a revocation without effect.
    pub(crate) async fn submit(self: &Arc<Self>, user: UserId, command: UserCommand) -> Result<Vec<Event<UserEvent>>, ErrorBody> {
        let directory = Arc::clone(self);
        let work = tokio::spawn(async move { directory.decide(user, &command).await });
        work.await.unwrap_or_else(|error| {
            Err(ErrorBody::new(ErrorCode::Internal, format!("A change to a user's devices broke off: {error}."), "Look at the hub's log."))
        })
    }

    async fn decide(&self, user: UserId, command: &UserCommand) -> Result<Vec<Event<UserEvent>>, ErrorBody> {
        let _writing = self.writing.lock().await;
        let now = self.clock.now();
        let mut state = self.read().users.get(&user).map_or_else(|| User::empty(user), |entry| entry.user.clone());
        let events = state.decide(command, now, &Ids::new(now, self.clock.random()))?;
        if events.is_empty() {
            return Ok(events);
        }
        let mut rows = Vec::with_capacity(events.len());
        for event in &events {
            let bytes = serde_json::to_vec(event)
                .map_err(|error| ErrorBody::new(ErrorCode::Internal, format!("An event can't be written: {error}."), "Report this."))?;
            rows.push(EventRow { kind: baton_proto::EventBody::name(&event.body).to_owned(), event: bytes, upserts: b"[]".to_vec() });
        }
        let append = Append {
            stream: StreamId { kind: StreamKind::User, id: user.0 },
            user,
            expected_seq: state.seq,
            fence: self.store.incarnation(),
            rows,
            head: self.head(&state, now),
            operation: None,
        };
        if let Err(error) = self.store.append(append).await {
            // Another hub on this store has changed the user: what it wrote is taken in before the next try.
            if matches!(error, StoreError::Conflict { .. }) {
                self.reload(user).await.map_err(|error| told(&error))?;
            }
            return Err(told(&HubError::Store(error)));
        }
        for event in &events {
            state.apply(event);
        }
        self.take_in(state);
        let rules = events.iter().any(|event| matches!(event.body, UserEvent::RuleMade { .. } | UserEvent::RuleRemoved { .. }));
        if rules {
            self.notify(user, Changed::Rules);
        }
        if events.iter().any(|event| !matches!(event.body, UserEvent::RuleMade { .. } | UserEvent::RuleRemoved { .. })) {
            self.notify(user, Changed::Devices);
        }
        Ok(events)
    }

    /// From now on a user is known as that, and whoever may no longer be connected isn't.
    fn take_in(&self, user: User) {
        for (link, reason) in self.write().put(user) {
            link.close(reason);
        }
    }

    async fn reload(&self, user: UserId) -> Result<(), HubError> {
        let known = self.read().users.get(&user).map(|entry| entry.user.clone());
        self.take_in(read_on(&*self.store, known.unwrap_or_else(|| User::empty(user))).await?);
        Ok(())
    }

    fn head(&self, state: &User, now: Timestamp) -> HeadWrite {
        let summary = self.seen.summary(state.id, |device| state.devices.get(device).is_some_and(PairedDevice::is_active));
        HeadWrite { epoch: 0, active: false, wake_at: None, updated_at: now, summary }
    }

    /// A sign of life of a device's. It is written down now and then, not each time.
    pub(crate) fn hear(self: &Arc<Self>, who: Identity) {
        if self.seen.hear(who.user_id, who.device_id, self.clock.now()) {
            self.keep_seen(who.user_id);
        }
    }

    /// Writes down when a user's devices were last heard, beside what goes on. Outside a runtime, which is being torn down then, nothing
    /// can be written any more.
    fn keep_seen(self: &Arc<Self>, user: UserId) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let directory = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(error) = directory.write_seen(user).await {
                // Of little weight: a store that can't go on says so itself, and one that is closed has been told before.
                tracing::debug!(%error, "when devices were last heard isn't written down");
            }
        });
    }

    /// Writes down when each device was last heard, at a stop of the hub.
    pub(crate) async fn keep_all_seen(&self) {
        for (user, _) in self.users() {
            if let Err(error) = self.write_seen(user).await {
                tracing::debug!(%error, "when devices were last heard isn't written down");
            }
        }
    }

    async fn write_seen(&self, user: UserId) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let Some(state) = self.read().users.get(&user).map(|entry| entry.user.clone()) else { return Ok(()) };
        let append = Append {
            stream: StreamId { kind: StreamKind::User, id: user.0 },
            user,
            expected_seq: state.seq,
            fence: self.store.incarnation(),
            rows: Vec::new(),
            head: self.head(&state, self.clock.now()),
            operation: None,
        };
        self.store.append(append).await.map(|_| ())
    }

    /// A connection of a device opens; `false` when the device was revoked meanwhile. Asked under the lock that a revocation takes, so
    /// that a connection is either refused here or closed there.
    pub(crate) fn attach(&self, who: Identity, link: Connected) -> bool {
        let mut known = self.write();
        let active =
            known.users.get(&who.user_id).and_then(|entry| entry.user.devices.get(&who.device_id)).is_some_and(PairedDevice::is_active);
        if !active {
            return false;
        }
        let links = known.links.entry(who.device_id).or_default();
        links.push(link);
        let first = links.len() == 1;
        known.refresh(who.user_id);
        drop(known);
        if first {
            self.notify(who.user_id, Changed::Devices);
        }
        true
    }

    /// A connection ends; returns whether it was the device's last.
    pub(crate) fn detach(self: &Arc<Self>, who: Identity, link: u64) -> bool {
        self.seen.hear(who.user_id, who.device_id, self.clock.now());
        let mut known = self.write();
        let last = match known.links.get_mut(&who.device_id) {
            None => true,
            Some(links) => {
                links.retain(|known| known.id != link);
                links.is_empty()
            }
        };
        if last {
            known.links.remove(&who.device_id);
        }
        known.refresh(who.user_id);
        drop(known);
        if last {
            self.keep_seen(who.user_id);
            self.notify(who.user_id, Changed::Devices);
        }
        last
    }

    /// Sends to the connection of a device that acts, which is its newest; returns which one took it.
    pub(crate) fn send(&self, device: DeviceId, frame: HubFrame) -> Option<u64> {
        let known = self.read();
        let link = known.links.get(&device)?.last()?;
        link.try_send(frame).then_some(link.id)
    }

    /// The connection that would take a frame for a device.
    pub(crate) fn acting_link(&self, device: DeviceId) -> Option<u64> {
        self.read().links.get(&device)?.last().map(|link| link.id)
    }

    pub(crate) fn send_to_all(&self, device: DeviceId, frame: &HubFrame) {
        for link in self.read().links.get(&device).into_iter().flatten() {
            link.try_send(frame.clone());
        }
    }

    /// Ends every connection, for a stop of the hub.
    pub(crate) fn close_all(&self, reason: &str) {
        let links: Vec<_> = std::mem::take(&mut self.write().links).into_values().flatten().collect();
        for link in links {
            let _ = link.sender.try_send(LinkFrame::Frame(Box::new(HubFrame::Bye { reason: reason.to_owned(), retry_after_s: 1 })));
            link.close(reason);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        // A panic while the lock was held can't have left these maps half-written in a way that matters more than going on.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A user with all that was written since.
async fn read_on(store: &dyn Store, mut user: User) -> Result<User, HubError> {
    let stream = StreamId { kind: StreamKind::User, id: user.id.0 };
    loop {
        let page = store.read(user.id, stream, user.seq, PAGE).await?;
        if page.is_empty() {
            return Ok(user);
        }
        for stored in page {
            user.apply(&Event::<UserEvent>::decode(&stored.event)?);
        }
    }
}

impl Known {
    /// Returns the connections that end by it: of devices that aren't active any more, and of those that may no longer see what they follow.
    fn put(&mut self, user: User) -> Vec<(Connected, &'static str)> {
        let id = user.id;
        self.tokens.retain(|_, identity| identity.user_id != id);
        let before = self.users.get(&id).map(|entry| Arc::clone(&entry.around)).unwrap_or_default();
        let mut dropped = Vec::new();
        let mut drop_all = |links: Option<Vec<Connected>>, reason| dropped.extend(links.into_iter().flatten().map(|link| (link, reason)));
        for (device_id, device) in &user.devices {
            if !device.is_active() {
                drop_all(self.links.remove(device_id), "This device was revoked. Pair it again to use it.");
                continue;
            }
            self.tokens.insert(device.token_hash.clone(), Identity { user_id: id, device_id: *device_id });
            let saw = before.devices.get(device_id).is_some_and(|known| known.trust != Trust::Guest);
            if saw && device.record.trust == Trust::Guest {
                drop_all(self.links.remove(device_id), "This device is a guest now. Connect again.");
            }
        }
        self.users.insert(id, Entry { user, around: Arc::default() });
        self.refresh(id);
        dropped
    }

    fn refresh(&mut self, user: UserId) {
        let Some(entry) = self.users.get_mut(&user) else { return };
        let active: Vec<_> = entry.user.devices.values().filter(|device| device.is_active()).map(|device| &device.record).collect();
        let online: BTreeSet<DeviceId> = active.iter().map(|record| record.device_id).filter(|id| self.links.contains_key(id)).collect();
        let devices = active.iter().map(|record| (record.device_id, acting(record))).collect();
        let mut offers: BTreeMap<String, Vec<OfferedTool>> = BTreeMap::new();
        for record in &active {
            for spec in &record.tools {
                offers.entry(spec.name.clone()).or_default().push(OfferedTool { device_id: record.device_id, spec: spec.clone() });
            }
        }
        let workspaces = active.iter().flat_map(|record| record.workspaces.iter().cloned()).collect();
        entry.around = Arc::new(Surroundings { online, devices, offers, workspaces, rules: entry.user.rules.clone() });
    }

    fn view(&self, record: &DeviceRecord, own: DeviceId, last_seen_at: Option<Timestamp>) -> DeviceView {
        DeviceView {
            device_id: record.device_id,
            name: record.name.clone(),
            client_type: record.client_type,
            trust: record.trust,
            online: self.links.contains_key(&record.device_id),
            paired_at: record.paired_at,
            last_seen_at,
            revoked_at: record.revoked_at,
            own: record.device_id == own,
            workspaces: record.workspaces.clone(),
            tools: record.tools.iter().map(|tool| tool.name.clone()).collect(),
        }
    }
}

fn acting(record: &DeviceRecord) -> ActingDevice {
    ActingDevice {
        device_id: record.device_id,
        name: record.name.clone(),
        client_type: record.client_type,
        trust: record.trust,
        journal: record.journal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use baton_proto::{Capabilities, ClientType, Trust};
    use baton_store::SqliteStore;

    async fn paired(store: &Arc<SqliteStore>) -> (Arc<Directory>, Identity) {
        let directory = Arc::new(Directory::load(Arc::clone(store) as Arc<dyn Store>, Arc::new(SystemClock)).await.unwrap());
        let user = UserId(uuid::Uuid::now_v7());
        directory.submit(user, UserCommand::Create { name: "ada".to_owned() }).await.unwrap();
        let pair = UserCommand::Pair {
            name: "phone".to_owned(),
            client_type: ClientType::Phone,
            capabilities: Capabilities::default(),
            trust: Trust::Trusted,
            token_hash: hash("token"),
        };
        directory.submit(user, pair).await.unwrap();
        let who = directory.identify("token").unwrap();
        (directory, who)
    }

    /// A revocation can come between the look at a token and the attachment of its connection.
    #[tokio::test]
    async fn a_device_that_was_revoked_meanwhile_is_not_attached() {
        let data = tempfile::tempdir().unwrap();
        let (directory, who) = paired(&SqliteStore::open(data.path()).unwrap()).await;
        assert!(directory.attach(who, Connected::unheard(1)));
        directory.submit(who.user_id, UserCommand::Revoke { device: who.device_id }).await.unwrap();
        assert!(!directory.attach(who, Connected::unheard(2)));
        assert_eq!(directory.acting_link(who.device_id), None);
    }

    #[tokio::test]
    async fn s5_a_revocation_takes_effect_also_when_whoever_asked_for_it_has_gone() {
        let data = tempfile::tempdir().unwrap();
        let (directory, who) = paired(&SqliteStore::open(data.path()).unwrap()).await;
        tokio::select! {
            biased;
            _ = directory.submit(who.user_id, UserCommand::Revoke { device: who.device_id }) => panic!("done before it was given up"),
            () = std::future::ready(()) => {}
        }
        let effect = async {
            while directory.identify("token").is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), effect).await.expect("the token counts for nothing any more");
    }

    #[tokio::test]
    async fn what_another_hub_wrote_of_a_user_is_taken_in_before_the_next_try() {
        let data = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(data.path()).unwrap();
        let (one, who) = paired(&store).await;
        let other = Arc::new(Directory::load(store, Arc::new(SystemClock)).await.unwrap());
        one.submit(who.user_id, UserCommand::Revoke { device: who.device_id }).await.unwrap();
        let rename = || UserCommand::Rename { device: who.device_id, name: "telephone".to_owned() };
        other.submit(who.user_id, rename()).await.expect_err("it was decided on what isn't so any more");
        assert!(other.identify("token").is_none(), "the revocation is known here too");
        let refused = other.submit(who.user_id, rename()).await.expect_err("it is revoked");
        assert_eq!(refused.code, ErrorCode::NotFound);
    }
}
