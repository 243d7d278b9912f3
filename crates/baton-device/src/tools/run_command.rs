//! `run_command`: a program with its arguments, in the sandbox.

use super::{arguments, blocking, shapes};
use crate::output::result_of_command;
use crate::sandbox::{Access, Ending, Finished, Job, SandboxMode, quote};
use crate::tool::{PreparedExt as _, Run, Tool, failed, refused};
use crate::workspace::{Derived, Entry, Listing, MAX_RECORDED_BYTES, RelativePath, Repository, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{Digest, Effect, Outcome, Prepared, Risk, StateModified, ToolError, ToolResult, ToolSpec, make_visible};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const DEFAULT_TIMEOUT_S: u64 = 120;
const MAX_TIMEOUT_S: u64 = 3000;
/// Files named in a command whose digests an approval is bound to.
const MAX_NAMED_FILES: usize = 32;
/// Changed files listed in a result.
const MAX_LISTED: usize = 20;

#[derive(Debug)]
pub(super) struct RunCommand {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    argv: Vec<String>,
    #[serde(default)]
    directory: String,
    timeout_s: Option<u64>,
}

/// A command after its checks.
struct Plan {
    argv: Vec<String>,
    directory: PathBuf,
    wall: Duration,
    risk: Risk,
    access: Access,
    digests: BTreeMap<String, Option<Digest>>,
}

#[async_trait]
impl Tool for RunCommand {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "run_command".to_owned(),
            description: format!(
                "Runs one program with its arguments in the workspace, and answers what it printed and its exit status. Use it for builds, tests \
                 and tools; use read_file, find_text and edit_file for files. `argv` is a list, not a shell line: pipes, globs and variables need \
                 [\"sh\", \"-c\", \"…\"], which always asks the user. There is no network, `.git` can't be written, nothing reads from a terminal, and \
                 processes left in the background end with the command. At most {MAX_TIMEOUT_S} s (default {DEFAULT_TIMEOUT_S}) and 64 MiB of output."
            ),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["argv"],
                "properties": {
                    "argv": {
                        "type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"},
                        "description": "The program and its arguments, each on its own, such as [\"cargo\", \"test\"]."
                    },
                    "directory": {"type": "string", "description": "Directory relative to the workspace. Default: the workspace itself."},
                    "timeout_s": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_S, "default": DEFAULT_TIMEOUT_S, "description": "Seconds."}
                }
            }),
            effect: Effect::Once,
            risk: Risk::Safe,
            prepare: true,
            lookup: false,
            lasting: false,
            timeout_s: 3060,
        }
    }

    async fn prepare(&self, arguments: &Value) -> Prepared {
        let (root, arguments) = (Arc::clone(&self.root), arguments.clone());
        let blank = Prepared {
            risk: Risk::Sensitive,
            risk_reason: String::new(),
            digests: BTreeMap::new(),
            preview: String::new(),
            directory: None,
            refusal: None,
        };
        let plan = match blocking(move || plan(&root, &arguments)).await {
            Ok(plan) => plan,
            Err(error) => return Prepared { refusal: Some(error), ..blank },
        };
        let risk_reason = match (plan.risk, self.root.sandbox.mode()) {
            (Risk::Safe, _) => "It only reads.",
            (_, SandboxMode::Bubblewrap) => "It runs a program, which can change the workspace.",
            (_, SandboxMode::None) => "It runs a program without a sandbox, with all rights of the device's user.",
        };
        Prepared {
            risk: plan.risk,
            risk_reason: risk_reason.to_owned(),
            digests: plan.digests,
            preview: make_visible(&quote(&plan.argv)),
            directory: Some(make_visible(&plan.directory.to_string_lossy())),
            ..blank
        }
        .within_limits()
    }

    fn whole(&self, digest: &Digest) -> Option<PathBuf> {
        Some(self.root.sandbox.spool().join(&digest.0)).filter(|path| path.is_file())
    }

    async fn run(&self, run: Run) -> Outcome {
        match self.perform(run).await {
            Ok(outcome) => outcome,
            Err(error) => failed(error),
        }
    }
}

