//! Reading what the user attached (D6): a page at a time, or the lines that contain a text. What was read comes with the call,
//! since the core reads nothing itself.

use super::{Done, read, refusal};
use crate::machine::tool_call::ToolCall;
use crate::session::Session;
use crate::words::{excerpt, json_excerpt, json_len};
use baton_proto::{Digest, ModelTool, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(super) const NAME: &str = "read_attachment";
/// Bytes of text in one page.
const PAGE_BYTES: usize = 12 * 1024;
/// Lines that are listed of those that contain a text.
const SHOWN_LINES: usize = 60;
/// Bytes that are shown of one of them.
const LINE_BYTES: usize = 200;

pub(super) fn read_attachment() -> ModelTool {
    ModelTool {
        name: NAME.to_owned(),
        description: "Read a text file that the user attached to a message: 12 KiB from an offset, or with `find` the lines that contain a text, with the offset of each.".to_owned(),
        parameters: json!({"type": "object", "additionalProperties": false, "required": ["attachment"], "properties": {
            "attachment": {"type": "string", "minLength": 1, "maxLength": 200, "description": "its name, or its digest"},
            "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "in bytes"},
            "find": {"type": "string", "minLength": 1, "maxLength": 200}}}),
    }
}

#[derive(Deserialize)]
struct Given {
    attachment: String,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    find: Option<String>,
}

/// The attachment that a call reads, as the call names it.
pub(crate) fn named<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
    arguments.get("attachment")?.as_str().filter(|_| tool == NAME)
}

/// The blob that a call needs to be performed, if it is one that needs any.
pub fn wanted_blob(state: &Session, tool: &str, arguments: &Value) -> Option<Digest> {
    let name = named(tool, arguments)?;
    let meant = |it: &&baton_proto::Attachment| it.name == name || it.digest.to_string() == name;
    state.attachments.iter().rev().find(meant).map(|found| found.digest.clone())
}

pub(super) fn perform(state: &Session, call: &ToolCall, fetched: Option<&Result<String, ToolError>>) -> Result<Done, ToolError> {
    let given: Given = read(&call.arguments)?;
    let Some(fetched) = fetched else {
        let known: Vec<_> = state.attachments.iter().map(|it| it.name.as_str()).collect();
        let hint =
            if known.is_empty() { "Nothing is attached in this session.".to_owned() } else { format!("There are: {}.", known.join(", ")) };
        return Err(refusal("not_found", format!("There is no attachment '{}'.", excerpt(&given.attachment, 100)), hint));
    };
    fetched.clone().map(Done::Now)
}

/// The part of a blob that a call asks for. Done where the blob is, so that no more than the part goes on from there.
pub fn part_of(bytes: &[u8], arguments: &Value) -> Result<String, ToolError> {
    let given: Given = read(arguments)?;
    let Ok(text) = std::str::from_utf8(bytes) else {
        let message = format!("'{}' isn't text in UTF-8; it has {} bytes.", excerpt(&given.attachment, 100), bytes.len());
        return Err(refusal("not_text", message, "Only text can be read with this."));
    };
    match &given.find {
        Some(wanted) => Ok(lines_with(text, wanted, given.offset)),
        None => page(text, given.offset),
    }
}

fn page(text: &str, offset: usize) -> Result<String, ToolError> {
    if offset >= text.len() && offset > 0 {
        return Err(refusal(
            "invalid_arguments",
            format!("The text has {} bytes, so it ends before {offset}.", text.len()),
            "Use a smaller offset.",
        ));
    }
    let start = floor(text, offset);
    // What JSON makes of it counts: a control character takes six bytes.
    let mut left = PAGE_BYTES;
    let fits = |c: &char| {
        let taken = left.checked_sub(json_len(c.encode_utf8(&mut [0; 4])));
        left = taken.unwrap_or(left);
        taken.is_some()
    };
    let end = start + text[start..].chars().take_while(fits).map(char::len_utf8).sum::<usize>();
    let rest = if end < text.len() { format!("; go on with offset {end}") } else { "; this is its end".to_owned() };
    Ok(format!("[bytes {start} to {end} of {}{rest}]\n{}", text.len(), &text[start..end]))
}

fn lines_with(text: &str, wanted: &str, offset: usize) -> String {
    let mut shown = String::new();
    let (mut count, mut at, mut next) = (0, 0, None);
    for line in text.split_inclusive('\n') {
        if at >= offset && line.contains(wanted) {
            count += 1;
            if count <= SHOWN_LINES {
                let _ = write!(shown, "\n{at}: {}", json_excerpt(line.trim_end(), LINE_BYTES));
            } else if next.is_none() {
                next = Some(at);
            }
        }
        at += line.len();
    }
    let rest = next.map(|next| format!(", the first {SHOWN_LINES} are shown; go on with offset {next}")).unwrap_or_default();
    format!("[{count} lines contain it{rest}]{shown}")
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_pages_join_to_the_whole_text_and_cut_no_character() {
        let text: String = (0..9000).map(|n| if n % 3 == 0 { '接' } else { 'a' }).collect();
        let (mut joined, mut offset) = (String::new(), 0);
        loop {
            let page = page(&text, offset).unwrap();
            let (head, body) = page.split_once('\n').unwrap();
            joined.push_str(body);
            match head.split("offset ").nth(1) {
                Some(next) => offset = next.trim_end_matches(']').parse().unwrap(),
                None => break,
            }
        }
        assert_eq!(joined, text);
        assert!(page(&text, text.len()).is_err(), "there is nothing after the end");
    }

    #[test]
    fn d6_no_page_takes_more_than_its_size_in_json() {
        for filler in ["\u{0}", "\"", "接", "\n"] {
            let text = filler.repeat(20_000);
            let json = serde_json::to_string(&page(&text, 0).unwrap()).unwrap().len();
            assert!(json <= PAGE_BYTES + 200 && json > PAGE_BYTES - 200, "{filler:?} takes {json}");
            let found = serde_json::to_string(&lines_with(&format!("{filler}x{filler}\n").repeat(400), "x", 0)).unwrap();
            assert!(found.len() <= 2 * PAGE_BYTES, "{filler:?} takes {}", found.len());
        }
    }

    #[test]
    fn d6_the_lines_with_a_text_are_found_with_their_offsets() {
        let text = "one\ntwo error\n".repeat(100);
        let found = lines_with(&text, "error", 0);
        assert!(found.starts_with("[100 lines contain it, the first 60 are shown; go on with offset 844]\n4: two error\n18: "), "{found}");
        assert!(lines_with(&text, "error", 844).starts_with("[40 lines contain it]"));
        assert!(lines_with(&text, "nothing", 0).starts_with("[0 lines"));
    }
}
