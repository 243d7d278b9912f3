//! Writes the wire's JSON Schema, from which the TypeScript types are generated. Reads `baton-proto`, writes one file.

use crate::root::Root;
use crate::{prerequisites, tools, web};
use anyhow::{Context as _, Result, bail};
use baton_proto as proto;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::fs;

/// Where the schema lies, relative to the repository's root.
const SCHEMA_PATH: &str = "sdk/typescript/schema/wire.json";

/// Writes the schema, and the TypeScript types from it.
pub(crate) fn write(root: &Root) -> Result<()> {
    prerequisites::require(prerequisites::CONSOLE)?;
    let path = root.join(SCHEMA_PATH);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(|| format!("can't create {}", directory.display()))?;
    }
    fs::write(&path, text()?).with_context(|| format!("can't write {}", path.display()))?;
    web::install(root)?;
    tools::run(tools::command(root, "node", ["sdk/typescript/generate.mjs"]))
}

/// Fails when the schema or the TypeScript types aren't what the Rust types say.
pub(crate) fn check(root: &Root) -> Result<()> {
    let path = root.join(SCHEMA_PATH);
    let found = fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    if found != text()? {
        bail!("{SCHEMA_PATH} is out of step with crates/baton-proto: run `cargo xtask types` and commit what it writes");
    }
    tools::run(tools::command(root, "node", ["sdk/typescript/generate.mjs", "--check"]))
}

fn text() -> Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

/// Everything that crosses the wire, as one document whose definitions refer to each other. The order is alphabetical,
/// so that the text changes only when the contract does.
fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    register(&mut generator);
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Baton wire",
        "$defs": definitions,
    })
}

/// Names the roots; what they refer to follows by itself.
fn register(generator: &mut SchemaGenerator) {
    macro_rules! roots {
        ($($root:ident),+ $(,)?) => { $(let _ = generator.subschema_for::<proto::$root>();)+ };
    }
    roots!(
        ClientFrame,
        HubFrame,
        Operation,
        Reply,
        SessionEvent,
        SessionView,
        SessionList,
        SearchResults,
        SessionFilter,
        UsageReport,
        History,
        Snapshot,
        HubInfo,
        Problem,
        DeviceView,
        DevicePatch,
        PairingRequest,
        PairingStarted,
        PairingPreview,
        PairingApproval,
        PairingClaim,
        PairingState,
        Credentials,
        Invitation,
        InvitationRequest,
        InvitationClaim,
        InvitationState,
        InvitationView,
        InvitationApproval,
        Rule,
        SessionImport,
        ExportHead,
        ExportEnd,
        WorkspaceDiff,
        FoundPaths,
    );
}
