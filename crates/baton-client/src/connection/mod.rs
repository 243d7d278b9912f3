//! The live connection to a hub: made anew for as long as it is wanted, so that each followed session's changes arrive
//! without a gap and without a repeat (D4, C17).
//!
//! One task owns the socket, the cursors and the timers. Whoever uses the connection holds a handle and reads what comes
//! in; a slow reader slows the hub down through the socket and is never buffered for without bound.

mod backoff;
mod cursors;
mod dial;
mod frame;
mod link;
mod liveness;

use crate::lenient::UnknownChange;
use crate::{HubUrl, Token, tls};
use async_trait::async_trait;
use backoff::Backoff;
use baton_proto::{
    Capabilities, ClientFrame, ClientType, DeviceId, ErrorBody, HubFrame, HubInfo, JournalId, Limits, MAX_FRAME_BYTES, RunningCall,
    SessionId, ToolSpec, Trust, UserId, Workspace,
};
use cursors::Cursors;
use link::{Ended, Link};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Message;

/// Read but not yet taken by the owner of the receiver.
const INCOMING_CAPACITY: usize = 256;
/// Accepted but not yet written to the socket.
const OUTGOING_CAPACITY: usize = 256;
const COMMAND_CAPACITY: usize = 64;

/// Says where the hub is. Asked before each attempt, since a hub may come back at another address.
pub type UrlSource = Arc<dyn Fn() -> Result<HubUrl, String> + Send + Sync>;

/// Says what this end is, at each connection anew.
#[async_trait]
pub trait Greeting: Send + Sync + fmt::Debug + 'static {
    async fn hello(&self) -> Hello;
}

/// What an end tells of itself; the connection adds the protocol's version and the cursors.
#[derive(Clone, Debug, PartialEq)]
pub struct Hello {
    pub client_type: ClientType,
    pub capabilities: Capabilities,
    pub tools: Vec<ToolSpec>,
    pub workspaces: Vec<Workspace>,
    pub running: Vec<RunningCall>,
    /// Which journal tells of what runs; for ends that act.
    pub journal: Option<JournalId>,
}

impl Hello {
    /// An end with people in front of it and no tools.
    pub fn of(client_type: ClientType) -> Self {
        Self { client_type, capabilities: Capabilities::default(), tools: vec![], workspaces: vec![], running: vec![], journal: None }
    }
}

#[async_trait]
impl Greeting for Hello {
    async fn hello(&self) -> Hello {
        self.clone()
    }
}

/// What a connection needs to know.
#[derive(Clone)]
pub struct ConnectionConfig {
    pub url: UrlSource,
    pub token: Token,
    pub greeting: Arc<dyn Greeting>,
    /// Sessions to go on with, each after the last sequence number that was kept.
    pub cursors: BTreeMap<SessionId, u64>,
    pub timing: Timing,
}

impl fmt::Debug for ConnectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionConfig").field("greeting", &self.greeting).field("cursors", &self.cursors).finish_non_exhaustive()
    }
}

/// How long a connection waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats; the hub's own word counts where it asks for more of them.
    pub heartbeat: Duration,
    /// For a sign of life after a ping, before the link counts as dead (C20).
    pub pong: Duration,
    /// For the connection to stand, and for the hub's welcome after it.
    pub dial: Duration,
    /// Between two attempts, at first and at most.
    pub backoff: (Duration, Duration),
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(baton_proto::HEARTBEAT_S),
            pong: Duration::from_secs(15),
            dial: Duration::from_secs(10),
            backoff: (Duration::from_millis(200), Duration::from_secs(5)),
        }
    }
}

/// What comes in, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// The hub has taken this end in; what is sent from now on reaches it.
    Connected(Box<Welcome>),
    /// An attempt failed or a connection ended, in words for people. The next attempt follows by itself.
    Disconnected { reason: String },
    /// Views and changes come in order: each change follows the view or change before it. After a view that comes
    /// unasked, or after a reset, everything that was kept of the session is replaced.
    Frame(Box<HubFrame>),
    /// A change of a newer kind, in its place in the order (C19).
    UnknownChange(UnknownChange),
    /// The hub doesn't know this end, or no longer; nothing follows. Local copies are to be purged (H12).
    Refused(ErrorBody),
}

/// The hub's first word.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    pub device_id: DeviceId,
    pub user_id: UserId,
    pub name: String,
    pub trust: Trust,
    pub limits: Limits,
    pub hub: HubInfo,
}

/// Why a frame wasn't taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// There is no connection at the moment; say it again after the next `Connected`, if it still holds.
    #[error("there is no connection to the hub at the moment")]
    Disconnected,
    /// The hub would refuse it whole.
    #[error("the frame has {0} bytes; the hub takes at most {MAX_FRAME_BYTES}")]
    TooLarge(usize),
    /// More waits to be written than may wait; only from [`ConnectionHandle::try_send`].
    #[error("the connection is too slow at the moment")]
    Full,
}

/// The wire of one end.
#[derive(Debug)]
pub struct Connection;

impl Connection {
    /// Starts connecting, and keeps at it until the handle says stop, the receiver is dropped, or the hub refuses this end.
    pub fn spawn(config: ConnectionConfig) -> (ConnectionHandle, mpsc::Receiver<Incoming>) {
        tls::choose_cryptography();
        let (incoming, receiver) = mpsc::channel(INCOMING_CAPACITY);
        let (commands, command_receiver) = mpsc::channel(COMMAND_CAPACITY);
        let outlet = Arc::new(watch::Sender::new(None));
        let handle = ConnectionHandle { outlet: Arc::clone(&outlet), commands };
        let cursors = Cursors::new(config.cursors.clone());
        let keeper = Keeper { config, cursors, commands: command_receiver, incoming, outlet };
        tokio::spawn(keeper.keep());
        (handle, receiver)
    }
}

