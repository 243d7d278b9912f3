//! Where commands run: in bubblewrap, with nothing of the host but toolchains and the workspace (E8, S9, S14–S16).
//!
//! Only this room starts processes on behalf of calls. It may use files of the device's own data directory for caches and
//! output; it knows neither tools nor the hub.

mod bubblewrap;
mod capture;
mod launcher;
mod process;
mod shell;
mod toolchains;

pub use capture::Captured;
pub(crate) use process::STOPS_WITHIN;
pub use process::{Ending, Finished};
pub use shell::quote;

use crate::tool::{CancelSignal, ProgressSink, refused};
use crate::workspace::Repository;
use baton_proto::ToolError;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolchains::Toolchains;

/// How commands are kept from harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// In bubblewrap; without it no command runs.
    Bubblewrap,
    /// Straight on the device, with its user's rights. Only by the user's explicit choice.
    None,
}

/// What a command may use up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Resident memory of the whole process tree, and writable memory of one process, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads at a time.
    pub processes: u64,
    /// Output in all, in bytes.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory_bytes: 4 << 30, processes: 1024, output_bytes: 64 << 20 }
    }
}

/// What may be written in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    ReadOnly,
    /// Everything but `.git`.
    ReadWrite,
}

/// One command to run.
#[derive(Clone, Debug)]
pub struct Job {
    pub argv: Vec<String>,
    /// Absolute, the workspace or below it.
    pub directory: PathBuf,
    pub access: Access,
    pub wall: Duration,
    pub cancel: CancelSignal,
    pub progress: ProgressSink,
}

/// The place where one workspace's commands run.
#[derive(Debug)]
pub struct Sandbox {
    mode: SandboxMode,
    limits: Limits,
    workspace: PathBuf,
    data: PathBuf,
    toolchains: Toolchains,
}

impl Sandbox {
    /// `workspace` and `data` are absolute and free of links; caches and output are kept in `data`.
    pub fn new(mode: SandboxMode, limits: Limits, workspace: &Path, data: &Path) -> std::io::Result<Self> {
        for directory in ["cache", "spool", "etc"] {
            std::fs::create_dir_all(data.join(directory))?;
        }
        bubblewrap::write_own_files(&data.join("etc"))?;
        Ok(Self {
            mode,
            limits,
            workspace: workspace.to_owned(),
            data: data.to_owned(),
            toolchains: Toolchains::of_this_user(workspace, data),
        })
    }

    /// The name of the sandbox, or `None` where commands run without one, or can't run.
    pub fn name(&self) -> Option<String> {
        (self.mode == SandboxMode::Bubblewrap && bubblewrap::find().is_some()).then(|| "bubblewrap".to_owned())
    }

    pub fn mode(&self) -> SandboxMode {
        self.mode
    }

    /// Where the whole output of commands that printed much is kept, by digest.
    pub fn spool(&self) -> PathBuf {
        self.data.join("spool")
    }

    /// Runs a command to its end, or until it is stopped. Its whole process tree is gone when this returns.
    pub async fn run(&self, job: Job) -> Result<Finished, ToolError> {
        let command = match self.mode {
            SandboxMode::Bubblewrap => {
                let program = bubblewrap::find().ok_or_else(no_sandbox)?;
                let repository = Repository::find(&self.workspace);
                if repository == Repository::Unconfirmed {
                    return Err(refused(
                        "unsafe_git",
                        "The workspace's '.git' is a link, or redirects to a repository that doesn't know this worktree; it can't be protected from commands.",
                        "Ask the user to repair the worktree ('git worktree repair') or to open the directory that holds the repository.",
                    ));
                }
                let layout = bubblewrap::Layout {
                    workspace: &self.workspace,
                    repository: &repository,
                    data: &self.data,
                    toolchains: &self.toolchains,
                    limits: &self.limits,
                };
                bubblewrap::command(&program, &layout, &job)
            }
            SandboxMode::None => process::bare_command(&self.toolchains, &job)?,
        };
        process::run(command, self.mode, &self.limits, &self.spool(), job).await
    }
}

fn no_sandbox() -> ToolError {
    refused(
        "no_sandbox",
        "Commands run in bubblewrap only, and bubblewrap ('bwrap') is not installed on this device.",
        "Install the package 'bubblewrap', or start the device with '--no-sandbox': commands then run with all rights of the device's user, \
         and reach its files, its network and its keys.",
    )
}
