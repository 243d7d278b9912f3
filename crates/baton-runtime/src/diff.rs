//! What the agent changed in a workspace (E7): the log knows the calls, the device that holds the workspace knows what they did. The device
//! is asked outside of any log, since nothing is decided by the answer.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::{Hub, Shared};
use crate::questions::{Answer, unfitting};
use baton_core::{NamedWork, named_work};
use baton_proto::{
    CallId, DeviceId, Effect, ErrorBody, ErrorCode, Event, HubFrame, Intent, MAX_NAMED_CALLS, Operation, RecordedChanges, SessionEvent,
    SessionId, TaskId, UserId, WorkspaceDiff,
};
use baton_store::{StreamId, StreamKind};
use std::collections::{BTreeMap, BTreeSet};

/// Events that are read in one go.
const READ_AT_ONCE: u32 = 64;

/// Whose changes are asked for. Nothing: the newest task's, or in a session without one, those of what was asked for word by word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffOf {
    pub task: Option<TaskId>,
    pub step: Option<String>,
    pub call: Option<CallId>,
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
}

impl Hub {
    /// What the agent changed in the session's workspace, in one task, step or call.
    pub async fn diff(&self, who: Identity, session: SessionId, of: DiffOf) -> Result<WorkspaceDiff, ErrorBody> {
        self.may_look(who)?;
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
        let mut changes = if asked.is_empty() {
            RecordedChanges::default()
        } else {
            match self.shared.ask(who, device, |question| HubFrame::ShowChanges { question, calls: asked }).await? {
                Answer::Changes(changes) => changes,
                _ => return Err(unfitting()),
            }
        };
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
