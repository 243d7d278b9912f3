//! Files that go with messages (D6): looked up when a message comes, and read when the model is to see them.

use crate::error::{HubError, told};
use crate::hub::Shared;
use baton_core::{MAX_ATTACHMENTS, MAX_CALLS, ModelOutcome, Session, part_of, wanted_blob};
use baton_proto::{Digest, ErrorBody, ErrorCode, Intent, MAX_IMAGE_BYTES, ModelImage, ModelMessage, ModelRequest, Operation, UserId};
use baton_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Sees that what a message names is there, and how large it is.
pub(crate) async fn look_up(shared: &Shared, user: UserId, operation: &mut Operation) -> Result<(), ErrorBody> {
    let Intent::Say { attachments, .. } = &mut operation.intent else { return Ok(()) };
    // Beyond what a message may have it is refused anyway, and nothing need be read for that.
    let mut sizes: BTreeMap<Digest, u64> = BTreeMap::new();
    for attachment in attachments.iter_mut().take(MAX_ATTACHMENTS) {
        if let Some(size) = sizes.get(&attachment.digest) {
            attachment.bytes = *size;
            continue;
        }
        let found = shared.store.blob(user, &attachment.digest).await.map_err(|error| told(&HubError::Store(error)))?;
        let Some(bytes) = found else {
            return Err(ErrorBody::new(
                ErrorCode::NotFound,
                format!("The attachment with the digest {} hasn't been uploaded.", attachment.digest),
                "Upload the file to /v1/uploads first, then send the message again.",
            ));
        };
        attachment.bytes = bytes.len() as u64;
        sizes.insert(attachment.digest.clone(), attachment.bytes);
    }
    Ok(())
}

/// Reads the images of a request. One that can't be sent is left out, and the model is told why.
pub(crate) async fn read_images(store: &dyn Store, user: UserId, request: &mut ModelRequest) -> Result<(), StoreError> {
    for message in &mut request.messages {
        let ModelMessage::User { text, images } = message else { continue };
        let mut sendable = Vec::with_capacity(images.len());
        for image in images.drain(..) {
            match readable(store.blob(user, &image.digest).await?, &image) {
                Ok(image) => sendable.push(image),
                Err(why) => drop(write!(text, "\n\n[an image of the type {} can't be shown: {why}]", image.media_type)),
            }
        }
        *images = sendable;
    }
    Ok(())
}

fn readable(bytes: Option<Vec<u8>>, image: &ModelImage) -> Result<ModelImage, String> {
    let bytes = bytes.ok_or("it is gone")?;
    if bytes.len() > MAX_IMAGE_BYTES {
        return Err(format!("it has {} bytes, and models take {MAX_IMAGE_BYTES}", bytes.len()));
    }
    let looks_like = match bytes.as_slice() {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err("its bytes are those of no image that models take".to_owned()),
    };
    Ok(ModelImage { media_type: looks_like.to_owned(), digest: image.digest.clone(), bytes: Arc::from(bytes) })
}

/// Reads what the calls of an answer ask for: of those that will be performed, one after the other, a part of each.
pub(crate) async fn read_wanted(store: &dyn Store, state: &Session, outcome: &mut ModelOutcome) -> Result<(), StoreError> {
    let ModelOutcome::Answered { calls, .. } = outcome else { return Ok(()) };
    for call in calls.iter_mut().take(MAX_CALLS) {
        let Ok(arguments) = &call.arguments else { continue };
        let Some(digest) = wanted_blob(state, &call.tool, arguments) else { continue };
        call.fetched = store.blob(state.user, &digest).await?.map(|bytes| part_of(&bytes, arguments));
    }
    Ok(())
}
