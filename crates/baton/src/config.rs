use crate::args;
use crate::failure::Failure;
use crate::local::Local;
use baton_model::{Dialect, Model, ModelConfig, Provider, Secret};
use baton_proto::{Price, make_visible};
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
    #[serde(default)]
    pub(crate) budget: BudgetSection,
}

/// Tokens that may be used before work pauses and its user is asked. None unless given.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetSection {
    /// On one task; going on with it gives it as many again.
    pub(crate) task_tokens: Option<u64>,
    /// On one day (UTC) by one user, over all sessions.
    pub(crate) day_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSection {
    provider: Option<ProviderName>,
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
    /// Tokens that the model's window holds, for ends to show how full it is.
    context_tokens: Option<u64>,
    /// What a million tokens cost that the model reads; both prices or none.
    price_input: Option<f64>,
    /// Those that the provider had kept from before; like any other unless given.
    price_cached_input: Option<f64>,
    /// What a million tokens cost that it writes.
    price_output: Option<f64>,
    /// `USD` unless given.
    currency: Option<String>,
    /// Whether the model sees images; found out with the first one unless given.
    images: Option<bool>,
    /// Whether `up` looks for a model on this machine where none is named.
    local: Option<bool>,
}

/// How a model's server is spoken to, as one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProviderName {
    /// Any server that speaks chat completions.
    #[value(name = "openai")]
    OpenAi,
    /// Anthropic, or a server that speaks its Messages API.
    Anthropic,
}

impl From<ProviderName> for Dialect {
    fn from(name: ProviderName) -> Self {
        match name {
            ProviderName::OpenAi => Self::OpenAi,
            ProviderName::Anthropic => Self::Anthropic,
        }
    }
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
        let given = Given { provider: hub.model_provider, url: hub.model_url.as_deref(), name: hub.model.as_deref() };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        self.model.named(&given, variable)?.map(open).transpose()
    }

    /// Tokens that the model's window holds, where that is given.
    pub(crate) const fn context_tokens(&self) -> Option<u64> {
        self.model.context_tokens
    }

    /// What the model's tokens cost, where that is given.
    pub(crate) fn price(&self) -> Result<Option<Price>, Failure> {
        let model = &self.model;
        let (input, output) = match (model.price_input, model.price_output) {
            (Some(input), Some(output)) => (input, output),
            (None, None) => return Ok(None),
            _ => return Err(Failure::usage("Only one of `price_input` and `price_output` is given.", "Give both in baton.toml, or none.")),
        };
        let cached_input = model.price_cached_input.unwrap_or(input);
        if [input, cached_input, output].iter().any(|price| !price.is_finite() || *price < 0.0) {
            return Err(Failure::usage(
                "A price in baton.toml is below zero or no number.",
                "Give what a million tokens cost, such as 2.5.",
            ));
        }
        let currency = model.currency.as_deref().unwrap_or("USD").to_owned();
        if currency.is_empty()
            || currency.chars().count() > 16
            || currency.contains(char::is_whitespace)
            || make_visible(&currency) != currency
        {
            return Err(Failure::usage("The `currency` in baton.toml can't be shown.", "Write it as USD or ¥."));
        }
        Ok(Some(Price { input, cached_input, output, currency }))
    }

    /// Whether a model on this machine may be looked for.
    pub(crate) fn looks_for_local_models(&self) -> bool {
        self.model.local != Some(false)
    }

    /// The model that was found on this machine, with what is set here for any model. Keys are for whom they were given, and not for it.
    pub(crate) fn local_model(&self, local: &Local) -> Result<Option<Arc<dyn Model>>, Failure> {
        let Some((server, model)) = local.chosen() else { return Ok(None) };
        let found = model.config(server.server);
        let images = self.model.images.or(found.images);
        open(self.model.applied_to(ModelConfig { images, ..found })).map(Some)
    }
}

/// What the command line and its environment say of the model.
#[derive(Debug, Default)]
struct Given<'a> {
    provider: Option<ProviderName>,
    url: Option<&'a str>,
    name: Option<&'a str>,
}

impl ModelSection {
    fn named(&self, given: &Given<'_>, variable: impl Fn(&str) -> Option<String>) -> Result<Option<ModelConfig>, Failure> {
        // What the file says of one address doesn't hold for another: a key least of all.
        let file_holds = given.url.is_none() || self.url.is_none() || given.url == self.url.as_deref();
        let provider = given.provider.or(self.provider.filter(|_| file_holds));
        let url = given.url.or(self.url.as_deref());
        let url = url.or((provider == Some(ProviderName::Anthropic)).then_some(Dialect::ANTHROPIC_ADDRESS));
        let (url, name) = match (url, given.name.or(self.name.as_deref())) {
            (Some(url), Some(name)) => (url, name),
            (None, None) if provider.is_none() => return Ok(None),
            _ => {
                return Err(Failure::usage(
                    "A model needs both an address and a name.",
                    "Give --model-url and --model, or both in baton.toml. For Anthropic's own address --model-provider anthropic is enough.",
                ));
            }
        };
        let dialect = provider.map_or_else(|| Dialect::of_address(url), Dialect::from);
        // Anthropic's key goes to Anthropic, or to whom it was said to be meant for.
        let is_meant = Dialect::is_anthropics_own(url) || provider == Some(ProviderName::Anthropic);
        let key = variable("BATON_MODEL_KEY")
            .or_else(|| self.key.clone().filter(|_| file_holds))
            .or_else(|| (dialect == Dialect::Anthropic && is_meant).then(|| variable("ANTHROPIC_API_KEY")).flatten());
        let config = ModelConfig { dialect, api_key: key.map(Secret::new), images: self.images, ..ModelConfig::new(url, name) };
        Ok(Some(self.applied_to(config)))
    }

