//! What an owner owes the world, compared with what is under way: told to devices, asked of the model, offered to ends.

use super::{Input, Owner, Running};
use crate::model_call::ModelJob;
use baton_core::{Command, Effect, needs_workspace, pending};
use baton_proto::{ATTEMPT_LEASE_S, CallId, DeviceId, DispatchedCall, HubFrame, RunningState, SessionId};
use std::sync::Arc;

impl Owner {
    /// Takes the workspace for what is about to be decided, or names the session that has it. A session that stands in line stays there.
    pub(super) fn claim_workspace(&self) -> Option<(SessionId, String)> {
        let workspace = self.state.workspace.as_ref()?;
        if let Some(behind) = self.state.open_turn().and_then(|turn| turn.behind.clone()) {
            let granted = self.shared.workspaces.holds(self.user, workspace.workspace_id, self.id);
            return (!granted).then_some(behind);
        }
        self.shared.workspaces.claim(self.user, workspace.workspace_id, self.id, &self.state.title).err()
    }

    /// A workspace is held while a turn works in it, and passed on when the agent rests or only waits for a human (E6).
    pub(super) fn settle_workspace(&mut self) {
        let Some(workspace) = &self.state.workspace else { return };
        let id = workspace.workspace_id;
        // Said once: others may have seen it as it is now since this session did.
        if self.said_baseline.as_ref() != Some(&workspace.baseline) {
            let first = self.said_baseline.replace(workspace.baseline.clone()).is_none();
            if !first || self.shared.workspaces.last_seen(self.user, id).is_none() {
                self.shared.workspaces.saw(self.user, id, &workspace.baseline);
            }
        }
        if !needs_workspace(&self.state)
            && let Some(next) = self.shared.workspaces.release(self.user, id, self.id)
        {
            self.shared.tell_granted(self.user, next);
        }
    }

    /// Takes over how the workspace was last seen by whoever saw it, while nothing of this session's is under way in it (C34).
    pub(super) async fn follow_workspace(&mut self) -> bool {
        let Some(workspace) = &self.state.workspace else { return true };
        let seen = self.shared.workspaces.last_seen(self.user, workspace.workspace_id);
        match seen.filter(|seen| *seen != workspace.baseline && !needs_workspace(&self.state)) {
            Some(baseline) => self.command(&Command::WorkspaceSeen { baseline, files: Vec::new(), files_left_out: 0 }).await,
            None => true,
        }
    }

    pub(super) async fn reported(&mut self, device: DeviceId, running: Vec<(CallId, u32, RunningState)>) -> bool {
        // What runs there and isn't wanted any more is stopped now, since nobody could tell the device before.
        for (call_id, attempt, state) in &running {
            let wanted = self.state.calls.get(call_id).is_some_and(|call| call.may_act_on(device));
            if !wanted && matches!(state, RunningState::Accepted | RunningState::Running) {
                let fence = self.shared.store.incarnation();
                self.shared
                    .directory
                    .send(device, HubFrame::CancelCall { session_id: self.id, call_id: *call_id, attempt: *attempt, fence });
            }
        }
        self.command(&Command::DeviceReported { device, running }).await
    }

    /// Compares what is owed with what is under way: starts what is new, drops what has vanished.
    pub(super) fn reconcile(&mut self) {
        let owed = pending(&self.state);
        let vanished: Vec<_> = self.running.keys().filter(|effect| !owed.contains(effect)).cloned().collect();
        for effect in vanished {
            if let Some(Running::Task(task)) = self.running.remove(&effect) {
                task.abort();
            }
        }
        for effect in owed {
            match &effect {
                Effect::Wake { .. } => {}
                Effect::HoldWorkspace { workspace_id } => {
                    if !self.running.contains_key(&effect) {
                        if self.shared.workspaces.wait(self.user, *workspace_id, self.id, &self.state.title) {
                            self.shared.tell_granted(self.user, self.id);
                        }
                        self.running.insert(effect, Running::Sent { link: 0 });
                    }
                }
                Effect::CallModel { model_call_id, attempt } => {
                    if !self.running.contains_key(&effect) {
                        self.start_model(&effect, *model_call_id, *attempt);
                    }
                }
                Effect::Offer { to, .. } => {
                    if !self.running.contains_key(&effect) {
                        self.offer(*to);
                        self.running.insert(effect, Running::Sent { link: 0 });
                    }
                }
                // Its device is back without the journal that this may be written in; what to do follows from what it reports.
                Effect::Dispatch { call_id, device, .. } if self.may_be_forgotten(call_id, *device) => {}
                Effect::Prepare { device, .. }
                | Effect::Dispatch { device, .. }
                | Effect::Cancel { device, .. }
                | Effect::Probe { device, .. } => {
                    self.tell(*device, &effect);
                }
            }
        }
    }

