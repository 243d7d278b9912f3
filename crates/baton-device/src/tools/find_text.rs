//! `find_text`: lines that match a pattern.

use super::{arguments, blocking};
use crate::output::result_of;
use crate::tool::{CancelSignal, Run, Tool, failed, refused};
use crate::workspace::{Bounds, DERIVED, Derived, Kind, MAX_FILE_BYTES, RelativePath, WorkspaceRoot};
use async_trait::async_trait;
use baton_proto::{Effect, Outcome, Risk, ToolError, ToolSpec};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MAX_MATCHES: usize = 200;
const MAX_LINE_CHARS: usize = 300;
const MAX_FILES: usize = 20_000;
const WITHIN: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct FindText {
    pub(super) root: Arc<WorkspaceRoot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: String,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    path: String,
}

#[async_trait]
impl Tool for FindText {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "find_text".to_owned(),
            description: format!(
                "Finds lines that match a regular expression (or a literal text) in the workspace's files, as `path:line: text`. Use it to find \
                 where something is before reading whole files. At most {MAX_MATCHES} matches and {MAX_FILES} files. Binary files, files over \
                 {MAX_FILE_BYTES} bytes, `.git`, and directories of derived files ({}) are left out unless `path` names one of the latter.",
                DERIVED.join(", ")
            ),
            parameters: json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["pattern"],
                "properties": {
                    "pattern": {"type": "string", "minLength": 1, "description": "Regular expression in Rust's syntax, matched within one line."},
                    "literal": {"type": "boolean", "default": false, "description": "Take the pattern as plain text."},
                    "ignore_case": {"type": "boolean", "default": false, "description": "Match letters in either case."},
                    "path": {"type": "string", "description": "File or directory relative to the workspace. Default: the workspace itself."}
                }
            }),
            effect: Effect::Read,
            risk: Risk::Safe,
            prepare: false,
            lookup: false,
            lasting: false,
            timeout_s: 60,
        }
    }

    async fn run(&self, run: Run) -> Outcome {
        let root = Arc::clone(&self.root);
        let cancel = run.cancel.clone();
        let found = blocking(move || {
            let arguments: Arguments = arguments(&run.arguments)?;
            find(&root, &arguments, &run.cancel)
        });
        match found.await {
            Ok(_) if cancel.is_cancelled() => Outcome::Cancelled { result: None },
            Ok(text) => Outcome::Succeeded(result_of(&text)),
            Err(error) => failed(error),
        }
    }
}

fn find(root: &WorkspaceRoot, arguments: &Arguments, cancel: &CancelSignal) -> Result<String, ToolError> {
    let pattern = compile(arguments)?;
    let start = RelativePath::parse(&arguments.path)?;
    let mut search = Search { pattern, matches: 0, skipped: 0, text: String::new(), deadline: Instant::now() + WITHIN };
    let mut notes = Vec::new();
    match root.files.file(&start) {
        Ok(_) => search.file(root, &start),
        Err(error) if error.code == "not_a_file" => {
            let bounds = Bounds { depth: 64, entries: MAX_FILES, time: WITHIN, derived: Derived::NameOnly };
            let listing = root.files.walk(&start, bounds)?;
            for entry in listing.entries.iter().filter(|entry| entry.kind == Kind::File) {
                if search.full() || cancel.is_cancelled() {
                    break;
                }
                if entry.size > MAX_FILE_BYTES { search.skipped += 1 } else { search.file(root, &entry.path) }
            }
            notes.extend(listing.cut.map(|cut| format!("not everything was searched: {cut}")));
            notes.extend((listing.derived > 0).then(|| format!("{} directories of derived files were not searched", listing.derived)));
        }
        Err(error) => return Err(error),
    }
    if search.matches >= MAX_MATCHES {
        notes.push(format!("stopped after {MAX_MATCHES} matches; use a narrower pattern or path"));
    } else if Instant::now() > search.deadline {
        notes.push(format!("stopped after {} s; name a path", WITHIN.as_secs()));
    }
    notes.extend((search.skipped > 0).then(|| format!("{} binary, large or unreadable files were left out", search.skipped)));
    let mut text = if search.matches == 0 { "No match.\n".to_owned() } else { search.text };
    for note in notes {
        let _ = writeln!(text, "[{note}]");
    }
    Ok(text)
}

fn compile(arguments: &Arguments) -> Result<Regex, ToolError> {
    let pattern = if arguments.literal { regex::escape(&arguments.pattern) } else { arguments.pattern.clone() };
    RegexBuilder::new(&pattern).case_insensitive(arguments.ignore_case).size_limit(4 << 20).build().map_err(|error| {
        refused("invalid_pattern", format!("The pattern is no regular expression: {error}"), "Mend it, or set 'literal' to true.")
    })
}

struct Search {
    pattern: Regex,
    matches: usize,
    skipped: usize,
    text: String,
    deadline: Instant,
}

impl Search {
    fn full(&self) -> bool {
        self.matches >= MAX_MATCHES || Instant::now() > self.deadline
    }

    fn file(&mut self, root: &WorkspaceRoot, path: &RelativePath) {
        let content = match root.files.read(path, MAX_FILE_BYTES) {
            Ok(Some(content)) if !content.bytes.contains(&0) => content,
            _ => {
                self.skipped += 1;
                return;
            }
        };
        for (index, line) in content.bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.matches >= MAX_MATCHES {
                return;
            }
            if self.pattern.is_match(line) {
                self.matches += 1;
                let text = String::from_utf8_lossy(line);
                let shown: String = text.chars().take(MAX_LINE_CHARS).collect();
                let more = if shown.len() < text.len() { " […]" } else { "" };
                let _ = writeln!(self.text, "{path}:{}: {shown}{more}", index + 1);
            }
        }
    }
}