    fn applied_to(&self, config: ModelConfig) -> ModelConfig {
        let seconds = |given: Option<u64>, usual: Duration| given.map_or(usual, |given| Duration::from_secs(given.clamp(1, 3600)));
        ModelConfig {
            first_token_timeout: seconds(self.first_token_timeout_s, config.first_token_timeout),
            idle_timeout: seconds(self.idle_timeout_s, config.idle_timeout),
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            ..config
        }
    }
}

fn open(config: ModelConfig) -> Result<Arc<dyn Model>, Failure> {
    let model = Provider::new(config).map_err(|error| Failure::usage(error.message, error.hint))?;
    Ok(Arc::new(model))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dialect, address and key of what is configured, as one text.
    fn named(file: &str, given: &Given<'_>, variables: &[(&str, &str)]) -> String {
        let config: Config = toml::from_str(&format!("[model]\n{file}")).unwrap();
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        match config.model.named(given, variable) {
            Ok(Some(config)) => {
                let key = ["file", "own", "anthropic"].into_iter().find(|key| config.api_key == Some(Secret::new(key)));
                format!("{:?} {} {} key: {}", config.dialect, config.base_url, config.model, key.unwrap_or("none"))
            }
            Ok(None) => "none".to_owned(),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn which_model_with_which_key() {
        let nothing = Given::default();
        let named_only = Given { name: Some("m"), ..Given::default() };
        let anthropic = Given { provider: Some(ProviderName::Anthropic), ..named_only };
        let elsewhere = Given { url: Some("http://elsewhere/v1"), ..named_only };
        let env = [("ANTHROPIC_API_KEY", "anthropic")];
        let both = [("ANTHROPIC_API_KEY", "anthropic"), ("BATON_MODEL_KEY", "own")];
        for (file, given, variables, expected) in [
            ("", &nothing, &env[..], "none"),
            ("", &named_only, &env, "A model needs both an address and a name."),
            ("provider = 'anthropic'", &nothing, &env, "A model needs both an address and a name."),
            ("", &anthropic, &env, "Anthropic https://api.anthropic.com m key: anthropic"),
            ("", &anthropic, &both, "Anthropic https://api.anthropic.com m key: own"),
            ("key = 'file'", &anthropic, &env, "Anthropic https://api.anthropic.com m key: file"),
            ("url = 'https://api.anthropic.com'\nname = 'm'", &nothing, &env, "Anthropic https://api.anthropic.com m key: anthropic"),
            ("url = 'http://gate/anthropic'\nname = 'm'", &nothing, &env, "Anthropic http://gate/anthropic m key: none"),
            ("provider = 'anthropic'\nurl = 'http://gate'\nname = 'm'", &nothing, &env, "Anthropic http://gate m key: anthropic"),
            (
                "provider = 'openai'\nurl = 'https://api.anthropic.com/v1'\nname = 'm'",
                &nothing,
                &env,
                "OpenAi https://api.anthropic.com/v1 m key: none",
            ),
            ("url = 'http://here/v1'\nname = 'n'\nkey = 'file'", &nothing, &env, "OpenAi http://here/v1 n key: file"),
            // The file's key and provider are for the file's address.
            ("url = 'http://here/v1'\nkey = 'file'\nprovider = 'anthropic'", &elsewhere, &env, "OpenAi http://elsewhere/v1 m key: none"),
            ("key = 'file'", &elsewhere, &env, "OpenAi http://elsewhere/v1 m key: file"),
        ] {
            assert_eq!(named(file, given, variables), expected, "{file} {given:?}");
        }
    }

    #[test]
    fn a_price_is_whole_or_refused() {
        let rows = [
            ("", "none"),
            ("price_input = 2.5\nprice_output = 10", "2.5 2.5 10 USD"),
            ("price_input = 2\nprice_cached_input = 0.2\nprice_output = 8\ncurrency = '¥'", "2 0.2 8 ¥"),
            ("price_input = 2", "refused"),
            ("price_input = -1\nprice_output = 1", "refused"),
            ("price_input = nan\nprice_output = 1", "refused"),
            ("price_input = 1\nprice_output = 1\ncurrency = \"\\u001b[2J\"", "refused"),
        ];
        for (file, expected) in rows {
            let config: Config = toml::from_str(&format!("[model]\n{file}")).unwrap();
            let found = match config.price() {
                Ok(Some(price)) => format!("{} {} {} {}", price.input, price.cached_input, price.output, price.currency),
                Ok(None) => "none".to_owned(),
                Err(_) => "refused".to_owned(),
            };
            assert_eq!(found, expected, "{file}");
        }
    }

    #[test]
    fn typing_errors_are_refused() {
        for file in ["provider = 'antropic'", "urls = 'x'", "images = 'yes'"] {
            assert!(toml::from_str::<Config>(&format!("[model]\n{file}")).is_err(), "{file}");
        }
    }
}
