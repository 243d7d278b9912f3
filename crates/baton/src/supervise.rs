//! Keeps a device process beside the hub. Hub and hands crash apart: a device that outlived the last hub is adopted, a dead one is
//! started anew (architecture.md).

use crate::failure::Failure;
use crate::files;
use baton_proto::make_visible;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often an adopted process, which is nobody's child here, is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long a device may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses between two starts of a device that keeps dying.
const PAUSES: [Duration; 4] = [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

/// A device that ends sooner than this has ended at once.
const AT_ONCE: Duration = Duration::from_secs(30);
/// How often a device may give up at once before it isn't started any more.
const TRIES: usize = 5;
/// What is shown of a device's last words.
const LAST_LINES: usize = 4;
const LAST_BYTES: u64 = 4096;

/// What a device leaves in its directory, so that the next hub can find it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeviceFile {
    pub(crate) pid: u32,
    pub(crate) workspace: PathBuf,
    pub(crate) no_sandbox: bool,
}

impl DeviceFile {
    pub(crate) fn write(&self, data: &Path) -> Result<(), Failure> {
        files::write_private(&data.join("device.json"), &serde_json::to_vec(self).unwrap_or_default())
    }

    fn read(data: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(data.join("device.json")).ok()?).ok()
    }
}

/// What the device writes, in its directory.
const LOG: &str = "device.log";

/// How the device is started.
#[derive(Clone, Debug)]
pub(crate) struct DeviceCommand {
    pub(crate) data: PathBuf,
    pub(crate) hub_file: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) no_sandbox: bool,
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    pid: Arc<AtomicU32>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Supervisor {
    pub(crate) async fn start(command: DeviceCommand) -> Result<Self, Failure> {
        let (stop, stopped) = watch::channel(false);
        let process = match adopt(&command).await {
            Some(pid) => Process::Adopted(pid),
            None => Process::Child(spawn(&command)?),
        };
        let pid = Arc::new(AtomicU32::new(process.pid().unwrap_or(0)));
        let task = tokio::spawn(keep(command, process, Arc::clone(&pid), stopped));
        Ok(Self { pid, stop, task })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Asks the device to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the device's supervisor ended unexpectedly");
        }
    }
}

/// The process of a device that outlived the last hub, if it is as it should be. One with another workspace is stopped first.
async fn adopt(command: &DeviceCommand) -> Option<u32> {
    let file = DeviceFile::read(&command.data)?;
    if !is_device(file.pid, &command.data) {
        return None;
    }
    if file.workspace == command.workspace && file.no_sandbox == command.no_sandbox {
        tracing::info!(pid = file.pid, "a device outlived the last hub and goes on");
        return Some(file.pid);
    }
    end(file.pid, &command.data).await;
    None
}

/// Whether a process is the device of that directory, and not another one that was given the same number.
fn is_device(pid: u32, data: &Path) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let words: Vec<_> = line.split(|byte| *byte == 0).collect();
    words.contains(&b"device".as_slice()) && words.contains(&data.as_os_str().as_encoded_bytes())
}

fn spawn(command: &DeviceCommand) -> Result<tokio::process::Child, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("The device can't be started: {error}."), "Look at the data directory.");
    let log = OpenOptions::new().create(true).append(true).open(command.data.join(LOG)).map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut process = Command::new(program);
    process
        .arg("device")
        .arg("--data")
        .arg(&command.data)
        .arg("--hub-file")
        .arg(&command.hub_file)
        .arg("--workspace")
        .arg(&command.workspace);
    if command.no_sandbox {
        process.arg("--no-sandbox");
    }
    // The key is the hub's alone (R3): what runs on the device could read it from the environment.
    process.env_remove("BATON_MODEL_KEY");
    // In a group of its own, so that Ctrl-C reaches the hub alone, which then stops the device in order.
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0).spawn().map_err(failed)
}

/// A running device: a child of this process, or one that outlived the last hub.
enum Process {
    Child(tokio::process::Child),
    Adopted(u32),
}

