//! The world outside: a small service that writes down each effect it is asked for, over real HTTP. What it holds at the end of a test is
//! compared with what should have happened, whatever hub and device say (E2, E3).
//!
//! `POST /entries {key, text}` acts each time it is called, and keeps the key; `GET /entries/{key}` looks up. It never removes doubles:
//! finding them is what it is for.

use anyhow::Result;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// One effect that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub key: String,
    pub text: String,
}

/// The running service.
#[derive(Debug)]
pub struct Ledger {
    url: String,
    entries: Entries,
    count: watch::Receiver<usize>,
}

type Entries = Arc<Mutex<Vec<Entry>>>;

#[derive(Clone, Debug)]
struct Shared {
    entries: Entries,
    count: watch::Sender<usize>,
    delay: Duration,
}

impl Ledger {
    /// Starts the service; each answer to a `POST` comes `delay` after the effect, so that a kill can fall in between.
    pub async fn start(delay: Duration) -> Result<Self> {
        let entries = Entries::default();
        let (sender, count) = watch::channel(0);
        let shared = Shared { entries: Arc::clone(&entries), count: sender, delay };
        let router = Router::new().route("/entries", post(act)).route("/entries/{key}", get(look_up)).with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { url, entries, count })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything that happened, in order.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Resolves when so many effects have happened.
    pub async fn reached(&mut self, count: usize) -> Result<()> {
        self.count.wait_for(|now| *now >= count).await?;
        Ok(())
    }
}

async fn act(State(shared): State<Shared>, Json(entry): Json<Entry>) -> StatusCode {
    {
        let mut entries = shared.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(entry);
        shared.count.send_replace(entries.len());
    }
    tokio::time::sleep(shared.delay).await;
    StatusCode::CREATED
}

async fn look_up(State(shared): State<Shared>, Path(key): Path<String>) -> Result<Json<Entry>, StatusCode> {
    let entries = shared.entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.iter().find(|entry| entry.key == key).cloned().map(Json).ok_or(StatusCode::NOT_FOUND)
}
