//! Tab after `@` completes a path of the session's workspace, on whichever device that is: the best one first, then the others in turn.

use super::{Chat, Note};
use baton_proto::FoundPath;

/// Paths that take turns.
const OFFERED: u32 = 10;

/// A path that is being completed.
#[derive(Debug)]
pub(super) struct Completing {
    /// Where the word with its `@` begins, in bytes.
    start: usize,
    /// The word as Tab has made it.
    word: String,
    offered: Vec<FoundPath>,
    place: usize,
}

impl Chat {
    /// The next path that is offered, or the first, once the device has answered. A word without `@` stays as it is.
    pub(super) fn complete(&mut self) {
        let Some((start, word)) = self.line.word_before_cursor().filter(|(_, word)| word.starts_with('@')) else { return };
        let (start, word) = (start, word.to_owned());
        if let Some(mut completing) = self.completing.take().filter(|known| known.start == start && known.word == word) {
            completing.place = (completing.place + 1) % completing.offered.len();
            self.offer(completing);
            return;
        }
        let (http, notes, session) = (self.http.clone(), self.notes.clone(), self.session);
        let begun = word.trim_start_matches(['@', '"']).trim_end_matches('"').to_owned();
        tokio::spawn(async move {
            let note = match http.paths(session, &begun, Some(OFFERED)).await {
                Ok(found) => Note::Paths { start, word, found: found.paths },
                Err(error) => Note::Trouble(error.into()),
            };
            let _ = notes.send(note).await;
        });
    }

    /// The device's answer, unless something else was written meanwhile.
    pub(super) fn offered(&mut self, start: usize, word: String, offered: Vec<FoundPath>) {
        if self.line.word_before_cursor() != Some((start, word.as_str())) {
            return;
        }
        if offered.is_empty() {
            self.say(&format!("No path of the workspace fits {word}."));
            return;
        }
        if offered.len() > 1 {
            let names: Vec<_> = offered.iter().map(|found| found.shown.as_deref().unwrap_or(&found.path)).collect();
            self.say(&format!("{}  (Tab: the next)", names.join("  ")));
        }
        self.offer(Completing { start, word, offered, place: 0 });
    }

    fn offer(&mut self, mut completing: Completing) {
        let FoundPath { path, directory, .. } = &completing.offered[completing.place];
        let path = if *directory { format!("{path}/") } else { path.clone() };
        completing.word = if path.contains(char::is_whitespace) { format!("@\"{path}\"") } else { format!("@{path}") };
        self.line.replace_from(completing.start, &completing.word);
        self.touched();
        self.completing = Some(completing);
    }
}
