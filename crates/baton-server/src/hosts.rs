//! Which names the hub answers to, and which pages may talk to it (S2): a page of another origin must not use the user's cookie, and a
//! name that was pointed at this machine must not make a page count as the hub's own.

use crate::error::ServerError;
use axum::http::Uri;
use axum::http::uri::Authority;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// What the hub itself speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

#[derive(Debug)]
pub(crate) struct Hosts {
    scheme: Scheme,
    names: BTreeSet<String>,
    public: Option<Public>,
}

#[derive(Debug)]
struct Public {
    /// Scheme, host and port as a browser writes them.
    origin: String,
    secure: bool,
}

impl Hosts {
    pub(crate) fn new(scheme: Scheme, listening: SocketAddr, allowed: &[String], public_url: Option<&str>) -> Result<Self, ServerError> {
        let mut names = BTreeSet::from(["localhost".to_owned()]);
        if !listening.ip().is_unspecified() {
            names.insert(canonical(&listening.ip().to_string()));
        }
        for given in allowed {
            names.insert(bare_name(given).ok_or_else(|| ServerError::AllowedHost { given: given.clone() })?);
        }
        let public = public_url.map(|given| public(given).ok_or_else(|| ServerError::PublicUrl { given: given.to_owned() })).transpose()?;
        let public = public.map(|(host, public)| {
            names.insert(host);
            public
        });
        Ok(Self { scheme, names, public })
    }

    /// Whether a `Host` names this hub. The port is free, since a tunnel or a container may map it.
    pub(crate) fn knows(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let loopback = name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        loopback || self.names.contains(&name)
    }

    /// Whether a page of this origin is the hub's own, called by this `Host`.
    pub(crate) fn is_own(&self, origin: &str, host: &str) -> bool {
        let public = self.public.as_ref().is_some_and(|public| public.origin.eq_ignore_ascii_case(origin));
        public || origin.strip_prefix(self.scheme.prefix()).is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    }

    /// Whether browsers reach the hub by an encrypted connection only.
    pub(crate) fn secure(&self) -> bool {
        self.scheme == Scheme::Https || self.public.as_ref().is_some_and(|public| public.secure)
    }

    /// Where a link for another device leads to.
    pub(crate) fn base(&self, host: &str) -> String {
        self.public.as_ref().map_or_else(|| format!("{}{host}", self.scheme.prefix()), |public| public.origin.clone())
    }
}

impl Scheme {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }
}

/// The host of an authority, without its port. Names of users have no place in a `Host`.
fn name_of(authority: &str) -> Option<String> {
    let parsed: Authority = authority.parse().ok()?;
    (!authority.contains('@')).then(|| canonical(parsed.host()))
}

/// One way to write each name: lower case, addresses without brackets and in their shortest form.
fn canonical(name: &str) -> String {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().map_or_else(|_| bare.to_ascii_lowercase(), |address| address.to_string())
}

/// A configured name: neither scheme, port nor path.
fn bare_name(given: &str) -> Option<String> {
    if given.parse::<IpAddr>().is_ok() {
        return Some(canonical(given));
    }
    let parsed: Authority = given.parse().ok()?;
    (parsed.host() == given).then(|| canonical(given))
}

fn public(given: &str) -> Option<(String, Public)> {
    let uri: Uri = given.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = uri.authority()?;
    if uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") || authority.as_str().contains('@') {
        return None;
    }
    let default_port = if scheme == "https" { 443 } else { 80 };
    let port = authority.port_u16().filter(|port| *port != default_port).map(|port| format!(":{port}")).unwrap_or_default();
    let origin = format!("{scheme}://{}{port}", authority.host().to_ascii_lowercase());
    Some((canonical(authority.host()), Public { origin, secure: scheme == "https" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listening: &str, public: Option<&str>) -> Hosts {
        Hosts::new(Scheme::Http, listening.parse().unwrap(), &["Hub.lan".to_owned(), "192.168.1.5".to_owned()], public).unwrap()
    }

    #[test]
    fn only_the_hubs_own_names_are_known_also_on_all_interfaces() {
        let hosts = hosts("0.0.0.0:7777", Some("https://baton.example"));
        for own in [
            "localhost",
            "LOCALHOST:7777",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:7777",
            "hub.lan",
            "HUB.LAN:80",
            "192.168.1.5:7777",
            "baton.example",
        ] {
            assert!(hosts.knows(own), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "evil-localhost",
            "0.0.0.0:7777",
            "192.168.1.6",
            "2130706433",
            "user@localhost",
            "hub.lan.evil",
            "a b",
            "baton.example.evil",
        ] {
            assert!(!hosts.knows(foreign), "{foreign}");
        }
        assert!(hosts_at("10.0.0.7:80").knows("10.0.0.7"), "the address that is listened on");
    }

    fn hosts_at(listening: &str) -> Hosts {
        Hosts::new(Scheme::Http, listening.parse().unwrap(), &[], None).unwrap()
    }

    #[test]
    fn a_page_is_the_hubs_own_only_with_the_same_scheme_host_and_port() {
        let hosts = hosts("127.0.0.1:7777", Some("https://Baton.example:443/"));
        assert!(hosts.is_own("http://localhost:7777", "localhost:7777"));
        assert!(hosts.is_own("http://[::1]:7777", "[::1]:7777"));
        assert!(hosts.is_own("https://baton.example", "127.0.0.1:7777"), "what stands before the hub may rename it");
        for (origin, host) in [
            ("null", "localhost:7777"),
            ("http://localhost:3000", "localhost:7777"),
            ("http://localhost", "localhost:7777"),
            ("https://localhost:7777", "localhost:7777"),
            ("http://localhost:7777.evil.example", "localhost:7777"),
            ("http://evil.example/http://localhost:7777", "localhost:7777"),
            ("http://127.0.0.1:7777", "localhost:7777"),
            ("https://baton.example.evil", "baton.example"),
            ("https://baton.example:8443", "baton.example"),
            ("", "localhost:7777"),
        ] {
            assert!(!hosts.is_own(origin, host), "{origin} at {host}");
        }
    }

    #[test]
    fn what_cannot_be_a_name_is_refused_in_words() {
        let listening = "127.0.0.1:7777".parse().unwrap();
        for given in ["http://hub.lan", "hub.lan:80", "hub.lan/x", "", "a b"] {
            assert!(Hosts::new(Scheme::Http, listening, &[given.to_owned()], None).is_err(), "{given}");
        }
        for given in ["baton.example", "ftp://baton.example", "https://baton.example/path", "https://user@baton.example", ""] {
            assert!(Hosts::new(Scheme::Http, listening, &[], Some(given)).is_err(), "{given}");
        }
    }
}
