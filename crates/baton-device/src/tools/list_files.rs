//! `list_files`: what is in a directory.

use super::{arguments, blocking};
use crate::output::result_of;
use crate::tool::{Run, Tool, failed};
use crate::workspace::{Bounds, DERIVED, Derived, Kind, Listing, RelativePath, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{Effect, Outcome, Risk, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

const MAX_ENTRIES: usize = 1000;
const DEFAULT_DEPTH: usize = 2;
const MAX_DEPTH: usize = 10;

#[derive(Debug)]
pub(super) struct ListFiles {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    path: String,
    depth: Option<usize>,
}

#[async_trait]
impl Tool for ListFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_files".to_owned(),
            description: format!(
                "Lists files and directories of the workspace, each with its size. Use it to find out what there is before reading. \
                 At most {MAX_ENTRIES} entries; says so when there are more. `.git` is left out; directories of derived files ({}) are named \
                 but not entered unless `path` names them.",
                DERIVED.join(", ")
            ),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "path": {"type": "string", "description": "Directory relative to the workspace. Default: the workspace itself."},
                    "depth": {"type": "integer", "minimum": 1, "maximum": MAX_DEPTH, "default": DEFAULT_DEPTH, "description": "Levels to list."}
                }
            }),
            effect: Effect::Read,
            risk: Risk::Safe,
            prepare: false,
            lookup: false,
            lasting: false,
            timeout_s: 30,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        let root = Arc::clone(&self.root);
        let listed = blocking(move || {
            let arguments: Arguments = arguments(&run.arguments)?;
            let path = RelativePath::parse(&arguments.path)?;
            let depth = arguments.depth.unwrap_or(DEFAULT_DEPTH).clamp(1, MAX_DEPTH);
            let bounds = Bounds { depth, entries: MAX_ENTRIES, time: Duration::from_secs(20), derived: Derived::NameOnly };
            root.files.walk(&path, bounds).map(|listing| words(&path, &listing))
        });
        match listed.await {
            Ok(text) => Outcome::Succeeded(result_of(&text)),
            Err(error) => failed(error),
        }
    }
}

fn words(path: &RelativePath, listing: &Listing) -> String {
    let mut text = String::new();
    for entry in &listing.entries {
        let _ = match entry.kind {
            Kind::Directory => writeln!(text, "{}/", entry.path),
            Kind::File => writeln!(text, "{} ({} bytes)", entry.path, entry.size),
            Kind::Link => writeln!(text, "{} (symbolic link, not followed)", entry.path),
            Kind::Other => writeln!(text, "{} (not a file)", entry.path),
        };
    }
    if listing.entries.is_empty() {
        let _ = writeln!(text, "'{path}' is empty.");
    }
    if let Some(cut) = &listing.cut {
        let _ = writeln!(text, "[not all: {cut}; name a directory or a smaller depth]");
    }
    if listing.unreadable > 0 {
        let _ = writeln!(text, "[{} directories left out: they can't be opened]", listing.unreadable);
    }
    text
}
