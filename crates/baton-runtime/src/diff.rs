//! What the agent changed in a workspace (E7): the log knows the calls, the device that holds the workspace knows what they did. The device
//! is asked outside of any log, since nothing is decided by the answer.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::{Hub, Shared};
use baton_core::{NamedWork, named_work};
use baton_proto::{
    CallId, DeviceId, Effect, ErrorBody, ErrorCode, Event, HubFrame, Intent, MAX_NAMED_CALLS, Operation, QuestionToDevice, RecordedChanges,
    SessionEvent, SessionId, TaskId, Trust, UserId, WorkspaceDiff,
};
use baton_store::{StreamId, StreamKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use uuid::Uuid;

/// For the device to answer.
const WITHIN: Duration = Duration::from_secs(10);
/// Events that are read in one go.
const READ_AT_ONCE: u32 = 64;

/// Whose changes are asked for. Nothing: the newest task's, or in a session without one, those of what was asked for word by word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffOf {
    pub task: Option<TaskId>,
    pub step: Option<String>,
    pub call: Option<CallId>,
}

/// Devices that were asked, and who waits for their answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: Mutex<BTreeMap<QuestionToDevice, (DeviceId, oneshot::Sender<RecordedChanges>)>>,
}

impl Questions {
    /// Takes a device's answer. One that nobody waits for any more, or of a device that wasn't asked, changes nothing.
    pub(crate) fn answered(&self, device: DeviceId, question: QuestionToDevice, changes: RecordedChanges) {
        let mut open = self.lock();
        if open.get(&question).is_some_and(|(asked, _)| *asked == device)
            && let Some((_, waiting)) = open.remove(&question)
        {
            // Whoever asked may be gone.
            let _ = waiting.send(changes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<QuestionToDevice, (DeviceId, oneshot::Sender<RecordedChanges>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question back when nobody waits for it any more.
struct Asked<'a> {
    questions: &'a Questions,
    question: QuestionToDevice,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.question);
    }
}

/// A call that could have changed something, as the log has it.
#[derive(Clone, Debug)]
struct Call {
    id: CallId,
    step: Option<String>,
    device: Option<DeviceId>,
}

impl Shared {
    /// The calls that are meant, oldest first, and whether there are more than one question names.
    async fn calls(
        &self,
        user: UserId,
        session: SessionId,
        meant: impl Fn(CallId, Option<TaskId>, Option<&str>) -> bool,
    ) -> Result<Vec<Call>, ErrorBody> {
        let stream = StreamId { kind: StreamKind::Session, id: session.0 };
        let mut calls = Vec::new();
        let mut before = u64::MAX;
        loop {
            let page = self.store.read_back(user, stream, before, &["tool_proposed"], READ_AT_ONCE).await;
            let page = page.map_err(|error| told(&HubError::Store(error)))?;
            for stored in &page {
                before = stored.seq;
                let event = Event::<SessionEvent>::decode(&stored.event).map_err(|error| {
                    ErrorBody::new(
                        ErrorCode::UnsupportedVersion,
                        format!("Event {} can't be read: {error}.", stored.seq),
                        "Update the hub.",
                    )
                })?;
                if let SessionEvent::ToolProposed { call_id, task_id, step_id, terms, .. } = event.body
                    && terms.effect != Effect::Read
                    && terms.device_id.is_some()
                    && meant(call_id, task_id, step_id.as_deref())
                {
                    calls.push(Call { id: call_id, step: step_id, device: terms.device_id });
                }
            }
            if page.len() < READ_AT_ONCE as usize {
                calls.reverse();
                return Ok(calls);
            }
        }
    }

    /// Finds the calls that a slash command means.
    pub(crate) async fn look_up_calls(&self, user: UserId, operation: &mut Operation) -> Result<(), ErrorBody> {
        let Intent::Say { text, .. } = &operation.intent else { return Ok(()) };
        let (Some(NamedWork { id, step }), Some(session)) = (named_work(text), operation.session_id) else { return Ok(()) };
        let meant = |call: CallId, task: Option<TaskId>, of_step: Option<&str>| {
            (task == Some(TaskId(id)) || call == CallId(id)) && step.as_deref().is_none_or(|step| of_step == Some(step))
        };
        let calls = self.calls(user, session, meant).await?;
        if calls.len() > MAX_NAMED_CALLS {
            let message = format!("That task has made {} calls; at most {MAX_NAMED_CALLS} are taken back at once.", calls.len());
            return Err(ErrorBody::new(ErrorCode::TooLarge, message, "Take it back step by step."));
        }
        operation.named_calls = calls.into_iter().map(|call| call.id).collect();
        Ok(())
    }

    async fn ask(&self, device: DeviceId, calls: Vec<CallId>) -> Result<RecordedChanges, ErrorBody> {
        // An id of the time and chance, as all are; nothing but its being different from others matters.
        let question = QuestionToDevice(baton_core::Ids::new(self.clock.now(), self.clock.random()).fresh::<Uuid>());
        let (sender, answer) = oneshot::channel();
        self.questions.lock().insert(question, (device, sender));
        let _asked = Asked { questions: &self.questions, question };
        if self.directory.send(device, HubFrame::ShowChanges { question, calls }).is_none() {
            return Err(offline("The device that holds the workspace is offline, and only it knows what was changed there."));
        }
        match tokio::time::timeout(WITHIN, answer).await {
            Ok(Ok(changes)) => Ok(changes),
            _ => Err(offline(&format!("The device that holds the workspace didn't answer within {} s.", WITHIN.as_secs()))),
        }
    }
}

fn offline(message: &str) -> ErrorBody {
    ErrorBody::new(ErrorCode::DeviceOffline, message, "Bring it back, or update it if it is older than the hub; then ask again.")
}

impl Hub {
    /// What the agent changed in the session's workspace, in one task, step or call.
    pub async fn diff(&self, who: Identity, session: SessionId, of: DiffOf) -> Result<WorkspaceDiff, ErrorBody> {
        let record = self.device(who).ok_or_else(|| ErrorBody::not_found("device"))?;
        if record.trust == Trust::Guest {
            let message = "A guest device isn't shown the workspace's files.";
            return Err(ErrorBody::new(ErrorCode::TrustTooLow, message, "Raise its trust on a trusted device."));
        }
        let state = self.shared.state(who.user_id, session).await?;
        let task = match (of.task, of.call) {
            (None, None) => state.tasks.keys().next_back().copied(),
            (task, _) => task,
        };
        if of.step.is_some() && task.is_none() {
            return Err(ErrorBody::invalid("A step belongs to a task: name the `task`, too."));
        }
        let meant = |call: CallId, of_task: Option<TaskId>, step: Option<&str>| match of.call {
            Some(wanted) => call == wanted && (task.is_none() || task == of_task),
            None => of_task == task && of.step.as_deref().is_none_or(|wanted| step == Some(wanted)),
        };
        let mut calls = self.shared.calls(who.user_id, session, meant).await?;
        let named = of.call.is_some() || of.step.is_some() || of.task.is_some_and(|task| !state.tasks.contains_key(&task));
        if calls.is_empty() && named {
            return Err(ErrorBody::not_found("task, step or call that could have changed something in this session"));
        }
        let workspace = state.workspace.as_ref().and_then(|workspace| workspace.device_id);
        let device = workspace.or_else(|| calls.last().and_then(|call| call.device)).ok_or_else(|| {
            ErrorBody::new(
                ErrorCode::NoCapability,
                "This session has no workspace, so nothing was changed in one.",
                "Open a session with one.",
            )
        })?;
        // What other devices did, they did elsewhere.
        calls.retain(|call| call.device == Some(device));
        let all = calls.len();
        let asked: Vec<_> = calls.iter().skip(all.saturating_sub(MAX_NAMED_CALLS)).map(|call| call.id).collect();
        let mut changes = if asked.is_empty() { RecordedChanges::default() } else { self.shared.ask(device, asked).await? };
        if all > MAX_NAMED_CALLS {
            let reason = format!("{} earlier calls aren't looked at; ask for a single step", all - MAX_NAMED_CALLS);
            changes.not_recorded.push(baton_proto::NotRecorded { path: "…".to_owned(), reason });
        }
        let steps: BTreeMap<_, _> = calls.iter().filter_map(|call| Some((call.id, call.step.clone()?))).collect();
        for file in &mut changes.files {
            let of_file: BTreeSet<_> = file.calls.iter().filter_map(|call| steps.get(call).cloned()).collect();
            file.steps = of_file.into_iter().collect();
        }
        let calls = u32::try_from(all).unwrap_or(u32::MAX);
        Ok(WorkspaceDiff { session_id: session, task_id: task, step_id: of.step, call_id: of.call, device_id: device, calls, changes })
    }
}
