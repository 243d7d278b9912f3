use super::hub::HubFile;
use super::pair;
use crate::address::Address;
use crate::args::{Device, Vouching};
use crate::failure::Failure;
use crate::output::Output;
use crate::profile::Profile;
use crate::supervise::DeviceFile;
use crate::{files, interrupt};
use async_trait::async_trait;
use baton_client::{HubUrl, Timing, UrlSource};
use baton_device::device::{Device as ActingDevice, DeviceConfig, DeviceError, WorkspaceNews, WorkspaceSource};
use baton_device::sandbox::{Limits, SandboxMode};
use baton_device::tool::{CancelSignal, Toolbox};
use baton_device::workspace::{News, WorkspaceOptions, WorkspaceRoot};
use baton_proto::{Capabilities, ClientType, Workspace, WorkspaceId};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) async fn run(args: Device, out: &Output) -> Result<u8, Failure> {
    let data = match args.data {
        Some(data) => data,
        None => files::default_data()?.join("device"),
    };
    files::private_directory(&data)?;
    let data = data.canonicalize()?;
    let sandbox = if args.no_sandbox { SandboxMode::None } else { SandboxMode::Bubblewrap };
    let options = WorkspaceOptions { data: data.clone(), sandbox, limits: Limits::default() };
    let root = WorkspaceRoot::open(&args.workspace, &options)
        .map_err(|error| Failure::failed(error.to_string(), "Name another directory with --workspace."))?;
    let toolbox = Toolbox::for_workspace(Arc::clone(&root)).map_err(|error| Failure::failed(error.to_string(), "Report this."))?;
    let name = args.name.unwrap_or_else(files::machine_name);
    let profile = paired(&data, args.hub.or(args.hub_named).as_deref(), &args.vouching, &name, out).await?;
    DeviceFile { pid: std::process::id(), workspace: root.path().to_owned(), no_sandbox: args.no_sandbox }.write(&data)?;
    tokio::spawn(Arc::clone(&root).keep_watch());
    let (stop, shutdown) = CancelSignal::pair();
    tokio::spawn(async move {
        // Without signal handling the device simply runs until it is killed, which its journal survives.
        if interrupt::asked_to_stop().await.is_ok() {
            stop.cancel();
        }
    });
    let config = DeviceConfig {
        hub: url_source(args.hub_file, profile.hub_url()?),
        token: profile.token()?,
        workspaces: Arc::new(OneWorkspace { id: workspace_id(&data, root.path())?, root }),
        data_dir: data,
        toolbox: Arc::new(toolbox),
        capabilities: Capabilities::default(),
        name: profile.name.clone(),
        timing: Timing::default(),
        shutdown,
    };
    out.say(
        &json!({"event": "device_started", "device_id": profile.device_id, "pid": std::process::id()}),
        &format!("Device '{}' works in {}.", profile.name, args.workspace.display()),
    );
    ActingDevice::run(config).await.map(|()| 0).map_err(|error| failure(&error))
}

/// The workspace as it is at each connection.
#[derive(Debug)]
struct OneWorkspace {
    id: WorkspaceId,
    root: Arc<WorkspaceRoot>,
}

#[async_trait]
impl WorkspaceSource for OneWorkspace {
    async fn workspaces(&self) -> Vec<Workspace> {
        vec![self.root.describe(self.id).await]
    }

    async fn has_news(&self) {
        self.root.has_news().await;
    }

    fn take_news(&self) -> Vec<WorkspaceNews> {
        let news = self.root.take_news();
        let told = news.map(|News { baseline, files, files_left_out }| WorkspaceNews {
            workspace: self.root.describe_as(self.id, baseline),
            files,
            files_left_out,
        });
        told.into_iter().collect()
    }
}

fn failure(error: &DeviceError) -> Failure {
    Failure::failed(error.to_string(), "Look at the device's log; start it again when the cause is mended.")
}

/// The device's own profile; a new one asks to be paired first.
async fn paired(data: &Path, hub: Option<&str>, vouching: &Vouching, name: &str, out: &Output) -> Result<Profile, Failure> {
    let path = data.join("profile.json");
    if let Some(profile) = Profile::read(&path)? {
        return Ok(profile);
    }
    let hub =
        hub.ok_or_else(|| Failure::usage("This device isn't paired yet.", "Name the hub: baton device --hub URL --workspace PATH."))?;
    let hub = Address::given(Some(hub), vouching)?;
    let credentials = pair::request(&hub, name, ClientType::Device, out).await?;
    let profile = Profile::of(hub, credentials);
    profile.write(&path)?;
    Ok(profile)
}

/// A hub on this machine may come back on another port; its file is read again at each attempt.
fn url_source(hub_file: Option<PathBuf>, fixed: HubUrl) -> UrlSource {
    Arc::new(move || match &hub_file {
        Some(file) => HubFile::read(file).and_then(|hub| hub.address().read()).map_err(|failure| failure.to_string()),
        None => Ok(fixed.clone()),
    })
}

/// The same directory is the same workspace, over restarts; which one is meant is decided here and nowhere else (E7).
fn workspace_id(data: &Path, path: &Path) -> Result<WorkspaceId, Failure> {
    let file = data.join("workspaces.json");
    let mut known: std::collections::BTreeMap<String, WorkspaceId> = match std::fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            Failure::failed(
                format!("{} can't be read: {error}.", file.display()),
                "Restore it, or remove it: workspaces then count as new ones.",
            )
        })?,
        Err(_) => std::collections::BTreeMap::new(),
    };
    let key = path.to_string_lossy().into_owned();
    if let Some(id) = known.get(&key) {
        return Ok(*id);
    }
    let id = WorkspaceId(Uuid::now_v7());
    known.insert(key, id);
    files::write_private(&file, &serde_json::to_vec_pretty(&known).unwrap_or_default())?;
    Ok(id)
}
