use super::{End, Outgoing};
use crate::app::stopped;
use axum::extract::ws::Message;
use baton_proto::{HubFrame, MAX_FRAME_BYTES};
use baton_runtime::{LinkFrame, LinkFrames};
use futures::SinkExt;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

/// Sends what the hub has to say until the connection is to end. A peer that doesn't read holds back nothing but itself: the link's
/// channel fills up, and what doesn't fit comes again from the log.
pub(super) async fn write(
    outgoing: &mut Outgoing,
    frames: &mut LinkFrames,
    answers: &mut mpsc::Receiver<HubFrame>,
    stopping: &mut watch::Receiver<bool>,
    ping: Duration,
) -> End {
    let mut pings = tokio::time::interval_at(Instant::now() + ping, ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = tokio::select! {
            biased;
            () = stopped(stopping) => return hub_stops(),
            Some(answer) = answers.recv() => message(&answer),
            next = frames.next() => match next {
                Some(LinkFrame::Frame(frame)) => message(&frame),
                Some(LinkFrame::Close { reason }) => return End::Bye(reason),
                None => return hub_stops(),
            },
            _ = pings.tick() => Some(Message::Ping(axum::body::Bytes::new())),
        };
        let Some(next) = next else { continue };
        // A revoked device must not stay because it doesn't read.
        let sent = tokio::select! {
            biased;
            sent = outgoing.send(next) => sent,
            reason = frames.closing() => return End::Bye(reason),
            () = stopped(stopping) => return hub_stops(),
        };
        if sent.is_err() {
            return End::Gone;
        }
    }
}

/// A frame as it is sent. One that can't be written is left out, and said so.
pub(super) fn message(frame: &HubFrame) -> Option<Message> {
    match serde_json::to_string(frame) {
        Ok(text) => {
            if text.len() > MAX_FRAME_BYTES {
                tracing::warn!(bytes = text.len(), "a frame of the hub is larger than promised");
            }
            Some(Message::Text(text.into()))
        }
        Err(error) => {
            tracing::error!(%error, "a frame can't be written");
            None
        }
    }
}

fn hub_stops() -> End {
    End::Bye("The hub is stopping.".to_owned())
}
