//! What the tests of tools share: a workspace of their own, and calls to the real tools.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file takes its part of this one, and fails where it stands")]

use baton_device::sandbox::{Limits, SandboxMode};
use baton_device::tool::{CancelSignal, CancelSwitch, Clock, ProgressSink, Run, Toolbox};
use baton_device::workspace::{WorkspaceOptions, WorkspaceRoot};
use baton_proto::{CallId, Digest, Finding, Outcome, Prepared, ToolError, ToolResult};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A workspace and a data directory, both gone after the test.
pub struct Place {
    pub directory: TempDir,
    pub options: WorkspaceOptions,
    pub root: Arc<WorkspaceRoot>,
    pub tools: Toolbox,
}

pub fn call_id() -> CallId {
    CallId(uuid::Uuid::now_v7())
}

impl Place {
    pub fn new() -> Self {
        Self::with(SandboxMode::Bubblewrap, Limits::default(), |_| {})
    }

    pub fn repository() -> Self {
        Self::with(SandboxMode::Bubblewrap, Limits::default(), |path| {
            git(path, &["init", "-q"]);
            std::fs::write(path.join("tracked"), "one\n").unwrap();
            git(path, &["add", "."]);
            git(path, &["commit", "-q", "-m", "first"]);
        })
    }

    pub fn with(sandbox: SandboxMode, limits: Limits, fill: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        std::fs::create_dir(&work).unwrap();
        fill(&work);
        let options = WorkspaceOptions { data: directory.path().join("data"), sandbox, limits };
        let root = WorkspaceRoot::open(&work, &options).unwrap();
        let tools = Toolbox::for_workspace(Arc::clone(&root)).unwrap();
        Self { directory, options, root, tools }
    }

    /// What a device does when it is started again.
    pub fn reopen(&mut self) {
        self.root = WorkspaceRoot::open(&self.path(), &self.options).unwrap();
        self.tools = Toolbox::for_workspace(Arc::clone(&self.root)).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let at = self.path().join(name);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at, content).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }

    pub async fn prepare(&self, tool: &str, arguments: Value) -> Prepared {
        self.tools.get(tool).unwrap().prepare(&arguments).await
    }

    pub async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        self.run_as(call_id(), tool, arguments, BTreeMap::new()).await
    }

    pub async fn run_as(&self, call_id: CallId, tool: &str, arguments: Value, expected: BTreeMap<String, Option<Digest>>) -> Outcome {
        let (_switch, cancel) = CancelSignal::pair();
        let run = Run { call_id, attempt: 1, arguments, expected, cancel, progress: ProgressSink::nowhere(), clock: Clock::default() };
        self.tools.get(tool).unwrap().run(run).await
    }

    /// A call that runs by itself until it is cancelled with the switch. The channel tells its progress.
    pub fn start(
        &self,
        tool: &str,
        arguments: Value,
    ) -> (tokio::task::JoinHandle<Outcome>, CancelSwitch, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let (switch, cancel) = CancelSignal::pair();
        let (sender, lines) = tokio::sync::mpsc::unbounded_channel();
        let progress = ProgressSink::new(move |line| drop(sender.send(line.to_owned())));
        let run = Run { call_id: call_id(), attempt: 1, arguments, expected: BTreeMap::new(), cancel, progress, clock: Clock::default() };
        let tool = self.tools.get(tool).unwrap();
        (tokio::spawn(async move { tool.run(run).await }), switch, lines)
    }

    pub async fn ok(&self, tool: &str, arguments: Value) -> ToolResult {
        succeeded(self.run(tool, arguments).await)
    }

    pub async fn error(&self, tool: &str, arguments: Value) -> ToolError {
        error_of(self.run(tool, arguments).await)
    }

    pub async fn lookup(&self, tool: &str, call_id: CallId, arguments: Value) -> Finding {
        self.tools.get(tool).unwrap().lookup(call_id, &arguments).await
    }
}

pub fn succeeded(outcome: Outcome) -> ToolResult {
    match outcome {
        Outcome::Succeeded(result) => result,
        other => panic!("expected success, got {other:?}"),
    }
}

pub fn error_of(outcome: Outcome) -> ToolError {
    match outcome {
        Outcome::Failed { error, .. } => error,
        other => panic!("expected a failure, got {other:?}"),
    }
}

pub fn result_of_failure(outcome: Outcome) -> (String, String) {
    match outcome {
        Outcome::Failed { error, result } => (error.code, result.unwrap().content),
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// The user's own git, outside the sandbox.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
