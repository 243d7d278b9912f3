use reqwest::header::HeaderValue;
use std::fmt;

/// A device's token. It travels in the `Authorization` header alone, and prints as `***` (S6).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device token is empty or has characters that no token has; pair this device again to get a new one")]
pub struct TokenError;

impl Token {
    /// Takes a token as it was shown or stored, without the white space around it.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let plain = |byte: u8| byte.is_ascii_graphic();
        if text.is_empty() || text.len() > 512 || !text.bytes().all(plain) {
            return Err(TokenError);
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself, to be stored where only this user reads.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The header that proves who asks, marked so that no log prints it.
    pub(crate) fn authorization(&self) -> HeaderValue {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.0)).unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_printed_nowhere() {
        let token = Token::new(" secret-0123\n").unwrap();
        assert_eq!(token.reveal(), "secret-0123");
        assert!(!format!("{token:?} {:?}", token.authorization()).contains("secret"));
        assert_eq!(token.authorization().to_str().unwrap(), "Bearer secret-0123");
    }

    #[test]
    fn what_could_not_be_a_header_is_refused() {
        for text in ["", "  ", "two words", "line\nbreak", "ümlaut", &"x".repeat(513)] {
            assert_eq!(Token::new(text), Err(TokenError), "{text:?}");
        }
    }
}