impl RunCommand {
    async fn perform(&self, run: Run) -> Result<Outcome, ToolError> {
        let root = Arc::clone(&self.root);
        let (plan, before) = blocking(move || {
            let plan = plan(&root, &run.arguments)?;
            check_approved(&root, &run.expected)?;
            let before = (plan.access == Access::ReadWrite).then(|| State::of(&root));
            Ok((plan, before))
        })
        .await?;
        let access = plan.access;
        let job = Job { argv: plan.argv, directory: plan.directory, access, wall: plan.wall, cancel: run.cancel, progress: run.progress };
        let finished = self.root.sandbox.run(job).await?;

        let root = Arc::clone(&self.root);
        let changes = blocking(move || Ok(before.map(|before| before.compare(&root)).unwrap_or_default())).await?;
        let mut heading = heading(&finished, plan.wall);
        for note in changes.notes {
            heading.push('\n');
            heading.push_str(&note);
        }
        let mut result = result_of_command(&heading, &finished.captured);
        result.baseline = Some(self.root.baseline().await);
        let modified = match access {
            Access::ReadOnly => StateModified::No,
            Access::ReadWrite if changes.any => StateModified::Yes,
            Access::ReadWrite => StateModified::Unknown,
        };
        Ok(outcome(&finished, plan.wall, result, modified))
    }
}

fn plan(root: &WorkspaceRoot, value: &Value) -> Result<Plan, ToolError> {
    let Arguments { argv, directory, timeout_s } = arguments(value)?;
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|argument| argument.contains('\0')) {
        let message = "The command is empty, or an argument contains a null character.";
        return Err(refused("invalid_arguments", message, "Give the program's name and its arguments in 'argv'."));
    }
    let below = RelativePath::parse(&directory)?;
    root.files.directory(&below)?;
    let sandboxed = root.sandbox.mode() == SandboxMode::Bubblewrap;
    let only_reads = shapes::only_reads(&argv) && (sandboxed || !shapes::is_git(&argv));
    let digests = named_files(root, &below, &argv);
    Ok(Plan {
        digests,
        directory: if below.is_root() { root.path().to_owned() } else { root.path().join(below.as_str()) },
        wall: Duration::from_secs(timeout_s.unwrap_or(DEFAULT_TIMEOUT_S).clamp(1, MAX_TIMEOUT_S)),
        risk: if only_reads { Risk::Safe } else { Risk::Sensitive },
        access: if only_reads { Access::ReadOnly } else { Access::ReadWrite },
        argv,
    })
}

/// Digests of the workspace's files that a command names, also as `--flag=file`.
fn named_files(root: &WorkspaceRoot, below: &RelativePath, argv: &[String]) -> BTreeMap<String, Option<Digest>> {
    let mut digests = BTreeMap::new();
    let workspace = root.path().to_string_lossy();
    for argument in argv {
        for name in [Some(argument.as_str()), argument.split_once('=').map(|(_, value)| value)].into_iter().flatten() {
            let inside = name.strip_prefix(workspace.as_ref()).and_then(|rest| rest.strip_prefix('/'));
            let path = match inside {
                Some(inside) => RelativePath::parse(inside),
                None => RelativePath::parse(name).and_then(|path| RelativePath::parse(&format!("{below}/{path}"))),
            };
            if digests.len() < MAX_NAMED_FILES
                && let Ok(path) = path
                && let Ok(Some(content)) = root.files.read(&path, MAX_RECORDED_BYTES)
            {
                digests.insert(path.as_str().to_owned(), Some(content.digest));
            }
        }
    }
    digests
}

/// Refuses a command whose files are not those that were approved (S17).
fn check_approved(root: &WorkspaceRoot, expected: &BTreeMap<String, Option<Digest>>) -> Result<(), ToolError> {
    for name in expected.keys() {
        let path = RelativePath::parse(name)?;
        let current = root.files.read(&path, MAX_RECORDED_BYTES)?;
        super::check_expected(expected, &path, current.as_ref())?;
    }
    Ok(())
}

/// The workspace before a command, for telling what the command changed.
struct State {
    listing: Listing,
    repository: Repository,
}

