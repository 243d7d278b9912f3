//! What a tool is on the device that performs it, and the box the device's tools are kept in (R2).
//!
//! This room knows nothing of the hub, of the journal or of any one tool: the dispatching side looks a tool up by name,
//! prepares, runs or looks up a call, and passes on what comes back.

use async_trait::async_trait;
use baton_proto::{
    CallId, Digest, FileShown, Finding, FoundPaths, MAX_PREVIEW_BYTES, Outcome, Prepared, RecordedChanges, StateModified, ToolError,
    ToolSpec, make_visible,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// One action that this device offers. Every failure is an [`Outcome`]; none of these may panic on hostile arguments.
#[async_trait]
pub trait Tool: Send + Sync + fmt::Debug + 'static {
    /// Name, schema, effect and least risk. The same on every call.
    fn spec(&self) -> ToolSpec;

    /// What a call with these arguments would do, and how risky it is, without doing it (E5).
    async fn prepare(&self, arguments: &Value) -> Prepared {
        Prepared {
            risk: self.spec().risk,
            risk_reason: String::new(),
            risk_said: Vec::new(),
            digests: BTreeMap::new(),
            preview: make_visible(&arguments.to_string()),
            directory: None,
            refusal: None,
        }
        .within_limits()
    }

    /// Acts. A repeated attempt of a call that already acted returns its result again where the effect is idempotent.
    async fn run(&self, run: Run) -> Outcome;

    /// How long a call may take to end once it was asked to stop. One that takes longer is given up, so that nobody waits for it for
    /// ever (C24).
    fn stops_within(&self) -> Duration {
        Duration::from_secs(15)
    }

    /// Where the whole of an output is that a result has in parts only, by the digest that the result names (E9).
    fn whole(&self, digest: &Digest) -> Option<PathBuf> {
        let _ = digest;
        None
    }

    /// Whether a call with an unknown outcome happened (E3). Only asked when `spec().lookup` is set.
    async fn lookup(&self, call_id: CallId, arguments: &Value) -> Finding {
        let _ = (call_id, arguments);
        Finding::Unclear { known: format!("'{}' can't find out what became of a call", self.spec().name) }
    }
}

/// Where what calls changed is recorded (E7).
#[async_trait]
pub trait Record: Send + Sync + fmt::Debug + 'static {
    /// What these calls changed, in the order in which they did; bounded to what one frame holds.
    async fn changes_of(self: Arc<Self>, calls: Vec<CallId>) -> RecordedChanges;
}

/// What people look at in a workspace, without a call and without a trace of it (C33).
#[async_trait]
pub trait Window: Send + Sync + fmt::Debug + 'static {
    /// A part of a file, from `offset` on; of the whole with that digest, where one is named.
    async fn file(self: Arc<Self>, path: String, offset: u64, digest: Option<Digest>) -> FileShown;

    /// At most `limit` paths that fit what somebody began to write, the best first.
    async fn paths(self: Arc<Self>, query: String, limit: u32) -> FoundPaths;
}

/// One attempt of one call.
#[derive(Clone, Debug)]
pub struct Run {
    pub call_id: CallId,
    /// Counts from 1.
    pub attempt: u32,
    pub arguments: Value,
    /// Digests that were approved, by path relative to the workspace; empty when nothing was (E5, S17).
    pub expected: BTreeMap<String, Option<Digest>>,
    pub cancel: CancelSignal,
    pub progress: ProgressSink,
    pub clock: Clock,
}

/// A call's own time. It stands still while the call waits for its turn, so that others don't use it up.
#[derive(Clone, Debug)]
pub struct Clock(Arc<watch::Sender<bool>>);

impl Default for Clock {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Clock {
    /// From here on the call waits. One that is asked to stop meanwhile leaves the clock stopped: it never began.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// The call's turn has come, and its time begins.
    pub fn go(&self) {
        self.0.send_replace(false);
    }

