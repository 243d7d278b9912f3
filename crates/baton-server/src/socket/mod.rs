//! The WebSocket, from its handshake to its last word (D4, F7, H7, S5, S8).

mod read;
mod write;

use crate::app::{App, stopped};
use crate::auth::Caller;
use crate::problem::ApiError;
use crate::serve::Place;
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::Response;
use baton_proto::{ClientFrame, ErrorBody, HubFrame, MAX_FRAME_BYTES};
use baton_runtime::{Identity, Link, LinkFrames};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

pub(super) type Outgoing = SplitSink<WebSocket, Message>;
pub(super) type Arriving = SplitStream<WebSocket>;

/// A frame that is a little too large is read whole, so that its sender can be told; a larger one ends the connection.
const MAX_READ_BYTES: usize = 2 * MAX_FRAME_BYTES;
/// What one connection reads at once. The library's own choice of 128 KiB is kept for as long as a device is connected, idle or not.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Answers of the connection itself that may wait; while they do, nothing more is read.
const WAITING_ANSWERS: usize = 16;
/// For the last frames, and for the peer to take them.
const FAREWELL: Duration = Duration::from_secs(1);
/// Seconds until the peer should try again.
const RETRY_AFTER_S: u64 = 1;

/// `GET /v1/ws`.
pub(crate) async fn open(
    State(app): State<App>,
    Caller(who): Caller,
    Extension(place): Extension<Place>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| {
        let error = ErrorBody::invalid("This route speaks WebSocket only.");
        ApiError::with_status(error, StatusCode::UPGRADE_REQUIRED)
    })?;
    let stopping = app.stopping.subscribe();
    Ok(upgrade.read_buffer_size(READ_BUFFER_BYTES).max_message_size(MAX_READ_BYTES).max_frame_size(MAX_READ_BYTES).on_upgrade(
        move |socket| async move {
            run(&app, who, socket, stopping).await;
            drop(place);
        },
    ))
}

/// How a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed it, or it broke.
    Gone,
    /// The hub ends it.
    Bye(String),
    /// The peer did what it may not.
    Refused(ErrorBody),
}

async fn run(app: &App, who: Identity, socket: WebSocket, mut stopping: watch::Receiver<bool>) {
    let (mut outgoing, mut arriving) = socket.split();
    let greeted = tokio::select! {
        biased;
        () = stopped(&mut stopping) => Err(End::Bye("The hub is stopping.".to_owned())),
        greeted = tokio::time::timeout(app.limits.hello, greet(app, who, &mut arriving)) => greeted.unwrap_or_else(|_| {
            let waited = app.limits.hello.as_secs();
            Err(End::Refused(ErrorBody::invalid(format!("The connection wasn't opened by a `hello` within {waited} s."))))
        }),
    };
    let end = match greeted {
        Ok((mut link, mut frames)) => {
            let (answers, mut waiting) = mpsc::channel(WAITING_ANSWERS);
            let end = tokio::select! {
                biased;
                end = write::write(&mut outgoing, &mut frames, &mut waiting, &mut stopping, app.limits.ping) => end,
                end = read::read(&mut arriving, &mut link, &answers, app.limits.silence) => end,
            };
            // What was answered before the end is still said, such as why frames were refused.
            if matches!(end, End::Refused(_)) {
                let _ = tokio::time::timeout(FAREWELL, last_answers(&mut outgoing, &mut waiting)).await;
            }
            end
        }
        Err(end) => end,
    };
    tracing::debug!(device = %who.device_id, ?end, "a socket ends");
    // Whatever the peer does, its last words get a moment and not more.
    let _ = tokio::time::timeout(FAREWELL, farewell(&mut outgoing, &mut arriving, end)).await;
}

/// Awaits the first frame and takes the device up.
async fn greet(app: &App, who: Identity, arriving: &mut Arriving) -> Result<(Link, LinkFrames), End> {
    let hello = loop {
        match arriving.next().await {
            None | Some(Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Err(error)) => return Err(read::broken(&error)),
            Some(Ok(Message::Text(text))) => break read::frame(text.as_str()).map_err(End::Refused)?,
            Some(Ok(Message::Binary(_))) => return Err(End::Refused(read::not_text())),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
        }
    };
    if !matches!(hello, ClientFrame::Hello { .. }) {
        return Err(End::Refused(ErrorBody::invalid("The first frame of a connection is `hello`.")));
    }
    app.hub.connect(who, hello).await.map_err(End::Refused)
}

async fn last_answers(outgoing: &mut Outgoing, waiting: &mut mpsc::Receiver<HubFrame>) {
    while let Ok(answer) = waiting.try_recv() {
        if let Some(message) = write::message(&answer) {
            let _ = outgoing.send(message).await;
        }
    }
}

async fn farewell(outgoing: &mut Outgoing, arriving: &mut Arriving, end: End) {
    let (frame, code) = match end {
        End::Gone => (None, close_code::NORMAL),
        End::Bye(reason) => (Some(HubFrame::Bye { reason, retry_after_s: RETRY_AFTER_S }), close_code::AWAY),
        End::Refused(error) => (Some(HubFrame::Error { session_id: None, error }), close_code::POLICY),
    };
    if let Some(message) = frame.as_ref().and_then(write::message) {
        let _ = outgoing.send(message).await;
    }
    let _ = outgoing.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await;
    // What still arrives is read, since closing on unread bytes would destroy the last words on their way.
    while let Some(Ok(_)) = arriving.next().await {}
}
