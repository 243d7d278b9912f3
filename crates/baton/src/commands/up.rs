use super::hub::{HubFile, Search, Serving};
use crate::args::Up;
use crate::failure::Failure;
use crate::local::Local;
use crate::output::{Output, line};
use crate::profile::Profile;
use crate::supervise::{DeviceCommand, Supervisor};
use crate::{files, interrupt, sample};
use baton_device::workspace::WorkspaceRoot;
use baton_proto::{Changed, DeviceView, make_visible};
use baton_runtime::{Hub, Identity};
use fast_qr::QRBuilder;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the device beside the hub keeps its own data, in the hub's directory.
const DEVICE_DATA: &str = "device";
/// How long the device beside the hub may take to connect before the hub is called ready without it.
const DEVICE_PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn run(args: Up, out: &Output) -> Result<u8, Failure> {
    // Looked at first: with a wrong one nothing is started, and nothing written.
    let workspace = args.workspace.as_deref().map(|path| usable_directory(path, args.hub.data.as_deref())).transpose()?;
    let serving = Serving::start(&args.hub, Search::ThisMachine).await?;
    let ended = attend(&serving, workspace, args.no_sandbox, out).await;
    serving.stop().await?;
    ended?.map_or(Ok(0), |reason| Err(Failure::failed(reason, "Start Baton again when the cause is mended.")))
}

fn usable_directory(path: &Path, data: Option<&Path>) -> Result<PathBuf, Failure> {
    let refused =
        |why: String| Failure::usage(format!("The workspace {} can't be opened: {why}.", path.display()), "Name a directory that exists.");
    let found = path.canonicalize().map_err(|error| refused(error.to_string()))?;
    if !found.is_dir() {
        return Err(refused("it is no directory".to_owned()));
    }
    let data = data.map_or_else(files::default_data, |data| Ok(data.to_owned()))?;
    let usable = WorkspaceRoot::check(&found, &data.join(DEVICE_DATA));
    usable.map_err(|error| Failure::usage(error.to_string(), "Nothing was started."))
}

/// Keeps a device beside the hub until it is asked to stop, or until the hub can't go on: then with the reason.
async fn attend(serving: &Serving, workspace: Option<PathBuf>, no_sandbox: bool, out: &Output) -> Result<Option<String>, Failure> {
    let workspace = match workspace {
        Some(workspace) => workspace,
        None => sample::prepare(&serving.data)?,
    };
    let device_data = serving.data.join(DEVICE_DATA);
    files::private_directory(&device_data)?;
    let own = own_device(serving, &device_data).await?;
    let command = DeviceCommand { data: device_data, hub_file: HubFile::path(&serving.data), workspace: workspace.clone(), no_sandbox };
    let stopping = interrupt::asked_to_stop();
    tokio::pin!(stopping);
    let supervisor = Supervisor::start(command).await?;
    let connected = tokio::select! {
        // Asked before it is ready, too: the device has been started, and must not be left behind.
        stop = &mut stopping => {
            supervisor.stop().await;
            return stop.map(|()| None);
        }
        connected = connected(&serving.hub, own) => connected,
    };
    let link = serving.owner_link().await?;
    let model = serving.hub.info().model;
    if out.is_json() {
        out.say(
            &json!({"event": "ready", "url": serving.file.url, "owner_link": link, "trust_link": serving.trust_link(), "fingerprint": serving.file.authority, "data": serving.data, "pid": std::process::id(), "device_pid": supervisor.pid(), "workspace": workspace, "model": model, "local_model": serving.local.as_ref().map(Local::value), "device_connected": connected}),
            "",
        );
    } else {
        welcome(serving, &workspace, &link, model.as_deref(), connected);
    }
    let mut known = ids(&serving.hub.devices(own));
    let mut changes = serving.hub.changes_of_lists();
    let failed = loop {
        tokio::select! {
            stop = &mut stopping => { stop?; break None; }
            reason = serving.hub.failed() => break Some(reason),
            change = changes.recv() => match change {
                Ok((user, Changed::Devices)) if user == serving.owner => announce(&serving.hub, own, &mut known, out),
                Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => break None,
            },
        }
    };
    if !out.is_json() {
        line("Stopping.");
    }
    supervisor.stop().await;
    Ok(failed)
}