    pub fn stands(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when that time has passed since the clock last began to go.
    pub(crate) async fn passed(&self, time: Duration) {
        let mut stands = self.0.subscribe();
        loop {
            // Both fail only without a sender, which is here.
            let _ = stands.wait_for(|stands| !*stands).await;
            tokio::select! {
                _ = stands.wait_for(|stands| *stands) => {}
                () = tokio::time::sleep(time) => return,
            }
        }
    }
}

/// The end of a cancellation that asks.
#[derive(Clone, Debug)]
pub struct CancelSwitch(Arc<watch::Sender<bool>>);

impl CancelSwitch {
    /// Asks the call to stop. Asking twice changes nothing.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

/// The end of a cancellation that listens.
#[derive(Clone, Debug)]
pub struct CancelSignal(watch::Receiver<bool>);

impl CancelSignal {
    /// Both ends of one cancellation. Dropping the switch doesn't cancel.
    pub fn pair() -> (CancelSwitch, Self) {
        let (sender, receiver) = watch::channel(false);
        (CancelSwitch(Arc::new(sender)), Self(receiver))
    }

    /// A signal that never comes.
    pub fn never() -> Self {
        Self::pair().1
    }

    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the call was asked to stop, and never when the switch is gone without having been used.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|cancelled| *cancelled).await.is_err() && !self.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

/// Where a running call says how it is getting on. Cheap and lossy: what it is told may be dropped.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(&str) + Send + Sync>);

impl ProgressSink {
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// A sink that nobody reads.
    pub fn nowhere() -> Self {
        Self::new(|_| {})
    }

    pub fn tell(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}

/// The tools of one workspace, by name.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    record: Option<Arc<dyn Record>>,
    window: Option<Arc<dyn Window>>,
}

/// Why a tool wasn't taken into the box.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The description is invalid; the tool's author has to mend it.
    #[error("{0}")]
    BadSpec(String),
    /// A tool of that name is there already; one of them has to be renamed.
    #[error("there are two tools named '{0}'")]
    Duplicate(String),
}

impl Toolbox {
    /// Adds a tool, unless its description is invalid or its name is taken.
    pub fn insert(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let spec = tool.spec();
        if let Some(problem) = spec.problem() {
            return Err(ToolboxError::BadSpec(problem));
        }
        if self.tools.contains_key(&spec.name) {
            return Err(ToolboxError::Duplicate(spec.name));
        }
        self.tools.insert(spec.name, tool);
        Ok(())
    }

    /// The descriptions of all tools, ordered by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }

    /// Names where the tools' changes are recorded.
    pub fn keeps(&mut self, record: Arc<dyn Record>) {
        self.record = Some(record);
    }

    /// Where the tools' changes are recorded, where they are.
    pub fn record(&self) -> Option<Arc<dyn Record>> {
        self.record.clone()
    }

    /// Names the workspace that people may look into.
    pub fn opens(&mut self, window: Arc<dyn Window>) {
        self.window = Some(window);
    }

