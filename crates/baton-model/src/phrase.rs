//! How a dialogue is put so that every provider takes it, whatever models and tools wrote. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use baton_proto::{IMAGE_TYPES, MAX_IMAGE_BYTES, ModelImage};
use serde_json::{Value, json};

/// Whether the model is shown images, or told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Sees,
    Blind,
}

/// An image as it goes into a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown<'a> {
    Image {
        media_type: &'a str,
        base64: String,
    },
    /// What is said in its place.
    Words(String),
}

pub(crate) fn shown(image: &ModelImage, sight: Sight) -> Shown<'_> {
    let told = |why: &str| Shown::Words(format!("[An image ({}, {} bytes) is here; {why}.]", image.media_type, image.bytes.len()));
    if image.bytes.is_empty() {
        Shown::Words("[An image was here that can't be read any more.]".to_owned())
    } else if sight == Sight::Blind {
        told("you can't see images")
    } else if !IMAGE_TYPES.contains(&image.media_type.as_str()) {
        told("it is of a kind that you can't be shown")
    } else if image.bytes.len() > MAX_IMAGE_BYTES {
        told("it is too large to be shown to you")
    } else {
        Shown::Image { media_type: &image.media_type, base64: STANDARD.encode(&image.bytes) }
    }
}

/// Some providers refuse an empty result.
pub(crate) fn result_text(text: &str, failed: bool) -> &str {
    match (text.trim().is_empty(), failed) {
        (true, false) => "(no output)",
        (true, true) => "Error: the call failed without output.",
        (false, _) => text,
    }
}

/// A call of a tool that never existed stays in the dialogue; its name has to pass the provider's check all the same.
pub(crate) fn plain_name(name: &str) -> String {
    let plain: String =
        name.chars().take(64).map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect();
    if plain.is_empty() { "unnamed".to_owned() } else { plain }
}

/// The arguments of a past call as an object. Those that aren't one would be refused for ever, so they are wrapped.
pub(crate) fn readable_arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(raw) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({"unreadable_arguments": raw}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::Digest;

    #[test]
    fn images_are_shown_or_told_of() {
        let image = |media_type: &str, bytes: Vec<u8>| ModelImage {
            digest: Digest::of_bytes(&bytes),
            media_type: media_type.to_owned(),
            bytes: bytes.into(),
        };
        let small = vec![1, 2, 3];
        assert_eq!(
            shown(&image("image/png", small.clone()), Sight::Sees),
            Shown::Image { media_type: "image/png", base64: "AQID".to_owned() }
        );
        for (image, sight, words) in [
            (image("image/png", small.clone()), Sight::Blind, "(image/png, 3 bytes) is here; you can't see images"),
            (image("image/tiff", small), Sight::Sees, "of a kind"),
            (image("image/png", vec![0; MAX_IMAGE_BYTES + 1]), Sight::Sees, "too large"),
            (image("image/png", Vec::new()), Sight::Sees, "can't be read any more"),
        ] {
            let Shown::Words(said) = shown(&image, sight) else { panic!("{image:?} is shown") };
            assert!(said.contains(words), "{said}");
        }
    }
}
