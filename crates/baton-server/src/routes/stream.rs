//! A session followed by server-sent events (D4): each change with its sequence number as id, so that whoever comes back says where it
//! was. Nothing is made before the connection takes it, so that a slow reader holds nothing but its own place.

use crate::app::{App, stopped};
use crate::problem::ApiError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use baton_proto::{Changed, DeltaPart, ErrorBody, HubFrame, SessionId, SessionView, UserId};
use baton_runtime::{Identity, Subscription, SubscriptionItem};
use futures::stream::unfold;
use serde::Serialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep_until};

/// After a broken connection the reader comes back after this long, in milliseconds.
const BEGINNING: &str = "retry: 1000\n\n";
const COMMENT: &str = ":\n\n";

pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    accepted.filter_map(|kind| kind.split(';').next()).any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// What the reader saw last, as a browser says it when it comes back by itself.
pub(super) fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    match given.to_str().ok().and_then(|text| text.trim().parse().ok()) {
        Some(seq) => Ok(Some(seq)),
        None if given.is_empty() => Ok(None),
        None => Err(ErrorBody::invalid("`Last-Event-ID` is a sequence number that this stream gave as an id.").into()),
    }
}

pub(super) async fn follow(app: &App, who: Identity, session: SessionId, after: Option<u64>) -> Result<Response, ApiError> {
    // Listening comes before looking, so that a revocation is either heard or seen.
    let devices = app.hub.changes_of_lists();
    if app.hub.device(who).is_none() {
        return Err(ErrorBody::not_found("session").into());
    }
    let subscription = app.hub.subscribe(who, session, after).await?;
    let follower = Follower {
        app: app.clone(),
        who,
        session,
        subscription,
        devices,
        stopping: app.stopping.subscribe(),
        comment_at: Instant::now() + app.limits.comment,
        reset: None,
        begun: false,
        ended: false,
    };
    let body = Body::from_stream(unfold(follower, |mut follower| async move {
        let text = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), follower))
    }));
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Some proxies hold an answer back until it is whole.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

struct Follower {
    app: App,
    who: Identity,
    session: SessionId,
    subscription: Subscription,
    devices: broadcast::Receiver<(UserId, Changed)>,
    stopping: watch::Receiver<bool>,
    comment_at: Instant,
    /// Why what the reader keeps is void, until the view that replaces it is there.
    reset: Option<String>,
    begun: bool,
    ended: bool,
}

/// A view that replaces what the reader keeps.
#[derive(Serialize)]
struct Reset<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    session_id: SessionId,
    reason: String,
    view: &'a SessionView,
}

impl Follower {
    /// The next piece of the stream; `None` at its end.
    async fn next(&mut self) -> Option<String> {
        if self.ended {
            return None;
        }
        if !self.begun {
            self.begun = true;
            return Some(BEGINNING.to_owned());
        }
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stopping) => return Some(self.bye("The hub is stopping.")),
                word = self.devices.recv() => {
                    // What was missed may have been about this device.
                    let other = matches!(word, Ok((user, what)) if user != self.who.user_id || what != Changed::Devices);
                    if !other && self.app.hub.device(self.who).is_none() {
                        return Some(self.bye("This device was revoked. Pair it again to use it."));
                    }
                }
                () = sleep_until(self.comment_at) => {
                    self.comment_at = Instant::now() + self.app.limits.comment;
                    return Some(COMMENT.to_owned());
                }
                item = self.subscription.next() => {
                    self.comment_at = Instant::now() + self.app.limits.comment;
                    if let Some(text) = self.told(item?) {
                        return Some(text);
                    }
                }
            }
        }
    }

    fn bye(&mut self, reason: &str) -> String {
        self.ended = true;
        event("bye", None, &HubFrame::Bye { reason: reason.to_owned(), retry_after_s: Duration::from_secs(1).as_secs() })
    }

    fn told(&mut self, item: SubscriptionItem) -> Option<String> {
        let session_id = self.session;
        Some(match item {
            SubscriptionItem::Reset { reason } => {
                self.reset = Some(reason);
                return None;
            }
            SubscriptionItem::View(view) => {
                let seq = Some(view.seq);
                match self.reset.take() {
                    Some(reason) => event("reset", seq, &Reset { kind: "reset", session_id, reason, view: &view }),
                    None => event("view", seq, &HubFrame::View(view)),
                }
            }
            SubscriptionItem::Change(change) => event("change", Some(change.seq), &HubFrame::Change(Box::new((*change).clone()))),
            SubscriptionItem::Delta { message_id, attempt, thinking, offset, text } => {
                let part = if thinking { DeltaPart::Thinking } else { DeltaPart::Text };
                event("delta", None, &HubFrame::Delta { session_id, message_id, attempt, offset, part, text })
            }
            SubscriptionItem::Progress { call_id, attempt, text } => {
                event("progress", None, &HubFrame::Progress { session_id, call_id, attempt, text })
            }
            // Not named `error`: browsers say that of a broken connection.
            SubscriptionItem::Failed(error) => {
                self.ended = true;
                event("failed", None, &HubFrame::Error { session_id: Some(session_id), error })
            }
        })
    }
}

/// One event. JSON has no line breaks of its own, so it is one line.
fn event(name: &str, id: Option<u64>, data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).unwrap_or_else(|error| {
        tracing::error!(%error, "an event can't be written");
        "{}".to_owned()
    });
    match id {
        Some(id) => format!("event: {name}\nid: {id}\ndata: {json}\n\n"),
        None => format!("event: {name}\ndata: {json}\n\n"),
    }
}
