//! A session in a file (O1): lines of JSON. The first is an [`ExportHead`], then comes each event as it is stored, oldest first, and the last
//! is an [`ExportEnd`]. Views aren't in it: they follow from the events.

use crate::{Digest, OperationId, SessionId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The format of exported sessions that this version writes and reads.
pub const EXPORT_FORMAT: u32 = 1;

/// The first line of an exported session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportHead {
    /// The format, under a name that tells what the file is.
    pub baton_session: u32,
    pub session_id: SessionId,
    /// For whoever looks into the file; an import takes the title from the events.
    pub title: String,
    /// How many events follow.
    pub events: u64,
    pub exported_at: Timestamp,
    /// The Baton that wrote it.
    pub version: String,
}

/// The last line of an exported session; without it the file is cut short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportEnd {
    pub events: u64,
    /// The digest of every byte before this line.
    pub digest: Digest,
}

/// `POST /v1/sessions/import`: a file that was uploaded before becomes a session of the user's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionImport {
    /// Made once for each import, so that one that is sent again makes no second session (E1).
    pub operation_id: OperationId,
    /// The file, as an upload made it a blob.
    pub blob: Digest,
}
