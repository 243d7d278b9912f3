//! Files of a workspace as ends look at them through the hub (C33), and their names for whoever begins to write one. The device that holds
//! the workspace reads them by its own rules; the hub fetches a file part by part, keeps nothing of it, and logs nothing.

use crate::directory::Identity;
use crate::hub::Hub;
use crate::questions::{Answer, unfitting};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_proto::{
    DeviceId, Digest, ErrorBody, ErrorCode, FilePart, FileShown, FoundPaths, HubFrame, MAX_FILE_PART_BYTES, MAX_FOUND_PATHS,
    MAX_SHOWN_FILE_BYTES, SessionId, ToolError,
};

/// How often a file is begun anew that changes while it is fetched.
const TRIES: usize = 3;
/// What somebody may write of a path, in bytes: as long as a path gets.
const MAX_QUERY_BYTES: usize = 4096;
/// Paths that are found where nobody says how many.
const FOUND: u32 = 20;

/// A file as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFile {
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

/// Why a fetch ended early.
enum Broken {
    /// Another file is there by now.
    Changed(ToolError),
    Refused(ErrorBody),
}

impl Hub {
    /// Whether a device may look into the session's workspace, and whether there is one to look into.
    pub async fn may_look_into(&self, who: Identity, session: SessionId) -> Result<(), ErrorBody> {
        self.keeper(who, session).await.map(|_| ())
    }

    /// A file of the session's workspace, whole, as its device shows it.
    pub async fn file(&self, who: Identity, session: SessionId, path: &str) -> Result<ShownFile, ErrorBody> {
        let device = self.keeper(who, session).await?;
        let mut tries = 0;
        loop {
            match self.fetch(who, device, path).await {
                Ok(file) => return Ok(file),
                Err(Broken::Refused(error)) => return Err(error),
                Err(Broken::Changed(error)) => {
                    tries += 1;
                    if tries == TRIES {
                        return Err(ErrorBody::new(ErrorCode::StaleVersion, error.message, error.hint));
                    }
                }
            }
        }
    }

    /// Paths of the session's workspace that fit what somebody began to write.
    pub async fn paths(&self, who: Identity, session: SessionId, query: &str, limit: Option<u32>) -> Result<FoundPaths, ErrorBody> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(ErrorBody::invalid(format!("What is looked for is longer than {MAX_QUERY_BYTES} bytes.")));
        }
        let limit = limit.unwrap_or(FOUND).clamp(1, MAX_FOUND_PATHS);
        let device = self.keeper(who, session).await?;
        let ask = |question| HubFrame::FindPaths { question, query: query.to_owned(), limit };
        match self.shared.ask(who, device, ask).await? {
            Answer::Paths(mut found) => {
                found.paths.truncate(limit as usize);
                Ok(found)
            }
            _ => Err(unfitting()),
        }
    }

    async fn fetch(&self, who: Identity, device: DeviceId, path: &str) -> Result<ShownFile, Broken> {
        let first = self.part(who, device, path, 0, None).await?;
        let (digest, whole) = (first.digest.clone(), first.bytes);
        if whole > MAX_SHOWN_FILE_BYTES {
            return Err(Broken::Refused(too_large(format!("The file is {whole} bytes; at most {MAX_SHOWN_FILE_BYTES} are shown."))));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(whole).unwrap_or(0));
        append(&mut bytes, first)?;
        while (bytes.len() as u64) < whole {
            let part = self.part(who, device, path, bytes.len() as u64, Some(&digest)).await?;
            if part.digest != digest || part.bytes != whole {
                return Err(Broken::Refused(unfitting()));
            }
            append(&mut bytes, part)?;
        }
        if Digest::of_bytes(&bytes) == digest { Ok(ShownFile { bytes, digest }) } else { Err(Broken::Refused(unfitting())) }
    }

    async fn part(&self, who: Identity, device: DeviceId, path: &str, offset: u64, digest: Option<&Digest>) -> Result<FilePart, Broken> {
        let ask = |question| HubFrame::ShowFile { question, path: path.to_owned(), offset, digest: digest.cloned() };
        match self.shared.ask(who, device, ask).await.map_err(Broken::Refused)? {
            Answer::File(FileShown::Part(part)) => Ok(part),
            Answer::File(FileShown::Refused { error }) if error.code == "changed_since" => Err(Broken::Changed(error)),
            Answer::File(FileShown::Refused { error }) => Err(Broken::Refused(refusal(error))),
            _ => Err(Broken::Refused(unfitting())),
        }
    }
}

/// Takes in a part that goes on where the last one ended. Whoever sends nothing, or more than was announced, isn't followed any further.
fn append(bytes: &mut Vec<u8>, part: FilePart) -> Result<(), Broken> {
    let content = BASE64_STANDARD.decode(part.content).map_err(|_| Broken::Refused(unfitting()))?;
    let after = bytes.len() as u64 + content.len() as u64;
    // Whoever sends crumbs would be asked millions of times.
    let goes_on = content.len() >= MAX_FILE_PART_BYTES / 2 || after == part.bytes;
    if part.offset != bytes.len() as u64 || after > part.bytes || !goes_on {
        return Err(Broken::Refused(unfitting()));
    }
    bytes.extend_from_slice(&content);
    Ok(())
}

/// What a device's refusal means to whoever asked.
fn refusal(error: ToolError) -> ErrorBody {
    let (code, hint) = match error.code.as_str() {
        "not_found" => (ErrorCode::NotFound, "Check the path; it is relative to the workspace."),
        "too_large" => return too_large(error.message),
        "outside_workspace" => (ErrorCode::Invalid, "Name a file in the workspace by its path relative to it; links aren't followed."),
        "not_a_file" => (ErrorCode::Invalid, "Name a file."),
        "no_permission" => (ErrorCode::Forbidden, "Change the file's permissions on that device."),
        "no_workspace" => (ErrorCode::NoCapability, "Start the device with its workspace again."),
        _ => (ErrorCode::Internal, "Look at the device's log."),
    };
    ErrorBody::new(code, error.message, hint)
}

fn too_large(message: String) -> ErrorBody {
    ErrorBody::new(ErrorCode::TooLarge, message, "Open it on that device.")
}
