//! Following a session (D4): the view at N, then every change after it, in order, without gap and without repeat. What a slow follower
//! misses is read again from the log; nothing is buffered without bound.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::{Hub, Shared};
use crate::live::{Live, Signal};
use crate::reading::change_of;
use baton_proto::{CallId, Change, ErrorBody, MessageId, SessionId, SessionView};
use baton_store::{StreamId, StreamKind};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::broadcast;

/// Changes that are read in one go.
const PAGE: u32 = 200;
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
    ready: VecDeque<SubscriptionItem>,
    ended: bool,
}

impl Hub {
    /// Follows a session: from its view, or from what came after `after`.
    pub async fn subscribe(&self, who: Identity, session: SessionId, after: Option<u64>) -> Result<Subscription, ErrorBody> {
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
        subscription.ready.extend(so_far.into_iter().map(Into::into));
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

    /// The next thing for the follower; `None` once the subscription has ended.
    pub async fn next(&mut self) -> Option<SubscriptionItem> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
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
                        return Some(SubscriptionItem::Change(change));
                    }
                    self.behind = change.seq > self.cursor;
                }
                Ok(Signal::Delta(delta)) => return Some(delta.into()),
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
        self.ready.extend(so_far.into_iter().map(Into::into));
        self.behind = true;
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
            self.ready.push_back(SubscriptionItem::Change(Arc::new(change)));
        }
        Ok(())
    }
}
