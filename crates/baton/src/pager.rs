//! Long texts in a terminal, a screen at a time: by the user's own pager, or `less` where there is one.

use crate::output;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Shows a text that has been made visible already. What fits the screen, and what no pager can be had for, is printed.
pub(crate) fn show(text: &str) {
    let rows = crossterm::terminal::size().map_or(24, |(_, rows)| usize::from(rows));
    if text.lines().count() < rows || paged(text).is_none() {
        output::line(text);
    }
}

/// `None` where no pager could be started.
fn paged(text: &str) -> Option<()> {
    let named = std::env::var("BATON_PAGER").or_else(|_| std::env::var("PAGER")).unwrap_or_else(|_| "less".to_owned());
    let mut words = named.split_whitespace();
    let mut command = Command::new(words.next()?);
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Colours as they are, nothing cleared afterwards, and no waiting for a key where it fits.
        command.env("LESS", "FRX");
    }
    let mut pager = command.spawn().ok()?;
    if let Some(mut input) = pager.stdin.take() {
        // Whoever leaves the pager early needs no more.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.write_all(b"\n"));
    }
    pager.wait().ok().map(drop)
}
