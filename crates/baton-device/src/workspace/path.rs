//! Paths as calls name them: relative to the workspace, checked before anything is opened.

use super::names::shown;
use crate::tool::refused;
use baton_proto::ToolError;
use std::fmt;

/// A path below the workspace: components joined with `/`, none of them empty, `.` or `..`. Empty for the workspace itself. Bytes of a
/// name that are not UTF-8 are characters of a private range; they are shown as `\xNN`.
///
/// That it is well-formed says nothing about links on the way; those are refused when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelativePath(String);

/// Longest path taken, in bytes: what the kernel takes too.
const MAX_PATH_BYTES: usize = 4096;

impl RelativePath {
    /// Reads a path as a model or a person wrote it. `.` and the empty string mean the workspace itself.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        let outside = |what: &str| {
            let message = format!("The path '{}' {what}.", text.escape_debug());
            refused("outside_workspace", message, "Name a path relative to the workspace, such as 'src/main.rs'.")
        };
        if text.starts_with('/') {
            return Err(outside("is absolute"));
        }
        if text.len() > MAX_PATH_BYTES || text.contains('\0') {
            return Err(outside("is too long or contains a null character"));
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(outside("leads out of the workspace with '..'")),
                name => parts.push(name),
            }
        }
        Ok(Self(parts.join("/")))
    }

    /// The workspace itself.
    pub fn root() -> Self {
        Self(String::new())
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// With `/` between components; `.` for the workspace itself.
    pub fn as_str(&self) -> &str {
        if self.is_root() { "." } else { &self.0 }
    }

    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The directory and the name in it, or `None` for the workspace itself.
    pub fn split(&self) -> Option<(Self, &str)> {
        match self.0.rsplit_once('/') {
            Some((parent, name)) => Some((Self(parent.to_owned()), name)),
            None if self.is_root() => None,
            None => Some((Self::root(), &self.0)),
        }
    }

    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        if self.is_root() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }

    /// Whether it names git's own files, which no tool writes (S10). Case is ignored, since some file systems ignore it.
    pub fn is_git_internal(&self) -> bool {
        self.components().any(|part| part.eq_ignore_ascii_case(".git"))
    }

    /// Why changing this file can act later outside the sandbox, or `None` for ordinary files (S12).
    pub fn acts_later(&self) -> Option<(&'static str, &'static str)> {
        let lower = self.0.to_ascii_lowercase();
        let (parent, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let below = |directory: &str| {
            parent == directory || parent.starts_with(&format!("{directory}/")) || parent.contains(&format!("/{directory}"))
        };
        match name {
            ".envrc" | ".env" => Some(("shell_directory", "shells read it on entering the directory")),
            "makefile" | "gnumakefile" | "justfile" | "taskfile.yml" | "rakefile" => Some(("build", "build commands run what it says")),
            "package.json" | ".npmrc" | ".yarnrc" | ".yarnrc.yml" | ".pnpmfile.cjs" => {
                Some(("packages", "package managers run scripts that it names"))
            }
            "build.rs" | "setup.py" | "conftest.py" | "pyproject.toml" => Some(("build_script", "builds and tests run it")),
            ".mcp.json" | "mcp.json" => Some(("agents", "agents start programs that it names")),
            ".gitattributes" | ".gitmodules" | ".gitconfig" => Some(("git", "git acts by it")),
            ".bashrc" | ".bash_profile" | ".profile" | ".zshrc" | ".zprofile" | ".zshenv" => {
                Some(("shell_start", "shells run it when they start"))
            }
            ".gitlab-ci.yml" | ".travis.yml" | "jenkinsfile" | ".pre-commit-config.yaml" => {
                Some(("servers", "servers or hooks run what it says"))
            }
            _ if below(".vscode") || below(".idea") || below(".devcontainer") => Some(("editors", "editors act by it")),
            _ if below(".github") || below(".circleci") || below(".buildkite") => Some(("ci", "continuous integration runs it")),
            _ if below(".husky") || below(".githooks") || below("hooks") => Some(("git_hook", "git runs it as a hook")),
            _ if below(".cargo") => Some(("cargo", "cargo runs programs that it names")),
            _ => None,
        }
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s13_paths_that_lead_out_are_refused_and_others_are_made_plain() {
        for bad in ["/etc/passwd", "../x", "a/../../x", "a/..", "a\0b", "//x", "./../x"] {
            assert_eq!(RelativePath::parse(bad).unwrap_err().code, "outside_workspace", "{bad:?}");
        }
        for (given, plain) in
            [("", "."), (".", "."), ("./a//b/.", "a/b"), ("%2e%2e/x", "%2e%2e/x"), ("..a", "..a"), ("a\\..\\b", "a\\..\\b")]
        {
            assert_eq!(RelativePath::parse(given).unwrap().as_str(), plain, "{given:?}");
        }
    }

    #[test]
    fn s10_and_s12_names_with_a_later_effect_are_known() {
        let path = |text| RelativePath::parse(text).unwrap();
        assert!(path(".git/config").is_git_internal() && path("sub/.GIT/hooks/x").is_git_internal());
        assert!(!path(".github/x").is_git_internal() && !path("a.git").is_git_internal());
        for acts in [
            ".envrc",
            "web/package.json",
            ".vscode/tasks.json",
            ".github/workflows/ci.yml",
            "Makefile",
            "a/.husky/pre-commit",
            ".cargo/config.toml",
        ] {
            assert!(path(acts).acts_later().is_some(), "{acts}");
        }
        for plain in ["src/main.rs", "README.md", "vscode/x", "package.json.md"] {
            assert!(path(plain).acts_later().is_none(), "{plain}");
        }
    }

    #[test]
    fn a_path_splits_into_directory_and_name() {
        assert_eq!(RelativePath::parse("a/b").unwrap().split(), Some((RelativePath::parse("a").unwrap(), "b")));
        assert_eq!(RelativePath::parse("a").unwrap().split(), Some((RelativePath::root(), "a")));
        assert_eq!(RelativePath::root().split(), None);
    }
}