    fn may_be_forgotten(&self, call: &CallId, device: DeviceId) -> bool {
        let now = self.shared.directory.around(self.user).devices.get(&device).and_then(|device| device.journal);
        self.state.calls.get(call).is_some_and(|call| call.may_be_forgotten(now))
    }

    /// Hands a device-bound effect to the connection its device has at the moment. Devices recognise what they were told before.
    fn tell(&mut self, device: DeviceId, effect: &Effect) {
        let Some(link) = self.shared.directory.acting_link(device) else {
            self.running.remove(effect);
            return;
        };
        if matches!(self.running.get(effect), Some(Running::Sent { link: sent }) if *sent == link) {
            return;
        }
        let Some(frame) = self.frame(effect) else { return };
        match self.shared.directory.send(device, frame) {
            Some(link) => self.running.insert(effect.clone(), Running::Sent { link }),
            None => self.running.remove(effect),
        };
    }

    fn frame(&self, effect: &Effect) -> Option<HubFrame> {
        let (session_id, fence) = (self.id, self.shared.store.incarnation());
        let call = |id: &CallId| self.state.calls.get(id);
        Some(match effect {
            Effect::Prepare { call_id, .. } => {
                let call = call(call_id)?;
                HubFrame::PrepareCall {
                    session_id,
                    call_id: *call_id,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    fence,
                }
            }
            Effect::Dispatch { call_id, attempt, .. } => {
                let call = call(call_id)?;
                HubFrame::ToolCall(Box::new(DispatchedCall {
                    session_id,
                    call_id: *call_id,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    attempt: *attempt,
                    fence,
                    lease_s: ATTEMPT_LEASE_S,
                    digests: (*call.digests).clone(),
                }))
            }
            Effect::Cancel { call_id, attempt, .. } => HubFrame::CancelCall { session_id, call_id: *call_id, attempt: *attempt, fence },
            Effect::Probe { call_id, attempt, .. } => {
                let call = call(call_id)?;
                HubFrame::ProbeCall {
                    session_id,
                    call_id: *call_id,
                    attempt: *attempt,
                    tool: call.tool.clone(),
                    arguments: (*call.arguments).clone(),
                    fence,
                }
            }
            Effect::CallModel { .. } | Effect::Offer { .. } | Effect::HoldWorkspace { .. } | Effect::Wake { .. } => return None,
        })
    }

    fn offer(&self, to: DeviceId) {
        let Some(transfer) = &self.state.holder.transfer else { return };
        let frame = HubFrame::HandoffOffer {
            session_id: self.id,
            handoff_id: transfer.handoff_id,
            from: transfer.from,
            brief: Box::new(baton_core::brief::brief(&self.state)),
            summary: self.state.title.clone(),
            deadline: transfer.deadline,
        };
        self.shared.directory.send_to_all(to, &frame);
    }

    fn start_model(&mut self, effect: &Effect, model_call_id: baton_proto::ModelCallId, attempt: u32) {
        let Some(call) = self.state.open_turn().and_then(|turn| turn.model.as_ref()) else { return };
        let job = ModelJob {
            model_call_id,
            attempt,
            message_id: call.message_id,
            state: self.state.clone(),
            at: self.context(None),
            store: Arc::clone(&self.shared.store),
            model: self.shared.model.clone(),
            checks: Arc::clone(&self.shared.checks),
            live: Arc::clone(&self.live),
        };
        let own = self.own.clone();
        let task = tokio::spawn(async move {
            let command = Box::new(job.run().await);
            if let Some(own) = own.upgrade() {
                // An owner that is gone takes the call up again when it is back.
                let _ = own.send(Input::Command { command, done: None }).await;
            }
        });
        self.running.insert(effect.clone(), Running::Task(task.abort_handle()));
    }

    pub(super) fn stop_running(&mut self) {
        for (_, running) in std::mem::take(&mut self.running) {
            if let Running::Task(task) = running {
                task.abort();
            }
        }
    }
}
