//! One connection, from the first frame to its end.

use super::backoff::Backoff;
use super::cursors::{Cursors, Verdict};
use super::frame::{Received, read};
use super::liveness::{Liveness, Pulse};
use super::{Command, Flow, Hello, Incoming, OUTGOING_CAPACITY, Timing, Welcome, encode};
use baton_proto::{ClientFrame, ErrorBody, ErrorCode, HubFrame, PROTOCOL_VERSION, SessionId};
use futures::{Sink, SinkExt, StreamExt};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

/// The connection's own frames that may wait; a link on which more do is stuck.
const OWN_CAPACITY: usize = 64;
/// However long the hub asks to stay away.
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// For the last frames of a connection that is stopped.
const FAREWELL: Duration = Duration::from_secs(1);

/// How an attempt or a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nobody wants it any more.
    Stopped,
    /// The hub doesn't want this end.
    Refused(ErrorBody),
    /// To be tried again.
    Lost { reason: String, retry_after: Duration },
}

impl Ended {
    pub(super) fn lost(reason: impl Into<String>) -> Self {
        Self::Lost { reason: reason.into(), retry_after: Duration::ZERO }
    }
}

/// What one connection borrows from the keeper of all of them.
pub(super) struct Link<'a> {
    pub(super) timing: Timing,
    pub(super) cursors: &'a mut Cursors,
    pub(super) commands: &'a mut mpsc::Receiver<Command>,
    pub(super) incoming: &'a mpsc::Sender<Incoming>,
    pub(super) outlet: &'a watch::Sender<Option<mpsc::Sender<Message>>>,
    pub(super) backoff: &'a mut Backoff,
}

