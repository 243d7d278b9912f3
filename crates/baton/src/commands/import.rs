use crate::args::Import;
use crate::failure::Failure;
use crate::output::Output;
use crate::profile;
use baton_client::ClientError;
use baton_proto::{OperationId, SessionImport};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

const RETRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Brings an exported session into this user's account.
pub(crate) async fn run(args: Import, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let file = std::fs::read(&args.file).map_err(|error| {
        Failure::usage(format!("{} can't be read: {error}.", args.file.display()), "Name a file that `baton export` wrote.")
    })?;
    let http = profile::load(profile)?.http()?;
    let blob = http.upload(&file).await?;
    let import = SessionImport { operation_id: OperationId(Uuid::now_v7()), blob };
    let mut reply = http.import_session(&import).await;
    // An answer that was lost is asked for again under the same id, which makes no second session.
    for _ in 0..RETRIES {
        if !matches!(reply, Err(ClientError::Unreachable(_))) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        reply = http.import_session(&import).await;
    }
    let reply = reply?;
    if let Some(error) = reply.error {
        return Err(error.into());
    }
    let session = reply.session_id.ok_or_else(|| Failure::failed("The hub names no session.", "List them with `baton sessions`."))?;
    out.say(
        &json!({"event": "imported", "session_id": session, "version": reply.version}),
        &format!("Imported as session {session}. What was open in it is closed, and nothing goes on by itself."),
    );
    Ok(0)
}
