//! A new session for what is about to be said, in the workspace that the user named.

use crate::failure::Failure;
use crate::{commands, pick};
use baton_client::Http;
use baton_proto::{DeviceView, Intent, Reply, SessionId, Workspace, WorkspaceId};
use std::path::Path;

/// Opens a session; its id, and what the hub answered.
pub(crate) async fn session(http: &Http, workspace: Option<&str>) -> Result<(SessionId, Reply), Failure> {
    let workspace = match workspace {
        Some(named) => Some(find(&http.devices().await?, named)?),
        None => None,
    };
    let reply = pick::operate(http, None, None, Intent::NewSession { title: None, workspace }, false).await?;
    let session = reply
        .session_id
        .ok_or_else(|| Failure::failed("The hub opened a session without naming it.", "Are hub and terminal of the same version?"))?;
    Ok((session, reply))
}

/// Puts a session away that this command began and in which nothing was said, so that it isn't taken for the newest.
pub(crate) async fn put_away(http: &Http, session: SessionId) {
    // Where that fails, an empty session is left, which is passed over anyway.
    let _ = pick::operate(http, Some(session), None, Intent::Archive { archived: true }, false).await;
}

/// A workspace by its id, its path, its name, or a part of its name. Several of that kind are told apart by their ids.
fn find(devices: &[DeviceView], named: &str) -> Result<WorkspaceId, Failure> {
    let all: Vec<(&DeviceView, &Workspace)> =
        devices.iter().flat_map(|device| device.workspaces.iter().map(move |workspace| (device, workspace))).collect();
    // A path of this machine may be given as it is seen from here.
    let absolute = Path::new(named).canonicalize().ok().map(|path| path.to_string_lossy().into_owned());
    let lowered = named.to_lowercase();
    let ways: [&dyn Fn(&Workspace) -> bool; 5] = [
        &|it| it.workspace_id.to_string() == named,
        &|it| it.baseline.path == named || absolute.as_deref() == Some(&it.baseline.path),
        &|it| it.name == named,
        &|it| named.len() >= 6 && it.workspace_id.to_string().ends_with(named),
        &|it| it.name.to_lowercase().contains(&lowered),
    ];
    for fits in ways {
        match all.iter().filter(|(_, it)| fits(it)).collect::<Vec<_>>().as_slice() {
            [] => {}
            [(_, one)] => return Ok(one.workspace_id),
            several => {
                let several =
                    several.iter().map(|(device, it)| format!("{}  {} on {}", it.workspace_id, it.baseline.path, device.name)).collect();
                return Err(commands::several(&format!("More than one workspace matches '{named}'"), several));
            }
        }
    }
    let known: Vec<_> = all.iter().map(|(device, it)| format!("{} ({} on {})", it.name, it.baseline.path, device.name)).collect();
    let hint = if known.is_empty() {
        "Start a device that holds it: baton device --workspace PATH.".to_owned()
    } else {
        format!("Known are: {}.", known.join(", "))
    };
    Err(Failure::usage(format!("No workspace is called '{named}'."), hint))
}