    /// The workspace that people may look into, where there is one.
    pub fn window(&self) -> Option<Arc<dyn Window>> {
        self.window.clone()
    }

    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(name).cloned()
    }
}

/// Short ways to say what this crate's tools say often.
pub(crate) trait PreparedExt {
    /// Refuses a preview that is too long to be shown whole: an approval never hides its tail (S19).
    fn within_limits(self) -> Self;
}

impl PreparedExt for Prepared {
    fn within_limits(mut self) -> Self {
        if self.preview.len() > MAX_PREVIEW_BYTES {
            let message =
                format!("What would happen takes {} bytes to show; an approval shows at most {MAX_PREVIEW_BYTES}.", self.preview.len());
            self.preview = String::new();
            self.refusal =
                Some(refused("preview_too_long", message, "Do it in smaller steps, or write a script to a file first and run that."));
        }
        self
    }
}

/// An error of a call that changed nothing.
pub(crate) fn refused(code: &str, message: impl Into<String>, hint: impl Into<String>) -> ToolError {
    ToolError { code: code.to_owned(), message: message.into(), hint: hint.into(), state_modified: StateModified::No }
}

/// A failed call that left nothing behind but its error.
pub(crate) fn failed(error: ToolError) -> Outcome {
    Outcome::Failed { error, result: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::{Effect, Risk, ToolResult};
    use serde_json::json;
    use std::sync::Mutex;

    #[derive(Debug)]
    struct Named(&'static str);

    #[async_trait]
    impl Tool for Named {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: self.0.to_owned(),
                description: "Does nothing.".to_owned(),
                parameters: json!({"type": "object"}),
                effect: Effect::Read,
                risk: Risk::Safe,
                prepare: false,
                lookup: false,
                lasting: false,
                timeout_s: 1,
            }
        }

        async fn run(&self, run: Run) -> Outcome {
            run.progress.tell("nothing");
            Outcome::Succeeded(ToolResult::default())
        }
    }

    #[test]
    fn a_box_refuses_bad_names_and_duplicates() {
        let mut toolbox = Toolbox::default();
        toolbox.insert(Arc::new(Named("do_nothing"))).unwrap();
        assert_eq!(toolbox.insert(Arc::new(Named("do_nothing"))), Err(ToolboxError::Duplicate("do_nothing".into())));
        assert!(matches!(toolbox.insert(Arc::new(Named("Do Nothing"))), Err(ToolboxError::BadSpec(_))));
        assert_eq!(toolbox.specs().len(), 1);
        assert!(toolbox.get("do_nothing").is_some() && toolbox.get("do").is_none());
    }

    #[tokio::test]
    async fn a_signal_comes_once_asked_and_not_when_the_switch_is_dropped() {
        let (switch, mut signal) = CancelSignal::pair();
        assert!(!signal.is_cancelled());
        switch.cancel();
        signal.cancelled().await;
        assert!(signal.is_cancelled());

        let mut orphan = CancelSignal::never();
        tokio::select! {
            biased;
            () = orphan.cancelled() => panic!("nobody asked"),
            () = tokio::task::yield_now() => {}
        }
    }

    #[tokio::test]
    async fn no_time_passes_for_a_call_that_waits() {
        let clock = Clock::default();
        clock.passed(Duration::from_millis(1)).await;
        clock.stop();
        let passed = tokio::time::timeout(Duration::from_millis(50), clock.passed(Duration::from_millis(1)));
        assert!(passed.await.is_err() && clock.stands());
        let (goes, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), clock.passed(Duration::from_millis(1))), async {
            clock.go();
        });
        goes.unwrap();
    }

    #[tokio::test]
    async fn a_preview_is_shown_whole_or_refused() {
        let tool = Named("do_nothing");
        let shown = tool.prepare(&json!({"text": "a\u{202e}b"})).await;
        assert!(shown.preview.contains("U+202E") && shown.refusal.is_none());
        let long = tool.prepare(&json!({"text": "x".repeat(MAX_PREVIEW_BYTES)})).await;
        assert_eq!(long.refusal.unwrap().code, "preview_too_long");
        assert_eq!(long.preview, "");
    }

    #[tokio::test]
    async fn progress_reaches_the_sink() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = ProgressSink::new({
            let lines = Arc::clone(&lines);
            move |line| lines.lock().unwrap().push(line.to_owned())
        });
        let run = Run {
            call_id: CallId("00000000-0000-7000-8000-000000000001".parse().unwrap()),
            attempt: 1,
            arguments: json!({}),
            expected: BTreeMap::new(),
            cancel: CancelSignal::never(),
            progress: sink,
            clock: Clock::default(),
        };
        assert!(matches!(Named("do_nothing").run(run).await, Outcome::Succeeded(_)));
        assert_eq!(*lines.lock().unwrap(), ["nothing"]);
    }
}
