//! The network: connections with delay, in order within one and in any order between two, that break, fall silent, or are refused.
//! A link brings each frame once, as TCP does; frames that an end may legally send twice can be doubled.

use super::hubs::Life;
use super::plan::{Moment, Who};
use super::shared::Shared;
use baton_proto::{ClientFrame, HubFrame, LEASE_S};
use baton_runtime::{LinkFrame, LinkFrames};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

const LEASE: Duration = Duration::from_secs(LEASE_S);
const HEARTBEAT: Duration = Duration::from_secs(baton_proto::HEARTBEAT_S);

/// One connection, as the world sees it.
#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) who: Who,
    broken: watch::Sender<bool>,
    silent: AtomicBool,
}

impl Cable {
    pub(crate) fn cut(&self) {
        self.broken.send_replace(true);
    }

    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    async fn until_cut(&self) {
        let _ = self.broken.subscribe().wait_for(|cut| *cut).await;
    }
}

#[derive(Debug)]
pub(crate) struct Sending<T> {
    cable: Arc<Cable>,
    queue: mpsc::UnboundedSender<(Instant, T)>,
    last: Instant,
    stream: String,
}

impl<T> Sending<T> {
    fn send(&mut self, shared: &Shared, frame: T) {
        if self.cable.is_silent() {
            return;
        }
        let slow = shared.is_slow();
        let delay = shared.draw(&self.stream, |draw| if slow { draw.wait(200, 900) } else { draw.wait(1, 25) });
        self.last = self.last.max(Instant::now() + delay);
        // Nobody at the other end is what a broken connection is.
        let _ = self.queue.send((self.last, frame));
    }
}

#[derive(Debug)]
pub(crate) struct Receiving<T> {
    cable: Arc<Cable>,
    queue: mpsc::UnboundedReceiver<(Instant, T)>,
    next: Option<(Instant, T)>,
}

impl<T> Receiving<T> {
    /// The next frame, or `None` when the connection is gone. May be dropped and asked again.
    async fn recv(&mut self) -> Option<T> {
        if self.next.is_none() {
            let cable = Arc::clone(&self.cable);
            self.next = tokio::select! {
                biased;
                () = cable.until_cut() => None,
                next = self.queue.recv() => next,
            };
            if self.next.is_none() && self.cable.is_silent() {
                // The other end is gone, and its word of it went astray.
                self.cable.until_cut().await;
            }
        }
        let at = self.next.as_ref().map(|(at, _)| *at)?;
        let cable = Arc::clone(&self.cable);
        tokio::select! {
            biased;
            () = cable.until_cut() => None,
            () = sleep_until(at) => self.next.take().map(|(_, frame)| frame),
        }
    }
}

fn pair<T>(cable: &Arc<Cable>, stream: String) -> (Sending<T>, Receiving<T>) {
    let (sender, queue) = mpsc::unbounded_channel();
    let sending = Sending { cable: Arc::clone(cable), queue: sender, last: Instant::now(), stream };
    (sending, Receiving { cable: Arc::clone(cable), queue, next: None })
}

/// A client's end of a connection.
type Socket = (Sending<ClientFrame>, Receiving<HubFrame>);

async fn dial(shared: &Arc<Shared>, who: Who) -> Option<Socket> {
    let stream = format!("dial {}", who.name());
    sleep(shared.draw(&stream, |draw| draw.wait(1, 40))).await;
    if shared.is_away(who) {
        return None;
    }
    let life = shared.hub()?;
    let cable = Arc::new(Cable { who, broken: watch::channel(false).0, silent: AtomicBool::new(false) });
    let (up, from_client) = pair(&cable, format!("up {}", who.name()));
    let (down, from_hub) = pair(&cable, format!("down {}", who.name()));
    let task = tokio::spawn(serve(Arc::clone(shared), Arc::clone(&life), cable.clone(), from_client, down));
    life.adopt(cable, task.abort_handle());
    Some((up, from_hub))
}

/// The hub's end of a connection, as its server would keep it.
async fn serve(shared: Arc<Shared>, life: Arc<Life>, cable: Arc<Cable>, mut from_client: Receiving<ClientFrame>, down: Sending<HubFrame>) {
    let Some(hub) = life.hub() else { return };
    let who = shared.identity(cable.who);
    let Ok(Some(hello)) = tokio::time::timeout(LEASE, from_client.recv()).await else { return };
    let hello = shared.habits.hello(hello);
    let (mut link, frames) = match hub.connect(who, hello).await {
        Ok(connected) => connected,
        Err(error) => {
            shared.note(&format!("{} was refused: {}", cable.who.name(), error.code));
            cable.cut();
            return;
        }
    };
    let writer = tokio::spawn(write(Arc::clone(&shared), Arc::clone(&life), Arc::clone(&cable), frames, down));
    life.adopt(Arc::clone(&cable), writer.abort_handle());
    while let Ok(Some(frame)) = tokio::time::timeout(LEASE, from_client.recv()).await {
        let times = if may_come_twice(&frame) && shared.doubles(cable.who) { 2 } else { 1 };
        for _ in 0..times {
            shared.took(cable.who, &frame);
            if matches!(frame, ClientFrame::ToolResult { .. }) {
                shared.moment(Moment::ResultArrived);
                life.gate().await;
            }
            if let Err(error) = link.receive(frame.clone()).await {
                shared.note(&format!("{} sent what was refused: {error}", cable.who.name()));
            }
        }
    }
    writer.abort();
    cable.cut();
}

