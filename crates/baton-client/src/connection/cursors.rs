use super::{Command, Flow};
use baton_proto::{EntityView, SessionId};
use std::collections::BTreeMap;

/// How far each followed session has been read. It decides which views and changes are passed on, so that they join up
/// over any number of connections (D4).
#[derive(Debug, Default)]
pub(super) struct Cursors {
    sessions: BTreeMap<SessionId, Followed>,
}

#[derive(Debug)]
struct Followed {
    place: Place,
    /// The epoch this end believes in, told in its heartbeats (H7).
    epoch: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing counts before the view.
    AwaitingView,
    After {
        seq: u64,
        /// Changes are missing, and the hub was asked for them.
        asked: bool,
    },
}

/// What to do with a view or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is next; the cursor is on it.
    Take,
    /// It was seen, is replaced by a view to come, or isn't wanted.
    Drop,
    /// Something before it is missing: drop it, and ask for what follows this number.
    Ask(u64),
}

impl Cursors {
    pub(super) fn new(cursors: BTreeMap<SessionId, u64>) -> Self {
        let followed = |seq| Followed { place: Place::After { seq, asked: false }, epoch: None };
        Self { sessions: cursors.into_iter().map(|(session, seq)| (session, followed(seq))).collect() }
    }

    /// Takes in what a handle says.
    pub(super) fn command(&mut self, command: &Command) -> Flow {
        match *command {
            Command::Subscribe { session_id, after } => {
                let place = after.map_or(Place::AwaitingView, |seq| Place::After { seq, asked: false });
                self.sessions.entry(session_id).or_insert(Followed { place, epoch: None }).place = place;
            }
            Command::Unsubscribe { session_id } => {
                self.sessions.remove(&session_id);
            }
            Command::Stop => return Flow::Stop,
        }
        Flow::On
    }

    /// For the first frame of a connection: where each session goes on. What was asked for on the last one is forgotten.
    pub(super) fn hello(&mut self) -> BTreeMap<SessionId, u64> {
        let mut cursors = BTreeMap::new();
        for (session, followed) in &mut self.sessions {
            if let Place::After { seq, asked } = &mut followed.place {
                *asked = false;
                cursors.insert(*session, *seq);
            }
        }
        cursors
    }

    /// Sessions that wait for their view, to be subscribed to after the first frame.
    pub(super) fn awaiting_view(&self) -> Vec<SessionId> {
        self.sessions.iter().filter(|(_, followed)| followed.place == Place::AwaitingView).map(|(session, _)| *session).collect()
    }

    /// Whether changes are missing that the hub was asked for.
    pub(super) fn in_gap(&self) -> bool {
        self.sessions.values().any(|followed| matches!(followed.place, Place::After { asked: true, .. }))
    }

    pub(super) fn epochs(&self) -> BTreeMap<SessionId, u64> {
        self.sessions.iter().filter_map(|(session, followed)| followed.epoch.map(|epoch| (*session, epoch))).collect()
    }

    pub(super) fn view(&mut self, session: SessionId, seq: u64, entities: &[EntityView]) -> Verdict {
        let Some(followed) = self.sessions.get_mut(&session) else { return Verdict::Drop };
        if matches!(followed.place, Place::After { seq: seen, .. } if seq <= seen) {
            return Verdict::Drop;
        }
        followed.take(seq, entities);
        Verdict::Take
    }

    pub(super) fn change(&mut self, session: SessionId, seq: u64, upserts: &[EntityView]) -> Verdict {
        let Some(followed) = self.sessions.get_mut(&session) else { return Verdict::Drop };
        let Place::After { seq: seen, asked } = &mut followed.place else { return Verdict::Drop };
        if seq <= *seen {
            return Verdict::Drop;
        }
        if seq > *seen + 1 {
            let again = std::mem::replace(asked, true);
            return if again { Verdict::Drop } else { Verdict::Ask(*seen) };
        }
        followed.take(seq, upserts);
        Verdict::Take
    }

    pub(super) fn reset(&mut self, session: SessionId) -> Verdict {
        let Some(followed) = self.sessions.get_mut(&session) else { return Verdict::Drop };
        followed.place = Place::AwaitingView;
        Verdict::Take
    }
}

impl Followed {
    fn take(&mut self, seq: u64, entities: &[EntityView]) {
        self.place = Place::After { seq, asked: false };
        for entity in entities {
            if let EntityView::Session(session) = entity {
                self.epoch = Some(session.epoch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn session() -> SessionId {
        SessionId(Uuid::from_u128(1))
    }

    fn at(seq: u64) -> Cursors {
        Cursors::new(BTreeMap::from([(session(), seq)]))
    }

    #[test]
    fn changes_join_up() {
        let mut cursors = at(5);
        assert_eq!(cursors.change(session(), 5, &[]), Verdict::Drop);
        assert_eq!(cursors.change(session(), 6, &[]), Verdict::Take);
        assert_eq!(cursors.change(session(), 8, &[]), Verdict::Ask(6));
        assert!(cursors.in_gap());
        assert_eq!(cursors.change(session(), 9, &[]), Verdict::Drop, "asked once only");
        assert_eq!(cursors.change(session(), 7, &[]), Verdict::Take);
        assert!(!cursors.in_gap());
        assert_eq!(cursors.hello(), BTreeMap::from([(session(), 7)]));
    }

    #[test]
    fn a_view_replaces_after_a_reset_or_from_further_on() {
        let mut cursors = at(5);
        assert_eq!(cursors.view(session(), 5, &[]), Verdict::Drop);
        assert_eq!(cursors.view(session(), 9, &[]), Verdict::Take);
        assert_eq!(cursors.reset(session()), Verdict::Take);
        assert_eq!(cursors.change(session(), 10, &[]), Verdict::Drop);
        assert_eq!((cursors.hello(), cursors.awaiting_view()), (BTreeMap::new(), vec![session()]));
        assert_eq!(cursors.view(session(), 3, &[]), Verdict::Take, "a hub restored from a backup begins lower");
        assert_eq!(cursors.change(session(), 4, &[]), Verdict::Take);
    }

    #[test]
    fn what_is_not_followed_is_dropped() {
        let mut cursors = at(5);
        cursors.command(&Command::Unsubscribe { session_id: session() });
        for verdict in [cursors.change(session(), 6, &[]), cursors.view(session(), 6, &[]), cursors.reset(session())] {
            assert_eq!(verdict, Verdict::Drop);
        }
        cursors.command(&Command::Subscribe { session_id: session(), after: None });
        assert_eq!(cursors.change(session(), 6, &[]), Verdict::Drop);
        assert_eq!(cursors.view(session(), 6, &[]), Verdict::Take);
    }

    #[test]
    fn a_gap_is_asked_for_anew_on_the_next_connection() {
        let mut cursors = at(5);
        assert_eq!(cursors.change(session(), 7, &[]), Verdict::Ask(5));
        cursors.hello();
        assert_eq!(cursors.change(session(), 7, &[]), Verdict::Ask(5));
    }
}
