use std::fmt;
use std::time::Duration;

/// Which model, where, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The address up to and with `/v1`, such as `http://127.0.0.1:11434/v1`. Without a name or password in it.
    pub base_url: String,
    pub model: String,
    /// None for local models that want no key.
    pub api_key: Option<Secret>,
    /// From the sending of the request to the first word of the answer.
    pub first_token_timeout: Duration,
    /// Between two pieces of the answer.
    pub idle_timeout: Duration,
    pub temperature: Option<f32>,
    /// Tokens in answer; a request's own limit goes before this one.
    pub max_tokens: Option<u32>,
}

impl ModelConfig {
    /// A model with the default waiting times of R3, without a key.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            first_token_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(1),
            temperature: None,
            max_tokens: None,
        }
    }
}

/// A text that must not be shown: it has no `Display`, and its `Debug` is blank (S6).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keys are pasted; the line's end that comes along is no part of them.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_shown() {
        let config = ModelConfig { api_key: Some(Secret::new("sk-canary\n")), ..ModelConfig::new("http://127.0.0.1/v1", "m") };
        let shown = format!("{config:?} {config:#?}");
        assert!(!shown.contains("canary"), "{shown}");
        assert!(shown.contains("***"), "{shown}");
    }
}
