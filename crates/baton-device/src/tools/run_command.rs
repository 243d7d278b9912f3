//! `run_command`: a program with its arguments, in the sandbox.

use super::{acting, arguments, blocking, shapes, turn};
use crate::history::{Change, LOOKS_WITHIN};
use crate::output::result_of_command;
use crate::sandbox::{Access, Ending, Finished, Job, STOPS_WITHIN, SandboxMode, quote};
use crate::tool::{CancelSignal, PreparedExt as _, Run, Tool, failed, refused};
use crate::workspace::{MAX_RECORDED_BYTES, RelativePath, Repository, WorkspaceRoot, history_error, shown};
use async_trait::async_trait;
use baton_proto::{
    CallId, Digest, Effect, FileChange, NotRecorded, Outcome, Prepared, Risk, Said, StateModified, ToolError, ToolResult, ToolSpec,
    make_visible,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEFAULT_TIMEOUT_S: u64 = 120;
const MAX_TIMEOUT_S: u64 = 3000;
/// Files named in a command whose digests an approval is bound to.
const MAX_NAMED_FILES: usize = 32;
/// Changed files named in the words of a result.
const MAX_LISTED: usize = 20;
/// Changed files that a result describes; all are recorded, and a diff shows them.
const MAX_DESCRIBED: usize = 200;
/// For counting their lines.
const COUNTING: Duration = Duration::from_secs(5);
/// For the rest, such as reading the baseline.
const SPARE: Duration = Duration::from_secs(13);
/// From being asked to stop to the result: a command that has ended is looked at to its end, and told as what it was.
const ENDS_WITHIN: Duration = LOOKS_WITHIN.saturating_add(STOPS_WITHIN).saturating_add(COUNTING).saturating_add(SPARE);
/// The whole call, with the look before the command and all that follows on it.
const WITHIN: Duration = Duration::from_secs(MAX_TIMEOUT_S).saturating_add(LOOKS_WITHIN).saturating_add(ENDS_WITHIN);

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
            timeout_s: u32::try_from(WITHIN.as_secs()).unwrap_or(u32::MAX),
        }
    }

    async fn prepare(&self, arguments: &Value) -> Prepared {
        let (root, arguments) = (Arc::clone(&self.root), arguments.clone());
        let blank = Prepared {
            risk: Risk::Sensitive,
            risk_reason: String::new(),
            risk_said: Vec::new(),
            digests: BTreeMap::new(),
            preview: String::new(),
            directory: None,
            refusal: None,
        };
        let plan = match blocking(move || plan(&root, &arguments)).await {
            Ok(plan) => plan,
            Err(error) => return Prepared { refusal: Some(error), ..blank },
        };
        let why = match (plan.risk, self.root.sandbox.mode()) {
            (Risk::Safe, _) => Said::new("only_reads", "It only reads."),
            (_, SandboxMode::Bubblewrap) => Said::new("runs_program", "It runs a program, which can change the workspace."),
            (_, SandboxMode::None) => {
                Said::new("runs_unsandboxed", "It runs a program without a sandbox, with all rights of the device's user.")
            }
        };
        Prepared {
            risk: plan.risk,
            risk_reason: why.text.clone(),
            risk_said: vec![why],
            digests: plan.digests,
            preview: make_visible(&quote(&plan.argv)),
            directory: Some(make_visible(&plan.directory.to_string_lossy())),
            ..blank
        }
        .within_limits()
    }

    fn stops_within(&self) -> Duration {
        ENDS_WITHIN
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
    async fn perform(&self, mut run: Run) -> Result<Outcome, ToolError> {
        let call_id = run.call_id;
        let stopped = Outcome::Cancelled { result: None };
        let access = access(&self.root, &arguments::<Arguments>(&run.arguments)?.argv);
        let turn = match access {
            Access::ReadOnly => None,
            Access::ReadWrite => match turn(&self.root, &mut run).await? {
                Some(turn) => Some(turn),
                None => return Ok(stopped),
            },
        };
        let root = Arc::clone(&self.root);
        let cancel = run.cancel.clone();
        let begun = blocking(move || {
            let plan = plan(&root, &run.arguments)?;
            check_approved(&root, &run.expected)?;
            if access == Access::ReadWrite && !begins(&root, call_id, &cancel)? {
                return Ok(None);
            }
            let git = Repository::find(root.path());
            Ok(Some((plan, git, turn)))
        });
        let Some((plan, git_before, turn)) = begun.await? else { return Ok(stopped) };
        let job = Job { argv: plan.argv, directory: plan.directory, access, wall: plan.wall, cancel: run.cancel, progress: run.progress };
        let finished = self.root.sandbox.run(job).await;

        let root = Arc::clone(&self.root);
        let changes = blocking(move || {
            let changes = match access {
                Access::ReadOnly => Changes::default(),
                Access::ReadWrite => Changes::of(&root, call_id, &git_before)?,
            };
            Ok((turn, changes))
        });
        // Also a command that couldn't be started has a record, which says that it changed nothing.
        let (turn, changes) = changes.await?;
        // The turn lasts until it is known how the workspace looks after the command. One that only reads has no turn and changes nothing.
        let baseline = match access {
            Access::ReadOnly => None,
            Access::ReadWrite => Some(self.root.told_baseline().await),
        };
        drop(turn);
        let finished = finished?;
        let mut heading = heading(&finished, plan.wall);
        for note in &changes.notes {
            heading.push('\n');
            heading.push_str(note);
        }
        let mut result = result_of_command(&heading, &finished.captured);
        result.baseline = baseline;
        let any = changes.any;
        (result.changes, result.not_recorded) = (changes.files, changes.not_recorded);
        let modified = match access {
            Access::ReadOnly => StateModified::No,
            Access::ReadWrite if any => StateModified::Yes,
            Access::ReadWrite => StateModified::Unknown,
        };
        Ok(outcome(&finished, plan.wall, result, modified))
    }
}

