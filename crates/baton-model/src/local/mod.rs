//! Servers of models on this machine, found by asking at the places where they usually are (R3).
//!
//! Nothing is sent there but the question what they serve. Only this machine is asked, quickly, and whoever doesn't answer isn't there.

mod reading;

use crate::config::{Dialect, ModelConfig};
use crate::transport::read_at_most;
use futures::future::join_all;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::timeout;

/// On this machine a connection is there at once, or it isn't.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// For everything that one server is asked.
const PATIENCE: Duration = Duration::from_secs(2);
const MAX_LIST_BYTES: usize = 1024 * 1024;
/// Models of one server that are looked at one by one.
const MAX_ASKED_ABOUT: usize = 24;

/// A place where a server of models may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalServer {
    pub kind: LocalKind,
    pub address: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalKind {
    Ollama,
    LlamaCpp,
    LmStudio,
}

/// A server that answered, and what it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundServer {
    pub server: LocalServer,
    /// Models that one can talk with, in the server's own order.
    pub models: Vec<FoundModel>,
}

/// A model of a server's, with what the server knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundModel {
    pub name: String,
    pub tools: Option<bool>,
    pub images: Option<bool>,
    /// Whether it is in memory already, where the server tells.
    pub is_loaded: bool,
}

/// Text that names no place on this machine where a server could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no server on this machine: write it like ollama=127.0.0.1:11434")]
pub struct NoLocalServer(pub String);

impl LocalServer {
    /// Where they are when nobody has moved them.
    pub fn usual() -> Vec<Self> {
        [(LocalKind::Ollama, 11434), (LocalKind::LlamaCpp, 8080), (LocalKind::LmStudio, 1234)]
            .map(|(kind, port)| Self { kind, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
            .to_vec()
    }

    /// The base URL for a [`ModelConfig`].
    pub fn base_url(&self) -> String {
        format!("{self}/v1")
    }
}

/// Its address, as one writes it.
impl fmt::Display for LocalServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}", self.address)
    }
}

impl fmt::Display for LocalKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ollama => "Ollama",
            Self::LlamaCpp => "a llama.cpp server",
            Self::LmStudio => "LM Studio",
        })
    }
}

impl FromStr for LocalServer {
    type Err = NoLocalServer;

    /// Reads `ollama=127.0.0.1:11434`, `llama.cpp=…` or `lmstudio=…`. Only addresses of this machine are taken.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NoLocalServer(text.to_owned());
        let (kind, address) = text.trim().split_once('=').ok_or_else(refused)?;
        let kind = match kind {
            "ollama" => LocalKind::Ollama,
            "llama.cpp" => LocalKind::LlamaCpp,
            "lmstudio" => LocalKind::LmStudio,
            _ => return Err(refused()),
        };
        let address: SocketAddr = address.parse().map_err(|_| refused())?;
        if address.ip().is_loopback() { Ok(Self { kind, address }) } else { Err(refused()) }
    }
}

