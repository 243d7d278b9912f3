//! A device of the world: the real journal, and around it the same steps as the real device takes. It is killed as a whole; its journal
//! is what is left of it.

use super::net::{Line, Word};
use super::outside::Did;
use super::plan::{Moment, Who};
use super::scripts::tools;
use super::shared::Shared;
use baton_device::journal::{AttemptId, Finished, Journal, Receipt, Standing};
use baton_proto::{
    Capabilities, ClientFrame, ClientType, DispatchedCall, Effect, Finding, HubFrame, Outcome, PROTOCOL_VERSION, Prepared, Risk, SessionId,
    StateModified, ToolError, ToolResult, ToolSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const RETELL: Duration = Duration::from_secs(30);

struct Device {
    shared: Arc<Shared>,
    journal: Journal,
    line: Line,
    tools: BTreeMap<String, ToolSpec>,
    running: BTreeMap<AttemptId, Running>,
    tasks: JoinSet<Ended>,
}

struct Running {
    session: SessionId,
    cancel: watch::Sender<bool>,
    joined: Vec<(SessionId, AttemptId)>,
}

enum Ended {
    Call(AttemptId, Outcome),
    Answer(ClientFrame),
}

/// Lives until it is killed. Damage to its journal ends the world, since that can't happen here.
pub(crate) async fn live(shared: Arc<Shared>) {
    let journal = match Journal::open_or_make(shared.journal(), shared.fresh_journal()) {
        Ok(journal) => journal,
        Err(error) => return shared.violation(&format!("the journal can't be opened: {error}")),
    };
    let line = Line::new(&shared, Who::Laptop);
    let tools = tools().into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    let mut device = Device { shared, journal, line, tools, running: BTreeMap::new(), tasks: JoinSet::new() };
    let served = match device.adopt() {
        Ok(()) => {
            device.repeat_what_was_begun();
            device.serve().await
        }
        refused => refused,
    };
    if let Err(error) = served {
        device.shared.violation(&format!("the journal can't be written: {error}"));
    }
}

type Written<T = ()> = Result<T, baton_device::journal::JournalError>;

impl Device {
    fn adopt(&mut self) -> Written {
        self.journal.adopt(self.shared.identity(Who::Laptop).device_id).map(|_| ())
    }

    async fn serve(&mut self) -> Written {
        let mut retell = Instant::now() + RETELL;
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ended::Call(id, outcome)) => self.ended(id, outcome).await?,
                    Ok(Ended::Answer(frame)) => self.line.send(frame),
                    Err(_) => {}
                },
                word = self.line.words.recv() => match word {
                    None => return Ok(()),
                    Some(Word::Up(connection)) => {
                        self.line.use_connection(connection);
                        self.greet();
                        retell = Instant::now() + RETELL;
                    }
                    Some(Word::Frame(frame)) => self.take(*frame).await?,
                    Some(Word::Down) => {}
                },
                () = sleep_until(retell) => {
                    retell = Instant::now() + RETELL;
                    self.tell_results();
                }
            }
        }
    }

    fn greet(&mut self) {
        let hello = ClientFrame::Hello {
            protocol: PROTOCOL_VERSION,
            client_type: ClientType::Device,
            capabilities: Capabilities::default(),
            tools: self.tools.values().cloned().collect(),
            workspaces: vec![self.shared.workspace()],
            cursors: BTreeMap::new(),
            running: self.journal.running(),
            journal: Some(self.journal.identity()),
        };
        self.line.send(hello);
    }

    async fn take(&mut self, frame: HubFrame) -> Written {
        if let HubFrame::PrepareCall { fence, .. } | HubFrame::CancelCall { fence, .. } | HubFrame::ProbeCall { fence, .. } = &frame
            && !self.journal.admit(*fence)?
        {
            self.shared.note("the laptop ignored an older hub");
            return Ok(());
        }
        match frame {
            HubFrame::Welcome { .. } => self.tell_results(),
            HubFrame::ToolCall(call) => return self.call(*call).await,
            HubFrame::PrepareCall { session_id, call_id, tool, arguments, .. } => {
                let prepared = Prepared {
                    risk: self.tools.get(&tool).map_or(Risk::Dangerous, |tool| tool.risk),
                    risk_reason: "It acts outside.".to_owned(),
                    risk_said: Vec::new(),
                    digests: BTreeMap::new(),
                    preview: arguments.to_string(),
                    directory: None,
                    refusal: None,
                };
                let wait = self.shared.draw("prepare", |draw| draw.wait(1, 60));
                self.answer(wait, ClientFrame::Prepared { session_id, call_id, prepared });
            }
            HubFrame::CancelCall { session_id, call_id, attempt, .. } => {
                return self.cancel(session_id, AttemptId { call_id, attempt }).await;
            }
            HubFrame::ProbeCall { session_id, call_id, attempt, tool, .. } => {
                self.probe(session_id, AttemptId { call_id, attempt }, &tool);
            }
            HubFrame::ToolResultAck { call_id, attempt, .. } => {
                self.journal.acknowledge(AttemptId { call_id, attempt })?;
                self.moment(Moment::AckArrived).await;
            }
            _ => {}
        }
        Ok(())
    }

    async fn call(&mut self, call: DispatchedCall) -> Written {
        let (session, id) = (call.session_id, AttemptId { call_id: call.call_id, attempt: call.attempt });
        match self.journal.receive(&call)? {
            Receipt::New => {
                self.moment(Moment::Received).await;
                self.begin(session, id).await?;
                self.run(call);
            }
            Receipt::Joins(running) => {
                self.begin(session, id).await?;
                if let Some(running) = self.running.get_mut(&running) {
                    running.joined.push((session, id));
                }
            }
            Receipt::Known(Standing::Underway) => self.tell_started(session, id),
            Receipt::Known(Standing::Finished(outcome)) => self.tell(Finished { session_id: session, id, outcome: *outcome }),
            Receipt::Known(Standing::Acknowledged) => {
                let known = "This attempt ended here, and its result isn't kept any more.".to_owned();
                self.tell(Finished { session_id: session, id, outcome: Outcome::Interrupted { known } });
            }
            Receipt::Superseded => self.finish(session, id, refused("superseded")).await?,
            Receipt::StaleFence { .. } => self.shared.note("the laptop ignored an older hub"),
        }
        Ok(())
    }

    async fn begin(&mut self, session: SessionId, id: AttemptId) -> Written {
        self.journal.begin(id)?;
        self.moment(Moment::Begun).await;
        self.tell_started(session, id);
        Ok(())
    }

    fn run(&mut self, call: DispatchedCall) {
        let id = AttemptId { call_id: call.call_id, attempt: call.attempt };
        let (cancel, cancelled) = watch::channel(false);
        self.running.insert(id, Running { session: call.session_id, cancel, joined: Vec::new() });
        let Some(spec) = self.tools.get(&call.tool).cloned() else {
            self.tasks.spawn(async move { Ended::Call(id, refused("unknown_tool")) });
            return;
        };
        self.shared.begins(&call);
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move { Ended::Call(id, act(shared, spec, call, cancelled).await) });
    }

    async fn cancel(&mut self, session: SessionId, id: AttemptId) -> Written {
        let mut found = false;
        for (running, call) in &self.running {
            if running.call_id == id.call_id && (running.attempt <= id.attempt || call.joined.iter().any(|(_, joined)| *joined == id)) {
                call.cancel.send_replace(true);
                found = true;
            }
        }
        if found {
            return Ok(());
        }
        match self.journal.standing(id) {
            Some(Standing::Finished(outcome)) => self.tell(Finished { session_id: session, id, outcome: *outcome }),
            Some(Standing::Acknowledged | Standing::Underway) => {}
            None => self.finish(session, id, Outcome::Cancelled { result: None }).await?,
        }
        Ok(())
    }

    fn probe(&mut self, session_id: SessionId, id: AttemptId, tool: &str) {
        let known = match self.journal.standing(id) {
            Some(Standing::Underway) => {
                self.tell_started(session_id, id);
                Some(Finding::Unclear { known: "It is still running.".to_owned() })
            }
            Some(Standing::Finished(outcome)) => {
                let finding = match &*outcome {
                    Outcome::Succeeded(result) => Some(Finding::Happened { result: result.clone() }),
                    Outcome::Cancelled { result: None } => Some(Finding::NotHappened),
                    Outcome::Failed { error, .. } if error.state_modified == StateModified::No => Some(Finding::NotHappened),
                    _ => None,
                };
                self.tell(Finished { session_id, id, outcome: *outcome });
                finding
            }
            Some(Standing::Acknowledged) | None => None,
        };
        let looks_up = self.tools.get(tool).is_some_and(|tool| tool.lookup);
        let finding = known.unwrap_or_else(|| match self.shared.outside().found(id.call_id) {
            _ if !looks_up => Finding::Unclear { known: "There is no lookup.".to_owned() },
            true => Finding::Happened { result: result("found by a lookup") },
            false => Finding::NotHappened,
        });
        let wait = self.shared.draw("lookup", |draw| draw.wait(1, 100));
        self.answer(wait, ClientFrame::Probed { session_id, call_id: id.call_id, attempt: id.attempt, finding });
    }

    fn answer(&mut self, wait: Duration, frame: ClientFrame) {
        self.tasks.spawn(async move {
            sleep(wait).await;
            Ended::Answer(frame)
        });
    }

    async fn ended(&mut self, id: AttemptId, outcome: Outcome) -> Written {
        self.shared.has_ended(id.call_id);
        let Some(running) = self.running.remove(&id) else { return Ok(()) };
        for (session, id) in std::iter::once((running.session, id)).chain(running.joined) {
            if self.journal.standing(id) == Some(Standing::Underway) {
                self.finish(session, id, outcome.clone()).await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self, session_id: SessionId, id: AttemptId, outcome: Outcome) -> Written {
        let finished = Finished { session_id, id, outcome };
        self.journal.finish(finished.clone())?;
        self.moment(Moment::Finished).await;
        self.tell(finished);
        Ok(())
    }

    fn tell_results(&mut self) {
        for finished in self.journal.unacknowledged() {
            self.tell(finished);
        }
    }

    fn tell(&self, finished: Finished) {
        let Finished { session_id, id, outcome } = finished;
        self.line.send(ClientFrame::ToolResult { session_id, call_id: id.call_id, attempt: id.attempt, outcome });
    }

    fn tell_started(&self, session_id: SessionId, id: AttemptId) {
        self.line.send(ClientFrame::ToolStarted { session_id, call_id: id.call_id, attempt: id.attempt });
    }

    /// Only a device with a bad habit does this: what was begun when it died is run once more.
    fn repeat_what_was_begun(&mut self) {
        for call in self.shared.begun_before() {
            self.run(call);
        }
    }

    async fn moment(&self, moment: Moment) {
        self.shared.moment(moment);
        self.shared.device_gate().await;
    }
}

/// Takes some time, acts once, and takes some time again.
async fn act(shared: Arc<Shared>, spec: ToolSpec, call: DispatchedCall, mut cancelled: watch::Receiver<bool>) -> Outcome {
    let slow = shared.draw("tool", |draw| draw.chance(5));
    let before = shared.draw("tool", |draw| if slow { draw.wait(5_000, 20_000) } else { draw.wait(1, 400) });
    let after = shared.draw("tool", |draw| draw.wait(0, 200));
    tokio::select! {
        biased;
        _ = cancelled.wait_for(|cancelled| *cancelled) => return Outcome::Cancelled { result: None },
        () = sleep(before) => {}
    }
    if spec.effect == Effect::Read {
        let noise = if call.arguments.get("noise").is_some() { "noise: " } else { "" };
        return Outcome::Succeeded(result(&format!("{noise}{}", shared.outside().read(&call.arguments))));
    }
    shared.acts(&Did {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        session: call.session_id,
        call_id: call.call_id,
        attempt: call.attempt,
        once: spec.effect == Effect::Once,
    });
    shared.moment(Moment::Acted);
    shared.device_gate().await;
    sleep(after).await;
    Outcome::Succeeded(result(&format!("done: {}", call.tool)))
}

fn result(content: &str) -> ToolResult {
    ToolResult { content: content.to_owned(), bytes: content.len() as u64, ..ToolResult::default() }
}

fn refused(code: &str) -> Outcome {
    let error = ToolError {
        code: code.to_owned(),
        message: "It wasn't run.".to_owned(),
        hint: "Go on.".to_owned(),
        state_modified: StateModified::No,
    };
    Outcome::Failed { error, result: None }
}