/// Records that a command begins, or that it was asked to stop before it did.
fn begins(root: &WorkspaceRoot, call_id: CallId, cancel: &CancelSignal) -> Result<bool, ToolError> {
    let _acting = acting(root);
    let begun = root.history.command_begins(call_id, &root.files);
    begun.map_err(|error| ToolError { state_modified: StateModified::No, ..error })?;
    let stopped = cancel.is_cancelled();
    if stopped {
        root.history.abandoned(call_id).map_err(history_error)?;
    }
    Ok(!stopped)
}

fn access(root: &WorkspaceRoot, argv: &[String]) -> Access {
    let sandboxed = root.sandbox.mode() == SandboxMode::Bubblewrap;
    let only_reads = shapes::only_reads(argv) && (sandboxed || !shapes::is_git(argv));
    if only_reads { Access::ReadOnly } else { Access::ReadWrite }
}

fn plan(root: &WorkspaceRoot, value: &Value) -> Result<Plan, ToolError> {
    let Arguments { argv, directory, timeout_s } = arguments(value)?;
    if argv.first().is_none_or(String::is_empty) || argv.iter().any(|argument| argument.contains('\0')) {
        let message = "The command is empty, or an argument contains a null character.";
        return Err(refused("invalid_arguments", message, "Give the program's name and its arguments in 'argv'."));
    }
    let below = RelativePath::parse(&directory)?;
    root.files.directory(&below)?;
    let risk = if access(root, &argv) == Access::ReadOnly { Risk::Safe } else { Risk::Sensitive };
    let digests = named_files(root, &below, &argv);
    Ok(Plan {
        digests,
        directory: if below.is_root() { root.path().to_owned() } else { root.path().join(below.as_str()) },
        wall: Duration::from_secs(timeout_s.unwrap_or(DEFAULT_TIMEOUT_S).clamp(1, MAX_TIMEOUT_S)),
        risk,
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
                None => RelativePath::parse(name).and_then(|path| RelativePath::parse(&format!("{}/{}", below.as_str(), path.as_str()))),
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

/// What a command changed.
#[derive(Default)]
struct Changes {
    any: bool,
    files: Vec<FileChange>,
    not_recorded: Vec<NotRecorded>,
    notes: Vec<String>,
}

impl Changes {
    fn of(root: &WorkspaceRoot, call_id: CallId, git_before: &Repository) -> Result<Self, ToolError> {
        let _acting = acting(root);
        let found = root.history.command_ended(call_id, &root.files)?;
        let mut changes = Self { any: !found.is_empty(), ..Self::default() };
        let described = |change: &Change| {
            let end = match (&change.before, &change.after) {
                (None, _) => " (new)",
                (_, None) => " (gone)",
                _ => "",
            };
            format!("{}{end}", shown(&change.path))
        };
        changes.note("files changed", found.changes.iter().map(described).collect());
        let unrecorded = found.not_recorded.iter().map(|item| format!("{}: {}", item.path, item.reason)).collect();
        changes.note("not recorded", unrecorded);
        let counted_until = Instant::now() + COUNTING;
        for change in found.changes.iter().take_while(|_| Instant::now() < counted_until).take(MAX_DESCRIBED) {
            changes.files.push(root.described(change));
        }
        let left_out = found.changes.len() - changes.files.len();
        if left_out > 0 {
            changes.notes.push(format!("[{left_out} more changed files are recorded and not described here]"));
        }
        changes.not_recorded = found.not_recorded;
        let git_now = Repository::find(root.path());
        if *git_before == Repository::None && git_now != Repository::None {
            changes.any = true;
            changes.notes.push("[a new '.git' appeared: check it before using git here, since git acts by what it says]".to_owned());
        }
        Ok(changes)
    }

    fn note(&mut self, what: &str, mut items: Vec<String>) {
        if items.is_empty() {
            return;
        }
        let more = items.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        items.truncate(MAX_LISTED);
        self.notes.push(format!("[{what}: {}{more}]", items.join(", ")));
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
