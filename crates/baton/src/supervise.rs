//! Keeps a device process beside the hub. Hub and hands crash apart: a device that outlived the last hub is adopted, a dead one is
//! started anew (architecture.md).

use crate::failure::Failure;
use crate::files;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
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
    let log = OpenOptions::new().create(true).append(true).open(command.data.join("device.log")).map_err(failed)?;
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

    /// Resolves when it has ended.
    async fn ended(&mut self, data: &Path) {
        match self {
            Self::Child(child) => {
                if let Err(error) = child.wait().await {
                    tracing::warn!(%error, "the device can't be waited for");
                }
            }
            Self::Adopted(pid) => gone(*pid, data).await,
        }
    }
}

/// Starts a device that died anew, until it is to stop.
async fn keep(command: DeviceCommand, mut process: Process, pid: Arc<AtomicU32>, mut stopped: watch::Receiver<bool>) {
    let mut deaths = 0;
    loop {
        let started = tokio::time::Instant::now();
        let stop = tokio::select! {
            () = process.ended(&command.data) => false,
            () = asked(&mut stopped) => true,
        };
        if stop {
            return end_in_order(process, &command.data).await;
        }
        deaths = if started.elapsed() > Duration::from_secs(30) { 0 } else { deaths + 1 };
        tracing::warn!("the device ended; starting it again");
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
