//! What `up` and `serve` have in common: a hub over its data directory, served on an address.

use crate::address::Address;
use crate::args;
use crate::assets;
use crate::config::Config;
use crate::failure::Failure;
use crate::files;
use crate::local::Local;
use baton_proto::{Trust, UserId};
use baton_runtime::{Hub, HubConfig, HubError, random_token};
use baton_server::{ServerConfig, Tls};
use baton_store::{SqliteStore, StoreError};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The name of the user that a fresh hub begins with.
const OWNER: &str = "owner";

/// What a running hub leaves in its data directory for this machine's commands. It holds a secret, so it is its owner's alone.
#[derive(Serialize, Deserialize)]
pub(crate) struct HubFile {
    pub(crate) url: String,
    /// Under which other devices reach it.
    pub(crate) public_url: String,
    pub(crate) pid: u32,
    /// The fingerprint of its certificate authority, where it speaks HTTPS itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authority: Option<String>,
    /// The same where other devices reach the hub itself, and nothing that stands before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) public_authority: Option<String>,
    /// Lets the owner of the data directory add users.
    pub(crate) admin_token: String,
}

impl HubFile {
    pub(crate) fn path(data: &Path) -> PathBuf {
        data.join("hub.json")
    }

    /// How this machine reaches it.
    pub(crate) fn address(&self) -> Address {
        Address { url: self.url.clone(), authority: self.authority.clone() }
    }

    /// The link that pairs a device by a secret. What follows the `#` never leaves the browser.
    pub(crate) fn link(&self, secret: &str) -> String {
        format!("{}/#invite={secret}", self.public_url)
    }

    /// The address for Baton's own ends on other machines. A browser asks its system whom to trust; they take it from here.
    pub(crate) fn address_elsewhere(&self) -> String {
        let authority = self.public_authority.as_ref().map(|authority| format!("/#ca={authority}")).unwrap_or_default();
        format!("{}{authority}", self.public_url)
    }

    /// A hub that was killed leaves its file behind.
    pub(crate) fn is_of_a_running_hub(&self) -> bool {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_ok())
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = std::fs::read(path).map_err(|_| {
            Failure::unreachable(
                format!("No hub has left its address in {}.", path.display()),
                "Start it with `baton up`, or name its data directory with --data.",
            )
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::failed(format!("{} can't be read: {error}.", path.display()), "Start the hub again."))
    }
}

/// Where a model is looked for when none is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    ThisMachine,
    Nowhere,
}

/// A hub that answers.
pub(crate) struct Serving {
    pub(crate) hub: Arc<Hub>,
    pub(crate) data: PathBuf,
    /// How it is reached: what this machine's commands read too.
    pub(crate) file: HubFile,
    /// The fingerprint as people compare it, where it speaks HTTPS itself.
    rows: Option<[String; 4]>,
    pub(crate) owner: UserId,
    /// What was found on this machine, where a model was looked for.
    pub(crate) local: Option<Local>,
    stop: watch::Sender<bool>,
    server: JoinHandle<Result<(), baton_server::ServerError>>,
}

impl Serving {
    pub(crate) async fn start(args: &args::Hub, search: Search) -> Result<Self, Failure> {
        refuse_open_door(args)?;
        let data = match &args.data {
            Some(data) => data.clone(),
            None => files::default_data()?,
        };
        files::private_directory(&data)?;
        let data = data.canonicalize()?;
        let config = Config::read(&data)?;
        let configured = config.model(args)?;
        // Before the address: whoever starts it twice is told of the first hub, not of a port (C14).
        let store = SqliteStore::open(&data).map_err(|error| store_failure(&error))?;
        let listener = baton_server::bind(args.listen)
            .await
            .map_err(|error| Failure::failed(error.to_string(), "Choose another address with --listen."))?;
        let address = listener.local_addr()?;
        let looks = configured.is_none() && search == Search::ThisMachine && config.looks_for_local_models();
        let local = if looks { Some(Local::look().await?) } else { None };
        let model = match &local {
            Some(local) => config.local_model(local)?,
            None => configured,
        };
        let config = HubConfig {
            uploads_dir: Some(data.join("uploads")),
            task_tokens: config.budget.task_tokens,
            day_tokens: config.budget.day_tokens,
            context_tokens: config.context_tokens(),
            price: config.price()?,
            ..HubConfig::new(env!("CARGO_PKG_VERSION"), model)
        };
        let hub = Hub::open(store, config).await.map_err(|error| match error {
            HubError::Store(error) => store_failure(&error),
            other => Failure::failed(other.to_string(), "The data is left as it is."),
        })?;
        let owner = match hub.users().into_iter().next() {
            Some((id, _)) => id,
            None => hub.create_user(OWNER).await?,
        };
        let hosts = reachable_hosts(args, address);
        let tls = if args.tls { Some(Arc::new(open_tls(&data, args, &hosts)?)) } else { None };
        let rows = tls.as_ref().map(|tls| tls.fingerprint_rows());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!(
            "{scheme}://{}",
            SocketAddr::new(if address.ip().is_unspecified() { loopback(address.ip()) } else { address.ip() }, address.port())
        );
        let public_url = match (&args.public_url, hosts.first()) {
            (Some(public), _) => public.trim_end_matches('/').to_owned(),
            (None, Some(host)) => format!("{scheme}://{}:{}", bracketed(host), address.port()),
            (None, None) => url.clone(),
        };
        let admin_token =
            random_token().ok_or_else(|| Failure::failed("The operating system gives no randomness.", "Look at the machine."))?;
        let file = HubFile {
            url,
            public_url,
            pid: std::process::id(),
            authority: tls.as_ref().map(|tls| tls.fingerprint()),
            public_authority: tls.as_ref().filter(|_| args.public_url.is_none()).map(|tls| tls.fingerprint()),
            admin_token: admin_token.clone(),
        };
        files::write_private(&HubFile::path(&data), &serde_json::to_vec(&file).unwrap_or_default())?;
        let config = ServerConfig {
            allowed_hosts: hosts,
            public_url: args.public_url.clone(),
            tls,
            trusted_proxies: args.trusted_proxies.clone(),
            admin_token: Some(admin_token),
            ..ServerConfig::new(assets::find)
        };
        let (stop, mut stopped) = watch::channel(false);
        let behind = Arc::clone(&hub);
        let server = tokio::spawn(async move {
            baton_server::serve(behind, listener, config, async move {
                // A sender that is gone means stop as well.
                let _ = stopped.wait_for(|stop| *stop).await;
            })
            .await
        });
        Ok(Self { hub, data, file, rows, owner, local, stop, server })
    }

