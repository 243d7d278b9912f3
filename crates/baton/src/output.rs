use crate::failure::{FAILED, Failure};
use baton_proto::make_visible;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;

/// Standard output: for people, or one JSON object a line for programs.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// One fact, in both forms; the text may be of several lines. What is for people only has `null` as its value. Characters that
    /// deceive a terminal are shown as such (S19).
    pub(crate) fn say(&self, value: &Value, text: &str) {
        if self.json {
            if !value.is_null() {
                json_line(&value.to_string());
            }
        } else if !text.is_empty() {
            line(&make_visible(text));
        }
    }
}

/// A line of JSON in which characters that deceive a terminal are escaped; programs read the same value (S19).
pub(crate) fn json_line(json: &str) {
    line(&escape_json(json));
}

/// JSON in which every character that `make_visible` would show is written as an escape. Such characters can stand in strings only.
pub(crate) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        // What isn't changed by it can't deceive; most characters are told apart without asking.
        if c.is_ascii_graphic() || c == ' ' || make_visible(c.encode_utf8(&mut [0; 4])).starts_with(c) {
            escaped.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// A line that is already as it should be.
pub(crate) fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// What is already as it should be, with its ends of lines. It ends the program when it can't be written.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => {}
        // A reader that is gone, such as `head`, needs no more.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            let failure = Failure::failed(
                format!("The output can't be written: {error}. What was printed isn't whole."),
                "Free some space, or write to another place. What was asked for may have been done: `baton show latest` tells.",
            );
            let _ = failure.tell(false);
            std::process::exit(FAILED.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::escape_json;
    use serde_json::{Value, json};

    #[test]
    fn json_for_a_terminal_holds_no_deceptive_character_and_means_the_same() {
        let value = json!({"text": "plain 文字 é \u{1b}[2J \u{9b}31m \u{202e}exe \u{200b} \u{e0041}\n\t\"", "\u{7f}": 1});
        let escaped = escape_json(&value.to_string());
        assert!(escaped.contains("plain 文字 é"));
        assert_eq!(baton_proto::make_visible(&escaped), escaped);
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }
}
