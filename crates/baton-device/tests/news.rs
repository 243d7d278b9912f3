//! What the hub is told of changes that nobody made with a call.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

mod common;

use baton_proto::WorkspaceId;
use common::{Place, git};
use serde_json::json;

/// The files that a call finds changed when its turn comes.
async fn found(place: &Place) -> Vec<String> {
    place.ok("run_command", json!({"argv": ["true"]})).await;
    place.root.take_news().map(|news| news.files).unwrap_or_default()
}

#[tokio::test]
async fn c34_a_file_that_git_keeps_in_a_directory_that_is_not_listed_is_noticed_too() {
    for (directory, ignored) in [("build", "build\n"), ("target", "target\n"), ("target", "")] {
        let place = Place::repository();
        place.write(".gitignore", ignored);
        let file = format!("{directory}/kept");
        place.write(&file, "one\n");
        git(&place.path(), &["add", "--force", &file, ".gitignore"]);
        git(&place.path(), &["commit", "-q", "-m", "kept"]);
        place.tools.window().unwrap().paths(String::new(), 1).await;
        place.root.describe(WorkspaceId(uuid::Uuid::now_v7())).await;
        assert_eq!(found(&place).await, Vec::<String>::new(), "{directory} {ignored:?}");
        place.write(&file, "by hand\n");
        assert_eq!(found(&place).await, [file], "{directory} {ignored:?}");
    }
}

#[tokio::test]
async fn c34_a_file_in_a_directory_that_came_since_the_names_were_listed_is_noticed() {
    let place = Place::repository();
    place.tools.window().unwrap().paths(String::new(), 1).await;
    place.root.describe(WorkspaceId(uuid::Uuid::now_v7())).await;
    place.write("new/file", "one\n");
    assert_eq!(found(&place).await, ["new/file"]);
    place.write("new/file", "two\n");
    assert_eq!(found(&place).await, ["new/file"]);
}
