//! A device: connected to its hub for as long as it runs, performing the calls that it is handed (D13, F7).
//!
//! Work goes on while the link is down. A device stops when it is told to, when the hub no longer accepts it, or when its
//! journal can't be written: without a journal nothing may act.

pub use crate::link::{WorkspaceNews, WorkspaceSource};

use crate::journal::{AttemptId, Finished, JournalError, Receipt, SharedJournal, Standing};
use crate::link::{DeviceGreeting, Ended, Underway, Whole, fit, progress};
use crate::tool::{CancelSignal, Tool, Toolbox, failed, refused};
use baton_client::{Connection, ConnectionConfig, ConnectionHandle, Incoming, Timing, Token, UrlSource, Welcome};
use baton_proto::{
    CallId, Capabilities, ClientFrame, DispatchedCall, ErrorBody, FileShown, Finding, FoundPaths, HubFrame, Outcome, Prepared,
    RecordedChanges, Risk, SessionId, StateModified, ToolError,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

/// For a frame to be taken by a slow link; a result is told again later.
const SEND_PATIENCE: Duration = Duration::from_secs(5);
/// For a tool to say what a call would do, or whether it happened.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// For running calls to end their processes when the device stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// Between two times of telling results that the hub hasn't acknowledged, on one connection.
const RETELL: Duration = Duration::from_secs(30);

/// What a device needs to run.
#[derive(Clone)]
pub struct DeviceConfig {
    /// Where the hub is; asked before each attempt to connect.
    pub hub: UrlSource,
    pub token: Token,
    /// The device's own directory, for its journal. One process has it at a time.
    pub data_dir: PathBuf,
    pub toolbox: Arc<Toolbox>,
    pub workspaces: Arc<dyn WorkspaceSource>,
    pub capabilities: Capabilities,
    /// What the device calls itself in its own log.
    pub name: String,
    pub timing: Timing,
    /// Tells the device to stop.
    pub shutdown: CancelSignal,
}

impl fmt::Debug for DeviceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceConfig").field("name", &self.name).field("data_dir", &self.data_dir).finish_non_exhaustive()
    }
}

/// Why a device stopped without having been told to.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The hub doesn't accept this device; all its work was stopped.
    #[error("The hub doesn't accept this device, so it stopped all its work. {0}")]
    Revoked(ErrorBody),
    /// The connection's own task is gone, which is a fault of this program.
    #[error("The connection to the hub ended by a fault of this program. Start the device again; nothing is lost.")]
    ConnectionLost,
}

/// The acting end of the wire.
#[derive(Debug)]
pub struct Device {
    toolbox: Arc<Toolbox>,
    workspaces: Arc<dyn WorkspaceSource>,
    journal: SharedJournal,
    handle: ConnectionHandle,
    underway: Underway,
    whole: Arc<Whole>,
}

/// A question about a call that was or wasn't handed over.
struct Probe {
    session_id: SessionId,
    id: AttemptId,
    tool: String,
    arguments: Value,
}

impl Device {
    /// Connects and works until the device is told to stop or can't go on. What runs then is stopped and written down.
    pub async fn run(config: DeviceConfig) -> Result<(), DeviceError> {
        let journal = SharedJournal::open(config.data_dir).await?;
        let greeting = DeviceGreeting {
            capabilities: config.capabilities,
            toolbox: Arc::clone(&config.toolbox),
            workspaces: Arc::clone(&config.workspaces),
            journal: journal.clone(),
        };
        let whole = Arc::new(Whole::new(Arc::clone(&config.hub), config.token.clone()));
        let (handle, mut incoming) = Connection::spawn(ConnectionConfig {
            url: config.hub,
            token: config.token,
            greeting: Arc::new(greeting),
            cursors: BTreeMap::new(),
            timing: config.timing,
        });
        tracing::info!(name = config.name, "the device runs");
        let mut device =
            Self { toolbox: config.toolbox, workspaces: config.workspaces, journal, handle, underway: Underway::default(), whole };
        let served = device.serve(&mut incoming, config.shutdown).await;
        let stopped = device.stop().await;
        served.and(stopped)
    }

