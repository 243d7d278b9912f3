//! The model on this machine that `up` works with where none is configured.

use crate::failure::Failure;
use baton_model::{FoundModel, FoundServer, LocalServer, choose_local_model, find_local_servers};
use serde_json::{Value, json};

/// Where to look instead of the usual places: `ollama=ADDRESS`, `llama.cpp=ADDRESS` and `lmstudio=ADDRESS`, with commas between; or `none`.
const PLACES: &str = "BATON_LOCAL_MODELS";

/// What was found on this machine.
#[derive(Debug)]
pub(crate) struct Local {
    servers: Vec<FoundServer>,
}

impl Local {
    /// Looks at once, without having been told anything.
    pub(crate) async fn look() -> Result<Self, Failure> {
        Ok(Self { servers: find_local_servers(&places()?).await })
    }

    pub(crate) fn chosen(&self) -> Option<(&FoundServer, &FoundModel)> {
        choose_local_model(&self.servers)
    }

    /// What people are told of it.
    pub(crate) fn words(&self) -> Option<String> {
        let Some((server, model)) = self.chosen() else {
            let empty = self.servers.first()?;
            let kind = empty.server.kind;
            return Some(format!("Found {kind} at {}, but it serves no model. Give it one, and start Baton again.", empty.server));
        };
        let others = match server.models.len() {
            1 => String::new(),
            count => format!(" with {count} models"),
        };
        let ability = match model.tools {
            Some(true) => "",
            Some(false) => ", which can't call tools, so that it can talk and do little else",
            None => ", which may or may not be able to call tools",
        };
        let (kind, place) = (server.server.kind, server.server);
        Some(format!("Found {kind} at {place}{others}; using {}{ability}.", model.name))
    }

    /// The same for programs.
    pub(crate) fn value(&self) -> Value {
        self.chosen().map_or(Value::Null, |(server, model)| {
            json!({
                "server": server.server.kind.to_string(), "url": server.server.base_url(), "model": model.name,
                "models": server.models.len(), "tools": model.tools, "images": model.images,
            })
        })
    }
}

fn places() -> Result<Vec<LocalServer>, Failure> {
    let Ok(text) = std::env::var(PLACES) else { return Ok(LocalServer::usual()) };
    let written = text.split(',').map(str::trim).filter(|place| !place.is_empty() && *place != "none");
    written
        .map(|place| place.parse().map_err(|error| Failure::usage(format!("{PLACES} can't be read: {error}."), "`none` looks nowhere.")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(models: &[(&str, Option<bool>)]) -> Local {
        let models = models
            .iter()
            .map(|(name, tools)| FoundModel { name: (*name).to_owned(), tools: *tools, images: None, is_loaded: false })
            .collect();
        let server = "ollama=127.0.0.1:9".parse().unwrap();
        Local { servers: vec![FoundServer { server, models }] }
    }

    #[test]
    fn what_people_are_told() {
        for (local, words) in [
            (Local { servers: Vec::new() }, None),
            (local(&[]), Some("Found Ollama at http://127.0.0.1:9, but it serves no model. Give it one, and start Baton again.")),
            (local(&[("a", Some(true))]), Some("Found Ollama at http://127.0.0.1:9; using a.")),
            (
                local(&[("a", Some(false)), ("b", None)]),
                Some("Found Ollama at http://127.0.0.1:9 with 2 models; using b, which may or may not be able to call tools."),
            ),
            (
                local(&[("a", Some(false))]),
                Some("Found Ollama at http://127.0.0.1:9; using a, which can't call tools, so that it can talk and do little else."),
            ),
        ] {
            assert_eq!(local.words().as_deref(), words);
        }
    }
}
