//! What end-to-end tests are driven with: the built binary, a real browser, a workspace of a published package, and an observer.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::expect_used, reason = "a test ends where its world can't be set up")]

pub mod browser;
pub mod command;
pub mod house;
pub mod hub;
pub mod workspace;

use std::path::PathBuf;

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// A program of this workspace, as built for tests.
pub fn program(name: &str) -> PathBuf {
    let directory = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let path = directory.join("debug").join(name);
    assert!(path.exists(), "{} isn't built: run `cargo build --bins` first, as `cargo xtask test` does", path.display());
    path
}

/// A port that is free at the moment, for a hub that is to come back on it.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Looks until something holds. Nothing is asserted about how long it takes; the deadline only ends what would never end.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(45);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < end, "it never came: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// A small seeded generator, so that a failing run can be replayed by its seed.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `limit`.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
