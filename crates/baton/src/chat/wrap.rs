use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// How many columns a text fills. Tabs are gone before, by [`shown`].
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// A text as a terminal may be given it: deceptive characters are made visible, and tabs fill columns that can be counted (S19).
pub(super) fn shown(text: &str) -> String {
    baton_proto::make_visible(text).replace('\t', "    ")
}

/// One line in rows of at most so many columns, broken behind a space where there is one. An empty line is one empty row.
pub(super) fn rows(line: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut filled = 0;
    for grapheme in line.graphemes(true) {
        let wide = columns(grapheme);
        if filled + wide > width {
            let behind =
                row.rfind(' ').map(|place| place + 1).filter(|place| grapheme != " " && *place < row.len() && has_words(&row[..*place]));
            let rest = behind.map_or_else(String::new, |place| row.split_off(place));
            rows.push(std::mem::replace(&mut row, rest).trim_end().to_owned());
            filled = columns(&row);
            if grapheme == " " {
                continue;
            }
        }
        row.push_str(grapheme);
        filled += wide;
    }
    rows.push(row);
    rows
}

/// Breaking in the indentation would leave an empty row.
fn has_words(text: &str) -> bool {
    !text.trim().is_empty()
}

/// A text in so many columns, with `…` where it is cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut filled = 1;
    for grapheme in text.graphemes(true) {
        filled += columns(grapheme);
        if filled > width {
            break;
        }
        cut.push_str(grapheme);
    }
    cut + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_behind_words_and_never_inside_a_wide_character() {
        for (line, width, expected) in [
            ("", 10, vec![""]),
            ("one two three", 8, vec!["one two", "three"]),
            ("one two", 7, vec!["one two"]),
            ("abcdefgh", 3, vec!["abc", "def", "gh"]),
            ("文字列を", 5, vec!["文字", "列を"]),
            ("    abcdef", 6, vec!["    ab", "cdef"]),
            ("a 文字 b", 4, vec!["a", "文字", "b"]),
        ] {
            assert_eq!(rows(line, width), expected, "{line} in {width}");
        }
    }

    #[test]
    fn what_is_cut_says_so_and_fits() {
        assert_eq!(cut("文字列", 5), "文字…");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(shown("a\u{1b}[2J\tb"), "a⟨U+001B⟩[2J    b");
    }
}
