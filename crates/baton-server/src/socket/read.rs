use super::{Arriving, End};
use crate::body::{check_depth, in_short};
use axum::extract::ws::Message;
use baton_proto::{ClientFrame, ErrorBody, ErrorCode, HubFrame, MAX_FRAME_BYTES, OperationId, Reply, SessionId};
use baton_runtime::Link;
use futures::StreamExt;
use serde_json::Value;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::mpsc;

/// Frames in a row that can't be understood, before the connection ends.
const MAX_UNREADABLE: u32 = 20;

/// Takes what a client says until it is gone. What can't be understood is answered with an error, and the connection goes on.
pub(super) async fn read(arriving: &mut Arriving, link: &mut Link, answers: &mpsc::Sender<HubFrame>, silence: Duration) -> End {
    let mut unreadable = 0;
    loop {
        let text = match tokio::time::timeout(silence, arriving.next()).await {
            Err(_) => return End::Bye(format!("The hub heard nothing of this device for {} s.", silence.as_secs())),
            Ok(None | Some(Ok(Message::Close(_)))) => return End::Gone,
            Ok(Some(Err(error))) => return broken(&error),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
            Ok(Some(Ok(Message::Binary(_)))) => Err(not_text()),
            Ok(Some(Ok(Message::Text(text)))) => Ok(text),
        };
        let answer = match text.and_then(|text| frame(text.as_str())) {
            Ok(frame) => take(link, frame).await,
            Err(error) => Err(HubFrame::Error { session_id: None, error }),
        };
        let answer = match answer {
            Ok(answer) => {
                unreadable = 0;
                answer
            }
            Err(refusal) => {
                unreadable += 1;
                Some(refusal)
            }
        };
        if let Some(answer) = answer
            && answers.send(answer).await.is_err()
        {
            return End::Gone;
        }
        if unreadable >= MAX_UNREADABLE {
            return End::Refused(ErrorBody::invalid(format!("{MAX_UNREADABLE} frames in a row could not be understood.")));
        }
    }
}

/// Hands a frame to the link. Its answer, or its refusal, is for the client.
async fn take(link: &mut Link, frame: ClientFrame) -> Result<Option<HubFrame>, HubFrame> {
    let beat = matches!(frame, ClientFrame::Heartbeat { .. });
    let operation = match &frame {
        ClientFrame::Op { operation } => {
            id::<OperationId>(operation, "operation_id").map(|operation_id| (operation_id, id::<SessionId>(operation, "session_id")))
        }
        _ => None,
    };
    match (link.receive(frame).await, operation) {
        (Ok(()), _) => Ok(beat.then_some(HubFrame::Heartbeat {})),
        // An operation that can be named is answered by its name, so that its sender doesn't wait for ever.
        (Err(error), Some((operation_id, session_id))) => Err(HubFrame::Ack(Reply::rejected(operation_id, session_id, error))),
        (Err(error), None) => Err(HubFrame::Error { session_id: None, error }),
    }
}

fn id<T: FromStr>(operation: &Value, field: &str) -> Option<T> {
    operation.get(field)?.as_str()?.parse().ok()
}

/// Understands one frame, or says what is wrong with it.
pub(super) fn frame(text: &str) -> Result<ClientFrame, ErrorBody> {
    if text.len() > MAX_FRAME_BYTES {
        return Err(ErrorBody::new(
            ErrorCode::TooLarge,
            format!("The frame is larger than {MAX_FRAME_BYTES} bytes."),
            format!("Send at most {MAX_FRAME_BYTES} bytes in a frame."),
        ));
    }
    check_depth(text.as_bytes())?;
    serde_json::from_str(text).map_err(|error| ErrorBody::invalid(format!("The frame can't be read: {}.", in_short(&error))))
}

pub(super) fn not_text() -> ErrorBody {
    ErrorBody::invalid("A frame is JSON in a text message; this was a binary one.")
}

/// The connection's own protocol was broken, mostly by a frame that is far too large.
pub(super) fn broken(error: &impl Display) -> End {
    End::Refused(ErrorBody::new(
        ErrorCode::TooLarge,
        format!("The connection can't be read on: {}.", in_short(error)),
        format!("Send text frames of at most {MAX_FRAME_BYTES} bytes."),
    ))
}
