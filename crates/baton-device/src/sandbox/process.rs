//! One process tree from its start to its certain end.

use super::capture::{Capture, Captured};
use super::toolchains::{ENVIRONMENT, Toolchains};
use super::{Job, Limits, SandboxMode, launcher};
use crate::tool::refused;
use baton_proto::{MAX_RESULT_BYTES, StateModified, ToolError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// How often use of memory and processes is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(150);
/// How often progress is told at most.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// How long a killed tree may take to be gone. A process in an uninterruptible wait can take longer; nothing could hurry it.
const GONE_WITHIN: Duration = Duration::from_secs(10);
/// For reading what a tree that is gone had printed.
const DRAINS_WITHIN: Duration = Duration::from_secs(2);
/// From being asked to stop, or from the end of its time, to the end of a command. Without a sandbox the tree is waited for twice.
pub(crate) const STOPS_WITHIN: Duration = GONE_WITHIN.saturating_mul(2).saturating_add(DRAINS_WITHIN);

/// A command that came to its end.
#[derive(Clone, Debug)]
pub struct Finished {
    pub ending: Ending,
    pub captured: Captured,
    pub took: Duration,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Signalled(i32),
    /// Stopped on request.
    Cancelled,
    /// Stopped at the end of its time.
    TimedOut,
    /// Stopped for printing too much.
    OutputLimit,
    /// Stopped for using too much memory.
    MemoryLimit,
    /// Stopped for starting too many processes.
    ProcessLimit,
}

/// A command without a sandbox: the user's own rights, but still only listed variables.
pub(super) fn bare_command(toolchains: &Toolchains, job: &Job) -> Result<Command, ToolError> {
    let Some((program, arguments)) = job.argv.split_first() else {
        return Err(refused("invalid_arguments", "The command is empty.", "Give at least the program's name in 'argv'."));
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&job.directory).env_clear().envs(ENVIRONMENT).stdin(Stdio::null()).process_group(0);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| toolchains.path_value()));
    if let Some(home) = std::env::var_os("HOME") {
        command.env("HOME", home);
    }
    Ok(command)
}

pub(super) async fn run(
    mut command: Command,
    mode: SandboxMode,
    limits: &Limits,
    spool: &Path,
    mut job: Job,
) -> Result<Finished, ToolError> {
    let program = job.argv.first().cloned().unwrap_or_default();
    let (reader, writer) = io::pipe().map_err(|error| cannot_run(&program, &error))?;
    // One pipe for both, so that the order of what was printed is kept.
    command.stdout(writer.try_clone().map_err(|error| cannot_run(&program, &error))?).stderr(writer);
    let mut capture = Capture::new(spool).map_err(|error| cannot_run(&program, &error))?;
    let mut output = pipe::Receiver::from_owned_fd(reader.into()).map_err(|error| cannot_run(&program, &error))?;
    let mark = (mode == SandboxMode::None).then(mark);
    if let Some(mark) = &mark {
        command.env(MARK, mark);
    }
    let started = Instant::now();
    let mut child = launcher::start(command).await.map_err(|error| cannot_run(&program, &error))?;
    let mut tree = Tree::of(&mut child, mark).await;

    let ended = watch(&mut child, &tree, limits, &mut output, &mut capture, &mut job).await;
    tree.kill(&mut child).await;
    let (ending, broken) = match ended {
        Ok(ending) => (ending, None),
        Err(error) => (Ending::Cancelled, Some(error)),
    };
    let drained = timeout(DRAINS_WITHIN, drain(&mut output, &mut capture, limits)).await.unwrap_or(Ok(()));
    if let Some(error) = broken.or(drained.err()) {
        let mut error = cannot_run(&program, &error);
        error.state_modified = StateModified::Unknown;
        return Err(error);
    }
    let captured = capture.finish(MAX_RESULT_BYTES).map_err(|error| cannot_run(&program, &error))?;
    if mode == SandboxMode::Bubblewrap && ending == Ending::Exited(1) && captured.head.starts_with(b"bwrap: ") {
        return Err(sandbox_failed(&captured));
    }
    Ok(Finished { ending, captured, took: started.elapsed() })
}

async fn watch(
    child: &mut Child,
    tree: &Tree,
    limits: &Limits,
    output: &mut pipe::Receiver,
    capture: &mut Capture,
    job: &mut Job,
) -> io::Result<Ending> {
    let deadline = sleep(job.wall);
    tokio::pin!(deadline);
    let mut look = interval(WATCH_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut buffer = vec![0; 64 * 1024];
    let mut open = true;
    let mut told = Instant::now();
    loop {
        tokio::select! {
            // Being stopped comes first, so that a flood of output can't keep it from being seen.
            biased;
            () = job.cancel.cancelled() => return Ok(Ending::Cancelled),
            () = &mut deadline => return Ok(Ending::TimedOut),
            _ = look.tick() => if let Some(ending) = tree.over(limits) { return Ok(ending) },
            read = output.read(&mut buffer), if open => match read? {
                0 => open = false,
                count => {
                    capture.push(&buffer[..count])?;
                    if capture.bytes() > limits.output_bytes {
                        return Ok(Ending::OutputLimit);
                    }
                    if told.elapsed() >= TELL_EVERY {
                        told = Instant::now();
                        job.progress.tell(&last_line(&buffer[..count]));
                    }
                }
            },
            status = child.wait() => return Ok(ending_of(status?)),
        }
    }
}

async fn drain(output: &mut pipe::Receiver, capture: &mut Capture, limits: &Limits) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    while capture.bytes() <= limits.output_bytes {
        match output.read(&mut buffer).await? {
            0 => break,
            count => capture.push(&buffer[..count])?,
        }
    }
    Ok(())
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or_default()),
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().rsplit('\n').next().unwrap_or_default().chars().take(200).collect()
}

