use super::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fresh git repository with the published admin template in it, which has a home and a tables page.
pub fn admin_template(directory: &Path) -> PathBuf {
    let source = root().join("node_modules/startbootstrap-sb-admin/dist");
    assert!(source.exists(), "the template isn't installed: run `npm ci --ignore-scripts`, as `cargo xtask test` does");
    let workspace = directory.join("site");
    copy(&source, &workspace);
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    git(&workspace, &["add", "."]);
    git(
        &workspace,
        &["-c", "user.name=Tester", "-c", "user.email=tester@localhost", "commit", "--quiet", "--message", "The template as published"],
    );
    workspace
}

/// A small git repository: a page, a note, and a first commit.
pub fn small_project(directory: &Path) -> PathBuf {
    let workspace = plain_project(directory);
    git(&workspace, &["init", "--quiet", "--initial-branch=main"]);
    commit(&workspace, "The beginning");
    workspace
}

/// The same without git.
pub fn plain_project(directory: &Path) -> PathBuf {
    let workspace = directory.join("project");
    std::fs::create_dir_all(&workspace).expect("a directory");
    std::fs::write(workspace.join("page.html"), "<p>one</p>\n<p>two</p>\n").expect("a file");
    std::fs::write(workspace.join("note.txt"), "milk and bread\n").expect("a file");
    workspace
}

pub fn commit(workspace: &Path, message: &str) {
    git(workspace, &["add", "."]);
    git(workspace, &["-c", "user.name=Tester", "-c", "user.email=tester@localhost", "commit", "--quiet", "--message", message]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}

pub fn git(workspace: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(workspace).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
