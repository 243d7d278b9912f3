use baton_proto::Digest;

/// Characters of pairing codes: none that is taken for another.
const CODE_ALPHABET: &[u8; 31] = b"ABCDEFGHJKMNPQRSTUVWXYZ23456789";

/// 256 random bits as hexadecimal digits: tokens and secrets. `None` when the operating system gives no randomness.
pub fn random_token() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// A code that people type: eight characters, about 39 bits.
pub(crate) fn random_code() -> Option<String> {
    let mut code = String::with_capacity(8);
    while code.len() < 8 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        // Bytes beyond the last whole multiple are dropped, so that each character is as likely as the others.
        code.extend(
            bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(CODE_ALPHABET[usize::from(*byte) % 31])).take(8 - code.len()),
        );
    }
    Some(code)
}

/// What is kept of a secret. The secrets have 256 random bits, so one plain hash is enough.
pub(crate) fn hash(secret: &str) -> Digest {
    Digest::of_bytes(secret.as_bytes())
}
