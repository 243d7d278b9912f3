use super::admit;
use crate::args::{Devices, DevicesAction, TrustLevel};
use crate::failure::Failure;
use crate::output::Output;
use crate::{profile, words};
use baton_client::Http;
use baton_proto::{DeviceId, DevicePatch, DeviceView, Trust};
use serde_json::json;

pub(crate) async fn run(args: Devices, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    match args.action {
        None => list(&http, out).await?,
        Some(DevicesAction::Approve { code, number, trust }) => admit::by_code(&http, &code, number, trust.into(), out).await?,
        Some(DevicesAction::Invite { trust }) => admit::invite(&http, trust.into(), out).await?,
        Some(DevicesAction::Confirm { number, refuse }) => admit::confirm(&http, number.as_deref(), refuse, out).await?,
        Some(DevicesAction::Revoke { id }) => {
            let id = find(&http, &id).await?;
            http.revoke_device(id).await?;
            out.say(&json!({"event": "revoked", "device_id": id}), "Revoked. Its connections are closed.");
        }
        Some(DevicesAction::Trust { id, level }) => {
            let id = find(&http, &id).await?;
            let trust: Trust = level.into();
            http.change_device(id, &DevicePatch { name: None, trust: Some(trust) }).await?;
            out.say(&json!({"event": "trust", "device_id": id, "trust": trust}), "Changed.");
        }
        Some(DevicesAction::Rename { id, name }) => {
            let id = find(&http, &id).await?;
            http.change_device(id, &DevicePatch { name: Some(name), trust: None }).await?;
            out.say(&json!({"event": "renamed", "device_id": id}), "Renamed.");
        }
    }
    Ok(0)
}

impl From<TrustLevel> for Trust {
    fn from(level: TrustLevel) -> Self {
        match level {
            TrustLevel::Trusted => Self::Trusted,
            TrustLevel::Standard => Self::Standard,
            TrustLevel::Guest => Self::Guest,
        }
    }
}

async fn list(http: &Http, out: &Output) -> Result<(), Failure> {
    for device in http.devices().await? {
        let mut value = serde_json::to_value(&device).unwrap_or_default();
        value["event"] = json!("device");
        let (kind, trust) = (words::kind(device.client_type), words::trust(device.trust));
        let own = if device.own { "  (this one)" } else { "" };
        let online = match (device.online, device.last_seen_at) {
            (true, _) => "online".to_owned(),
            (false, Some(seen)) => format!("offline for {}", words::stretch(words::now().since(seen))),
            (false, None) => "offline".to_owned(),
        };
        out.say(&value, &format!("{}  {kind:<7} {trust:<9} {online:<8} {}{own}", device.device_id, device.name));
        for workspace in &device.workspaces {
            out.say(&serde_json::Value::Null, &format!("    workspace {}", workspace.baseline.path));
        }
    }
    Ok(())
}

/// A device by its id, its name, the end of its id, its kind, or a part of its name: the first of these that fits any.
pub(crate) async fn find(http: &Http, named: &str) -> Result<DeviceId, Failure> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let devices = http.devices().await?;
    let lowered = named.trim().to_lowercase();
    let ways: [&dyn Fn(&DeviceView) -> bool; 5] = [
        &|it| it.name == named,
        &|it| it.name.to_lowercase() == lowered,
        &|it| named.len() >= 4 && it.device_id.to_string().ends_with(named),
        &|it| words::kind(it.client_type) == lowered,
        &|it| !lowered.is_empty() && it.name.to_lowercase().contains(&lowered),
    ];
    for fits in ways {
        match devices.iter().filter(|it| it.revoked_at.is_none() && fits(it)).collect::<Vec<_>>().as_slice() {
            [] => {}
            [one] => return Ok(one.device_id),
            several => {
                let each = several.iter().map(|it| format!("{}  {:<7} {}", it.device_id, words::kind(it.client_type), it.name)).collect();
                return Err(super::several(&format!("More than one device matches '{named}'"), each));
            }
        }
    }
    Err(Failure::usage(format!("No device is called '{named}', and none is of that kind."), "`baton devices` lists them."))
}
