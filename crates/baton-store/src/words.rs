//! What texts are found by: words as they are for scripts that part them, pairs of characters for those that don't. So a Chinese word of two
//! characters is found in the middle of a sentence, and no dictionary is needed.

/// Characters of a word that count; nobody types more of one.
const MAX_WORD: usize = 64;
/// Words that a search looks for at most.
const MAX_TERMS: usize = 16;

/// A piece of a text, in lower case.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// Letters and digits of a script that parts its words.
    Word(String),
    /// Characters of a script that doesn't.
    Run(Vec<char>),
}

/// Whether a character is of a script that doesn't part its words.
pub fn is_unparted(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && c.is_alphanumeric()
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut fresh = true;
    for c in text.chars().flat_map(char::to_lowercase) {
        if is_unparted(c) {
            match pieces.last_mut() {
                Some(Piece::Run(run)) if !fresh => run.push(c),
                _ => pieces.push(Piece::Run(vec![c])),
            }
        } else if c.is_alphanumeric() {
            match pieces.last_mut() {
                Some(Piece::Word(word)) if !fresh => word.push(c),
                _ => pieces.push(Piece::Word(c.to_string())),
            }
        } else {
            fresh = true;
            continue;
        }
        fresh = false;
    }
    pieces
}

fn cut(word: &str) -> String {
    word.chars().take(MAX_WORD).collect()
}

/// A text as it is put into the index: its tokens, parted by spaces.
pub(crate) fn indexed(text: &str) -> String {
    let mut tokens = String::with_capacity(text.len() * 2);
    let mut put = |token: &str| {
        tokens.push_str(token);
        tokens.push(' ');
    };
    for piece in pieces(text) {
        match piece {
            Piece::Word(word) => put(&cut(&word)),
            Piece::Run(run) => {
                for pair in run.windows(2) {
                    put(&pair.iter().collect::<String>());
                }
                // So that every character begins a token, and a single one can be looked for.
                if let Some(last) = run.last() {
                    put(&last.to_string());
                }
            }
        }
    }
    tokens
}

/// What an index is asked for texts that hold all of these words, or nothing when there is no word among them. Words are found by their
/// beginnings.
pub(crate) fn asked(words: &str) -> Option<String> {
    let mut terms = Vec::new();
    for piece in pieces(words).into_iter().take(MAX_TERMS) {
        let term = match piece {
            // A single letter begins too much to be looked up by its beginning.
            Piece::Word(word) if word.chars().count() == 1 => format!("\"{word}\""),
            Piece::Word(word) => format!("\"{}\"*", cut(&word)),
            Piece::Run(run) if run.len() == 1 => format!("\"{}\"*", run.iter().collect::<String>()),
            Piece::Run(run) => {
                let pairs: Vec<String> = run.windows(2).map(|pair| pair.iter().collect()).collect();
                format!("\"{}\"", pairs.join(" "))
            }
        };
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
    (!terms.is_empty()).then(|| terms.join(" AND "))
}

/// Whether a text holds all of these words: what an index has to find, said without one.
pub fn holds(text: &str, words: &str) -> bool {
    let (text, words) = (pieces(text), pieces(words));
    let found = |wanted: &Piece| {
        text.iter().any(|piece| match (piece, wanted) {
            (Piece::Word(word), Piece::Word(wanted)) if wanted.chars().count() == 1 => word == wanted,
            (Piece::Word(word), Piece::Word(wanted)) => cut(word).starts_with(&cut(wanted)),
            (Piece::Run(run), Piece::Run(wanted)) => run.windows(wanted.len()).any(|part| part == wanted.as_slice()),
            _ => false,
        })
    };
    !words.is_empty() && words.iter().take(MAX_TERMS).all(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_by_its_scripts() {
        let rows = [
            ("Round the Buttons!", "round the buttons "),
            ("把首页按钮", "把首 首页 页按 按钮 钮 "),
            ("圆角改成8px", "圆角 角改 改成 成 8px "),
            ("src/main.rs", "src main rs "),
            ("カメラ", "カメ メラ ラ "),
            ("a 字 b", "a 字 b "),
            ("  … \n", ""),
        ];
        for (text, tokens) in rows {
            assert_eq!(indexed(text), tokens, "{text}");
        }
        assert_eq!(indexed(&"x".repeat(1000)).len(), MAX_WORD + 1);
    }

    #[test]
    fn what_is_asked_is_quoted_so_that_no_word_is_a_command() {
        let rows = [
            ("butt", Some("\"butt\"*")),
            ("round OR \"x\" NEAR(a", Some("\"round\"* AND \"or\"* AND \"x\" AND \"near\"* AND \"a\"")),
            ("按钮", Some("\"按钮\"")),
            ("首页按钮", Some("\"首页 页按 按钮\"")),
            ("钮", Some("\"钮\"*")),
            ("圆角 8px", Some("\"圆角\" AND \"8px\"*")),
            ("same Same", Some("\"same\"*")),
            ("\"*-():^", None),
            ("", None),
        ];
        for (words, expected) in rows {
            assert_eq!(asked(words).as_deref(), expected, "{words}");
        }
    }
}
