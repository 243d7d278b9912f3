//! Results small enough for the wire, honest about what was left out, and without obvious secrets (E9).

use crate::sandbox::Captured;
use baton_proto::{Digest, MAX_RESULT_BYTES, ToolResult, redact};

/// Room for the line that says what was left out.
const GAP_BYTES: usize = 160;

/// A result whose content is `text`, cut to the limit of the wire where needed.
pub fn result_of(text: &str) -> ToolResult {
    let bytes = text.len() as u64;
    let (content, omitted) = cut(&redact(text), MAX_RESULT_BYTES, 0);
    let digest = (omitted > 0).then(|| Digest::of_bytes(text.as_bytes()));
    ToolResult { content, bytes, omitted, digest, ..ToolResult::default() }
}

/// A result of a command: a first line in our words, then what it printed.
pub fn result_of_command(heading: &str, captured: &Captured) -> ToolResult {
    let gap = captured.bytes - (captured.head.len() + captured.tail.len()) as u64;
    let printed = if gap == 0 {
        // Joined before decoding: a character may lie across both.
        redact(&String::from_utf8_lossy(&[captured.head.as_slice(), &captured.tail].concat()))
    } else {
        let (head, tail) = (redact(&String::from_utf8_lossy(&captured.head)), redact(&String::from_utf8_lossy(&captured.tail)));
        // Both are far over the limit, so the cut falls where they meet.
        format!("{head}{tail}")
    };
    let (printed, omitted) = cut(&printed, MAX_RESULT_BYTES.saturating_sub(heading.len() + 1), gap);
    let digest = (omitted > 0).then(|| captured.digest.clone());
    ToolResult { content: format!("{heading}\n{printed}"), bytes: captured.bytes, omitted, digest, ..ToolResult::default() }
}

/// Head and tail of `text` in at most `limit` bytes, and how many bytes are left out, `gap` bytes in its middle included.
fn cut(text: &str, limit: usize, gap: u64) -> (String, u64) {
    if text.len() <= limit && gap == 0 {
        return (text.to_owned(), 0);
    }
    let half = limit.saturating_sub(GAP_BYTES) / 2;
    let mut head = half.min(text.len());
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len().saturating_sub(half).max(head);
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let omitted = (tail - head) as u64 + gap;
    (format!("{}\n[… {omitted} bytes left out here …]\n{}", &text[..head], &text[tail..]), omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e9_long_text_keeps_head_and_tail_and_counts_the_rest() {
        let text = format!("start {} end", "é".repeat(20_000));
        let result = result_of(&text);
        assert!(result.content.len() <= MAX_RESULT_BYTES);
        assert!(result.content.starts_with("start é") && result.content.ends_with("é end"));
        assert!(result.content.contains(&format!("{} bytes left out", result.omitted)));
        let note = result.content.lines().nth(1).unwrap().len() as u64 + 2;
        assert_eq!(result.content.len() as u64 - note + result.omitted, result.bytes);
        assert_eq!(result.digest, Some(Digest::of_bytes(text.as_bytes())));
        let short = result_of("short");
        assert_eq!((short.content.as_str(), short.omitted, short.digest), ("short", 0, None));
    }

    #[test]
    fn a_gap_between_head_and_tail_is_counted_in() {
        let captured =
            Captured { head: vec![b'h'; 100_000], tail: vec![b't'; 100_000], bytes: 1_000_000, digest: Digest::of_bytes(b""), file: None };
        let result = result_of_command("exit status 0", &captured);
        assert!(
            result.content.len() <= MAX_RESULT_BYTES && result.content.starts_with("exit status 0\nhhh") && result.content.ends_with("ttt")
        );
        assert!(result.omitted > 980_000);
    }
}
