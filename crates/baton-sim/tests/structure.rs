//! Checks of the house itself: who may use whom, how long a file may be, what every crate shares, and that the documents say
//! what the code says. ARCHITECTURE.md tells why each of these holds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use baton_proto::{
    Brief, Change, ClientFrame, Credentials, ErrorCode, FoundPaths, HubFrame, InvitationApproval, InvitationState, InvitationView,
    Operation, PairingApproval, PairingPreview, PairingRequest, PairingStarted, Problem, Reply, Said, SearchResults, SessionImport,
    Snapshot, WorkspaceDiff,
};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which crates of the house each crate may use (ARCHITECTURE.md, "Crates").
const MAY_USE: &[(&str, &[&str])] = &[
    ("baton-proto", &[]),
    ("baton-core", &["baton-proto"]),
    ("baton-store", &["baton-proto"]),
    ("baton-model", &["baton-proto"]),
    ("baton-runtime", &["baton-core", "baton-store", "baton-model", "baton-proto"]),
    ("baton-client", &["baton-proto"]),
    ("baton-device", &["baton-client", "baton-core", "baton-proto"]),
    ("baton-server", &["baton-runtime", "baton-proto"]),
    (
        "baton",
        &["baton-proto", "baton-core", "baton-store", "baton-model", "baton-runtime", "baton-client", "baton-device", "baton-server"],
    ),
    (
        "baton-sim",
        &["baton-proto", "baton-core", "baton-store", "baton-model", "baton-runtime", "baton-client", "baton-device", "baton-server"],
    ),
    ("xtask", &["baton-proto"]),
];

/// What core may use from outside the house: data, and nothing that does anything.
const CORE_MAY_USE: &[&str] = &["serde", "serde_json", "uuid"];

/// What core's clippy.toml forbids, so that a decision depends on its arguments alone.
const CORE_BANS: &[&str] = &[
    "std::time::SystemTime::now",
    "std::time::Instant::now",
    "std::thread::spawn",
    "std::env::var",
    "std::fs::File",
    "std::net::TcpStream",
    "std::collections::HashMap",
    "uuid::Uuid::now_v7",
];

/// A source file without its unit tests has at most this many lines; over `AIM` it is named, so that somebody thinks of it.
const STOP: usize = 800;
const AIM: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap()
}

/// Paths of all files that belong to the repository, those not yet committed among them.
fn files() -> Vec<String> {
    let listing = Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]).current_dir(root()).output();
    let listing = String::from_utf8(listing.expect("git tells which files belong to the repository").stdout).unwrap();
    let files: Vec<String> = listing.split('\0').filter(|path| root().join(path).is_file()).map(str::to_owned).collect();
    assert!(files.len() > 100, "these can't be all files: {files:?}");
    files
}

fn has_extension(path: &str, wanted: &[&str]) -> bool {
    Path::new(path).extension().and_then(|it| it.to_str()).is_some_and(|it| wanted.contains(&it))
}

/// Normal and build dependencies; tests may use what they need.
fn dependencies(package: &Package) -> BTreeSet<&str> {
    package.dependencies.iter().filter(|it| it.kind != DependencyKind::Development).map(|it| it.name.as_str()).collect()
}

#[test]
fn crates_use_only_those_below_them() {
    let metadata = metadata();
    let names: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let listed: BTreeSet<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed, "a crate is missing here and in ARCHITECTURE.md, or one is gone");
    for package in &metadata.packages {
        let may_use = MAY_USE.iter().find(|(name, _)| *name == package.name.as_str()).unwrap().1;
        for used in dependencies(package).intersection(&names) {
            assert!(may_use.contains(used), "{} uses {used}; see \"Crates\" in ARCHITECTURE.md", package.name);
        }
    }
}

#[test]
fn core_uses_nothing_that_acts_and_keeps_its_ban_list() {
    let metadata = metadata();
    let core = metadata.packages.iter().find(|package| package.name.as_str() == "baton-core").unwrap();
    for used in dependencies(core).into_iter().filter(|name| !name.starts_with("baton-")) {
        assert!(CORE_MAY_USE.contains(&used), "baton-core uses {used}: it decides, and everything else is an argument");
    }
    let bans = read("crates/baton-core/clippy.toml");
    for ban in CORE_BANS {
        let line = bans.lines().find(|line| line.contains(&format!("\"{ban}\""))).unwrap_or_else(|| panic!("the ban on {ban} is gone"));
        assert!(line.contains("reason = \""), "the ban on {ban} gives no reason");
    }
}

