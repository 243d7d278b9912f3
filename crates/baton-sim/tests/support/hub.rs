use super::command::Started;
use super::{free_port, program};
use baton_client::Http;
use baton_proto::{InvitationApproval, InvitationStanding};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A hub with the device beside it, as `baton up` starts them; it can be killed and started again over the same data.
#[derive(Debug)]
pub struct Hub {
    pub data: PathBuf,
    pub port: u16,
    words: Vec<String>,
    variables: Vec<(String, String)>,
    child: Option<Child>,
    pub ready: Value,
}

/// How a hub is started where it isn't as usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unusual<'a> {
    /// A program, with its arguments, under which it runs.
    pub wrapper: &'a [&'a str],
    /// Further arguments of `baton up`.
    pub arguments: &'a [&'a str],
    pub variables: &'a [(&'a str, &'a str)],
}

impl Hub {
    /// Starts it; `model` is the scripted model's base URL, if there is one.
    pub async fn up(directory: &Path, workspace: &Path, model: Option<&str>) -> Self {
        Self::with(directory, workspace, model, &Unusual::default()).await
    }

    /// The same, in unusual circumstances.
    pub async fn with(directory: &Path, workspace: &Path, model: Option<&str>, unusual: &Unusual<'_>) -> Self {
        let (data, port) = (directory.join("data"), free_port());
        let mut words: Vec<String> = unusual.wrapper.iter().map(|&word| word.to_owned()).collect();
        words.push(program("baton").display().to_string());
        words.extend(["--json", "up", "--data"].map(str::to_owned));
        words.extend([data.display().to_string(), "--listen".to_owned(), format!("127.0.0.1:{port}")]);
        words.extend(["--workspace".to_owned(), workspace.display().to_string()]);
        if let Some(model) = model {
            words.extend(["--model-url", model, "--model", "scripted"].map(str::to_owned));
        }
        words.extend(unusual.arguments.iter().map(|&argument| argument.to_owned()));
        let variables = unusual.variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut hub = Self { data, port, words, variables, child: None, ready: Value::Null };
        hub.start().await;
        hub
    }

    /// Starts it again with one more option.
    pub async fn also(mut self, option: &str) -> Self {
        self.words.push(option.to_owned());
        self.start().await;
        self
    }

    /// Starts it again after a kill.
    pub async fn start(&mut self) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.data.with_extension("log")).expect("a log");
        let (program, arguments) = self.words.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).kill_on_drop(true);
        // What a machine has by chance must not decide what a test sees: neither keys nor models that happen to run on it.
        command.env_remove("BATON_MODEL_KEY").env_remove("ANTHROPIC_API_KEY").env("BATON_LOCAL_MODELS", "none");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().expect("the hub starts");
        let mut lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let first = lines.next_line().await.expect("output can be read");
        let first = first.unwrap_or_else(|| panic!("the hub said nothing; see {}", self.data.with_extension("log").display()));
        self.ready = serde_json::from_str(&first).expect("a line of JSON");
        assert_eq!(self.ready["event"], "ready", "{first}");
        // What it says later is read and dropped, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.child = Some(child);
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn owner_link(&self) -> String {
        self.ready["owner_link"].as_str().expect("a link").to_owned()
    }

    /// SIGKILL to the hub alone; the device beside it lives on.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("the hub can be killed");
        }
    }

    /// SIGKILL to the device; whoever looks after it starts it anew.
    pub fn kill_device(&self) {
        if let Some(pid) = self.device_pid() {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// What hub and device have written to their logs.
    pub fn logs(&self) -> String {
        [self.data.with_extension("log"), self.data.join("device/device.log")]
            .iter()
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned())
            .collect()
    }

    pub fn device_pid(&self) -> Option<u64> {
        let file: Value = serde_json::from_slice(&std::fs::read(self.data.join("device/device.json")).ok()?).ok()?;
        file["pid"].as_u64()
    }

    /// Ctrl-C: drains and stops both.
    pub async fn stop(mut self) -> Option<i32> {
        self.interrupt().await
    }

    /// The same, for a hub that is started again.
    pub async fn interrupt(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        let pid = child.id()?;
        let _ = std::process::Command::new("kill").args(["-INT", &pid.to_string()]).status();
        child.wait().await.ok()?.code()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(pid) = self.device_pid() {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// A test device whose tools act on the outside ledger.
pub fn ledger_device(hub: &Hub, directory: &Path, ledger: &str, invite: Option<&str>) -> Child {
    ledger_device_at(&hub.url(), directory, ledger, invite)
}

/// The same, for a hub that is reached by another address than its own.
pub fn ledger_device_at(hub: &str, directory: &Path, ledger: &str, invite: Option<&str>) -> Child {
    let mut command = Command::new(program("ledger-device"));
    command.args(["--hub", hub, "--ledger", ledger, "--data"]).arg(directory.join("ledger-device"));
    if let Some(invite) = invite {
        command.args(["--invite", invite]);
    }
    let log = std::fs::OpenOptions::new().create(true).append(true).open(directory.join("ledger-device.log")).expect("a log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn().expect("the ledger device starts")
}

/// The code that a terminal shows while it waits to be let in.
/// Waits until somebody has opened a link of this end's, and lets it in, as a person does who compared the numbers.
pub async fn confirm(maker: &Http) {
    let (id, number) = super::until("somebody opens the link", || async {
        let links = maker.invitations().await.ok()?;
        links
            .into_iter()
            .filter(|link| link.standing == InvitationStanding::Asking)
            .find_map(|link| Some((link.invitation_id, link.asking?.number)))
    })
    .await;
    maker.approve_invitation(id, &InvitationApproval { number }).await.expect("the number is good");
}

pub async fn code_of(pairing: &mut Started) -> String {
    pairing.event("pairing").await["code"].as_str().expect("a code").to_owned()
}
