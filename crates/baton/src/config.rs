use crate::args;
use crate::failure::Failure;
use baton_model::{Model, ModelConfig, OpenAi, Secret};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `baton.toml` in the data directory; what is given on the command line or in the environment goes first.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default)]
    model: ModelSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSection {
    url: Option<String>,
    name: Option<String>,
    /// The key itself; better is the environment variable `BATON_MODEL_KEY`.
    key: Option<String>,
    /// Seconds to the first token, 60 unless given.
    first_token_timeout_s: Option<u64>,
    /// Seconds between two pieces of an answer, 60 unless given.
    idle_timeout_s: Option<u64>,
    temperature: Option<f32>,
    max_tokens: Option<u32>,
}

impl Config {
    pub(crate) fn read(data: &Path) -> Result<Self, Failure> {
        let path = data.join("baton.toml");
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| {
                // The error's own text shows the line, which may hold the key.
                let place = error.span().map(|span| format!(" near byte {}", span.start)).unwrap_or_default();
                Failure::usage(
                    format!("{} can't be read{place}: {}.", path.display(), error.message()),
                    "docs/configuration.md lists what may stand in it.",
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::failed(format!("{} can't be read: {error}.", path.display()), "Mend its permissions.")),
        }
    }

    /// The model, where one is configured. Without one the hub still works, by slash commands.
    pub(crate) fn model(&self, hub: &args::Hub) -> Result<Option<Arc<dyn Model>>, Failure> {
        let url = hub.model_url.clone().or_else(|| self.model.url.clone());
        let name = hub.model.clone().or_else(|| self.model.name.clone());
        let (url, name) = match (url, name) {
            (Some(url), Some(name)) => (url, name),
            (None, None) => return Ok(None),
            _ => {
                return Err(Failure::usage(
                    "A model needs both an address and a name.",
                    "Give --model-url and --model, or both in baton.toml.",
                ));
            }
        };
        let key = std::env::var("BATON_MODEL_KEY").ok().filter(|key| !key.trim().is_empty()).or_else(|| self.model.key.clone());
        let seconds = |given: Option<u64>| Duration::from_secs(given.unwrap_or(60).clamp(1, 3600));
        let config = ModelConfig {
            api_key: key.map(Secret::new),
            first_token_timeout: seconds(self.model.first_token_timeout_s),
            idle_timeout: seconds(self.model.idle_timeout_s),
            temperature: self.model.temperature,
            max_tokens: self.model.max_tokens,
            ..ModelConfig::new(url, name)
        };
        let model = OpenAi::new(config).map_err(|error| Failure::usage(error.message, error.hint))?;
        Ok(Some(Arc::new(model)))
    }
}
