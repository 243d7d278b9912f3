//! Numbers that the wire promises. Each is a default of the requirements; limits are named in the error that enforces them.

/// A device sends a heartbeat this often, in seconds (H7).
pub const HEARTBEAT_S: u64 = 10;
/// Without a sign of life for this long, in seconds, a device counts as offline (H7).
pub const LEASE_S: u64 = 30;
/// An unaccepted transfer reverts after this long, in seconds (H5).
pub const TRANSFER_S: u64 = 30;
/// A device that performs a call renews its lease within this long, in seconds (F6).
pub const ATTEMPT_LEASE_S: u32 = 60;
/// A WebSocket frame is at most this large, in bytes.
pub const MAX_FRAME_BYTES: usize = 256 * 1024;
/// The body of a request is at most this large, in bytes.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// What a user types in one message is at most this large, in bytes of JSON, in which quotes and line feeds take two; larger input waits for uploads (D6).
pub const MAX_TEXT_BYTES: usize = 32 * 1024;
/// An event's payload is at most this large, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// The inline part of a tool's result is at most this large, in bytes (E9).
pub const MAX_RESULT_BYTES: usize = 16 * 1024;
/// Arguments of one call are at most this large, in bytes.
pub const MAX_ARGUMENTS_BYTES: usize = 32 * 1024;
/// What an approval shows is at most this large, in bytes; a longer one is refused, never cut (S19).
pub const MAX_PREVIEW_BYTES: usize = 32 * 1024;
/// A snapshot is at most this large, in bytes (H2).
pub const MAX_SNAPSHOT_BYTES: usize = 32 * 1024;
/// A brief is at most this large, in bytes (H4).
pub const MAX_BRIEF_BYTES: usize = 2 * 1024;
/// The title that a user gives a session is at most this many characters.
pub const MAX_TITLE_CHARS: usize = 200;
/// Names and titles are at most this many characters.
pub const MAX_NAME_CHARS: usize = 80;
/// JSON is at most this deep.
pub const MAX_JSON_DEPTH: usize = 64;
/// An approval that nobody decides on is asked anew after this long, in seconds (E5).
pub const APPROVAL_S: u64 = 24 * 60 * 60;
/// How often a session may stop the hub on being taken up, before it is left alone until somebody resumes it.
pub const MAX_DEADLY_RESUMES: u32 = 4;
/// Model calls in one turn (R4).
pub const MAX_ITERATIONS: u32 = 25;
/// The same call with the same arguments in one turn, before the loop is stopped (R4).
pub const MAX_REPEATS: u32 = 3;
/// A pairing code and an invitation live this long, in seconds (S4).
pub const PAIRING_S: u64 = 300;
/// What models see as images.
pub const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// An image that is shown to a model has at most this many bytes: Anthropic's API takes 5 MB of base64
/// (docs.anthropic.com, "Vision", limits).
pub const MAX_IMAGE_BYTES: usize = 3_750_000;
