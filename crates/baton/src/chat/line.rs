use super::wrap::{columns, shown};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// The line that is being written: text of one or more lines, a cursor between two characters as people count them, and what was said before.
#[derive(Debug, Default)]
pub(super) struct Line {
    text: String,
    /// In bytes.
    cursor: usize,
    said: Vec<String>,
    /// Which of what was said before is looked at, and what was written meanwhile.
    looking: Option<(usize, String)>,
}

/// A way to move or to take away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
}

impl Line {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Text that is typed or pasted. Whatever a terminal pastes as the end of a line becomes one line feed.
    pub(super) fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    /// The word before the cursor, and where it begins, in bytes. Between quotation marks a word may have spaces in it.
    pub(super) fn word_before_cursor(&self) -> Option<(usize, &str)> {
        let before = &self.text[..self.cursor];
        let quoted = before.rfind("@\"").filter(|start| !before[start + 2..].trim_end_matches('"').contains('"'));
        let plain =
            || before.rfind(char::is_whitespace).map_or(0, |space| space + before[space..].chars().next().map_or(0, char::len_utf8));
        let start = quoted.unwrap_or_else(plain);
        (start < before.len()).then(|| (start, &before[start..]))
    }

    /// Puts a text in the place of what stands between there and the cursor.
    pub(super) fn replace_from(&mut self, start: usize, text: &str) {
        self.text.replace_range(start..self.cursor, text);
        self.cursor = start + text.len();
    }

    /// Takes the text out, to be remembered.
    pub(super) fn take(&mut self) -> String {
        self.cursor = 0;
        self.looking = None;
        std::mem::take(&mut self.text)
    }

