//! Which directories with programs a command can see, and the environment it gets: built from a list, never inherited (S14, S15).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What is shown of the host besides the system's own directories.
#[derive(Clone, Debug, Default)]
pub(super) struct Toolchains {
    /// Directories shown read-only at their own paths, resolved.
    pub(super) shown: Vec<PathBuf>,
    /// Directories of programs, in order.
    pub(super) path: Vec<PathBuf>,
    /// `~/.rustup`, where rustup's proxies find toolchains.
    pub(super) rustup: Option<PathBuf>,
    /// Sources of crates that were fetched before, so that builds work without a network.
    pub(super) crates: Option<PathBuf>,
}

/// Where people keep toolchains in their home directories: what to show, and where its programs are. None of these holds keys.
const IN_HOME: [(&str, &str); 9] = [
    (".cargo/bin", ".cargo/bin"),
    (".rustup/toolchains", ""),
    (".rustup/settings.toml", ""),
    (".pyenv", ".pyenv/shims"),
    (".nvm/versions", ""),
    (".volta", ".volta/bin"),
    (".bun/bin", ".bun/bin"),
    (".deno/bin", ".deno/bin"),
    ("go/bin", "go/bin"),
];

pub(super) const SYSTEM_PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

impl Toolchains {
    /// What the device's own user has, left out where it would show the workspace or the device's data a second time.
    pub(super) fn of_this_user(workspace: &Path, data: &Path) -> Self {
        let home = std::env::var_os("HOME").map(PathBuf::from).and_then(|home| home.canonicalize().ok());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::of(home.as_deref(), &path, &[workspace, data])
    }

    fn of(home: Option<&Path>, path_variable: &OsString, never: &[&Path]) -> Self {
        let mut found = Self::default();
        let allowed = |path: &Path, shown: &Path| {
            // A link may lead to something else entirely, such as the whole home directory.
            let whole_home = home.is_some_and(|home| home.starts_with(shown));
            shown != Path::new("/") && !whole_home && !never.iter().any(|never| never.starts_with(shown)) && path.is_absolute()
        };
        if let Some(home) = home {
            for (show, programs) in IN_HOME {
                let path = home.join(show);
                let Ok(resolved) = path.canonicalize() else { continue };
                if resolved != path || !allowed(&path, &resolved) {
                    continue;
                }
                found.shown.push(resolved);
                if !programs.is_empty() {
                    found.path.push(home.join(programs));
                }
            }
            found.rustup = Some(home.join(".rustup")).filter(|path| path.join("toolchains").is_dir());
            found.crates = home.join(".cargo/registry").canonicalize().ok().filter(|path| path.is_dir());
        }
        // Programs installed beside the system, such as /opt/tool/bin or a Node of nvm, as far as the user's PATH names them.
        for entry in std::env::split_paths(path_variable) {
            let Ok(resolved) = entry.canonicalize() else { continue };
            let outside = resolved.starts_with("/opt") || resolved.starts_with("/nix/store") || resolved.starts_with("/home/linuxbrew");
            if outside && resolved.components().count() > 2 {
                let shown: PathBuf = resolved.components().take(3).collect();
                if allowed(&entry, &shown) && !found.shown.contains(&shown) {
                    found.shown.push(shown);
                }
                found.path.push(resolved);
            } else if found.shown.iter().any(|shown| resolved.starts_with(shown)) && !found.path.contains(&resolved) {
                found.path.push(resolved);
            }
        }
        found.path.extend(SYSTEM_PATH.iter().map(PathBuf::from));
        found
    }

    /// The value of `PATH`.
    pub(super) fn path_value(&self) -> OsString {
        std::env::join_paths(&self.path).unwrap_or_else(|_| SYSTEM_PATH.join(":").into())
    }
}

/// Variables that every command gets, besides `PATH` and `HOME`. Git is told to run nothing that the repository configures;
/// command-line programs are told that nobody sits in front of them.
pub(super) const ENVIRONMENT: [(&str, &str); 20] = [
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_COUNT", "5"),
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
    ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
    ("GIT_CONFIG_VALUE_1", "false"),
    ("GIT_CONFIG_KEY_2", "core.hooksPath"),
    ("GIT_CONFIG_VALUE_2", "/dev/null"),
    ("GIT_CONFIG_KEY_3", "core.pager"),
    ("GIT_CONFIG_VALUE_3", "cat"),
    ("GIT_CONFIG_KEY_4", "diff.external"),
    ("GIT_CONFIG_VALUE_4", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s15_only_listed_directories_are_shown_and_no_link_that_leads_elsewhere() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        std::fs::create_dir_all(home.join(".ssh")).unwrap();
        std::fs::create_dir_all(home.join("go")).unwrap();
        std::os::unix::fs::symlink(home.join(".ssh"), home.join(".pyenv")).unwrap();
        std::os::unix::fs::symlink(&home, home.join("go/bin")).unwrap();
        let path: OsString = std::env::join_paths([home.join(".ssh"), home.join(".cargo/bin"), PathBuf::from("relative")]).unwrap();

        let found = Toolchains::of(Some(&home), &path, &[]);
        assert_eq!(found.shown, [home.join(".cargo/bin")]);
        assert_eq!(found.path.len(), 1 + SYSTEM_PATH.len());
        assert!(Toolchains::of(Some(&home), &path, &[&home.join(".cargo/bin/workspace")]).shown.is_empty());
    }
}
