//! HTTPS of the hub's own (S2, S6): an authority in the data directory signs for the names that the hub answers to, so that a hub at home
//! is encrypted without a public name, an account or another program. What is reached without encryption on the same port is a page
//! that helps a device to trust it, and nothing else.

mod authority;
mod page;

use authority::{Authority, LEAF_LIFE, Name};
use baton_proto::Digest;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use page::router as plain_router;

/// Addresses of this machine that came later than the hub was started; the oldest goes where there are more.
const LATER_ADDRESSES: usize = 32;

/// Why there is no HTTPS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} can't be read or written: {source}. Mend its permissions, or free some space.", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "{} isn't a certificate authority of a hub: {why}. Restore it from a backup, or remove it: then a new one is made, which every device has to trust anew.",
        path.display()
    )]
    Damaged { path: PathBuf, why: String },
    #[error("'{name}' is no name that a certificate can stand for. Name hosts without scheme, port and path, such as hub.lan.")]
    Name { name: String },
    #[error(
        "The hub's certificate authority may not vouch for '{name}' ({why}). It vouches for local names, private addresses and what was named \
         when it was made. Leave the name out, or remove {}: then a new one is made, which every device has to trust anew.",
        path.display()
    )]
    NotCovered { name: String, path: PathBuf, why: String },
    #[error("A certificate can't be made: {0}.")]
    Making(String),
}

/// What the hub proves itself with.
pub struct Tls {
    authority: Authority,
    /// The names that were known at the start.
    names: Vec<Name>,
    leaf: Arc<Current>,
    acceptor: TlsAcceptor,
}

/// Which certificate is shown at the moment.
#[derive(Debug)]
struct Current(Mutex<Leaf>);

#[derive(Debug)]
struct Leaf {
    key: Arc<CertifiedKey>,
    made: SystemTime,
    later: Vec<IpAddr>,
}

