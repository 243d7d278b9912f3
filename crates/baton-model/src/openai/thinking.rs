//! Models served without a reasoning field write `<think>…</think>` before their answer. This parts the two while they
//! stream, also where a tag is split over pieces. A tag further on is text: the model may be talking about tags. Pure.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Thinking(String),
}

#[derive(Debug, Default)]
pub(crate) struct ThinkingSplit {
    state: State,
    /// What can't be told yet.
    held: String,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Start,
    Inside,
    /// Behind the closing tag, where blank lines belong to nobody.
    Behind,
    Plain,
}

impl ThinkingSplit {
    pub(crate) fn push(&mut self, delta: &str) -> Vec<Piece> {
        self.held.push_str(delta);
        let mut pieces = Vec::new();
        loop {
            match self.state {
                State::Start => {
                    let begun = self.held.trim_start();
                    if let Some(rest) = begun.strip_prefix(OPEN) {
                        self.held = rest.to_owned();
                        self.state = State::Inside;
                    } else if OPEN.starts_with(begun) {
                        return pieces;
                    } else {
                        self.state = State::Plain;
                    }
                }
                State::Inside => {
                    if let Some(place) = self.held.find(CLOSE) {
                        let rest = self.held.split_off(place)[CLOSE.len()..].to_owned();
                        push_if_any(&mut pieces, Piece::Thinking(std::mem::replace(&mut self.held, rest)));
                        self.state = State::Behind;
                    } else {
                        let rest = self.held.split_off(self.held.len() - open_end(&self.held));
                        push_if_any(&mut pieces, Piece::Thinking(std::mem::replace(&mut self.held, rest)));
                        return pieces;
                    }
                }
                State::Behind => {
                    let rest = self.held.trim_start().to_owned();
                    self.held = rest;
                    if self.held.is_empty() {
                        return pieces;
                    }
                    self.state = State::Plain;
                }
                State::Plain => {
                    push_if_any(&mut pieces, Piece::Text(std::mem::take(&mut self.held)));
                    return pieces;
                }
            }
        }
    }

    /// What was still held at the end of the answer.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        match self.state {
            _ if held.is_empty() => None,
            State::Inside => Some(Piece::Thinking(held)),
            State::Start | State::Behind | State::Plain => Some(Piece::Text(held)),
        }
    }
}

fn push_if_any(pieces: &mut Vec<Piece>, piece: Piece) {
    if !matches!(&piece, Piece::Text(text) | Piece::Thinking(text) if text.is_empty()) {
        pieces.push(piece);
    }
}

/// How many bytes at the end could be the beginning of the closing tag.
fn open_end(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|length| text.ends_with(&CLOSE[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: impl Iterator<Item = String>) -> (String, String) {
        let mut split = ThinkingSplit::default();
        let mut all: Vec<Piece> = pieces.flat_map(|piece| split.push(&piece)).collect();
        all.extend(split.finish());
        let (mut thinking, mut text) = (String::new(), String::new());
        for piece in all {
            match piece {
                Piece::Text(part) => text.push_str(&part),
                Piece::Thinking(part) => thinking.push_str(&part),
            }
        }
        (thinking, text)
    }

    #[test]
    fn table_in_pieces_of_every_size() {
        for (written, thinking, text) in [
            ("hello", "", "hello"),
            ("<think>hm</think>hello", "hm", "hello"),
            ("\n <think>\nhm\n</think>\n\nhello\n", "\nhm\n", "hello\n"),
            ("<think>a < b </ think> </thinx></think>c", "a < b </ think> </thinx>", "c"),
            ("<think>never closed", "never closed", ""),
            ("<think>cut </thi", "cut </thi", ""),
            ("<thin", "", "<thin"),
            ("<thinner> text", "", "<thinner> text"),
            ("The tag <think>x</think> is text", "", "The tag <think>x</think> is text"),
            ("<think></think>答案", "", "答案"),
            ("", "", ""),
        ] {
            for size in 1..=written.chars().count().max(1) {
                let letters: Vec<char> = written.chars().collect();
                let parts = letters.chunks(size).map(|part| part.iter().collect::<String>());
                assert_eq!(split(parts), (thinking.to_owned(), text.to_owned()), "{written:?} by {size}");
            }
        }
    }
}
