//! The hub's own certificate authority: one key that is made once, kept in the data directory, and signs for the hub's names alone.

use super::TlsError;
use baton_proto::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, PublicKeyData, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Key and certificate in one file, so that there is never one without the other.
const FILE: &str = "authority.pem";
/// The certificate alone, for whoever carries it to another machine by hand.
pub(super) const CERTIFICATE: &str = "baton-hub.crt";

const DAY: Duration = Duration::from_hours(24);
/// A device trusts it once, so it lives about as long as a device does.
const AUTHORITY_LIFE: Duration = Duration::from_hours(10 * 365 * 24);
/// Far below the 397 days after which Apple's systems refuse a certificate; nobody notices a renewal.
pub(super) const LEAF_LIFE: Duration = Duration::from_hours(90 * 24);
/// Clocks of phones are a little off.
const BACKDATED: Duration = DAY;

/// Names that no public site has. Whatever happens to the key, it can vouch for no site of the internet but those that were named.
const LOCAL_NAMES: [&str; 6] = ["localhost", "local", "lan", "home", "internal", "home.arpa"];
/// The same for addresses: loopback, private networks, link-local ones, and those of carriers, which private networks over the internet use.
const LOCAL_NETWORKS: [(&str, u8); 9] = [
    ("127.0.0.0", 8),
    ("10.0.0.0", 8),
    ("172.16.0.0", 12),
    ("192.168.0.0", 16),
    ("169.254.0.0", 16),
    ("100.64.0.0", 10),
    ("::1", 128),
    ("fc00::", 7),
    ("fe80::", 10),
];

/// A name or an address that a certificate may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(ServerName<'static>);

impl Name {
    pub(super) fn read(text: &str) -> Result<Self, TlsError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let name = ServerName::try_from(bare.to_ascii_lowercase()).map_err(|_| TlsError::Name { name: text.to_owned() })?;
        Ok(Self(name))
    }

    fn text(&self) -> String {
        self.0.to_str().into_owned()
    }

    fn subtree(&self) -> GeneralSubtree {
        let text = self.text();
        match text.parse::<IpAddr>() {
            Ok(address) => whole(address),
            Err(_) => GeneralSubtree::DnsName(text),
        }
    }
}

impl From<IpAddr> for Name {
    fn from(address: IpAddr) -> Self {
        Self(ServerName::IpAddress(address.into()))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) name: String,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) pem: String,
    provider: Arc<CryptoProvider>,
    verifier: Arc<WebPkiServerVerifier>,
    path: PathBuf,
}

impl Authority {
    /// Reads the authority of a data directory. The first time it is made, for the local names and these.
    pub(super) fn open(directory: &Path, names: &[Name], provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let path = directory.join(FILE);
        let failed = |source: io::Error| TlsError::File { path: path.clone(), source };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = make(names).map_err(|error| TlsError::Making(error.to_string()))?;
                DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
                // Without it a lost directory would void a fingerprint that was printed, and every device's trust with it.
                if let Some(above) = directory.parent() {
                    File::open(above).and_then(|above| above.sync_all()).map_err(failed)?;
                }
                write_private(&path, text.as_bytes()).map_err(failed)?;
                text
            }
            Err(error) => return Err(failed(error)),
        };
        let authority = Self::read(&text, path.clone(), provider)?;
        let copy = directory.join(CERTIFICATE);
        if std::fs::read_to_string(&copy).ok().as_deref() != Some(&authority.pem) {
            write_private(&copy, authority.pem.as_bytes()).map_err(|source| TlsError::File { path: copy.clone(), source })?;
        }
        Ok(authority)
    }

    fn read(text: &str, path: PathBuf, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let damaged = |why: String| TlsError::Damaged { path: path.clone(), why };
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|error| damaged(error.to_string()))?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256).map_err(|error| damaged(error.to_string()))?;
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| damaged(error.to_string()))?.into_owned();
        let pem = text.find("-----BEGIN CERTIFICATE-----").map_or_else(String::new, |at| text[at..].to_owned());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(|error| damaged(error.to_string()))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| damaged(error.to_string()))?;
        let name = name_of(&key);
        let issuer = Issuer::new(params(&name), key);
        Ok(Self { issuer, name, certificate, pem, provider: Arc::clone(provider), verifier, path })
    }

    /// Whether devices that trust the authority take its word for this name.
    pub(super) fn covers(&self, name: &Name) -> Result<(), TlsError> {
        let (leaf, _) = self.leaf(std::slice::from_ref(name), SystemTime::now())?;
        let refused =
            |error: rustls::Error| TlsError::NotCovered { name: name.to_string(), path: self.path.clone(), why: error.to_string() };
        self.verifier.verify_server_cert(&leaf, &[], &name.0, &[], UnixTime::now()).map(drop).map_err(refused)
    }

    /// A fresh key with a certificate for these names, and what is sent with it.
    pub(super) fn sign(&self, names: &[Name], now: SystemTime) -> Result<CertifiedKey, TlsError> {
        let (leaf, key) = self.leaf(names, now)?;
        let making = |error: rustls::Error| TlsError::Making(error.to_string());
        let key = self.provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(key.serialize_der()).into()).map_err(making)?;
        // The authority goes along: an end that knows its fingerprint only needs to see it.
        Ok(CertifiedKey::new(vec![leaf, self.certificate.clone()], key))
    }

    fn leaf(&self, names: &[Name], now: SystemTime) -> Result<(CertificateDer<'static>, KeyPair), TlsError> {
        let making = |error: rcgen::Error| TlsError::Making(error.to_string());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(making)?;
        let mut params = CertificateParams::new(names.iter().map(Name::text).collect::<Vec<_>>()).map_err(making)?;
        params.distinguished_name.push(DnType::CommonName, "Baton hub");
        live(&mut params, now - BACKDATED, now + LEAF_LIFE);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &self.issuer).map_err(making)?;
        Ok((leaf.der().clone(), key))
    }
}

/// A key and the certificate that says what it may sign for.
fn make(names: &[Name]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = params(&name_of(&key));
    let now = SystemTime::now();
    live(&mut params, now - BACKDATED, now + AUTHORITY_LIFE);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    // For servers alone: not for programs, mail or people.
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let local = LOCAL_NAMES.iter().map(|name| GeneralSubtree::DnsName((*name).to_owned()));
    let networks = LOCAL_NETWORKS.iter().filter_map(|(address, prefix)| {
        let address = address.parse().ok()?;
        Some(GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, *prefix)))
    });
    let own = names.iter().map(Name::subtree);
    let mut permitted: Vec<GeneralSubtree> = Vec::new();
    for subtree in local.chain(networks).chain(own) {
        if !permitted.contains(&subtree) {
            permitted.push(subtree);
        }
    }
    params.name_constraints = Some(NameConstraints { permitted_subtrees: permitted, excluded_subtrees: Vec::new() });
    let certificate = params.self_signed(&key)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

/// What authority and issuer have in common.
fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Says which hub's it is in a phone's list of authorities, and follows from the key, so that it is known again.
fn name_of(key: &KeyPair) -> String {
    format!("Baton hub {}", &Digest::of_bytes(key.der_bytes()).0[..8])
}

fn whole(address: IpAddr) -> GeneralSubtree {
    GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, if address.is_ipv4() { 32 } else { 128 }))
}

fn live(params: &mut CertificateParams, from: SystemTime, until: SystemTime) {
    let since = |time: SystemTime| Duration::from_secs(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs());
    params.not_before = date_time_ymd(1970, 1, 1) + since(from);
    params.not_after = date_time_ymd(1970, 1, 1) + since(until);
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("unfinished");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
