use std::fmt::Write as _;

/// `text` with every character that could deceive a reader made visible: control characters, carriage returns, escapes,
/// bidirectional and zero-width ones (S19). Line feeds and tabs stay.
pub fn make_visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if deceives(c) {
            let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character changes how others are shown, or can't be seen itself.
fn deceives(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::make_visible;

    #[test]
    fn deceptive_characters_are_shown_and_others_kept() {
        let rows = [
            ("rm -rf \u{202e}gpj.exe", "rm -rf ⟨U+202E⟩gpj.exe"),
            ("a\rb\u{1b}[2J", "a⟨U+000D⟩b⟨U+001B⟩[2J"),
            ("zero\u{200b}width", "zero⟨U+200B⟩width"),
            ("两行\n\t缩进 é", "两行\n\t缩进 é"),
        ];
        for (given, shown) in rows {
            assert_eq!(make_visible(given), shown);
        }
    }
}
