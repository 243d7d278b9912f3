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
    pub(crate) device_id: DeviceId,
    pub(crate) user_id: UserId,
    pub(crate) name: String,
    token: String,
}

impl Profile {
    pub(crate) fn of(hub: &str, credentials: Credentials) -> Self {
        Self {
            hub: hub.to_owned(),
            device_id: credentials.device_id,
            user_id: credentials.user_id,
            name: credentials.name,
            token: credentials.token,
        }
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

    pub(crate) fn hub_url(&self) -> Result<HubUrl, Failure> {
        hub_url(&self.hub)
    }

    pub(crate) fn http(&self) -> Result<Http, Failure> {
        Ok(Http::new(self.hub_url()?, Some(self.token()?))?)
    }
}

pub(crate) fn hub_url(text: &str) -> Result<HubUrl, Failure> {
    text.parse::<HubUrl>().map_err(|error| Failure::usage(format!("{error}."), "Give the address that `baton up` printed."))
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