/// The device beside the hub, paired by the hub itself the first time.
async fn own_device(serving: &Serving, data: &Path) -> Result<Identity, Failure> {
    let path = data.join("profile.json");
    if let Some(profile) = Profile::read(&path)?
        && let Some(identity) = serving.hub.authenticate(profile.token()?.reveal())
    {
        return Ok(identity);
    }
    let credentials = serving.hub.pair_own_device(serving.owner, &files::machine_name()).await?;
    let identity = Identity { user_id: credentials.user_id, device_id: credentials.device_id };
    Profile::of(serving.file.address(), credentials).write(&path)?;
    Ok(identity)
}

async fn connected(hub: &Arc<Hub>, own: Identity) -> bool {
    let mut changes = hub.changes_of_lists();
    let online =
        || hub.devices(own).iter().any(|device| device.device_id == own.device_id && device.online && !device.workspaces.is_empty());
    let waiting = async {
        while !online() {
            // A lagging receiver missed changes, and looks again all the same.
            if let Err(tokio::sync::broadcast::error::RecvError::Closed) = changes.recv().await {
                return;
            }
        }
    };
    tokio::time::timeout(DEVICE_PATIENCE, waiting).await.is_ok()
}

fn welcome(serving: &Serving, workspace: &Path, link: &str, model: Option<&str>, connected: bool) {
    if let (Some(trust), Some(words)) = (serving.trust_link(), serving.trust_words()) {
        picture(&trust);
        line(&words);
    }
    picture(link);
    let then = if serving.trust_link().is_some() { "Then open" } else { "Open" };
    line(&format!("{then} this on your phone; it works once, for five minutes:\n\n    {link}\n"));
    if serving.file.public_url == serving.file.url {
        line("The hub listens on this machine only. For a phone, add --tls --listen 0.0.0.0:7440.");
    }
    line(&format!("Hub        {}", serving.file.url));
    line(&format!("Data       {}", serving.data.display()));
    line(&format!(
        "Workspace  {}{}",
        workspace.display(),
        if connected { "" } else { "  (its device hasn't connected yet; see device/device.log)" }
    ));
    let found = serving.local.as_ref().and_then(Local::words);
    match (model, found) {
        (Some(_), Some(found)) => line(&format!("Model      {}", make_visible(&found))),
        (Some(model), None) => line(&format!("Model      {}", make_visible(model))),
        (None, found) => line(&format!(
            "Model      none. {}Slash commands work: /show, /find, /replace, /run, /undo. For the agent, start Ollama or LM Studio on this \
             machine before Baton, or add --model-url and --model.",
            found.map(|found| format!("{} ", make_visible(&found))).unwrap_or_default()
        )),
    }
    line("Terminal   baton pair, then approve the code on your phone");
    if serving.file.public_authority.is_some() {
        line(&format!("Elsewhere  baton pair {}", serving.file.address_elsewhere()));
    }
    line("\nCtrl-C stops.");
}

/// A link as a phone's camera reads it.
fn picture(link: &str) {
    let code = QRBuilder::new(link).build().map(|code| code.to_str()).unwrap_or_default();
    line(&code);
}

fn ids(devices: &[DeviceView]) -> BTreeSet<baton_proto::DeviceId> {
    devices.iter().map(|device| device.device_id).collect()
}

/// Whoever was let in is named at once, with the way to undo it (S4).
fn announce(hub: &Hub, own: Identity, known: &mut BTreeSet<baton_proto::DeviceId>, out: &Output) {
    let devices = hub.devices(own);
    for device in devices.iter().filter(|device| !known.contains(&device.device_id)) {
        let kind = format!("{:?}", device.client_type).to_lowercase();
        let trust = format!("{:?}", device.trust).to_lowercase();
        out.say(
            &json!({"event": "device_paired", "device_id": device.device_id, "name": device.name, "client_type": device.client_type, "trust": device.trust}),
            &format!("Paired: '{}' ({kind}, {trust}). Not yours? Undo it: baton devices revoke {}", device.name, device.device_id),
        );
    }
    *known = ids(&devices);
}
