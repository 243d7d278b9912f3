//! Following a session (D4): the view at N, then every change after it, in order, without gap and without repeat. What a slow follower
//! misses is read again from the log; nothing is buffered without bound.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::fit::fit_change;
use crate::hub::{Hub, Shared};
use crate::live::{Delta, Live, Signal};
use crate::reading::change_of;
use baton_proto::{CallId, Change, DeltaPart, ErrorBody, MessageId, SessionId, SessionView};
use baton_store::{StreamId, StreamKind};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Changes that are read in one go.
const PAGE: u32 = 64;
/// Bytes of an answer's text in one piece, so that a long one that is told from its beginning fits its frames.
const PIECE: usize = 16 * 1024;
/// A follower further behind than this gets the view anew instead of every change (D4: a cursor too old).
const TOO_OLD: u64 = 5000;

/// One thing for a follower.
#[derive(Debug)]
pub enum SubscriptionItem {
    View(Box<SessionView>),
    Change(Arc<Change>),
    /// What is kept of the session is void; the view follows.
    Reset {
        reason: String,
    },
    Delta {
        message_id: MessageId,
        attempt: u32,
        thinking: bool,
        offset: u64,
        text: String,
    },
    Progress {
        call_id: CallId,
        attempt: u32,
        text: String,
    },
    /// The subscription ends with this.
    Failed(ErrorBody),
}

/// A follower's place in a session.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    who: Identity,
    session: SessionId,
    live: Arc<Live>,
    signals: broadcast::Receiver<Signal>,
    cursor: u64,
    /// The log may hold changes after the cursor that no signal will bring.
    behind: bool,
    /// The last change had to leave something out, so the view comes next.
    lacking: bool,
    ready: VecDeque<SubscriptionItem>,
    ended: bool,
}

impl Hub {
    /// Follows a session: from its view, or from what came after `after`.
    pub async fn subscribe(&self, who: Identity, session: SessionId, after: Option<u64>) -> Result<Subscription, ErrorBody> {
        self.may_look(who)?;
        let handle = self.shared.session(who.user_id, session).await?;
        // Listening comes before reading, so that what happens in between arrives by one of the two.
        let (signals, so_far) = handle.live.follow();
        let mut subscription = Subscription {
            shared: Arc::clone(&self.shared),
            who,
            session,
            live: handle.live,
            signals,
            cursor: 0,
            behind: true,
            lacking: false,
            ready: VecDeque::new(),
            ended: false,
        };
        match after {
            None => subscription.start_from_view(None).await?,
            Some(after) => {
                let head = subscription.head().await?;
                if after > head {
                    subscription.start_from_view(Some("Your cursor is ahead of the log.".to_owned())).await?;
                } else if head - after > TOO_OLD {
                    subscription.start_from_view(Some("Your cursor is too old to go on from.".to_owned())).await?;
                } else {
                    subscription.cursor = after;
                }
            }
        }
        for delta in so_far {
            subscription.tell(delta);
        }
        Ok(subscription)
    }
}

impl Subscription {
    async fn head(&self) -> Result<u64, ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: self.session.0 };
        let head = self.shared.store.head(self.who.user_id, stream).await.map_err(|error| told(&HubError::Store(error)))?;
        head.map(|head| head.seq).ok_or_else(|| ErrorBody::not_found("session"))
    }

    async fn start_from_view(&mut self, reset: Option<String>) -> Result<(), ErrorBody> {
        let view = self.shared.view(self.who.user_id, self.session).await?;
        self.cursor = view.seq;
        self.ready.extend(reset.map(|reason| SubscriptionItem::Reset { reason }));
        self.ready.push_back(SubscriptionItem::View(Box::new(view)));
        Ok(())
    }

    /// The next thing for the follower; `None` once the subscription has ended. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Option<SubscriptionItem> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            if self.lacking {
                match self.start_from_view(Some("A change was too large to be sent whole.".to_owned())).await {
                    Ok(()) => (self.lacking, self.behind) = (false, true),
                    Err(error) => {
                        self.ended = true;
                        return Some(SubscriptionItem::Failed(error));
                    }
                }
                continue;
            }
            if self.behind {
                if let Err(error) = self.catch_up().await {
                    self.ended = true;
                    return Some(SubscriptionItem::Failed(error));
                }
                continue;
            }
            match self.signals.recv().await {
                Ok(Signal::Change(change)) => {
                    if change.seq == self.cursor + 1 {
                        self.cursor = change.seq;
                        self.pass_on(change);
                    } else {
                        self.behind = change.seq > self.cursor;
                    }
                }
                Ok(Signal::Delta(delta)) => self.tell(delta),
                Ok(Signal::Progress { call_id, attempt, text }) => return Some(SubscriptionItem::Progress { call_id, attempt, text }),
                Err(broadcast::error::RecvError::Lagged(_)) => self.resynchronise(),
                Err(broadcast::error::RecvError::Closed) => {
                    // The owner retired. The session goes on with the next one, under the same log.
                    match self.shared.session(self.who.user_id, self.session).await {
                        Ok(handle) => {
                            self.live = handle.live;
                            self.resynchronise();
                        }
                        Err(error) => {
                            self.ended = true;
                            return Some(SubscriptionItem::Failed(error));
                        }
                    }
                }
            }
        }
    }

    /// Listens anew and reads what was missed.
    fn resynchronise(&mut self) {
        let (signals, so_far) = self.live.follow();
        self.signals = signals;
        for delta in so_far {
            self.tell(delta);
        }
        self.behind = true;
    }

    /// Makes a change ready. One that doesn't fit a frame whole is followed by the view, which has what it lacks.
    fn pass_on(&mut self, change: Arc<Change>) {
        let (fitted, left_out) = fit_change(change);
        self.ready.push_back(SubscriptionItem::Change(fitted));
        self.lacking |= left_out;
    }

    /// Makes a piece of an answer ready, in pieces that fit.
    fn tell(&mut self, delta: Delta) {
        let mut rest = delta.text.as_str();
        let mut offset = delta.offset;
        while !rest.is_empty() {
            let mut end = PIECE.min(rest.len());
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (piece, left) = rest.split_at(end);
            self.ready.push_back(SubscriptionItem::Delta {
                message_id: delta.message_id,
                attempt: delta.attempt,
                thinking: delta.part == DeltaPart::Thinking,
                offset,
                text: piece.to_owned(),
            });
            offset += piece.len() as u64;
            rest = left;
        }
    }

    async fn catch_up(&mut self) -> Result<(), ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: self.session.0 };
        let page =
            self.shared.store.read(self.who.user_id, stream, self.cursor, PAGE).await.map_err(|error| told(&HubError::Store(error)))?;
        if page.is_empty() {
            self.behind = false;
            return Ok(());
        }
        if page.len() < PAGE as usize {
            self.behind = false;
        }
        for stored in page {
            let change = change_of(self.session, &stored)?;
            self.cursor = change.seq;
            self.pass_on(Arc::new(change));
            if self.lacking {
                break;
            }
        }
        Ok(())
    }
}