/// Asks at all of these places at once. What answers is told in their order; it takes two seconds at most.
pub async fn find_local_servers(places: &[LocalServer]) -> Vec<FoundServer> {
    // Without TLS nothing can fail here but a machine that has no threads left.
    let client = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(no_tls())
        .build();
    let Ok(client) = client else { return Vec::new() };
    let asked = places.iter().map(|server| async {
        let models = timeout(PATIENCE, models(&client, *server)).await.ok().flatten()?;
        Some(FoundServer { server: *server, models })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The model to work with: one that calls tools before one of which that isn't known, one in memory before one on disk, and otherwise
/// the first of the first server.
pub fn choose_local_model(found: &[FoundServer]) -> Option<(&FoundServer, &FoundModel)> {
    let all = found.iter().flat_map(|server| server.models.iter().map(move |model| (server, model)));
    // The smallest is the first of its rank.
    all.min_by_key(|(_, model)| {
        let without_tools = match model.tools {
            Some(true) => 0,
            None => 1,
            Some(false) => 2,
        };
        (without_tools, !model.is_loaded)
    })
}

impl FoundModel {
    /// How it is asked.
    pub fn config(&self, server: LocalServer) -> ModelConfig {
        ModelConfig { dialect: Dialect::OpenAi, images: self.images, ..ModelConfig::new(server.base_url(), &self.name) }
    }
}

fn no_tls() -> rustls::ClientConfig {
    // Fails where one is installed already, which is just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}

/// None where nothing answers, or something else does.
async fn models(client: &Client, server: LocalServer) -> Option<Vec<FoundModel>> {
    let get = |path: &str| ask(client.get(format!("{server}{path}")));
    match server.kind {
        LocalKind::Ollama => {
            let names = reading::ollama_names(&get("/api/tags").await?)?;
            let shown = names.into_iter().take(MAX_ASKED_ABOUT).map(|name| async {
                let about = ask(client.post(format!("{server}/api/show")).json(&json!({"model": name}))).await.unwrap_or_default();
                reading::ollama_model(name, &about)
            });
            Some(join_all(shown).await.into_iter().flatten().collect())
        }
        LocalKind::LlamaCpp => {
            let names = reading::listed_names(&get("/v1/models").await?)?;
            let about = get("/props").await.unwrap_or_default();
            Some(names.into_iter().map(|name| reading::llama_cpp_model(name, &about)).collect())
        }
        LocalKind::LmStudio => {
            for path in ["/api/v1/models", "/api/v0/models"] {
                if let Some(models) = get(path).await.and_then(|list| reading::lm_studio_models(&list)) {
                    return Some(models);
                }
            }
            let names = reading::listed_names(&get("/v1/models").await?)?;
            Some(names.into_iter().map(|name| FoundModel { name, tools: None, images: None, is_loaded: false }).collect())
        }
    }
}

async fn ask(request: RequestBuilder) -> Option<Value> {
    let response = request.send().await.ok().filter(|response| response.status().is_success())?;
    let (body, is_whole) = read_at_most(response, MAX_LIST_BYTES).await.ok()?;
    if is_whole { serde_json::from_slice(&body).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, tools: Option<bool>, is_loaded: bool) -> FoundModel {
        FoundModel { name: name.to_owned(), tools, images: None, is_loaded }
    }

    #[test]
    fn places() {
        for (text, expected) in [
            ("ollama=127.0.0.1:11434", Some(LocalKind::Ollama)),
            (" llama.cpp=[::1]:8080", Some(LocalKind::LlamaCpp)),
            ("lmstudio=127.0.0.2:1", Some(LocalKind::LmStudio)),
            ("lmstudio=192.168.1.4:1234", None),
            ("ollama=localhost:11434", None),
            ("ollama", None),
            ("vllm=127.0.0.1:8000", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<LocalServer>().ok().map(|server| server.kind), expected, "{text}");
        }
        assert!(LocalServer::usual().iter().all(|server| server.address.ip().is_loopback()));
    }

    #[test]
    fn the_best_model() {
        for (servers, expected) in [
            (vec![], None),
            (vec![vec![]], None),
            (vec![vec![model("a", None, false)]], Some("a")),
            (vec![vec![model("a", Some(false), true), model("b", None, false)]], Some("b")),
            (vec![vec![model("a", None, true), model("b", Some(true), false), model("c", Some(true), false)]], Some("b")),
            (vec![vec![model("b", Some(true), false), model("c", Some(true), true)]], Some("c")),
            (vec![vec![model("a", Some(false), false)], vec![model("b", Some(true), false)]], Some("b")),
            (vec![vec![model("a", Some(true), true)], vec![model("b", Some(true), true)]], Some("a")),
        ] {
            let found: Vec<_> =
                servers.into_iter().zip(LocalServer::usual()).map(|(models, server)| FoundServer { server, models }).collect();
            assert_eq!(choose_local_model(&found).map(|(_, model)| model.name.as_str()), expected, "{found:?}");
        }
    }
}
