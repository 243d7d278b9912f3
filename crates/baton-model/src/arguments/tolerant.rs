//! A reader of what is nearly JSON. It reads each text once, from left to right, no deeper than JSON may be, and keeps
//! account of what it had to overlook. It gives up where two readings are about as likely. Pure.
//!
//! It is our own because a library that repairs anything at any price is the wrong tool here: those at hand guess at
//! values without saying so, and one was found to run for ever, eating memory, on a few bytes.

use super::Repair;
use baton_proto::MAX_JSON_DEPTH;
use serde_json::{Map, Number, Value};

/// Reads one object or list that makes up the whole text.
pub(super) fn read(text: &str) -> Option<(Value, Repair)> {
    let mut reader = Reader { text, place: 0, depth: 0, repair: Repair::None };
    let value = reader.value()?;
    if !value.is_object() && !value.is_array() {
        return None;
    }
    reader.skip();
    // One bracket too many at the end is the commonest slip of all.
    while matches!(reader.peek(), Some('}' | ']')) {
        reader.advance();
        reader.note(Repair::Syntax);
        reader.skip();
    }
    reader.peek().is_none().then_some((value, reader.repair))
}

struct Reader<'text> {
    text: &'text str,
    /// In bytes, always between two characters.
    place: usize,
    depth: usize,
    repair: Repair,
}

impl<'text> Reader<'text> {
    fn rest(&self) -> &'text str {
        &self.text[self.place..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.place += letter.len_utf8();
        Some(letter)
    }

    fn note(&mut self, repair: Repair) {
        if self.repair != Repair::Values {
            self.repair = repair;
        }
    }

    /// Passes over white space and comments.
    fn skip(&mut self) {
        loop {
            let blank = self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r']).len();
            self.place += blank;
            let rest = self.rest();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                return;
            };
            self.place += comment;
            self.note(Repair::Syntax);
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.skip();
        match self.peek()? {
            '{' => self.nested(Self::object),
            '[' => self.nested(Self::list),
            quote @ ('"' | '\'') => self.string(quote).map(Value::String),
            _ => self.word(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        if self.depth > MAX_JSON_DEPTH {
            return None;
        }
        self.depth += 1;
        self.advance();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Option<Value> {
        let mut fields = Map::new();
        loop {
            if self.member_or_end('}', fields.is_empty())? == Next::End {
                return Some(Value::Object(fields));
            }
            let name = match self.peek()? {
                quote @ ('"' | '\'') => self.string(quote)?,
                _ => self.bare_name()?,
            };
            self.skip();
            // Without a colon this is no name but a piece of a string that was torn by an unescaped quote.
            if self.advance()? != ':' {
                return None;
            }
            let value = self.value()?;
            if fields.insert(name, value).is_some() {
                self.note(Repair::Values);
            }
        }
    }

    fn list(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        while self.member_or_end(']', items.is_empty())? == Next::Member {
            items.push(self.value()?);
        }
        Some(Value::Array(items))
    }

    /// Reads what stands between two members, up to the next member or past the closing bracket.
    fn member_or_end(&mut self, close: char, is_first: bool) -> Option<Next> {
        let before = self.place;
        self.skip();
        let is_apart = self.place > before;
        let mut commas = 0;
        while self.peek() == Some(',') {
            self.advance();
            self.skip();
            commas += 1;
        }
        let expected = usize::from(!is_first);
        match self.peek() {
            None => {
                self.note(Repair::Syntax);
                Some(Next::End)
            }
            Some(letter) if letter == close => {
                self.advance();
                if commas > 0 {
                    self.note(Repair::Syntax);
                }
                Some(Next::End)
            }
            Some('}' | ']') => None,
            Some(_) => {
                if commas > expected || (commas < expected && close == '}' && is_apart) {
                    self.note(Repair::Syntax);
                } else if commas < expected {
                    // Two strings side by side may have been one, torn by an unescaped quote.
                    self.note(Repair::Values);
                }
                Some(Next::Member)
            }
        }
    }

    fn bare_name(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && !"_-$".contains(letter))?;
        if end == 0 {
            return None;
        }
        self.place += end;
        self.note(Repair::Syntax);
        Some(rest[..end].to_owned())
    }

    fn string(&mut self, quote: char) -> Option<String> {
        self.advance();
        if quote != '"' {
            self.note(Repair::Syntax);
        }
        let mut string = String::new();
        loop {
            match self.advance() {
                // Cut in the middle: nobody knows what was to follow.
                None => {
                    self.note(Repair::Values);
                    return Some(string);
                }
                Some(letter) if letter == quote => return Some(string),
                Some('\\') => self.escape(quote, &mut string),
                // Line breaks and tabs aren't allowed in strings, but there is one thing they can mean.
                Some(letter @ '\0'..='\u{1f}') => {
                    self.note(Repair::Syntax);
                    string.push(letter);
                }
                Some(letter) => {
                    if letter == '"' {
                        self.note(Repair::Values);
                    }
                    string.push(letter);
                }
            }
        }
    }

    fn escape(&mut self, quote: char, string: &mut String) {
        if quote != '"' {
            self.note(Repair::Values);
        }
        let meant = match self.peek() {
            Some(letter @ ('"' | '\\' | '/')) => Some(letter),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('\'') if quote == '\'' => Some('\''),
            Some('u') => return self.unicode_escape(string),
            _ => None,
        };
        if let Some(letter) = meant {
            self.advance();
            string.push(letter);
        } else {
            // A lone backslash, as in `\d+`, stands for itself. That it does so everywhere in the string is a guess.
            self.note(Repair::Values);
            string.push('\\');
        }
    }

    fn unicode_escape(&mut self, string: &mut String) {
        let first = self.rest().get(1..5).and_then(hexadecimal);
        let second = self.rest().get(5..11).and_then(|next| next.strip_prefix("\\u")).and_then(hexadecimal);
        let Some(unit) = first else {
            self.note(Repair::Values);
            string.push('\\');
            return;
        };
        let alone = char::decode_utf16([unit]).next().and_then(Result::ok);
        let pair = second.and_then(|second| char::decode_utf16([unit, second]).next().and_then(Result::ok));
        if let Some(letter) = alone {
            string.push(letter);
            self.place += 5;
        } else if let Some(letter) = pair {
            string.push(letter);
            self.place += 11;
        } else {
            self.note(Repair::Values);
            string.push(char::REPLACEMENT_CHARACTER);
            self.place += 5;
        }
    }

    /// A number, a literal, or a string that lacks its quotes.
    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let end = rest.find([',', '}', ']', '\n']).unwrap_or(rest.len());
        let whole = rest[..end].trim_end();
        let end = whole.find([' ', '\t', '\r', '/']).unwrap_or(whole.len());
        let (first, is_cut) = (&whole[..end], end == rest.len());
        let known = match first {
            "true" | "false" | "null" => serde_json::from_str(first).ok(),
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => serde_json::from_str::<Number>(first).ok().map(Value::Number),
        };
        if let Some(value) = known {
            if matches!(first, "True" | "False" | "None") {
                self.note(Repair::Syntax);
            }
            // A number at the very end may have been longer.
            if is_cut && value.is_number() {
                self.note(Repair::Values);
            }
            self.place += end;
            return Some(value);
        }
        if whole.is_empty() || whole.contains(['"', '\'', '{', '[', ':']) {
            return None;
        }
        self.note(Repair::Values);
        self.place += whole.len();
        Some(Value::String(whole.to_owned()))
    }
}

#[derive(PartialEq, Eq)]
enum Next {
    Member,
    End,
}

fn hexadecimal(digits: &str) -> Option<u16> {
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}