    /// A fresh link that pairs a trusted device of the user's; it works once, for five minutes.
    pub(crate) async fn owner_link(&self) -> Result<String, Failure> {
        let invitation = self.hub.invite(self.owner, None, Trust::Trusted).await?;
        Ok(self.file.link(&invitation.secret))
    }

    /// Where a device learns to trust the hub. It is reached without encryption, since that is what is missing.
    pub(crate) fn trust_link(&self) -> Option<String> {
        self.file.public_authority.as_ref()?;
        Some(format!("http://{}/trust", self.file.public_url.strip_prefix("https://")?))
    }

    /// What a person does once on each device before the console opens there without a warning.
    pub(crate) fn trust_words(&self) -> Option<String> {
        let rows = self.rows.as_ref()?.join("\n    ");
        let compared =
            format!("The hub's certificate authority has this fingerprint (SHA-256); compare it before you trust it:\n\n    {rows}\n");
        Some(match self.trust_link() {
            Some(link) => format!("Open this first, once on each device, to let it trust the hub:\n\n    {link}\n\n{compared}"),
            None => compared,
        })
    }

    /// Drains: says goodbye, lets what is being written finish, closes the store.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.hub.shut_down("The hub is stopping.").await;
        self.stop.send_replace(true);
        let _ = std::fs::remove_file(HubFile::path(&self.data));
        match self.server.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::failed(error.to_string(), "Look at the log.")),
            Err(error) => Err(Failure::failed(format!("The server ended unexpectedly: {error}."), "Look at the log.")),
        }
    }
}

/// Listening beyond this machine without encryption is a decision, not an accident.
fn refuse_open_door(args: &args::Hub) -> Result<(), Failure> {
    if args.listen.ip().is_loopback() || args.tls || args.allow_plain_http {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{} is reachable from other machines, and without TLS everybody on the way can read tokens and act as you.", args.listen),
        "Add --tls. On a network that you trust, --allow-plain-http does without. Or listen on 127.0.0.1, put a TLS proxy or a tunnel in front, and name it with --public-url.",
    ))
}

/// The hub's own certificate authority, with a certificate for every name that the hub answers to.
fn open_tls(data: &Path, args: &args::Hub, hosts: &[String]) -> Result<Tls, Failure> {
    let mut found: Vec<String> = hosts.iter().filter(|host| !args.hosts.contains(host)).cloned().collect();
    // What stands before the hub under a public address has a certificate of its own, as a rule.
    found.extend(args.public_url.as_deref().and_then(host_of));
    Tls::open(&data.join("tls"), &args.hosts, &found).map_err(|error| Failure::failed(error.to_string(), "Nothing was started."))
}

/// The host of a URL, without its port.
fn host_of(url: &str) -> Option<String> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => authority,
    };
    Some(host.trim_matches(['[', ']']).to_owned())
}

const fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    }
}

/// Names under which the hub may be addressed besides the loopback ones: those given, and this machine's addresses where it listens on all.
fn reachable_hosts(args: &args::Hub, address: SocketAddr) -> Vec<String> {
    let mut hosts = args.hosts.clone();
    if address.ip().is_unspecified() {
        let own = if_addrs::get_if_addrs().unwrap_or_default();
        let mut own: Vec<IpAddr> =
            own.into_iter().map(|interface| interface.ip()).filter(|ip| !ip.is_loopback() && (address.is_ipv6() || ip.is_ipv4())).collect();
        own.sort_by_key(IpAddr::is_ipv6);
        hosts.extend(own.into_iter().map(|ip| ip.to_string()));
    } else if !address.ip().is_loopback() {
        hosts.push(address.ip().to_string());
    }
    hosts
}

fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

fn store_failure(error: &StoreError) -> Failure {
    let hint = match error {
        StoreError::InUse { .. } => "Stop that one, or name another directory with --data.",
        StoreError::NewerVersion { .. } => "Run the newer Baton; nothing was changed.",
        StoreError::Full => "Free some space and start again.",
        _ => "Nothing was changed; look at the data directory.",
    };
    Failure::failed(format!("The data directory can't be opened: {error}."), hint)
}