/// What an at-least-once sender may repeat.
const fn may_come_twice(frame: &ClientFrame) -> bool {
    matches!(
        frame,
        ClientFrame::Op { .. }
            | ClientFrame::ToolStarted { .. }
            | ClientFrame::ToolResult { .. }
            | ClientFrame::Prepared { .. }
            | ClientFrame::Probed { .. }
    )
}

async fn write(shared: Arc<Shared>, life: Arc<Life>, cable: Arc<Cable>, mut frames: LinkFrames, mut down: Sending<HubFrame>) {
    while let Some(next) = frames.next().await {
        life.gate().await;
        let frame = match next {
            LinkFrame::Frame(frame) => *frame,
            LinkFrame::Close { reason } => {
                shared.note(&format!("the hub closes {}: {reason}", cable.who.name()));
                break;
            }
        };
        match frame {
            HubFrame::ToolCall(_) => shared.moment(Moment::Dispatched),
            HubFrame::Ack(_) | HubFrame::ToolResultAck { .. } => shared.moment(Moment::AckSent),
            _ => {}
        }
        life.gate().await;
        shared.sends(&life, cable.who, &frame);
        let doubled = matches!(
            frame,
            HubFrame::ToolCall(_)
                | HubFrame::CancelCall { .. }
                | HubFrame::ProbeCall { .. }
                | HubFrame::PrepareCall { .. }
                | HubFrame::ToolResultAck { .. }
        ) && shared.doubles(cable.who);
        let frame = shared.habits.deliver(frame);
        if doubled {
            down.send(&shared, frame.clone());
        }
        down.send(&shared, frame);
    }
    cable.cut();
}

/// Word from a line to its owner. Connections are numbered, so that nothing meant for one goes over the next.
#[derive(Debug)]
pub(crate) enum Word {
    /// A connection stands; the first frame over it has to be `hello`.
    Up(u64),
    Frame(Box<HubFrame>),
    Down,
}

/// A client's connection, made anew for as long as its owner lives.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) words: mpsc::UnboundedReceiver<Word>,
    out: mpsc::UnboundedSender<(u64, ClientFrame)>,
    connection: u64,
    task: AbortHandle,
}

impl Line {
    pub(crate) fn new(shared: &Arc<Shared>, who: Who) -> Self {
        let (word, words) = mpsc::unbounded_channel();
        let (out, frames) = mpsc::unbounded_channel();
        let task = tokio::spawn(keep(Arc::clone(shared), who, word, frames)).abort_handle();
        Self { words, out, connection: 0, task }
    }

    /// From here on frames go over this connection.
    pub(crate) const fn use_connection(&mut self, connection: u64) {
        self.connection = connection;
    }

    /// What is sent while the connection is down is lost, as with any.
    pub(crate) fn send(&self, frame: ClientFrame) {
        let _ = self.out.send((self.connection, frame));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(shared: Arc<Shared>, who: Who, word: mpsc::UnboundedSender<Word>, mut frames: mpsc::UnboundedReceiver<(u64, ClientFrame)>) {
    let mut connection = 0;
    loop {
        if let Some((mut up, mut from_hub)) = dial(&shared, who).await {
            connection += 1;
            let _ = word.send(Word::Up(connection));
            let (mut heard, mut beat) = (Instant::now(), Instant::now() + HEARTBEAT);
            loop {
                tokio::select! {
                    biased;
                    frame = from_hub.recv() => match frame {
                        None => break,
                        Some(frame) => {
                            heard = Instant::now();
                            let _ = word.send(Word::Frame(Box::new(frame)));
                        }
                    },
                    frame = frames.recv() => match frame {
                        None => return,
                        Some((of, frame)) if of == connection => up.send(&shared, frame),
                        Some(_) => {}
                    },
                    () = sleep_until(beat) => {
                        beat = Instant::now() + HEARTBEAT;
                        up.send(&shared, ClientFrame::Heartbeat { capabilities: None, epochs: std::collections::BTreeMap::new() });
                    }
                    () = sleep_until(heard + LEASE) => break,
                }
            }
            let _ = word.send(Word::Down);
        }
        let stream = format!("backoff {}", who.name());
        sleep(shared.draw(&stream, |draw| draw.wait(50, 800))).await;
    }
}