impl Link<'_> {
    pub(super) async fn run<S: AsyncRead + AsyncWrite + Unpin>(mut self, mut socket: WebSocketStream<S>, hello: Hello) -> Ended {
        let greeted = tokio::time::timeout(self.timing.dial, self.greet(&mut socket, hello)).await;
        let (welcome, heartbeat) = match greeted {
            Err(_) => return Ended::lost("the hub took the connection and then said nothing"),
            Ok(Err(ended)) => return ended,
            Ok(Ok(welcomed)) => welcomed,
        };
        self.backoff.reset();
        self.serve(socket, welcome, heartbeat).await
    }

    /// Says hello and awaits the welcome.
    async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        socket: &mut WebSocketStream<S>,
        hello: Hello,
    ) -> Result<(Welcome, Duration), Ended> {
        let frame = ClientFrame::Hello {
            protocol: PROTOCOL_VERSION,
            client_type: hello.client_type,
            capabilities: hello.capabilities,
            tools: hello.tools,
            workspaces: hello.workspaces,
            cursors: self.cursors.hello(),
            running: hello.running,
            journal: hello.journal,
        };
        let message = encode(&frame).map_err(|error| {
            let hint = "Offer fewer tools or workspaces, or follow fewer sessions.";
            Ended::Refused(ErrorBody::new(ErrorCode::TooLarge, format!("The first frame can't be sent: {error}."), hint))
        })?;
        socket.send(message).await.map_err(|error| ended_by(&error))?;
        loop {
            let text = match socket.next().await {
                None => return Err(Ended::lost("the hub closed the connection before its welcome")),
                Some(Err(error)) => return Err(ended_by(&error)),
                Some(Ok(Message::Close(frame))) => return Err(Ended::lost(closed(frame.as_ref().map(|frame| frame.reason.as_str())))),
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(_)) => continue,
            };
            match read(&text) {
                Received::Frame(HubFrame::Welcome { device_id, user_id, name, trust, heartbeat_s, limits, hub }) => {
                    let asked = Duration::from_secs(heartbeat_s.max(1));
                    return Ok((Welcome { device_id, user_id, name, trust, limits, hub }, asked.min(self.timing.heartbeat)));
                }
                Received::Frame(HubFrame::Error { error, .. }) => {
                    let last_word = matches!(error.code, ErrorCode::Unauthenticated | ErrorCode::UnsupportedVersion | ErrorCode::Forbidden);
                    return Err(if last_word { Ended::Refused(error) } else { Ended::lost(error.to_string()) });
                }
                Received::Frame(HubFrame::Bye { reason, retry_after_s }) => return Err(sent_away(&reason, retry_after_s)),
                other => tracing::debug!(?other, "skipped what came before the welcome"),
            }
        }
    }

    /// Passes frames on in both directions until the connection ends.
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(self, socket: WebSocketStream<S>, welcome: Welcome, heartbeat: Duration) -> Ended {
        let Self { timing, cursors, commands, incoming, outlet, .. } = self;
        let (sink, mut source) = socket.split();
        let (own, own_receiver) = mpsc::channel(OWN_CAPACITY);
        let (out, out_receiver) = mpsc::channel(OUTGOING_CAPACITY);
        let mut writing = std::pin::pin!(write(sink, own_receiver, out_receiver));
        let mut liveness = Liveness::new(timing, heartbeat, Instant::now(), SystemTime::now());
        let mut ticks = tokio::time::interval(liveness.interval());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);

        // From here on a frame that is accepted goes to this connection; only then is the reader told.
        outlet.send_replace(Some(out.clone()));
        let mut word = Some(Incoming::Connected(Box::new(welcome)));
        let mut retry_after = Duration::ZERO;
        let mut asks: VecDeque<ClientFrame> =
            cursors.awaiting_view().into_iter().map(|session_id| ClientFrame::Subscribe { session_id, after: None }).collect();
        // Reading waits until there is room for what is read, so that the hub is slowed down and nothing piles up here.
        let mut room: Option<mpsc::Permit<'_, Incoming>> = None;
        loop {
            if word.is_some()
                && let Some(permit) = room.take()
                && let Some(word) = word.take()
            {
                permit.send(word);
            }
            // What there is no room to ask now is asked at a later turn of the loop, at the latest at the next tick.
            while let Some(ask) = asks.pop_front() {
                if let Ok(message) = encode(&ask)
                    && let Err(mpsc::error::TrySendError::Full(_)) = own.try_send(message)
                {
                    asks.push_front(ask);
                    break;
                }
            }
            tokio::select! {
                biased;
                reason = &mut writing => return Ended::Lost { reason, retry_after },
                () = incoming.closed() => return farewell(&out, writing).await,
                command = commands.recv() => {
                    let command = command.unwrap_or(Command::Stop);
                    if matches!(cursors.command(&command), Flow::Stop) {
                        return farewell(&out, writing).await;
                    }
                    asks.extend(frame_of(&command));
                }
                permit = incoming.reserve(), if room.is_none() => room = permit.ok(),
                _ = ticks.tick() => {
                    if room.is_none() {
                        // What isn't read because nobody takes it doesn't count as silence.
                        liveness.heard();
                    }
                    match liveness.tick(Instant::now(), SystemTime::now(), cursors.in_gap()) {
                        Pulse::Quiet => {}
                        Pulse::Dead(reason) => return Ended::lost(reason),
                        Pulse::Beat => beat(&own, cursors),
                    }
                }
                message = source.next(), if room.is_some() => {
                    let text = match message {
                        None => return Ended::Lost { reason: closed(None), retry_after },
                        Some(Err(error)) => return Ended::Lost { reason: lost(&error), retry_after },
                        Some(Ok(Message::Close(frame))) => {
                            return Ended::Lost { reason: closed(frame.as_ref().map(|frame| frame.reason.as_str())), retry_after };
                        }
                        Some(Ok(message)) => {
                            liveness.heard();
                            let Message::Text(text) = message else { continue };
                            text
                        }
                    };
                    let (next, ask) = sort(read(&text), cursors);
                    if let Some(Incoming::Frame(frame)) = &next
                        && let HubFrame::Bye { retry_after_s, .. } = **frame
                    {
                        retry_after = Duration::from_secs(retry_after_s).min(LONGEST_RETRY);
                    }
                    word = next;
                    asks.extend(ask);
                }
            }
        }
    }
}

