//! How a hub is named, and by what it proves itself: on the command line, in a link, in a profile, or by a hub that runs on this machine.

use crate::args::Vouching;
use crate::commands::hub::HubFile;
use crate::failure::Failure;
use crate::files;
use baton_client::{Authority, HubUrl};

/// Where a hub listens unless told otherwise.
const USUAL: &str = "http://127.0.0.1:7440";

/// What is written of a hub's address: where it is, and its authority's fingerprint or certificates, where it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) url: String,
    pub(crate) authority: Option<String>,
}

impl Address {
    /// The address that was given, or the one of the hub on this machine.
    pub(crate) fn given(given: Option<&str>, vouching: &Vouching) -> Result<Self, Failure> {
        let (url, fragment) = given.unwrap_or(USUAL).split_once('#').unwrap_or((given.unwrap_or(USUAL), ""));
        if fragment.split('&').any(|part| part.starts_with("invite=")) {
            // What stands on a command line is read by other users of the machine, and kept in a history.
            return Err(Failure::usage(
                "That link lets in whoever opens it first, so it has no place on a command line.",
                "Open it in a browser, or withdraw it by opening it there; here give the hub's address alone, and approve the code.",
            ));
        }
        let authority = match (&vouching.fingerprint, &vouching.ca) {
            (Some(fingerprint), _) => Some(fingerprint.clone()),
            (None, Some(file)) => Some(std::fs::read_to_string(file).map_err(|error| {
                Failure::usage(format!("{} can't be read: {error}.", file.display()), "Name the file of the hub's certificate authority.")
            })?),
            (None, None) => fragment.split('&').find_map(|part| part.strip_prefix("ca=")).map(str::to_owned),
        };
        let address = Self { url: url.trim_end_matches('/').to_owned(), authority };
        let found = address.read()?;
        match (given, local()) {
            (None, Some(local)) if address.authority.is_none() => Ok(local),
            (Some(_), Some(local)) if address.authority.is_none() && local.read()?.place() == found.place() => Ok(local),
            _ if address.authority.is_some() && !found.is_encrypted() => {
                Err(Failure::usage("A certificate was named, and an address without encryption.", "Begin the hub's address with https://."))
            }
            _ => Ok(address),
        }
    }

    pub(crate) fn read(&self) -> Result<HubUrl, Failure> {
        let url: HubUrl =
            self.url.parse().map_err(|error| Failure::usage(format!("{error}."), "Give the address that `baton up` printed."))?;
        let Some(authority) = &self.authority else { return Ok(url) };
        let authority = if authority.contains("-----BEGIN") {
            Authority::from_pem(authority.as_bytes())
        } else {
            authority.parse().map(Authority::Fingerprint)
        };
        let authority = authority.map_err(|error| {
            Failure::usage(format!("That names no certificate authority: {error}."), "Copy the fingerprint that `baton up --tls` printed.")
        })?;
        Ok(url.vouched_for_by(authority))
    }

    /// The same hub as it is reached now: one on this machine may have begun to speak HTTPS, or have ceased to.
    pub(crate) fn now(&self) -> Result<HubUrl, Failure> {
        let known = self.read()?;
        match local().map(|local| local.read()).transpose()? {
            Some(local) if local.place() == known.place() => Ok(local),
            _ => Ok(known),
        }
    }
}

/// The hub that runs on this machine, as its file tells.
fn local() -> Option<Address> {
    let data = std::env::var_os("BATON_DATA").map_or_else(files::default_data, |data| Ok(data.into())).ok()?;
    let file = HubFile::read(&HubFile::path(&data)).ok()?;
    file.is_of_a_running_hub().then(|| file.address())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(url: &str, fingerprint: Option<&str>) -> Result<Address, Failure> {
        Address::given(Some(url), &Vouching { fingerprint: fingerprint.map(str::to_owned), ca: None })
    }

    #[test]
    fn a_link_names_the_hub_and_its_authority() {
        let digits = "0123456789abcdef".repeat(4);
        let link = given(&format!("https://hub.lan:1/#ca={digits}"), None).unwrap();
        assert_eq!(link, Address { url: "https://hub.lan:1".to_owned(), authority: Some(digits.clone()) });
        let other = "f".repeat(64);
        let told = given(&format!("https://hub.lan:1/#ca={digits}"), Some(&other)).unwrap();
        assert_eq!(told.authority, Some(other), "what is said on the command line goes first");
        assert_eq!(given("https://hub.lan:1/", None).unwrap(), Address { url: "https://hub.lan:1".to_owned(), authority: None });
    }

    #[test]
    fn s4_s6_a_link_that_lets_in_has_no_place_on_a_command_line() {
        assert!(given("https://hub.lan:1/#invite=secret", None).is_err());
        assert!(given(&format!("https://hub.lan:1/#ca={}&invite=secret", "a".repeat(64)), None).is_err());
    }

    #[test]
    fn an_authority_without_encryption_or_that_is_none_is_refused() {
        assert!(given("http://hub.lan:1", Some(&"a".repeat(64))).is_err());
        assert!(given("https://hub.lan:1", Some("abc")).is_err());
        assert!(given("https://hub.lan:1/#ca=abc", None).is_err());
    }
}
