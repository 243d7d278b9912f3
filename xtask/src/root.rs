use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};

/// The repository's root, and where cargo puts what it builds.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    target: PathBuf,
}

impl Root {
    /// The checkout that this program was built from. Its own executable tells where cargo builds to, whatever is configured.
    pub(crate) fn find() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in no repository")?.to_owned();
        let own = std::env::current_exe().context("can't tell where xtask itself lies")?;
        let target = own.parent().and_then(Path::parent).context("xtask was not built by cargo")?.to_owned();
        Ok(Self { path, target })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, relative: &str) -> PathBuf {
        self.path.join(relative)
    }

    /// A program that a development build made.
    pub(crate) fn debug_binary(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// A program that a release build made.
    pub(crate) fn release_binary(&self, name: &str) -> PathBuf {
        self.target.join("release").join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }
}
