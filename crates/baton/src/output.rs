use baton_proto::make_visible;
use serde_json::Value;
use std::io::Write;

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

    /// One fact, in both forms; the text may be of several lines. Characters that deceive a terminal are shown as such (S19).
    pub(crate) fn say(&self, value: &Value, text: &str) {
        if self.json {
            line(&value.to_string());
        } else if !text.is_empty() {
            line(&make_visible(text));
        }
    }
}

/// A line that is already as it should be.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that is gone, such as `head`, needs no more lines.
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
