//! A hub in a process of its own, served on loopback, so that what its clients take of the machine isn't counted as the hub's.
//!
//! The process is this program itself, started with `hub` for a name. It says on a line where it is and who may come in, answers each
//! line it is sent, and stops when its input ends.

use super::timed::Timed;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use baton_client::{Http, Token};
use baton_model::{Model, ModelConfig, Provider};
use baton_proto::{
    Capabilities, ClientType, Credentials, Intent, InvitationClaim, Operation, OperationId, ReplyStatus, SessionId, Trust, UserId,
};
use baton_runtime::{Hub, HubConfig};
use baton_server::ServerConfig;
use baton_store::{SqliteStore, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

/// What the hub is to be like; a line of JSON on the command line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub data: PathBuf,
    /// Users that are made.
    pub users: usize,
    /// Terminals of each of them.
    pub devices: usize,
    /// The base URL of a model's server.
    pub model: Option<String>,
}

/// What a hub that is ready says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) address: SocketAddr,
    /// Sends back whatever it is sent, with nothing of the hub in between: the yardstick of a message's way.
    pub(super) echo: SocketAddr,
    /// Who may come in, by user.
    pub(super) devices: Vec<Vec<Credentials>>,
}

/// Is the hub, until the input ends.
pub async fn run(wanted: Wanted) -> Result<()> {
    let store = Arc::new(Timed::new(SqliteStore::open(&wanted.data)?));
    let model = match wanted.model {
        Some(url) => Some(connected(url)?),
        None => None,
    };
    let hub = Hub::open(Arc::clone(&store) as Arc<dyn Store>, HubConfig::new("bench", model)).await?;
    let mut devices = Vec::new();
    for number in 0..wanted.users {
        let user = hub.create_user(&format!("user {number}")).await?;
        devices.push(enter(&hub, user, wanted.devices).await?);
    }
    let listener = baton_server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = listener.local_addr()?;
    let echo = echo().await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(baton_server::serve(Arc::clone(&hub), listener, ServerConfig::new(|_| None), async move {
        let _ = stopped.await;
    }));
    say(&Ready { address, echo, devices })?;
    let (asked, mut questions) = mpsc::channel(1);
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).all(|line| asked.blocking_send(line).is_ok()));
    while questions.recv().await.is_some() {
        say(&store.take())?;
    }
    hub.shut_down("The bench is over.").await;
    let _ = stop.send(());
    Ok(server.await??)
}

fn say(what: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{}\n", serde_json::to_string(what)?).as_bytes())?;
    Ok(out.flush()?)
}

fn connected(url: String) -> Result<Arc<dyn Model>> {
    let model = Provider::new(ModelConfig::new(url, "scripted")).map_err(|error| anyhow!("{}", error.message))?;
    Ok(Arc::new(model))
}

async fn enter(hub: &Arc<Hub>, user: UserId, count: usize) -> Result<Vec<Credentials>> {
    let mut devices = Vec::new();
    for number in 0..count {
        let secret = hub.invite(user, None, Trust::Trusted).await?.secret;
        let claim = InvitationClaim {
            secret,
            name: format!("terminal {number}"),
            client_type: ClientType::Cli,
            capabilities: Capabilities::default(),
            cookie: false,
        };
        devices.push(hub.claim_invitation(Ipv4Addr::LOCALHOST.into(), &claim).await?);
    }
    Ok(devices)
}

async fn echo() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let mut buffer = vec![0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..length]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(address)
}

/// The hub's process, seen from outside.
#[derive(Debug)]
pub(super) struct HubProcess {
    pub(super) ready: Ready,
    /// From the start of the process to its first word, in milliseconds.
    pub(super) started_in_ms: f64,
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl HubProcess {
    pub(super) async fn start(wanted: &Wanted) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hub", &serde_json::to_string(wanted)?]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().context("the hub has no output")?).lines();
        let first = lines.next_line().await?.context("the hub ended before it was ready")?;
        let started_in_ms = started.elapsed().as_secs_f64() * 1000.0;
        Ok(Self { ready: serde_json::from_str(&first)?, started_in_ms, child, input, lines })
    }

    pub(super) fn http(&self, who: &Credentials) -> Result<Http> {
        Ok(Http::new(format!("http://{}", self.ready.address).parse()?, Some(Token::new(&who.token)?))?)
    }

    /// A new session that this terminal holds, in its first epoch.
    pub(super) async fn new_session(&self, who: &Credentials) -> Result<SessionId> {
        let operation = Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None });
        let reply = self.http(who)?.operate(&operation).await?;
        ensure!(reply.status == ReplyStatus::Accepted, "no session was opened: {:?}", reply.error);
        reply.session_id.context("the new session has no id")
    }

    /// How long the append of each operation took since the last look, in milliseconds.
    pub(super) async fn appends(&mut self) -> Result<BTreeMap<OperationId, f64>> {
        let Some(input) = &mut self.input else { bail!("the hub is stopping") };
        input.write_all(b"appends\n").await?;
        let line = self.lines.next_line().await?.context("the hub ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Bytes of memory that belong to the process alone: not its program, not its files.
    pub(super) fn memory(&self) -> Result<u64> {
        let pid = self.child.id().context("the hub has ended")?;
        memory_of(Path::new("/proc").join(pid.to_string()).join("status").as_path())
    }

    /// Lets it drain and end.
    pub(super) async fn stop(mut self) -> Result<()> {
        self.input = None;
        let status = self.child.wait().await?;
        ensure!(status.success(), "the hub ended with {status}");
        Ok(())
    }
}

fn memory_of(status: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(status).context("this system doesn't tell a process's memory")?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("the memory isn't told")?;
    let kibibytes: u64 = line.split_whitespace().next().context("the memory isn't told")?.parse()?;
    Ok(kibibytes * 1024)
}