/// The sending end. Clones share one connection.
#[derive(Clone, Debug)]
pub struct ConnectionHandle {
    /// Where frames go while there is a connection.
    outlet: Arc<watch::Sender<Option<mpsc::Sender<Message>>>>,
    commands: mpsc::Sender<Command>,
}

impl ConnectionHandle {
    /// Hands a frame over, waiting for room. It may still be lost with the connection: what has to arrive is repeated
    /// until the hub has acknowledged it.
    pub async fn send(&self, frame: &ClientFrame) -> Result<(), SendError> {
        let message = encode(frame)?;
        let outlet = self.outlet.borrow().clone().ok_or(SendError::Disconnected)?;
        outlet.send(message).await.map_err(|_| SendError::Disconnected)
    }

    /// The same for what may be dropped, such as progress.
    pub fn try_send(&self, frame: &ClientFrame) -> Result<(), SendError> {
        let message = encode(frame)?;
        let outlet = self.outlet.borrow().clone().ok_or(SendError::Disconnected)?;
        outlet.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Disconnected,
        })
    }

    /// Follows a session over all connections to come: from its view, or on after a sequence number.
    pub async fn subscribe(&self, session_id: SessionId, after: Option<u64>) {
        self.command(Command::Subscribe { session_id, after }).await;
    }

    /// Follows a session no more; what is on its way is dropped.
    pub async fn unsubscribe(&self, session_id: SessionId) {
        self.command(Command::Unsubscribe { session_id }).await;
    }

    /// Closes the connection once what was sent before is written. Nothing comes in any more.
    pub async fn stop(&self) {
        self.command(Command::Stop).await;
    }

    async fn command(&self, command: Command) {
        // A connection that has ended follows nothing, which its receiver knows already.
        let _ = self.commands.send(command).await;
    }
}

fn encode(frame: &ClientFrame) -> Result<Message, SendError> {
    // Frames are plain data; one that can't be written doesn't exist.
    let text = serde_json::to_string(frame).unwrap_or_default();
    if text.len() > MAX_FRAME_BYTES { Err(SendError::TooLarge(text.len())) } else { Ok(Message::text(text)) }
}

#[derive(Debug)]
enum Command {
    Subscribe { session_id: SessionId, after: Option<u64> },
    Unsubscribe { session_id: SessionId },
    Stop,
}

/// Whether to go on.
enum Flow {
    On,
    Stop,
}

/// Keeps a connection alive through its attempts.
struct Keeper {
    config: ConnectionConfig,
    cursors: Cursors,
    commands: mpsc::Receiver<Command>,
    incoming: mpsc::Sender<Incoming>,
    outlet: Arc<watch::Sender<Option<mpsc::Sender<Message>>>>,
}

impl Keeper {
    async fn keep(mut self) {
        let mut backoff = Backoff::new(self.config.timing.backoff);
        loop {
            let ended = Box::pin(self.attempt(&mut backoff)).await;
            self.outlet.send_replace(None);
            let (last_word, pause) = match ended {
                Ended::Stopped => return,
                Ended::Refused(error) => (Incoming::Refused(error), None),
                Ended::Lost { reason, retry_after } => {
                    tracing::debug!(reason, "the connection to the hub ended");
                    (Incoming::Disconnected { reason }, Some(backoff.next(jitter()).max(retry_after)))
                }
            };
            let incoming = self.incoming.clone();
            let told = async move { incoming.send(last_word).await.is_ok() };
            let Some(pause) = pause else {
                told.await;
                return;
            };
            if !matches!(self.while_listening(told).await, Some(true)) {
                return;
            }
            if self.while_listening(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    async fn attempt(&mut self, backoff: &mut Backoff) -> Ended {
        let config = self.config.clone();
        let dialing = async move {
            let url = (config.url)().map_err(Ended::lost)?;
            let greeting = config.greeting.hello();
            let (socket, hello) = tokio::join!(dial::dial(&url, &config.token, config.timing.dial), greeting);
            Ok((socket?, hello))
        };
        let (socket, hello) = match Box::pin(self.while_listening(dialing)).await {
            None => return Ended::Stopped,
            Some(Err(ended)) => return ended,
            Some(Ok(dialed)) => dialed,
        };
        Link {
            timing: self.config.timing,
            cursors: &mut self.cursors,
            commands: &mut self.commands,
            incoming: &self.incoming,
            outlet: &self.outlet,
            backoff,
        }
        .run(socket, hello)
        .await
    }

    /// Awaits something while taking in what the handles say; `None` when nobody wants the connection any more.
    async fn while_listening<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.incoming.closed() => return None,
                command = self.commands.recv() => {
                    let command = command.unwrap_or(Command::Stop);
                    if matches!(self.cursors.command(&command), Flow::Stop) {
                        return None;
                    }
                }
                value = &mut future => return Some(value),
            }
        }
    }
}

fn jitter() -> u32 {
    // Without randomness ends come back together, which is a burden and not a fault.
    getrandom::u32().unwrap_or(u32::MAX / 2)
}
