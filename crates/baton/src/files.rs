//! Where things are kept, and how private files are written.

use crate::failure::Failure;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `baton` in the user's data directory.
pub(crate) fn default_data() -> Result<PathBuf, Failure> {
    home("XDG_DATA_HOME", ".local/share", "Set HOME to your home directory, or BATON_DATA to the directory to use.")
        .map(|base| base.join("baton"))
}

/// `baton` in the user's configuration directory.
pub(crate) fn config() -> Result<PathBuf, Failure> {
    home("XDG_CONFIG_HOME", ".config", "Set HOME to your home directory.").map(|base| base.join("baton"))
}

fn home(variable: &str, below_home: &str, hint: &str) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable)
        .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
        .ok_or_else(|| Failure::usage(format!("Neither HOME nor {variable} is set, so it isn't known where your files are."), hint))
}

/// Makes a directory that only its owner may look into.
pub(crate) fn private_directory(path: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
        Failure::failed(format!("The directory {} can't be made: {error}.", path.display()), "Choose another one, or mend its permissions.")
    })
}

/// Writes a file that only its owner may read, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{} can't be written: {error}.", path.display()), "Check the disk and the permissions.")
    };
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)?;
    if let Some(Ok(directory)) = path.parent().map(File::open) {
        directory.sync_all().map_err(failed)?;
    }
    Ok(())
}

/// Writes a file that only its owner may read, and that doesn't exist yet. One that can't be written whole is taken away again.
pub(crate) fn write_private_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("{} can't be written: {error}.", path.display()), "Choose another place, or free some space.")
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => failed(error),
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

/// Why something isn't written under a name.
pub(crate) fn exists(path: &Path) -> Failure {
    Failure::usage(format!("{} exists already.", path.display()), "Choose another name; nothing is overwritten.")
}

/// This machine's name, for devices that were given none.
pub(crate) fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "computer".to_owned() } else { name.chars().take(60).collect() }
}
