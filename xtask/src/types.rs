//! Writes the wire's JSON Schema, from which the TypeScript types are generated. Reads `baton-proto`, writes one file.

use anyhow::{Context as _, Result};
use baton_proto as proto;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::path::Path;

/// Where the schema lies, relative to the repository's root.
pub const SCHEMA_PATH: &str = "sdk/typescript/schema/wire.json";

/// Everything that crosses the wire, as one document whose definitions refer to each other. The order is alphabetical,
/// so that the text changes only when the contract does.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    register(&mut generator);
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Baton wire",
        "$defs": definitions,
    })
}

/// Writes the schema below `root`.
///
/// # Errors
/// When the file can't be written.
pub fn write_schema(root: &Path) -> Result<()> {
    let path = root.join(SCHEMA_PATH);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("can't create {}", directory.display()))?;
    }
    let text = serde_json::to_string_pretty(&schema())? + "\n";
    std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
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
    );
}
