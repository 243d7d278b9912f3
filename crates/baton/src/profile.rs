use crate::address::Address;
use crate::failure::Failure;
use crate::files;
use baton_client::{Http, HubUrl, Token};
use baton_proto::{Credentials, DeviceId, UserId};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A hub and the device that this terminal is on it. The token is in it, so the file is its owner's alone.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) hub: String,
    /// The fingerprint or the certificates of whoever vouches for the hub, where it isn't whom the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    pub(crate) device_id: DeviceId,
    pub(crate) user_id: UserId,
    pub(crate) name: String,
    token: String,
}

impl Profile {
    pub(crate) fn of(hub: Address, credentials: Credentials) -> Self {
        Self {
            hub: hub.url,
            authority: hub.authority,
            device_id: credentials.device_id,
            user_id: credentials.user_id,
            name: credentials.name,
            token: credentials.token,
        }
    }

    /// The same device, where its hub is reached another way.
    pub(crate) fn at(&self, hub: Address) -> Self {
        Self { hub: hub.url, authority: hub.authority, ..self.clone() }
    }

    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Failure::failed(format!("{} can't be read: {error}.", path.display()), "Remove it and pair again.")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::failed(format!("{} can't be read: {error}.", path.display()), "Mend its permissions.")),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(parent) = path.parent() {
            files::private_directory(parent)?;
        }
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| Failure::failed(error.to_string(), "Report this."))?;
        files::write_private(path, &bytes)
    }

    pub(crate) fn token(&self) -> Result<Token, Failure> {
        Token::new(&self.token).map_err(|error| Failure::failed(format!("The profile's token can't be used: {error}."), "Pair again."))
    }

    pub(crate) fn address(&self) -> Address {
        Address { url: self.hub.clone(), authority: self.authority.clone() }
    }

    pub(crate) fn hub_url(&self) -> Result<HubUrl, Failure> {
        self.address().now()
    }

    pub(crate) fn http(&self) -> Result<Http, Failure> {
        Ok(Http::new(self.hub_url()?, Some(self.token()?))?)
    }
}

/// The file of a named profile, `default` without a name.
pub(crate) fn path(name: Option<&str>) -> Result<PathBuf, Failure> {
    let name = name.unwrap_or("default");
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(Failure::usage("A profile's name is of letters, digits, - and _.", "Choose another name."));
    }
    Ok(files::config()?.join("profiles").join(format!("{name}.json")))
}

/// The profile to act as; without one the terminal isn't paired yet.
pub(crate) fn load(name: Option<&str>) -> Result<Profile, Failure> {
    let path = path(name)?;
    Profile::read(&path)?.ok_or_else(|| {
        Failure::failed("This terminal isn't paired with a hub yet.", "Run `baton pair`, and approve it on a device that you trust.")
    })
}