    async fn serve(&mut self, incoming: &mut mpsc::Receiver<Incoming>, mut shutdown: CancelSignal) -> Result<(), DeviceError> {
        let mut retell = tokio::time::interval_at(Instant::now() + RETELL, RETELL);
        retell.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                ended = self.underway.next() => self.ended(ended).await?,
                () = self.workspaces.has_news() => self.tell_news().await,
                word = incoming.recv() => match word {
                    None => return Err(DeviceError::ConnectionLost),
                    Some(Incoming::Refused(error)) => return Err(DeviceError::Revoked(error)),
                    Some(Incoming::Connected(welcome)) => {
                        self.connected(&welcome).await?;
                        retell.reset();
                    }
                    Some(Incoming::Disconnected { reason }) => tracing::info!(reason, "the hub is away; work goes on"),
                    Some(Incoming::Frame(frame)) => self.take(*frame).await?,
                    // A device follows no session.
                    Some(Incoming::UnknownChange(_)) => {}
                },
                _ = retell.tick() => self.tell_results().await?,
            }
        }
    }

    async fn connected(&mut self, welcome: &Welcome) -> Result<(), DeviceError> {
        let device_id = welcome.device_id;
        let dropped = self.journal.with(move |journal| journal.adopt(device_id)).await?;
        if dropped > 0 {
            tracing::warn!(dropped, "this device was paired anew; calls of its former pairing are stopped and forgotten");
            self.underway.cancel_all();
        }
        tracing::info!(hub = welcome.hub.version, incarnation = welcome.hub.incarnation, "connected");
        self.tell_results().await
    }

    async fn take(&mut self, frame: HubFrame) -> Result<(), DeviceError> {
        match frame {
            HubFrame::ToolCall(call) => self.call(*call).await,
            HubFrame::PrepareCall { session_id, call_id, tool, arguments, fence } => {
                if self.admits(fence).await? {
                    let tool = self.toolbox.get(&tool).ok_or(tool);
                    self.underway.answer(prepare(session_id, call_id, tool, arguments));
                }
                Ok(())
            }
            HubFrame::CancelCall { session_id, call_id, attempt, fence } => {
                if self.admits(fence).await? {
                    self.cancel(session_id, AttemptId { call_id, attempt }).await?;
                }
                Ok(())
            }
            HubFrame::ProbeCall { session_id, call_id, attempt, tool, arguments, fence } => {
                if self.admits(fence).await? {
                    self.probe(Probe { session_id, id: AttemptId { call_id, attempt }, tool, arguments }).await?;
                }
                Ok(())
            }
            HubFrame::ShowChanges { question, calls } => {
                let record = self.toolbox.record();
                self.underway.answer(async move {
                    let changes = match record {
                        Some(record) => record.changes_of(calls).await,
                        None => RecordedChanges::default(),
                    };
                    ClientFrame::ChangesShown { question, changes: Box::new(changes) }
                });
                Ok(())
            }
            HubFrame::ShowFile { question, path, offset, digest } => {
                let window = self.toolbox.window();
                self.underway.answer(async move {
                    let shown = match window {
                        Some(window) => window.file(path, offset, digest).await,
                        None => FileShown::Refused { error: no_workspace() },
                    };
                    ClientFrame::FileShown { question, shown }
                });
                Ok(())
            }
            HubFrame::FindPaths { question, query, limit } => {
                let window = self.toolbox.window();
                self.underway.answer(async move {
                    let found = match window {
                        Some(window) => window.paths(query, limit).await,
                        None => FoundPaths::default(),
                    };
                    ClientFrame::PathsFound { question, found }
                });
                Ok(())
            }
            HubFrame::ToolResultAck { call_id, attempt, .. } => {
                let id = AttemptId { call_id, attempt };
                Ok(self.journal.with(move |journal| journal.acknowledge(id)).await?)
            }
            HubFrame::Error { error, .. } => {
                tracing::warn!(%error, "the hub refused something");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes in a call: written down first, then told, then run.
    async fn call(&mut self, call: DispatchedCall) -> Result<(), DeviceError> {
        let (session_id, id) = (call.session_id, AttemptId { call_id: call.call_id, attempt: call.attempt });
        let received = call.clone();
        let known_tool = self.toolbox.get(&call.tool);
        match self.journal.with(move |journal| journal.receive(&received)).await? {
            Receipt::New => {
                let Some(tool) = known_tool else {
                    return self.finish(vec![(session_id, id)], failed(no_such_tool(&call.tool))).await;
                };
                self.begin(session_id, id).await?;
                let progress = progress(&call, self.handle.clone());
                self.underway.start(tool, call, progress, Arc::clone(&self.whole));
            }
            Receipt::Joins(running) => {
                self.begin(session_id, id).await?;
                self.underway.join(running, session_id, id);
            }
            Receipt::Known(Standing::Underway) => self.tell_started(session_id, id).await,
            Receipt::Known(Standing::Finished(outcome)) => self.tell(Finished { session_id, id, outcome: *outcome }).await,
            Receipt::Known(Standing::Acknowledged) => {
                let known = "This attempt ended on the device and the hub acknowledged its result, which isn't kept here any more.";
                self.tell(Finished { session_id, id, outcome: Outcome::Interrupted { known: known.to_owned() } }).await;
            }
            Receipt::Superseded => {
                let message = "A later attempt of this call has reached the device, so this one wasn't run.";
                let error = refused("superseded", message, "Wait for the later attempt's result.");
                self.finish(vec![(session_id, id)], failed(error)).await?;
            }
            Receipt::StaleFence { newest } => {
                tracing::warn!(fence = call.fence, newest, "ignored a call of a hub that another one has replaced");
            }
        }
        Ok(())
    }

    async fn begin(&self, session_id: SessionId, id: AttemptId) -> Result<(), DeviceError> {
        self.journal.with(move |journal| journal.begin(id)).await?;
        self.tell_started(session_id, id).await;
        Ok(())
    }

    /// Asks a call to stop. Its result follows once its processes are gone; a call that isn't here is answered at once.
    async fn cancel(&mut self, session_id: SessionId, id: AttemptId) -> Result<(), DeviceError> {
        if self.underway.cancel(id) {
            return Ok(());
        }
        match self.journal.with(move |journal| Ok(journal.standing(id))).await? {
            Some(Standing::Finished(outcome)) => self.tell(Finished { session_id, id, outcome: *outcome }).await,
            // The hub has its result already; or it ends at this moment, and its result follows.
            Some(Standing::Acknowledged | Standing::Underway) => {}
            // It never came. Written down as cancelled, it won't run either should it still come.
            None => self.finish(vec![(session_id, id)], Outcome::Cancelled { result: None }).await?,
        }
        Ok(())
    }

    /// Says whether a call happened: by the journal where it knows, by the tool's own lookup where it doesn't (E3).
    async fn probe(&mut self, probe: Probe) -> Result<(), DeviceError> {
        let Probe { session_id, id, .. } = probe;
        let standing = self.journal.with(move |journal| Ok(journal.standing(id))).await?;
        let known = match standing {
            Some(Standing::Underway) => {
                self.tell_started(session_id, id).await;
                Some(Finding::Unclear { known: "It is still running on the device; its result follows.".to_owned() })
            }
            Some(Standing::Finished(outcome)) => {
                let finding = finding(&outcome);
                self.tell(Finished { session_id, id, outcome: *outcome }).await;
                finding
            }
            Some(Standing::Acknowledged) | None => None,
        };
        let tool = self.toolbox.get(&probe.tool);
        self.underway.answer(async move {
            let finding = match known {
                Some(finding) => finding,
                None => look_up(tool, &probe).await,
            };
            ClientFrame::Probed { session_id, call_id: id.call_id, attempt: id.attempt, finding }
        });
        Ok(())
    }

    async fn ended(&mut self, ended: Ended) -> Result<(), DeviceError> {
        match ended {
            Ended::Answer(frame) => {
                self.send(&frame).await;
                Ok(())
            }
            Ended::Call { mut attempts, outcome } => {
                // What somebody else had changed before the call is told before what the call did.
                self.tell_news().await;
                // What a former pairing began is nobody's business any more.
                let attempts = self.journal.with(move |journal| {
                    attempts.retain(|(_, id)| journal.standing(*id) == Some(Standing::Underway));
                    Ok(attempts)
                });
                self.finish(attempts.await?, *outcome).await
            }
        }
    }

    /// Writes an outcome down for each attempt, and only then tells it.
    async fn finish(&mut self, attempts: Vec<(SessionId, AttemptId)>, outcome: Outcome) -> Result<(), DeviceError> {
        let outcome = fit(outcome);
        for (session_id, id) in attempts {
            let finished = Finished { session_id, id, outcome: outcome.clone() };
            let written = finished.clone();
            self.journal.with(move |journal| journal.finish(written)).await?;
            self.tell(finished).await;
        }
        Ok(())
    }

    async fn tell_results(&mut self) -> Result<(), DeviceError> {
        for finished in self.journal.with(|journal| Ok(journal.unacknowledged())).await? {
            self.tell(finished).await;
        }
        Ok(())
    }

    async fn tell(&self, finished: Finished) {
        let Finished { session_id, id, outcome } = finished;
        self.send(&ClientFrame::ToolResult { session_id, call_id: id.call_id, attempt: id.attempt, outcome }).await;
    }

    /// What isn't told because the link is down is part of the next connection's first frame.
    async fn tell_news(&self) {
        for WorkspaceNews { workspace, files, files_left_out } in self.workspaces.take_news() {
            self.send(&ClientFrame::WorkspaceChanged { workspace, files, files_left_out }).await;
        }
    }

    async fn tell_started(&self, session_id: SessionId, id: AttemptId) {
        self.send(&ClientFrame::ToolStarted { session_id, call_id: id.call_id, attempt: id.attempt }).await;
    }

    /// Sends what the link takes. What it doesn't is told again: results until they are acknowledged, what runs in the
    /// first frame of the next connection, and answers when they are asked for anew.
    async fn send(&self, frame: &ClientFrame) {
        match tokio::time::timeout(SEND_PATIENCE, self.handle.send(frame)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a frame wasn't sent"),
            Err(_) => tracing::warn!("the link to the hub is stuck"),
        }
    }

    async fn admits(&self, fence: u64) -> Result<bool, DeviceError> {
        let admitted = self.journal.with(move |journal| journal.admit(fence)).await?;
        if !admitted {
            tracing::warn!(fence, "ignored a frame of a hub that another one has replaced");
        }
        Ok(admitted)
    }

    /// Stops what runs and writes down how it ended; a tool that doesn't stop in time is found interrupted at the next start.
    async fn stop(mut self) -> Result<(), DeviceError> {
        self.underway.cancel_all();
        let drained = async {
            while self.underway.has_calls() {
                let ended = self.underway.next().await;
                self.ended(ended).await?;
            }
            Ok(())
        };
        let result = tokio::time::timeout(STOP_PATIENCE, drained).await.unwrap_or(Ok(()));
        self.handle.stop().await;
        result
    }
}

async fn prepare(session_id: SessionId, call_id: CallId, tool: Result<Arc<dyn Tool>, String>, arguments: Value) -> ClientFrame {
    let prepared = match tool {
        Err(name) => refusal(Risk::Dangerous, no_such_tool(&name)),
        Ok(tool) => {
            if let Ok(prepared) = tokio::time::timeout(ANSWER_PATIENCE, tool.prepare(&arguments)).await {
                prepared
            } else {
                let message = format!("The device didn't find out within {} s what this call would do.", ANSWER_PATIENCE.as_secs());
                refusal(tool.spec().risk, refused("timed_out", message, "Try again, or do it in smaller steps."))
            }
        }
    };
    ClientFrame::Prepared { session_id, call_id, prepared }
}

fn refusal(risk: Risk, error: ToolError) -> Prepared {
    Prepared {
        risk,
        risk_reason: String::new(),
        risk_said: Vec::new(),
        digests: BTreeMap::new(),
        preview: String::new(),
        directory: None,
        refusal: Some(error),
    }
}

async fn look_up(tool: Option<Arc<dyn Tool>>, probe: &Probe) -> Finding {
    match tool.filter(|tool| tool.spec().lookup) {
        None => Finding::Unclear { known: "The device has no way to find out what became of it.".to_owned() },
        Some(tool) => tokio::time::timeout(ANSWER_PATIENCE, tool.lookup(probe.id.call_id, &probe.arguments)).await.unwrap_or_else(|_| {
            Finding::Unclear { known: format!("The device didn't find out within {} s what became of it.", ANSWER_PATIENCE.as_secs()) }
        }),
    }
}

/// What an outcome says about whether the call happened, where it says it.
fn finding(outcome: &Outcome) -> Option<Finding> {
    match outcome {
        Outcome::Succeeded(result) => Some(Finding::Happened { result: result.clone() }),
        Outcome::Failed { error, .. } if error.state_modified == StateModified::No => Some(Finding::NotHappened),
        Outcome::Failed { error, .. } => Some(Finding::Unclear { known: error.message.clone() }),
        Outcome::Cancelled { result: None } => Some(Finding::NotHappened),
        Outcome::Cancelled { result: Some(_) } => Some(Finding::Unclear { known: "It was stopped while it ran.".to_owned() }),
        Outcome::Interrupted { .. } => None,
    }
}

fn no_workspace() -> ToolError {
    refused("no_workspace", "This device holds no workspace.", "Ask for a session whose workspace is on another device.")
}

fn no_such_tool(name: &str) -> ToolError {
    let message = format!("This device has no tool '{}'.", baton_proto::make_visible(name));
    refused("unknown_tool", message, "Use one of the tools that the device offers now.")
}