/// Shows the hub that this end lives, and asks for a sign of its life. A link that is too full to take a ping won't answer
/// one, and is found dead by that.
fn beat(own: &mpsc::Sender<Message>, cursors: &Cursors) {
    let _ = own.try_send(Message::Ping(Vec::new().into()));
    if let Ok(message) = encode(&ClientFrame::Heartbeat { capabilities: None, epochs: cursors.epochs() }) {
        let _ = own.try_send(message);
    }
}

/// Puts a frame in its place: what to pass on, and what to ask the hub for.
fn sort(received: Received, cursors: &mut Cursors) -> (Option<Incoming>, Option<ClientFrame>) {
    let (session, verdict, word) = match received {
        Received::Skipped(why) => {
            tracing::warn!(why, "skipped a frame of the hub");
            return (None, None);
        }
        Received::UnknownChange(change) => {
            (change.session_id, cursors.change(change.session_id, change.seq, &change.upserts), Incoming::UnknownChange(change))
        }
        Received::Frame(frame) => {
            let (session, verdict) = match &frame {
                HubFrame::Change(change) => (change.session_id, cursors.change(change.session_id, change.seq, &change.upserts)),
                HubFrame::View(view) => (view.session_id, cursors.view(view.session_id, view.seq, &view.entities)),
                HubFrame::Reset { session_id, .. } => (*session_id, cursors.reset(*session_id)),
                _ => return (Some(Incoming::Frame(Box::new(frame))), None),
            };
            (session, verdict, Incoming::Frame(Box::new(frame)))
        }
    };
    match verdict {
        Verdict::Take => (Some(word), None),
        Verdict::Drop => (None, None),
        Verdict::Ask(after) => (None, Some(ClientFrame::Subscribe { session_id: session, after: Some(after) })),
    }
}

fn frame_of(command: &Command) -> Option<ClientFrame> {
    let subscribe = |session_id: SessionId, after| ClientFrame::Subscribe { session_id, after };
    match *command {
        Command::Subscribe { session_id, after } => Some(subscribe(session_id, after)),
        Command::Unsubscribe { session_id } => Some(ClientFrame::Unsubscribe { session_id }),
        Command::Stop => None,
    }
}

/// Writes what is to be written, the connection's own frames first, until it fails or the connection is closed.
async fn write<W: Sink<Message, Error = Error> + Unpin>(
    mut sink: W,
    mut own: mpsc::Receiver<Message>,
    mut out: mpsc::Receiver<Message>,
) -> String {
    loop {
        let message = tokio::select! {
            biased;
            Some(message) = own.recv() => message,
            Some(message) = out.recv() => message,
            else => return "nothing is to be written any more".to_owned(),
        };
        let last = matches!(message, Message::Close(_));
        if let Err(error) = sink.send(message).await {
            return lost(&error);
        }
        if last {
            return "the connection was closed here".to_owned();
        }
    }
}

/// Lets what was accepted be written, and closes.
async fn farewell(out: &mpsc::Sender<Message>, writing: impl Future<Output = String>) -> Ended {
    let close = async {
        // A full queue is being written at the same time, or isn't and the time runs out.
        let (_, _) = tokio::join!(out.send(Message::Close(None)), writing);
    };
    // Who stops doesn't wait for a hub that doesn't read.
    let _ = tokio::time::timeout(FAREWELL, close).await;
    Ended::Stopped
}

fn sent_away(reason: &str, retry_after_s: u64) -> Ended {
    Ended::Lost { reason: format!("the hub said goodbye: {reason}"), retry_after: Duration::from_secs(retry_after_s).min(LONGEST_RETRY) }
}

fn ended_by(error: &Error) -> Ended {
    Ended::lost(lost(error))
}

fn lost(error: &Error) -> String {
    format!("the connection to the hub broke: {}", crate::http::causes(error))
}

fn closed(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!("the hub closed the connection: {reason}"),
        _ => "the hub closed the connection".to_owned(),
    }
}