#[test]
fn every_crate_inherits_the_lints_and_gives_a_reason_for_each_dependency() {
    for package in metadata().packages {
        let path = package.manifest_path.as_str();
        let manifest = fs::read_to_string(path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{path} doesn't inherit the lints");
        let bare = without_reason(&manifest);
        assert!(bare.is_empty(), "{path}: no comment above these, or above their group, says what they are for: {bare:?}");
    }
}

/// Dependencies with no comment since the last blank line.
fn without_reason(manifest: &str) -> Vec<&str> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let mut reasoned = false;
    let mut found = Vec::new();
    for line in section.lines() {
        match line.split(['.', ' ', '=']).next().unwrap_or_default() {
            "" => reasoned = false,
            "#" => reasoned = true,
            name if name.starts_with("baton-") || reasoned => {}
            name => found.push(name),
        }
    }
    found
}

#[test]
fn dependencies_without_a_reason_are_found() {
    let manifest = "[package]\n\n[dependencies]\nbaton-proto.workspace = true\nserde.workspace = true\n# Why.\ntokio = \"1\"\ntoml = \"1\"\n\nhex = \"1\"\n\n[dev-dependencies]\ninsta = \"1\"\n";
    assert_eq!(without_reason(manifest), ["serde", "hex"]);
}

#[test]
fn no_source_file_is_too_long() {
    let mut long = Vec::new();
    for path in files().iter().filter(|path| has_extension(path, &["rs", "ts", "tsx"]) && !path.ends_with(".gen.ts")) {
        let lines = read(path).lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        if lines > AIM {
            println!("{lines} lines: {path}");
        }
        if lines > STOP {
            long.push(format!("{path}: {lines}"));
        }
    }
    assert!(long.is_empty(), "over {STOP} lines without tests; split by what changes together: {long:?}");
}

#[test]
fn every_error_code_has_a_page_that_tells_the_truth_and_no_page_is_left_over() {
    let mut pages: BTreeSet<String> =
        files().iter().filter_map(|path| path.strip_prefix("docs/errors/")?.strip_suffix(".md").map(str::to_owned)).collect();
    assert!(pages.remove("README"), "docs/errors/README.md lists the codes");
    let index = read("docs/errors/README.md");
    for code in ErrorCode::ALL {
        let (name, is_final) = (code.as_str(), code.is_final());
        assert!(pages.remove(name), "docs/errors/{name}.md is missing");
        let page = read(&format!("docs/errors/{name}.md"));
        let outcome = if is_final { "- Outcome: final" } else { "- Outcome: not settled" };
        for part in [&format!("# {name}\n"), &format!("**{}.**", code.title()), &format!("- HTTP status: {}\n", code.status()), outcome] {
            assert!(page.contains(part), "docs/errors/{name}.md lacks \"{}\"", part.trim());
        }
        for part in ["\n## Why\n", "\n## What to do\n"] {
            assert!(page.contains(part), "docs/errors/{name}.md lacks \"{}\"", part.trim());
        }
        let row = format!("| [`{name}`]({name}.md) | {} | {} | {} |", code.status(), if is_final { "yes" } else { "no" }, code.title());
        assert!(index.contains(&row), "docs/errors/README.md lacks the row: {row}");
    }
    assert!(pages.is_empty(), "pages of codes that don't exist: {pages:?}");
}

#[test]
fn no_file_names_a_place_on_its_authors_machine() {
    // Written in two parts, since this file is searched too.
    let places = [("/wo", "rk/"), ("/tmp", "/bg"), ("/Use", "rs/"), ("/root/.", "cargo")].map(|(a, b)| format!("{a}{b}"));
    for path in files() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for place in &places {
                assert!(!line.contains(place.as_str()), "{path}:{} names {place}", number + 1);
            }
        }
    }
}