impl Tls {
    /// Opens the authority in a directory, or makes it there. `given` are names that somebody asked for; one that the authority can't
    /// vouch for is an error. `found` are those that nobody asked for, such as this machine's addresses; those that it can't vouch for are left out.
    pub fn open(directory: &Path, given: &[String], found: &[String]) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut names = vec![Name::read("localhost")?, Name::read("127.0.0.1")?, Name::read("::1")?];
        let given = given.iter().map(|name| Name::read(name)).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<Name> = found.iter().filter_map(|name| Name::read(name).ok()).collect();
        let all: Vec<Name> = given.iter().chain(&found).cloned().collect();
        let authority = Authority::open(directory, &all, &provider)?;
        for name in names.iter().chain(&given) {
            authority.covers(name)?;
        }
        names.extend(given.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
        for name in found.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>() {
            match authority.covers(&name) {
                Ok(()) => names.push(name),
                Err(error) => tracing::warn!(%error, "the hub has no certificate for one of its names"),
            }
        }
        let now = SystemTime::now();
        let leaf = Leaf { key: Arc::new(authority.sign(&names, now)?), made: now, later: Vec::new() };
        let leaf = Arc::new(Current(Mutex::new(leaf)));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&leaf);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Making(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { authority, names, leaf, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// The SHA-256 of the authority's certificate, 64 hexadecimal digits: what people compare and ends are told.
    pub fn fingerprint(&self) -> String {
        Digest::of_bytes(&self.authority.certificate).0
    }

    /// The fingerprint in four rows of four groups, for eyes that compare: the same wherever it is shown.
    pub fn fingerprint_rows(&self) -> [String; 4] {
        let digits = self.fingerprint().to_uppercase();
        [0, 1, 2, 3].map(|row| [0, 4, 8, 12].map(|group| &digits[row * 16 + group..][..4]).join(" "))
    }

    /// What a device calls the authority in its settings.
    pub fn authority_name(&self) -> &str {
        &self.authority.name
    }

    /// The authority's certificate, as a file.
    pub(crate) fn certificate_pem(&self) -> &str {
        &self.authority.pem
    }

    pub(crate) fn certificate_der(&self) -> &[u8] {
        &self.authority.certificate
    }

    /// Speaks TLS on a connection that came in at this address of the machine.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S, local: Option<IpAddr>) -> io::Result<TlsStream<S>> {
        self.renew(local, SystemTime::now());
        self.acceptor.accept(stream).await
    }

    /// Makes the certificate anew when half of its time is over, or when the machine is reached at an address that it didn't have before.
    fn renew(&self, local: Option<IpAddr>, now: SystemTime) {
        let mut leaf = self.leaf.leaf();
        let new = local.filter(|address| !address.is_loopback() && !leaf.later.contains(address));
        let new = new.filter(|address| !self.names.contains(&Name::from(*address)));
        let old = now.duration_since(leaf.made).map_or(true, |age| age > LEAF_LIFE / 2);
        if new.is_none() && !old {
            return;
        }
        let mut later = leaf.later.clone();
        if let Some(address) = new {
            // One that it can't vouch for is kept too, so that it is looked at only once.
            later.push(address);
            let excess = later.len().saturating_sub(LATER_ADDRESSES);
            later.drain(..excess);
        }
        let names = later.iter().map(|address| Name::from(*address)).filter(|name| self.authority.covers(name).is_ok());
        let names: Vec<Name> = self.names.iter().cloned().chain(names).collect();
        match self.authority.sign(&names, now) {
            Ok(key) => *leaf = Leaf { key: Arc::new(key), made: now, later },
            Err(error) => tracing::warn!(%error, "the hub's certificate can't be made anew"),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("authority", &self.authority.name).field("names", &self.names).finish_non_exhaustive()
    }
}

impl Current {
    fn leaf(&self) -> MutexGuard<'_, Leaf> {
        // A certificate is replaced as a whole, so one is there even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.leaf().key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn open() -> (tempfile::TempDir, Tls) {
        let directory = tempfile::tempdir().unwrap();
        let tls = Tls::open(directory.path(), &["hub.example".to_owned()], &[]).unwrap();
        (directory, tls)
    }

    #[test]
    fn the_authority_vouches_for_what_is_local_or_was_named_and_for_nothing_else() {
        let (_directory, tls) = open();
        for name in [
            "localhost",
            "nas.local",
            "a.b.home.arpa",
            "hub.example",
            "127.3.2.1",
            "192.168.0.77",
            "172.31.1.1",
            "100.100.1.1",
            "fd00::1",
            "fe80::1",
        ] {
            assert!(tls.authority.covers(&Name::read(name).unwrap()).is_ok(), "{name}");
        }
        for name in ["example.com", "example", "notlocal", "local.example.com", "8.8.8.8", "172.32.0.1", "192.169.0.1", "2001:db8::1"] {
            assert!(tls.authority.covers(&Name::read(name).unwrap()).is_err(), "{name}");
        }
    }

    #[test]
    fn the_certificate_is_renewed_by_itself_before_its_end_and_for_new_addresses() {
        assert!(LEAF_LIFE < Duration::from_hours(396 * 24), "Apple's systems refuse more than 397 days");
        let (_directory, tls) = open();
        let shown = || tls.leaf.leaf().key.cert[0].clone();
        let (first, now) = (shown(), SystemTime::now());
        tls.renew(Some("127.0.0.1".parse().unwrap()), now + LEAF_LIFE / 3);
        assert_eq!(shown(), first, "nothing to renew");
        tls.renew(None, now + LEAF_LIFE / 2 + Duration::from_mins(1));
        let second = shown();
        assert_ne!(second, first);
        let later: IpAddr = "192.168.44.5".parse().unwrap();
        tls.renew(Some(later), now);
        let third = shown();
        assert_ne!(third, second);
        tls.renew(Some(later), now);
        assert_eq!(shown(), third, "it is known now");
        let holds = |certificate: &[u8], octets: &[u8]| certificate.windows(octets.len()).any(|part| part == octets);
        // An address in a certificate: its tag, its length, its bytes.
        assert!(holds(&third, &[0x87, 4, 192, 168, 44, 5]) && !holds(&second, &[0x87, 4, 192, 168, 44, 5]));
        tls.renew(Some("203.0.113.7".parse().unwrap()), now);
        assert!(!holds(&shown(), &[0x87, 4, 203, 0, 113, 7]), "it may not vouch for that one");
    }
}
