use super::Whole;
use crate::journal::AttemptId;
use crate::tool::{CancelSignal, CancelSwitch, Clock, ProgressSink, Run, Tool, failed, refused};
use baton_proto::{ClientFrame, DispatchedCall, Outcome, SessionId, StateModified, ToolError};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// A tool keeps its own time; one that doesn't is asked to stop this long after it should have ended.
const GRACE: Duration = Duration::from_secs(5);

/// The calls that run, and the questions that are being answered. Dropping it stops everything.
#[derive(Debug, Default)]
pub(crate) struct Underway {
    calls: BTreeMap<AttemptId, Call>,
    tasks: JoinSet<Done>,
}

#[derive(Debug)]
struct Call {
    session_id: SessionId,
    cancel: CancelSwitch,
    clock: Clock,
    /// Who asked it to stop, if anybody did.
    stopped: Option<Stopped>,
    /// Later attempts of the same call, which have its outcome.
    joined: Vec<(SessionId, AttemptId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The hub asked.
    OnRequest,
    /// The device itself goes.
    WithDevice,
}

#[derive(Debug)]
enum Done {
    Call(AttemptId, Outcome),
    Answer(Option<ClientFrame>),
}

/// Something that was underway and has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// One outcome for each attempt that waited for it.
    Call { attempts: Vec<(SessionId, AttemptId)>, outcome: Box<Outcome> },
    /// A frame to send.
    Answer(Box<ClientFrame>),
}

impl Underway {
    /// Runs a call in a task of its own. It is written down already.
    pub(crate) fn start(&mut self, tool: Arc<dyn Tool>, call: DispatchedCall, progress: ProgressSink, whole: Arc<Whole>) {
        let id = AttemptId { call_id: call.call_id, attempt: call.attempt };
        let (cancel, signal) = CancelSignal::pair();
        let clock = Clock::default();
        let running = Call { session_id: call.session_id, cancel: cancel.clone(), clock: clock.clone(), stopped: None, joined: Vec::new() };
        self.calls.insert(id, running);
        let patience = Duration::from_secs(u64::from(tool.spec().timeout_s)) + GRACE;
        let stops_within = tool.stops_within();
        let mut asked = signal.clone();
        let run = Run {
            call_id: call.call_id,
            attempt: call.attempt,
            arguments: call.arguments,
            expected: call.digests,
            cancel: signal,
            progress,
            clock: clock.clone(),
        };
        self.tasks.spawn(async move {
            // A task of its own, so that a panic ends this call and nothing else. Dropping the set drops the call too.
            let mut task = JoinSet::new();
            let acting = Arc::clone(&tool);
            task.spawn(async move { acting.run(run).await });
            let stop = async {
                let overdue = tokio::select! {
                    biased;
                    () = asked.cancelled() => false,
                    () = clock.passed(patience) => true,
                };
                cancel.cancel();
                overdue
            };
            let outcome = tokio::select! {
                biased;
                outcome = task.join_next() => outcome,
                overdue = stop => match tokio::time::timeout(stops_within, task.join_next()).await {
                    Ok(outcome) if overdue => outcome.map(|outcome| outcome.map(|outcome| timed_out(outcome, patience))),
                    Ok(outcome) => outcome,
                    Err(_) => Some(Ok(given_up(stops_within))),
                },
            };
            Done::Call(id, whole.keep(&*tool, outcome.and_then(Result::ok).unwrap_or_else(broken)).await)
        });
    }

    /// Answers a question in a task of its own.
    pub(crate) fn answer(&mut self, answer: impl Future<Output = ClientFrame> + Send + 'static) {
        self.tasks.spawn(async move {
            let mut task = JoinSet::new();
            task.spawn(answer);
            Done::Answer(task.join_next().await.and_then(Result::ok))
        });
    }

    /// Lets an attempt have the outcome of the one that runs.
    pub(crate) fn join(&mut self, running: AttemptId, session_id: SessionId, later: AttemptId) {
        if let Some(call) = self.calls.get_mut(&running) {
            call.joined.push((session_id, later));
        }
    }

    /// Asks this attempt, and earlier ones of its call, to stop. Whether there was one.
    pub(crate) fn cancel(&mut self, id: AttemptId) -> bool {
        let mut found = false;
        for (running, call) in &mut self.calls {
            let named = running.attempt <= id.attempt || call.joined.iter().any(|(_, joined)| *joined == id);
            if running.call_id == id.call_id && named {
                call.stopped = Some(Stopped::OnRequest);
                call.cancel.cancel();
                found = true;
            }
        }
        found
    }

    /// Asks everything to stop because the device goes.
    pub(crate) fn cancel_all(&mut self) {
        for call in self.calls.values_mut() {
            call.stopped.get_or_insert(Stopped::WithDevice);
            call.cancel.cancel();
        }
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The next thing to end; waits for ever while nothing is underway.
    pub(crate) async fn next(&mut self) -> Ended {
        loop {
            match self.tasks.join_next().await {
                None => std::future::pending().await,
                Some(Ok(Done::Answer(Some(frame)))) => return Ended::Answer(Box::new(frame)),
                Some(Ok(Done::Call(id, outcome))) => {
                    if let Some(call) = self.calls.remove(&id) {
                        return call.ended(id, outcome);
                    }
                }
                // An answer that broke is asked for again by who needs it.
                Some(Ok(Done::Answer(None)) | Err(_)) => {}
            }
        }
    }
}

impl Call {
    fn ended(self, id: AttemptId, outcome: Outcome) -> Ended {
        let outcome = match outcome {
            Outcome::Cancelled { result: None } if self.stopped == Some(Stopped::WithDevice) && self.clock.stands() => {
                let message = "The device was stopped before the call's turn came. Nothing was done.";
                failed(refused("device_stopped", message, "Repeat the call once the device is back."))
            }
            // Nobody asked for it, so nobody may take it for done with.
            Outcome::Cancelled { .. } if self.stopped == Some(Stopped::WithDevice) => {
                let known =
                    "The device was stopped while the call was running, and ended its processes; what it had done by then isn't known.";
                Outcome::Interrupted { known: known.to_owned() }
            }
            outcome => outcome,
        };
        let attempts = std::iter::once((self.session_id, id)).chain(self.joined).collect();
        Ended::Call { attempts, outcome: Box::new(outcome) }
    }
}

fn timed_out(outcome: Outcome, patience: Duration) -> Outcome {
    match outcome {
        Outcome::Cancelled { result } => Outcome::Failed {
            error: ToolError {
                code: "timed_out".into(),
                message: format!("The call didn't end within {} s and was stopped.", patience.as_secs()),
                hint: "Check what it has done so far; then do it in smaller steps.".into(),
                state_modified: StateModified::Unknown,
            },
            result,
        },
        outcome => outcome,
    }
}

fn given_up(within: Duration) -> Outcome {
    let known = format!("It was asked to stop and didn't within {} s, so its device waits for it no longer.", within.as_secs());
    Outcome::Interrupted { known }
}

fn broken() -> Outcome {
    failed(ToolError {
        code: "tool_broken".into(),
        message: "The tool broke down while it ran, by a fault of its own.".into(),
        hint: "Check what it has done so far; use another way if there is one. The device's log has the details.".into(),
        state_modified: StateModified::Unknown,
    })
}
