use crate::context::Context;
use crate::decide::Decided;
use crate::session::Session;
use crate::views::upserts;
use baton_proto::{Actor, EntityView, Event, Lane, OperationId, SessionEvent};

/// A decision under way: a working copy of the state, and the events that led to it. Each event is applied at once, so that
/// what follows is decided on the state it will find, and nobody has to fold or look again.
pub(crate) struct Draft<'a> {
    pub(crate) state: Session,
    pub(crate) at: &'a Context,
    pub(crate) events: Vec<Event>,
    upserts: Vec<Vec<EntityView>>,
    operation: Option<OperationId>,
    actor: Actor,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(state: &Session, at: &'a Context, operation: Option<OperationId>, actor: Actor) -> Self {
        Self { state: state.clone(), at, events: Vec::new(), upserts: Vec::new(), operation, actor }
    }

    pub(crate) fn emit(&mut self, body: SessionEvent) {
        let event = Event { at: self.at.now, lane: Lane::default(), actor: self.actor, operation_id: self.operation, body };
        self.state.apply(&event);
        self.upserts.push(upserts(&self.state, &event));
        self.events.push(event);
    }

    /// The decision as it stands.
    pub(crate) fn decided(self) -> Decided {
        Decided { events: self.events, upserts: self.upserts, next: self.state, turn_id: None, task_id: None }
    }
}
