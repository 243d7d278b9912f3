/// Chooses the cryptography that TLS runs on, unless the program has chosen already.
pub(crate) fn choose_cryptography() {
    // An error says that one is installed, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
