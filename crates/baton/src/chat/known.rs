use crate::words;
use baton_proto::{
    Activity, DeviceId, DeviceView, EntityView, MessageId, Role, SessionEntity, StepStatus, TaskEntity, TaskId, TurnEntity, TurnState,
};
use std::collections::BTreeMap;

/// What the hub says of the session, as far as the rows below the conversation tell it.
#[derive(Debug)]
pub(super) struct Known {
    own: DeviceId,
    session: Option<SessionEntity>,
    tasks: BTreeMap<TaskId, TaskEntity>,
    turn: Option<TurnEntity>,
    devices: BTreeMap<DeviceId, String>,
    /// What the user said last, for as long as it may not have been read yet.
    said: BTreeMap<MessageId, String>,
}

/// Messages that may not have been read yet.
const SAID: usize = 64;

impl Known {
    pub(super) const fn new(own: DeviceId) -> Self {
        Self { own, session: None, tasks: BTreeMap::new(), turn: None, devices: BTreeMap::new(), said: BTreeMap::new() }
    }

    pub(super) fn devices(&mut self, devices: Vec<DeviceView>) {
        self.devices = devices.into_iter().map(|device| (device.device_id, device.name)).collect();
    }

    pub(super) fn take(&mut self, entity: &EntityView) {
        match entity {
            EntityView::Session(session) => self.session = Some((**session).clone()),
            EntityView::Task(task) => drop(self.tasks.insert(task.id, (**task).clone())),
            EntityView::Turn(turn) if self.turn.as_ref().is_none_or(|known| known.id <= turn.id) => self.turn = Some(turn.clone()),
            EntityView::Message(message) if message.role == Role::User => {
                self.said.insert(message.id, message.text.lines().next().unwrap_or_default().to_owned());
                if self.said.len() > SAID {
                    self.said.pop_first();
                }
            }
            _ => {}
        }
    }

    pub(super) const fn own(&self) -> DeviceId {
        self.own
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.epoch)
    }

    pub(super) fn device(&self, id: DeviceId) -> String {
        self.devices.get(&id).cloned().unwrap_or_else(|| "another device".to_owned())
    }

    /// Whether a turn is under way: what is said then is read in it, and it can be stopped.
    pub(super) fn works(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.state, TurnState::Running | TurnState::Waiting | TurnState::Stopping))
    }

    /// The answer under way.
    pub(super) fn answering(&self) -> Option<MessageId> {
        self.turn.as_ref().filter(|_| self.works()).and_then(|turn| turn.answering)
    }

    /// What was said and isn't read yet, and when it is.
    pub(super) fn unread(&self) -> Option<String> {
        let words = |ids: &[MessageId]| ids.iter().filter_map(|id| self.said.get(id)).cloned().collect::<Vec<_>>().join(" / ");
        let unread = self.turn.as_ref().filter(|_| self.works()).map(|turn| words(&turn.unread)).unwrap_or_default();
        if !unread.is_empty() {
            return Some(format!("read at the next step: {unread}"));
        }
        let queued = self.session.as_ref().map(|session| words(&session.queued)).unwrap_or_default();
        (!queued.is_empty()).then(|| format!("begins once the agent is done: {queued}"))
    }

    /// How it stands, in a row.
    pub(super) fn status(&self) -> String {
        let Some(session) = &self.session else { return String::new() };
        let mut parts = vec![words::activity(session.activity).to_owned()];
        let task = session.active_task.and_then(|id| self.tasks.get(&id)).filter(|_| self.works());
        if let Some(task) = task {
            if let Some(place) = task.steps.iter().position(|step| step.status == StepStatus::Running) {
                parts.push(format!("step {}/{} {}", place + 1, task.steps.len(), task.steps[place].title));
            }
            if !task.steps.is_empty() {
                parts.push(format!("{} %", task.progress));
            }
        }
        if let Some(holder) = session.holder.filter(|holder| *holder != self.own) {
            parts.push(format!("held by {}", self.device(holder)));
        }
        if self.works() && session.activity != Activity::AwaitingUser {
            parts.push("what you type is read at the next step".to_owned());
            parts.push("Esc stops".to_owned());
        }
        parts.join(" · ")
    }
}
