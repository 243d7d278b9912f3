//! File names that are not UTF-8, as text that names them without loss.
//!
//! A byte that belongs to no UTF-8 character is written as one character of a private range, and so are the bytes of the range's own
//! characters, so that every name has exactly one text and every text leads back to its name.

use baton_proto::make_visible;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Where the byte 0x00 would be; only bytes from 0x80 on are written so.
const BASE: u32 = 0xF700;

/// The text of a name.
pub(crate) fn text_of(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if byte_of(c).is_some() {
                let mut bytes = [0; 4];
                text.extend(c.encode_utf8(&mut bytes).bytes().map(char_of));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(char_of));
    }
    text
}

/// The name that a text stands for.
pub(crate) fn name_of(text: &str) -> Cow<'_, [u8]> {
    if !text.chars().any(|c| byte_of(c).is_some()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut name = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(name)
}

/// What people are shown: such bytes as `\xNN`, and deceptive characters as themselves named.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => drop(write!(out, "\\x{byte:02X}")),
            None => out.push(c),
        }
    }
    // A line break in a name is no line break of a listing.
    make_visible(&out).replace('\n', "\\n").replace('\t', "\\t")
}

fn char_of(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(c: char) -> Option<u8> {
    u32::from(c).checked_sub(BASE).and_then(|byte| u8::try_from(byte).ok()).filter(|byte| *byte >= 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_text_that_leads_back_to_it() {
        for name in
            [&b"plain"[..], "文字 é".as_bytes(), b"caf\xe9.txt", b"\xff\xfe", "a\u{F7E9}b".as_bytes(), b"a\xf0\x9f\x98", b"\xed\xa0\x80"]
        {
            assert_eq!(name_of(&text_of(name)), name, "{name:?}");
        }
        assert_ne!(text_of(b"caf\xe9"), text_of("caf\u{F7E9}".as_bytes()));
        assert_eq!(shown(&text_of(b"caf\xe9\n\x1b.txt")), "caf\\xE9\\n⟨U+001B⟩.txt");
        assert_eq!(shown("文字"), "文字");
    }
}