impl Process {
    fn pid(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.id(),
            Self::Adopted(pid) => Some(*pid),
        }
    }

    /// Resolves when it has ended, with its status where that can be told.
    async fn ended(&mut self, data: &Path) -> Option<ExitStatus> {
        match self {
            Self::Child(child) => {
                let status = child.wait().await;
                if let Err(error) = &status {
                    tracing::warn!(%error, "the device can't be waited for");
                }
                status.ok()
            }
            Self::Adopted(pid) => {
                gone(*pid, data).await;
                None
            }
        }
    }
}

/// Starts a device that died anew, until it is to stop. One that gives up by itself again and again would only do so once more: whatever it
/// says has to be mended first. One that is killed, by the system or by somebody, is always started again.
async fn keep(command: DeviceCommand, mut process: Process, pid: Arc<AtomicU32>, mut stopped: watch::Receiver<bool>) {
    let mut deaths = 0;
    let mut given_up = 0;
    loop {
        let started = tokio::time::Instant::now();
        let status = tokio::select! {
            status = process.ended(&command.data) => status,
            () = asked(&mut stopped) => return end_in_order(process, &command.data).await,
        };
        let at_once = started.elapsed() <= AT_ONCE;
        deaths = if at_once { deaths + 1 } else { 0 };
        given_up = if at_once && status.is_some_and(|status| status.code().is_some()) { given_up + 1 } else { 0 };
        let words = if at_once { last_words(&command.data) } else { String::new() };
        if given_up >= TRIES {
            tracing::error!(
                "the device ended {TRIES} times at once and isn't started any more{words}. Mend that, then stop Baton and start it again. All \
                 that the device wrote is in {}",
                command.data.join(LOG).display()
            );
            pid.store(0, Ordering::Relaxed);
            return;
        }
        tracing::warn!("the device ended{words}; starting it again");
        process = loop {
            tokio::select! {
                () = tokio::time::sleep(PAUSES[deaths.min(PAUSES.len() - 1)]) => {}
                () = asked(&mut stopped) => return,
            }
            match spawn(&command) {
                Ok(child) => break Process::Child(child),
                Err(failure) => tracing::error!(%failure, "the device can't be started again yet"),
            }
            deaths += 1;
        };
        pid.store(process.pid().unwrap_or(0), Ordering::Relaxed);
    }
}

/// The end of what a device wrote, in one line.
fn last_words(data: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut log = File::open(data.join(LOG))?;
        let bytes = log.metadata()?.len();
        log.seek(SeekFrom::Start(bytes.saturating_sub(LAST_BYTES)))?;
        let mut end = Vec::new();
        log.take(LAST_BYTES).read_to_end(&mut end)?;
        Ok(end)
    };
    let end = read().unwrap_or_default();
    let end = String::from_utf8_lossy(&end);
    let lines: Vec<_> = end.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The last word that begins one: what it says before is another matter.
    let begins = lines.iter().rposition(|line| line.starts_with("baton: ")).unwrap_or(lines.len().saturating_sub(1));
    let words = lines.iter().skip(begins).take(LAST_LINES).copied().collect::<Vec<_>>().join(" ");
    let words = make_visible(words.trim_start_matches("baton: ").trim_end_matches('.'));
    if words.is_empty() { words } else { format!(": {words}") }
}

/// Resolves when the device is to stop.
async fn asked(stopped: &mut watch::Receiver<bool>) {
    // A supervisor that is gone wants it stopped as well.
    let _ = stopped.wait_for(|stop| *stop).await;
}

async fn end_in_order(mut process: Process, data: &Path) {
    let Some(pid) = process.pid() else { return };
    tell(pid, Signal::TERM);
    if tokio::time::timeout(PATIENCE, process.ended(data)).await.is_err() {
        tell(pid, Signal::KILL);
    }
}

/// Resolves when a process that isn't a child of this one has ended.
async fn gone(pid: u32, data: &Path) {
    while is_device(pid, data) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn end(pid: u32, data: &Path) {
    tell(pid, Signal::TERM);
    if tokio::time::timeout(PATIENCE, gone(pid, data)).await.is_err() {
        tell(pid, Signal::KILL);
        gone(pid, data).await;
    }
}

fn tell(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // A process that is gone already needs no signal.
        let _ = kill_process(pid, signal);
    }
}