#[derive(Default)]
struct Changes {
    any: bool,
    notes: Vec<String>,
}

impl State {
    fn of(root: &WorkspaceRoot) -> Self {
        Self { listing: root.listing(Derived::NameOnly), repository: Repository::find(root.path()) }
    }

    fn compare(self, root: &WorkspaceRoot) -> Changes {
        let now = Self::of(root);
        let files = |listing: Listing| -> BTreeMap<RelativePath, Entry> {
            let files = listing.entries.into_iter().filter(|entry| entry.kind != crate::workspace::Kind::Directory);
            files.map(|entry| (entry.path.clone(), entry)).collect()
        };
        let whole = self.listing.cut.is_none() && now.listing.cut.is_none();
        let (before, after) = (files(self.listing), files(now.listing));
        let mut names = Vec::new();
        names.extend(after.iter().filter(|(path, _)| !before.contains_key(path)).map(|(path, _)| format!("{path} (new)")));
        names.extend(
            after.iter().filter(|(path, entry)| before.get(path).is_some_and(|old| old != *entry)).map(|(path, _)| path.to_string()),
        );
        names.extend(before.keys().filter(|path| !after.contains_key(path)).map(|path| format!("{path} (gone)")));
        let mut changes = Changes { any: !names.is_empty(), notes: Vec::new() };
        if !names.is_empty() {
            let more = names.len().saturating_sub(MAX_LISTED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            names.truncate(MAX_LISTED);
            changes.notes.push(format!("[files changed, not recorded for undo: {}{more}]", make_visible(&names.join(", "))));
        }
        if !whole {
            changes.notes.push("[the workspace is too large to list every changed file]".to_owned());
        }
        if self.repository == Repository::None && now.repository != Repository::None {
            changes.any = true;
            changes.notes.push("[a new '.git' appeared: check it before using git here, since git acts by what it says]".to_owned());
        }
        changes
    }
}

fn heading(finished: &Finished, wall: Duration) -> String {
    let took = finished.took.as_secs_f32();
    match finished.ending {
        Ending::Exited(code) => format!("exit status {code} after {took:.1} s"),
        Ending::Signalled(signal) => format!("ended by signal {signal} after {took:.1} s"),
        Ending::Cancelled => format!("stopped on request after {took:.1} s"),
        Ending::TimedOut => format!("stopped after its time of {} s", wall.as_secs()),
        Ending::OutputLimit => "stopped: too much output".to_owned(),
        Ending::MemoryLimit => "stopped: too much memory".to_owned(),
        Ending::ProcessLimit => "stopped: too many processes".to_owned(),
    }
}

fn outcome(finished: &Finished, wall: Duration, result: ToolResult, state_modified: StateModified) -> Outcome {
    let (code, message, hint) = match finished.ending {
        Ending::Exited(0) => return Outcome::Succeeded(result),
        Ending::Cancelled => return Outcome::Cancelled { result: Some(result) },
        Ending::Exited(code) => {
            ("exit_status", format!("The command ended with exit status {code}."), "Read what it printed, and mend the cause.")
        }
        Ending::Signalled(signal) => {
            ("signalled", format!("The command was ended by signal {signal}."), "Read what it printed, and mend the cause.")
        }
        Ending::TimedOut => (
            "timed_out",
            format!("The command was stopped after {} s, with all its processes.", wall.as_secs()),
            "Give it more time with 'timeout_s', or do less at once.",
        ),
        Ending::OutputLimit => (
            "output_limit",
            format!("The command was stopped after printing {} bytes.", finished.captured.bytes),
            "Make it print less, or write to a file in the workspace.",
        ),
        Ending::MemoryLimit => ("memory_limit", "The command was stopped for using too much memory.".to_owned(), "Do less at once."),
        Ending::ProcessLimit => {
            ("process_limit", "The command was stopped for starting too many processes.".to_owned(), "Use fewer at a time.")
        }
    };
    Outcome::Failed { error: ToolError { code: code.to_owned(), message, hint: hint.to_owned(), state_modified }, result: Some(result) }
}