/// The blocks of a document that are marked ```` ```json KIND ````, with their kinds.
fn examples(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```json") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((kind.trim().to_owned(), body.join("\n")));
        }
    }
    found
}

/// Reads an example as the type it shows, and makes sure that nothing in it is unknown to the type.
fn check<T: DeserializeOwned + Serialize>(text: &str) {
    let given: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("not JSON: {error}\n{text}"));
    let typed: T = serde_json::from_value(given.clone()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    same(&given, &serde_json::to_value(typed).unwrap(), text);
}

/// Everything that is given comes back unchanged. What the type fills in by itself may be left out of an example.
fn same(given: &Value, back: &Value, text: &str) {
    match (given, back) {
        (Value::Object(given), Value::Object(back)) => {
            for (key, value) in given {
                let found = back.get(key).unwrap_or_else(|| panic!("there is no field '{key}' in\n{text}"));
                same(value, found, text);
            }
        }
        (Value::Array(given), Value::Array(back)) if given.len() == back.len() => {
            given.iter().zip(back).for_each(|(given, back)| same(given, back, text));
        }
        _ => assert_eq!(given, back, "in\n{text}"),
    }
}

#[test]
fn every_example_in_the_protocol_is_what_the_types_read_and_write() {
    let text = read("docs/protocol.md");
    let examples = examples(&text);
    for (kind, example) in &examples {
        match kind.as_str() {
            "operation" => {
                check::<Operation>(example);
                Operation::decode(serde_json::from_str(example).unwrap()).unwrap_or_else(|error| panic!("{error}\n{example}"));
            }
            "reply" => check::<Reply>(example),
            "change" => check::<Change>(example),
            "client frame" => check::<ClientFrame>(example),
            "hub frame" => check::<HubFrame>(example),
            "problem" => check::<Problem>(example),
            "pairing request" => check::<PairingRequest>(example),
            "pairing started" => check::<PairingStarted>(example),
            "pairing preview" => check::<PairingPreview>(example),
            "pairing approval" => check::<PairingApproval>(example),
            "invitation state" => check::<InvitationState>(example),
            "invitation" => check::<InvitationView>(example),
            "invitation approval" => check::<InvitationApproval>(example),
            "credentials" => check::<Credentials>(example),
            "snapshot" => check::<Snapshot>(example),
            "brief" => check::<Brief>(example),
            "session import" => check::<SessionImport>(example),
            "said" => check::<Said>(example),
            "search results" => check::<SearchResults>(example),
            "workspace diff" => check::<WorkspaceDiff>(example),
            "found paths" => check::<FoundPaths>(example),
            other => panic!("docs/protocol.md has an example of kind '{other}', which is checked against nothing"),
        }
    }
    assert!(examples.len() >= 12, "docs/protocol.md has lost its examples: {} are left", examples.len());
}

#[test]
fn the_protocol_names_everything_that_crosses_the_wire() {
    let text = read("docs/protocol.md");
    let schema: Value = serde_json::from_str(&read("sdk/typescript/schema/wire.json")).unwrap();
    let tags = [("ClientFrame", "type"), ("HubFrame", "type"), ("SessionEvent", "type"), ("EntityView", "kind"), ("Operation", "intent")];
    for (name, tag) in tags {
        let branches = schema["$defs"][name]["oneOf"].as_array().unwrap_or_else(|| panic!("{name} is no union any more"));
        for branch in branches {
            let word = branch["properties"][tag]["const"].as_str().unwrap_or_else(|| panic!("a branch of {name} has no {tag}"));
            assert!(text.contains(&format!("`{word}`")), "docs/protocol.md doesn't name `{word}` of {name}");
        }
    }
    for code in ErrorCode::ALL {
        assert!(text.contains(&format!("`{code}`")), "docs/protocol.md doesn't name the error `{code}`");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in files().iter().filter(|path| has_extension(path, &["md"])) {
        let text = read(path);
        let directory = Path::new(path).parent().unwrap_or(Path::new(""));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(' ') {
                continue;
            }
            assert!(root().join(directory).join(file).exists(), "{path} links to {file}, which doesn't exist");
        }
    }
}

/// Names in backticks that look like those of tests.
fn named_tests(text: &str) -> BTreeSet<&str> {
    let words = text.split('`').skip(1).step_by(2);
    words
        .filter(|word| word.matches('_').count() >= 3 && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))
        .collect()
}

#[test]
fn every_test_that_the_security_page_relies_on_exists() {
    let sources: Vec<String> = files().iter().filter(|path| has_extension(path, &["rs"])).map(|path| read(path)).collect();
    let page = read("docs/security.md");
    let named = named_tests(&page);
    assert!(named.len() > 30, "the page has lost its proofs: {named:?}");
    for name in named {
        assert!(
            sources.iter().any(|source| source.contains(&format!("fn {name}("))),
            "docs/security.md relies on {name}, which doesn't exist"
        );
    }
}
