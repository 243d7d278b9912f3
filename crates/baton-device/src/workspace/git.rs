//! What a repository says about itself, read from its files: no git process runs, so nothing that it configures does (S9).

use super::RelativePath;
use super::beneath::Beneath;
use std::path::{Component, Path, PathBuf};

/// Where a workspace keeps its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repository {
    /// No `.git` here.
    None,
    /// A `.git` directory.
    Directory,
    /// A linked worktree whose repository confirms it.
    Worktree {
        /// The worktree's own files.
        own: PathBuf,
        /// What all worktrees share.
        common: PathBuf,
    },
    /// A `.git` that redirects elsewhere without confirmation, or is a link: never followed.
    Unconfirmed,
}

/// Branch and commit, as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub branch: Option<String>,
    pub commit: Option<String>,
}

/// Files read here are small; larger ones, except for the list of packed references, are not what they pretend to be.
const MAX_SMALL_BYTES: u64 = 4096;
const MAX_PACKED_BYTES: u64 = 16 * 1024 * 1024;

impl Repository {
    /// Finds out what `.git` is in the directory at `path`.
    pub fn find(path: &Path) -> Self {
        let dot_git = path.join(".git");
        let Ok(metadata) = std::fs::symlink_metadata(&dot_git) else { return Self::None };
        if metadata.is_dir() {
            return Self::Directory;
        }
        if !metadata.is_file() {
            return Self::Unconfirmed;
        }
        worktree(path, &dot_git).unwrap_or(Self::Unconfirmed)
    }

    /// Reads `HEAD` and what it points to.
    pub fn head(&self, path: &Path) -> Head {
        match self {
            Self::None | Self::Unconfirmed => Head::default(),
            Self::Directory => {
                let at = path.join(".git");
                read_head(&at, &at)
            }
            Self::Worktree { own, common } => read_head(own, common),
        }
    }
}

/// Follows a gitfile only to a repository that names this very worktree in turn: a hostile gitfile can point anywhere, but
/// can't write there.
fn worktree(path: &Path, dot_git: &Path) -> Option<Repository> {
    let target = read_small(path, ".git")?;
    let own = plain(&path.join(target.strip_prefix("gitdir:")?.trim()))?;
    let back = plain(&own.join(read_small(&own, "gitdir")?.trim()))?;
    if std::fs::canonicalize(back).ok()? != std::fs::canonicalize(path).ok()?.join(dot_git.file_name()?) {
        return None;
    }
    let common = plain(&own.join(read_small(&own, "commondir")?.trim()))?;
    let own = std::fs::canonicalize(own).ok()?;
    let common = std::fs::canonicalize(common).ok()?;
    (own.parent()? == common.join("worktrees") && common.join("objects").is_dir()).then_some(Repository::Worktree { own, common })
}

fn read_head(own: &Path, common: &Path) -> Head {
    let Some(text) = read_small(own, "HEAD") else { return Head::default() };
    let Some(name) = text.trim_end().strip_prefix("ref: ") else {
        return Head { branch: None, commit: object_id(&text) };
    };
    if !name.starts_with("refs/") || name.contains(|c: char| c.is_control()) {
        return Head::default();
    }
    let branch = name.strip_prefix("refs/heads/").map(str::to_owned);
    let commit = read_small(common, name).and_then(|text| object_id(&text)).or_else(|| packed(common, name));
    Head { branch, commit }
}

fn packed(common: &Path, name: &str) -> Option<String> {
    let text = read_text(common, "packed-refs", MAX_PACKED_BYTES)?;
    text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' ').and_then(object_id))
}

fn object_id(text: &str) -> Option<String> {
    let text = text.trim();
    (matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}

fn read_small(directory: &Path, name: &str) -> Option<String> {
    read_text(directory, name, MAX_SMALL_BYTES)
}

fn read_text(directory: &Path, name: &str, limit: u64) -> Option<String> {
    let content = Beneath::open_root(directory).ok()?.read(&RelativePath::parse(name).ok()?, limit).ok()??;
    String::from_utf8(content.bytes).ok()
}

/// The path without `.` and `..`, resolved by name: what git does with a gitfile.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(directory)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn branch_and_commit_are_read_from_loose_packed_and_detached_heads_and_worktrees() {
        let directory = tempfile::tempdir().unwrap();
        let main = directory.path().join("main");
        std::fs::create_dir(&main).unwrap();
        assert_eq!(Repository::find(&main), Repository::None);
        git(&main, &["init", "-q"]);
        let head = |path: &Path| Repository::find(path).head(path);
        assert_eq!(head(&main), Head { branch: Some("main".into()), commit: None });

        git(&main, &["commit", "-q", "--allow-empty", "-m", "one"]);
        let commit = git(&main, &["rev-parse", "HEAD"]);
        let on_main = Head { branch: Some("main".into()), commit: Some(commit.clone()) };
        assert_eq!(head(&main), on_main);
        git(&main, &["pack-refs", "--all"]);
        assert_eq!(head(&main), on_main);

        git(&main, &["worktree", "add", "-q", "-b", "topic/x", "../tree"]);
        let tree = directory.path().join("tree");
        assert!(matches!(Repository::find(&tree), Repository::Worktree { .. }));
        assert_eq!(head(&tree), Head { branch: Some("topic/x".into()), commit: Some(commit.clone()) });

        git(&main, &["checkout", "-q", "--detach"]);
        assert_eq!(head(&main), Head { branch: None, commit: Some(commit) });
    }

    #[test]
    fn s9_a_gitfile_that_nobody_confirms_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, hostile) = (directory.path().join("victim"), directory.path().join("hostile"));
        std::fs::create_dir_all(&victim).unwrap();
        std::fs::create_dir_all(&hostile).unwrap();
        git(&victim, &["init", "-q"]);
        std::fs::write(hostile.join(".git"), format!("gitdir: {}/.git\n", victim.display())).unwrap();
        assert_eq!(Repository::find(&hostile), Repository::Unconfirmed);
        assert_eq!(Repository::find(&hostile).head(&hostile), Head::default());

        // A linked worktree of the victim has all that is needed, but names another directory.
        git(&victim, &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(&victim, &["worktree", "add", "-q", "../tree"]);
        std::fs::write(hostile.join(".git"), format!("gitdir: {}/.git/worktrees/tree\n", victim.display())).unwrap();
        assert_eq!(Repository::find(&hostile), Repository::Unconfirmed);

        std::fs::remove_file(hostile.join(".git")).unwrap();
        std::os::unix::fs::symlink(victim.join(".git"), hostile.join(".git")).unwrap();
        assert_eq!(Repository::find(&hostile), Repository::Unconfirmed);
    }
}
