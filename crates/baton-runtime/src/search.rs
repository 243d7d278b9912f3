//! Search of what was said (ux 27): the store finds events by their words, and here they become places to open, with what to show of them.

use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::Hub;
use baton_proto::{ErrorBody, ErrorCode, Event, MessageId, Role, SearchHit, SearchResults, SessionEvent, SessionId, SessionSummary};
use baton_store::{FoundText, StreamKind, is_unparted};

/// Characters of what is looked for.
const MAX_WORDS: usize = 200;
/// Hits of an answer at most.
const MAX_HITS: u32 = 100;
/// Characters of an excerpt.
const EXCERPT: usize = 160;
/// Characters of an excerpt that stand before the first match.
const BEFORE: usize = 40;
/// Matches that are marked in an excerpt.
const MAX_MATCHES: usize = 20;

impl Hub {
    /// Messages of the user's in which all of the words stand, the newest first.
    pub async fn search(&self, who: Identity, words: &str, limit: u32) -> Result<SearchResults, ErrorBody> {
        self.may_look(who)?;
        let count = words.chars().count();
        if count > MAX_WORDS {
            let message = format!("What is looked for has {count} characters; at most {MAX_WORDS} are taken.");
            return Err(ErrorBody::new(ErrorCode::TooLarge, message, "Look for fewer words."));
        }
        let terms = terms(words);
        if terms.is_empty() {
            return Err(ErrorBody::invalid("There is no word in what is looked for (`q`)."));
        }
        let found = self.shared.store.search(who.user_id, words, limit.clamp(1, MAX_HITS)).await;
        let found = found.map_err(|error| told(&HubError::Store(error)))?;
        let hits = found.texts.iter().filter_map(|text| hit(text, &terms)).collect();
        Ok(SearchResults { hits, complete: !found.incomplete })
    }
}

fn hit(found: &FoundText, terms: &[Vec<char>]) -> Option<SearchHit> {
    if found.stream.kind != StreamKind::Session {
        return None;
    }
    let event = Event::<SessionEvent>::decode(&found.event).ok()?;
    let (message_id, role, text): (MessageId, Role, String) = match event.body {
        SessionEvent::MessageAdded { message_id, role, text, .. } => (message_id, role, text),
        SessionEvent::ModelFinished { message_id, text, .. } => (message_id, Role::Agent, text),
        _ => return None,
    };
    let summary = serde_json::from_slice::<SessionSummary>(&found.summary).ok();
    let (excerpt, matches) = excerpt(&text, terms);
    Some(SearchHit {
        session_id: SessionId(found.stream.id),
        title: summary.as_ref().map(|summary| summary.title.clone()).unwrap_or_default(),
        archived: summary.is_some_and(|summary| summary.archived),
        message_id,
        seq: found.seq,
        at: event.at,
        role,
        excerpt,
        matches,
    })
}

/// The words of what is looked for, each as its characters in lower case.
fn terms(words: &str) -> Vec<Vec<char>> {
    let mut terms: Vec<Vec<char>> = Vec::new();
    for word in words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        // Where scripts meet a word ends, as in 改成8px: its parts are found apart, so they are marked apart.
        let mut part: Vec<char> = Vec::new();
        for c in word.chars().map(lower) {
            if part.last().is_some_and(|last| is_unparted(*last) != is_unparted(c)) {
                terms.push(std::mem::take(&mut part));
            }
            part.push(c);
        }
        terms.push(part);
    }
    terms.sort_by_key(|term| std::cmp::Reverse(term.len()));
    terms.dedup();
    terms
}

/// A character in lower case; one that becomes several stays as it is, so that places in a text stay the same.
fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// A piece of a text around the first match, in one line, and where the matches stand in it.
fn excerpt(text: &str, terms: &[Vec<char>]) -> (String, Vec<(u32, u32)>) {
    let shown: Vec<char> = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let lowered: Vec<char> = shown.iter().copied().map(lower).collect();
    let begins = |at: usize, term: &[char]| {
        // A word of letters is found by its beginning; a character of a script without spaces, anywhere.
        let parted = |c: char| c.is_alphanumeric() && !is_unparted(c);
        let inside = parted(term[0]) && at > 0 && parted(lowered[at - 1]);
        !inside && lowered[at..].starts_with(term)
    };
    let first = (0..lowered.len()).find(|at| terms.iter().any(|term| begins(*at, term))).unwrap_or(0);
    let start = first.saturating_sub(BEFORE).min(shown.len().saturating_sub(EXCERPT));
    let end = (start + EXCERPT).min(shown.len());
    let mut out = String::new();
    let mut before = 0;
    if start > 0 {
        out.push('…');
        before = 1;
    }
    out.extend(&shown[start..end]);
    if end < shown.len() {
        out.push('…');
    }
    let mut matches = Vec::new();
    let mut at = start;
    while at < end && matches.len() < MAX_MATCHES {
        let found = terms.iter().find(|term| at + term.len() <= end && begins(at, term));
        if let Some(term) = found {
            let place = |at: usize| u32::try_from(at - start + before).unwrap_or(u32::MAX);
            matches.push((place(at), place(at + term.len())));
            at += term.len();
        } else {
            at += 1;
        }
    }
    (out, matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The excerpt with its matches in brackets.
    fn marked(text: &str, words: &str) -> String {
        let (excerpt, matches) = excerpt(text, &terms(words));
        let mut out = String::new();
        for (at, c) in excerpt.chars().enumerate() {
            let at = u32::try_from(at).unwrap();
            if matches.iter().any(|(begin, _)| *begin == at) {
                out.push('[');
            }
            out.push(c);
            if matches.iter().any(|(_, end)| *end == at + 1) {
                out.push(']');
            }
        }
        out
    }

    #[test]
    fn what_was_found_is_marked_where_it_stands() {
        let rows = [
            ("Round the Buttons,\nrebutton", "button", "Round the [Button]s, rebutton"),
            ("把首页按钮的圆角改成 8px", "圆角 按钮", "把首页[按钮]的[圆角]改成 8px"),
            ("圆角改成8px", "改成8px", "圆角[改成][8px]"),
            ("İstanbul and Ärger", "ärger", "İstanbul and [Ärger]"),
            ("nothing of it", "other", "nothing of it"),
        ];
        for (text, words, expected) in rows {
            assert_eq!(marked(text, words), expected);
        }
    }

    #[test]
    fn a_long_text_is_shown_around_what_was_found() {
        let long = format!("{} 按钮 {}", "前".repeat(1000), "后".repeat(1000));
        let (excerpt, matches) = excerpt(&long, &terms("按钮"));
        assert_eq!(excerpt.chars().count(), EXCERPT + 2);
        let (begin, end) = matches[0];
        let found: String = excerpt.chars().skip(begin as usize).take((end - begin) as usize).collect();
        assert_eq!(found, "按钮");
        let at_end = format!("{} button", "x ".repeat(1000));
        assert!(super::excerpt(&at_end, &terms("button")).0.ends_with("button"));
    }
}
