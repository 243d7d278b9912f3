use crate::transport::is_on_this_machine;
use reqwest::Url;
use std::fmt;
use std::time::Duration;

/// Which model, where, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// How the server is spoken to.
    pub dialect: Dialect,
    /// The address up to and with `/v1`, such as `http://127.0.0.1:11434/v1`. Without a name or password in it.
    pub base_url: String,
    pub model: String,
    /// None for local models that want no key.
    pub api_key: Option<Secret>,
    /// From the sending of the request to the first word of the answer: a minute, or ten for a model on this machine, unless said otherwise.
    pub first_token_timeout: Duration,
    /// Between two pieces of the answer.
    pub idle_timeout: Duration,
    pub temperature: Option<f32>,
    /// Tokens in answer; a request's own limit goes before this one.
    pub max_tokens: Option<u32>,
    /// Whether the model can see images. Where nobody says so, it is shown the first one, and asked in words from then on if it is refused.
    pub images: Option<bool>,
}

impl ModelConfig {
    /// A model with the default waiting times of R3, without a key, in the dialect that its address is known for.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let base_url = base_url.into();
        // A model on this machine may have to read everything anew, at the pace of a processor; a server that hangs there is seen by its user.
        let is_here = Url::parse(&base_url).is_ok_and(|url| is_on_this_machine(&url));
        let first_token_timeout = if is_here { Duration::from_mins(10) } else { Duration::from_mins(1) };
        Self {
            dialect: Dialect::of_address(&base_url),
            base_url,
            model: model.into(),
            api_key: None,
            first_token_timeout,
            idle_timeout: Duration::from_mins(1),
            temperature: None,
            max_tokens: None,
            images: None,
        }
    }
}

/// The two ways in which servers of models are spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Chat completions, which nearly every server speaks.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
}

impl Dialect {
    /// Where Anthropic itself is spoken to.
    pub const ANTHROPIC_ADDRESS: &str = "https://api.anthropic.com";

    /// What an address is known to speak: Anthropic's own, and those of others that are named after its dialect.
    pub fn of_address(base_url: &str) -> Self {
        let plain = base_url.trim().trim_end_matches('/').trim_end_matches("/v1");
        let is_anthropic = Self::is_anthropics_own(base_url) || plain.ends_with("/anthropic") || plain.ends_with("/messages");
        if is_anthropic { Self::Anthropic } else { Self::OpenAi }
    }

    /// Whether the address is Anthropic's own, so that a key of theirs may go there unasked.
    pub fn is_anthropics_own(base_url: &str) -> bool {
        reqwest::Url::parse(base_url.trim())
            .is_ok_and(|url| url.scheme() == "https" && url.port().is_none() && url.host_str() == Some("api.anthropic.com"))
    }

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "an OpenAI-compatible server (most end in /v1)",
            Self::Anthropic => "a server that speaks Anthropic's Messages API",
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

    #[test]
    fn dialects_of_addresses() {
        for (address, anthropic, own) in [
            ("https://api.anthropic.com", true, true),
            (" https://api.anthropic.com/v1/ ", true, true),
            ("https://api.example.com/anthropic", true, false),
            ("https://api.example.com/anthropic/v1", true, false),
            ("http://127.0.0.1:8080/v1/messages", true, false),
            ("http://api.anthropic.com", false, false),
            ("https://api.anthropic.com.example.com/v1", false, false),
            ("https://api.anthropic.com:8443/v1", false, false),
            ("https://example.com/v1?to=https://api.anthropic.com", false, false),
            ("https://api.openai.com/v1", false, false),
            ("", false, false),
        ] {
            let expected = if anthropic { Dialect::Anthropic } else { Dialect::OpenAi };
            assert_eq!((Dialect::of_address(address), Dialect::is_anthropics_own(address)), (expected, own), "{address}");
        }
    }
}