fn cannot_run(program: &str, error: &io::Error) -> ToolError {
    refused(
        "cannot_run",
        format!("The device could not run '{}': {error}.", program.escape_debug()),
        "Check that the program exists on the device, and that the device has free space and processes.",
    )
}

fn sandbox_failed(captured: &Captured) -> ToolError {
    ToolError {
        code: "no_sandbox".to_owned(),
        message: format!("The sandbox could not be set up: {}", String::from_utf8_lossy(&captured.head).trim()),
        hint: "The system may forbid user namespaces (see 'kernel.apparmor_restrict_unprivileged_userns' or \
               'kernel.unprivileged_userns_clone'). Allow them for bubblewrap, or start the device with '--no-sandbox', which gives commands all \
               rights of the device's user."
            .to_owned(),
        state_modified: StateModified::Unknown,
    }
}

/// A variable that marks every process of a command that runs without a sandbox.
const MARK: &str = "BATON_RUN";

/// A value of it that no other command has.
fn mark() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{}.{}", std::process::id(), since.as_nanos(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes of one command. In a sandbox the first of them inside takes all others with it: the kernel ends a process
/// namespace as a whole. Without one they are found by descent, group and mark: one that has left its group and lost its parent
/// still carries the mark.
#[derive(Debug)]
struct Tree {
    root: Option<Pid>,
    /// The mark of a command without a sandbox.
    mark: Option<String>,
    /// The first process inside the sandbox.
    inner: Vec<OwnedFd>,
}

impl Tree {
    async fn of(child: &mut Child, mark: Option<String>) -> Self {
        let root = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let mut tree = Self { root, mark, inner: Vec::new() };
        if tree.mark.is_some() {
            return tree;
        }
        // Bubblewrap needs some milliseconds until its inner process exists. It is remembered by handle, so that it can be waited
        // for when bubblewrap itself is gone.
        for _ in 0..200 {
            tree.inner = root.map(children).unwrap_or_default().into_iter().filter_map(handle).collect();
            if !tree.inner.is_empty() || !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        tree
    }

    /// Which limit the tree is over, if any.
    fn over(&self, limits: &Limits) -> Option<Ending> {
        let members = descendants(self.root?);
        let memory: u64 = members.iter().map(|pid| resident_bytes(*pid)).sum();
        if memory > limits.memory_bytes {
            Some(Ending::MemoryLimit)
        } else if members.len() as u64 > limits.processes {
            Some(Ending::ProcessLimit)
        } else {
            None
        }
    }

    /// Kills what is left of the tree, and waits until it is gone.
    async fn kill(&mut self, child: &mut Child) {
        let mut handles = std::mem::take(&mut self.inner);
        let running = matches!(child.try_wait(), Ok(None));
        if let Some(root) = self.root {
            if running {
                handles.extend(descendants(root).into_iter().filter_map(handle));
            }
            if self.mark.is_some() {
                // The group outlives its first process, and its number isn't used anew while a member lives.
                let _ = kill_process_group(root, Signal::KILL);
            }
        }
        for handle in &handles {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        let _ = child.start_kill();
        if let Some(mark) = self.mark.take() {
            // The child is waited for first: what it would have started meanwhile is then there to be found.
            let _ = timeout(GONE_WITHIN, child.wait()).await;
            handles.extend(tokio::task::spawn_blocking(move || kill_marked(&mark)).await.unwrap_or_default());
        }
        let gone = async {
            let _ = child.wait().await;
            // Each wait has its own end, so a thread that waits is never left behind.
            let _ = tokio::task::spawn_blocking(move || handles.iter().for_each(wait_until_gone)).await;
        };
        if timeout(GONE_WITHIN, gone).await.is_err() {
            tracing::warn!("a killed process tree is not gone after {} s", GONE_WITHIN.as_secs());
        }
    }
}

/// Kills every process that carries a mark, over and over until a look finds none: one that is just being started carries it as well.
fn kill_marked(mark: &str) -> Vec<OwnedFd> {
    let wanted = format!("{MARK}={mark}");
    let mut killed = Vec::new();
    for _ in 0..100 {
        let found: Vec<OwnedFd> = marked(&wanted).into_iter().filter_map(handle).collect();
        if found.is_empty() {
            return killed;
        }
        for handle in &found {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
        found.iter().for_each(wait_until_gone);
        killed.extend(found);
    }
    tracing::warn!("processes of a command start new ones faster than they can be killed");
    killed
}

/// The processes that were started with that variable; those of other users can't be looked at, and aren't meant.
fn marked(wanted: &str) -> Vec<Pid> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    let carries = |pid: &Pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    numbers.filter(carries).collect()
}

fn handle(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn wait_until_gone(handle: &OwnedFd) {
    let within = Timespec { tv_sec: GONE_WITHIN.as_secs().try_into().unwrap_or(10), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&within));
}

fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok().and_then(Pid::from_raw)).collect::<Vec<_>>()).collect()
}

/// All that descend from a process, itself left out. Bounded: a tree beyond the bound is over every limit anyway.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = BTreeMap::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children(pid) {
            if found.len() < 20_000 && found.insert(child.as_raw_nonzero(), child).is_none() {
                open.push(child);
            }
        }
    }
    found.into_values().collect()
}

/// Memory that is a process's own, in bytes: shared libraries would count once for each process.
fn resident_bytes(pid: Pid) -> u64 {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return 0 };
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim_start_matches(':').split_whitespace().next()).and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    (kib("RssAnon") + kib("RssShmem")) * 1024
}