    /// Puts back what wasn't taken.
    pub(super) fn put(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    /// Something that was said, for [`Line::earlier`].
    pub(super) fn remember(&mut self, text: &str) {
        if self.said.last().is_none_or(|last| last != text) {
            self.said.push(text.to_owned());
        }
    }

    pub(super) fn go(&mut self, to: To) {
        self.cursor = self.place(to);
    }

    /// Takes away everything between the cursor and a place.
    pub(super) fn delete(&mut self, to: To) {
        let place = self.place(to);
        let (from, until) = (place.min(self.cursor), place.max(self.cursor));
        self.text.replace_range(from..until, "");
        self.cursor = from;
    }

    /// A line up, or what was said before.
    pub(super) fn up(&mut self) {
        let start = self.place(To::LineStart);
        if start > 0 {
            let column = self.text[start..self.cursor].graphemes(true).count();
            let above = self.text[..start - 1].rfind('\n').map_or(0, |feed| feed + 1);
            self.cursor = self.at_column(above, column);
            return;
        }
        let next = self.looking.as_ref().map_or(self.said.len(), |(place, _)| *place);
        let Some(place) = next.checked_sub(1) else { return };
        let kept = self.looking.take().map_or_else(|| self.text.clone(), |(_, kept)| kept);
        self.put(self.said[place].clone());
        self.looking = Some((place, kept));
    }

    /// A line down, or what was said after.
    pub(super) fn down(&mut self) {
        let end = self.place(To::LineEnd);
        if end < self.text.len() {
            let column = self.text[self.place(To::LineStart)..self.cursor].graphemes(true).count();
            self.cursor = self.at_column(end + 1, column);
            return;
        }
        let Some((place, kept)) = self.looking.take() else { return };
        if let Some(said) = self.said.get(place + 1).cloned() {
            self.put(said);
            self.looking = Some((place + 1, kept));
        } else {
            self.put(kept);
        }
    }

    /// The rows that it fills behind a prompt, and row and column of the cursor. Further rows are indented as far as the prompt.
    pub(super) fn rows(&self, prompt: &str, width: usize) -> (Vec<String>, (usize, usize)) {
        let indent = columns(prompt);
        let width = width.max(indent + 3);
        let mut rows = vec![prompt.to_owned()];
        let mut filled = indent;
        let mut cursor = (0, indent);
        for (place, grapheme) in self.text.grapheme_indices(true) {
            if place == self.cursor {
                cursor = (rows.len() - 1, filled);
            }
            if grapheme == "\n" {
                rows.push(" ".repeat(indent));
                filled = indent;
                continue;
            }
            // A character that is shown by its number is longer than one.
            for part in shown(grapheme).graphemes(true) {
                // The last column stays free for the cursor.
                if filled + columns(part) >= width {
                    rows.push(" ".repeat(indent));
                    filled = indent;
                    if place == self.cursor {
                        cursor = (rows.len() - 1, filled);
                    }
                }
                if let Some(row) = rows.last_mut() {
                    row.push_str(part);
                }
                filled += columns(part);
            }
        }
        if self.cursor == self.text.len() {
            cursor = (rows.len() - 1, filled);
        }
        (rows, cursor)
    }

    fn at_column(&self, start: usize, column: usize) -> usize {
        let end = self.text[start..].find('\n').map_or(self.text.len(), |feed| start + feed);
        self.text[start..end].grapheme_indices(true).nth(column).map_or(end, |(place, _)| start + place)
    }

    fn place(&self, to: To) -> usize {
        let mut cursor = GraphemeCursor::new(self.cursor, self.text.len(), true);
        let (before, after) = self.text.split_at(self.cursor);
        match to {
            To::Left => cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0),
            To::Right => cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len()),
            To::WordLeft => before.unicode_word_indices().next_back().map_or(0, |(place, _)| place),
            To::WordRight => after.unicode_word_indices().next().map_or(self.text.len(), |(place, word)| self.cursor + place + word.len()),
            To::LineStart => before.rfind('\n').map_or(0, |feed| feed + 1),
            To::LineEnd => after.find('\n').map_or(self.text.len(), |feed| self.cursor + feed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Line {
        let mut line = Line::default();
        line.insert(text);
        line
    }

    #[test]
    fn characters_are_taken_away_as_people_count_them() {
        for (text, to, left) in [
            ("abc", To::Left, "ab"),
            ("文字", To::Left, "文"),
            ("e\u{301}", To::Left, ""),
            ("👩‍👩‍👧x", To::WordLeft, "👩‍👩‍👧"),
            ("one two", To::WordLeft, "one "),
            ("one\ntwo", To::LineStart, "one\n"),
        ] {
            let mut line = written(text);
            line.delete(to);
            assert_eq!(line.text(), left, "{text:?} {to:?}");
        }
    }

    #[test]
    fn the_word_before_the_cursor_may_be_quoted_and_is_replaced_alone() {
        for (text, word) in [
            ("see @src/ma", Some((4, "@src/ma"))),
            ("@文", Some((0, "@文"))),
            ("a\n@x", Some((2, "@x"))),
            ("a\u{3000}@x", Some((4, "@x"))),
            ("see @\"my notes.t", Some((4, "@\"my notes.t"))),
            ("see @\"my notes.txt\"", Some((4, "@\"my notes.txt\""))),
            ("see @\"my notes.txt\" and", Some((20, "and"))),
            ("see ", None),
            ("", None),
        ] {
            assert_eq!(written(text).word_before_cursor(), word, "{text:?}");
        }
        let mut line = written("see @ma there");
        for _ in 0..6 {
            line.go(To::Left);
        }
        line.replace_from(4, "@src/main.rs");
        assert_eq!(line.text(), "see @src/main.rs there");
    }

    #[test]
    fn the_cursor_stands_behind_wide_characters_and_wraps_with_them() {
        let mut line = written("文字列ab");
        assert_eq!(line.rows("> ", 20), (vec!["> 文字列ab".into()], (0, 10)));
        assert_eq!(line.rows("> ", 8), (vec!["> 文字".into(), "  列ab".into()], (1, 6)));
        line.go(To::LineStart);
        assert_eq!(line.rows("> ", 20).1, (0, 2));
        assert_eq!(written("a\u{202e}b").rows("> ", 20).0, ["> a⟨U+202E⟩b"]);
    }

    #[test]
    fn up_goes_through_lines_and_then_through_what_was_said_and_down_comes_back() {
        let mut line = Line::default();
        line.remember("first");
        line.remember("second");
        line.insert("half\r\nwritten");
        line.up();
        assert_eq!((line.text(), line.cursor), ("half\nwritten", 4));
        line.up();
        line.up();
        line.up();
        assert_eq!(line.text(), "first");
        line.down();
        line.down();
        assert_eq!(line.text(), "half\nwritten");
    }
}
