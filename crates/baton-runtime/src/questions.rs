//! Questions to the device that holds a workspace, outside of any log, since nothing is decided by the answers.

use crate::directory::Identity;
use crate::hub::{Hub, Shared};
use baton_proto::{
    DeviceId, ErrorBody, ErrorCode, FileShown, FoundPaths, HubFrame, QuestionToDevice, RecordedChanges, SessionId, Trust, make_visible,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use uuid::Uuid;

/// For the device to answer.
const WITHIN: Duration = Duration::from_secs(10);

/// Devices that were asked, and who waits for their answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: Mutex<BTreeMap<QuestionToDevice, (DeviceId, oneshot::Sender<Answer>)>>,
}

/// What a device says to a question.
#[derive(Debug)]
pub(crate) enum Answer {
    Changes(RecordedChanges),
    File(FileShown),
    Paths(FoundPaths),
}

impl Questions {
    /// Takes a device's answer. One that nobody waits for any more, or of a device that wasn't asked, changes nothing.
    pub(crate) fn answered(&self, device: DeviceId, question: QuestionToDevice, answer: Answer) {
        let mut open = self.lock();
        if open.get(&question).is_some_and(|(asked, _)| *asked == device)
            && let Some((_, waiting)) = open.remove(&question)
        {
            // Whoever asked may be gone.
            let _ = waiting.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<QuestionToDevice, (DeviceId, oneshot::Sender<Answer>)>> {
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

impl Shared {
    /// Asks a device, and waits for its answer.
    pub(crate) async fn ask(
        &self,
        who: Identity,
        device: DeviceId,
        frame: impl FnOnce(QuestionToDevice) -> HubFrame,
    ) -> Result<Answer, ErrorBody> {
        // An id of the time and chance, as all are; nothing but its being different from others matters.
        let question = QuestionToDevice(baton_core::Ids::new(self.clock.now(), self.clock.random()).fresh::<Uuid>());
        let (sender, answer) = oneshot::channel();
        self.questions.lock().insert(question, (device, sender));
        let _asked = Asked { questions: &self.questions, question };
        if self.directory.send(device, frame(question)).is_none() {
            return Err(self.offline(who, device));
        }
        match tokio::time::timeout(WITHIN, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ if self.directory.acting_link(device).is_none() => Err(self.offline(who, device)),
            _ => {
                let message =
                    format!("The device that holds the workspace{} didn't answer within {} s.", self.name(who, device), WITHIN.as_secs());
                Err(ErrorBody::new(ErrorCode::DeviceOffline, message, "Update it if it is older than the hub; then ask again."))
            }
        }
    }

    /// Says which device is away and since when, since only a person can bring it back.
    fn offline(&self, who: Identity, device: DeviceId) -> ErrorBody {
        let known = self.directory.views(who).into_iter().find(|view| view.device_id == device);
        let since = known.and_then(|view| view.last_seen_at).map_or_else(String::new, |at| format!(" since {at}"));
        let message =
            format!("The device that holds the workspace{} is offline{since}, and only it knows what is there.", self.name(who, device));
        ErrorBody::new(ErrorCode::DeviceOffline, message, "Bring it back; then ask again.")
    }

    fn name(&self, who: Identity, device: DeviceId) -> String {
        let known = self.directory.views(who).into_iter().find(|view| view.device_id == device);
        known.map_or_else(String::new, |view| format!(", '{}',", make_visible(&view.name)))
    }
}

impl Hub {
    /// The device that holds a session's workspace, for somebody who may look into it.
    pub(crate) async fn keeper(&self, who: Identity, session: SessionId) -> Result<DeviceId, ErrorBody> {
        self.may_look(who)?;
        let state = self.shared.state(who.user_id, session).await?;
        state
            .workspace
            .as_ref()
            .and_then(|workspace| workspace.device_id)
            .ok_or_else(|| ErrorBody::new(ErrorCode::NoCapability, "This session has no workspace.", "Open a session with one."))
    }

    /// Guests are shown how the work stands – the lists and the brief –, neither what was said and done nor files (H9).
    pub(crate) fn may_look(&self, who: Identity) -> Result<(), ErrorBody> {
        let record = self.device(who).ok_or_else(|| ErrorBody::not_found("device"))?;
        if record.trust == Trust::Guest {
            let message = "A guest device is shown how the work stands, neither what was said nor files.";
            return Err(ErrorBody::new(ErrorCode::TrustTooLow, message, "Raise its trust on a trusted device."));
        }
        Ok(())
    }
}

/// A device that answers something else than it was asked isn't one to go by.
pub(crate) fn unfitting() -> ErrorBody {
    let message = "The device that holds the workspace answered something else than it was asked.";
    ErrorBody::new(ErrorCode::DeviceOffline, message, "Update it, and look at its log.")
}
