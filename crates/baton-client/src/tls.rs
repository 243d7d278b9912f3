//! By what a hub proves that it is the one that is meant. Nothing here ever takes any certificate that comes.

use baton_proto::Digest;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

/// Whose word counts for who a hub is, at an `https` address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    /// Whoever the operating system trusts.
    #[default]
    System,
    /// The authority whose certificate has this SHA-256, and nobody else. The hub shows that certificate itself.
    Fingerprint(Fingerprint),
    /// The authorities of a file, and nobody else.
    Certificates(Vec<CertificateDer<'static>>),
}

/// The SHA-256 of an authority's certificate, as lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

/// Why a text names no authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    #[error("a fingerprint has 64 hexadecimal digits, with spaces or colons between them or without")]
    Fingerprint,
    #[error("there is no certificate in it; it is a text that begins with -----BEGIN CERTIFICATE-----")]
    Certificates,
}

impl FromStr for Fingerprint {
    type Err = AuthorityError;

    /// As people copy it: with spaces or colons, in any case, after `sha256:` or not.
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        let text = text.trim().to_ascii_lowercase();
        let text = text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha-256:")).unwrap_or(&text);
        let digits: String = text.chars().filter(|sign| !matches!(sign, ':' | ' ' | '-')).collect();
        let whole = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        whole.then_some(Self(digits)).ok_or(AuthorityError::Fingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({})", self.0.get(..12).unwrap_or_default())
    }
}

impl Authority {
    /// The certificates of a PEM file.
    pub fn from_pem(text: &[u8]) -> Result<Self, AuthorityError> {
        let certificates: Vec<_> =
            CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(|_| AuthorityError::Certificates)?;
        if certificates.is_empty() { Err(AuthorityError::Certificates) } else { Ok(Self::Certificates(certificates)) }
    }

    /// How TLS is to be spoken; `None`: as the operating system says.
    pub(crate) fn client_config(&self) -> Result<Option<ClientConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Self::System => return Ok(None),
            Self::Fingerprint(fingerprint) => Arc::new(Pinned { fingerprint: fingerprint.clone(), provider: Arc::clone(&provider) }),
            Self::Certificates(certificates) => trusting(certificates, &provider).map_err(|error| error.to_string())?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Some(config))
    }
}

fn trusting(certificates: &[CertificateDer<'_>], provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone().into_owned())?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| Error::General(error.to_string()))
}

/// Trusts one authority, which is known by its fingerprint only. Beyond that everything is looked at as always: the name, the time, the
/// signatures, and what the authority may vouch for.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = |certificate: &&CertificateDer<'_>| Digest::of_bytes(certificate).0 == self.fingerprint.0;
        let authority = intermediates.iter().find(known).ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let verifier = trusting(std::slice::from_ref(authority), &self.provider)?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Chooses the cryptography that TLS runs on, unless the program has chosen already.
pub(crate) fn choose_cryptography() {
    // An error says that one is installed, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Whether a request failed because of who answered, and not because nobody did.
pub(crate) fn is_untrusted(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(Error::InvalidCertificate(_)) = error.downcast_ref::<Error>() {
            return true;
        }
        // Errors of streams hold others inside, which aren't among their causes.
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && is_untrusted(inner)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_as_people_copy_them() {
        let digits = "0123456789abcdef".repeat(4);
        let colons = digits.to_uppercase().as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned()).collect::<Vec<_>>();
        for text in
            [digits.clone(), format!(" {}\n", digits.to_uppercase()), colons.join(":"), colons.join(" "), format!("sha256:{digits}")]
        {
            assert_eq!(text.parse::<Fingerprint>().unwrap().to_string(), digits, "{text}");
        }
        for text in ["", "0123", &digits[1..], &format!("{digits}0"), &digits.replace('a', "g")] {
            assert_eq!(text.parse::<Fingerprint>(), Err(AuthorityError::Fingerprint), "{text}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(Authority::from_pem(text.as_bytes()), Err(AuthorityError::Certificates), "{text}");
        }
    }
}
