use super::wrap::{rows, shown};
use crate::commands::show;
use baton_proto::{
    ApprovalEntity, ApprovalId, ErrorBody, HandoffEntity, HandoffId, OperationId, QuestionEntity, QuestionId, Remember, RememberScope, Risk,
};
use std::time::Duration;
use tokio::time::Instant;

/// Rows of a preview that are shown unasked.
const PREVIEW_ROWS: usize = 24;
/// Words of a command that may stand for what begins like it.
const MOST_WORDS: usize = 4;
/// A card's keys work only after this, so that what is typed as it appears isn't taken for an answer.
const READ_FIRST: Duration = Duration::from_millis(700);

/// Something that waits for the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Card {
    Approval(Box<ApprovalEntity>),
    Question(QuestionEntity),
    /// Another device offers the session.
    Offer(HandoffEntity, String),
    /// What was said here and needs another word before it is sent.
    Held {
        id: OperationId,
        said: String,
        error: ErrorBody,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CardId {
    Approval(ApprovalId),
    Question(QuestionId),
    Offer(HandoffId),
    Held(OperationId),
}

impl Card {
    pub(super) const fn id(&self) -> CardId {
        match self {
            Self::Approval(it) => CardId::Approval(it.id),
            Self::Question(it) => CardId::Question(it.id),
            Self::Offer(it, _) => CardId::Offer(it.id),
            Self::Held { id, .. } => CardId::Held(*id),
        }
    }

    /// Everything that is to be known before answering, the preview cut to what fits on a screen.
    pub(super) fn text(&self, device: Option<&str>, width: usize) -> String {
        match self {
            Self::Approval(approval) => {
                let (preview, more) = preview(&approval.binding.preview, width);
                let more = if more == 0 {
                    String::new()
                } else {
                    format!("\n    … {}: v shows all", crate::words::counted(more, "more line", "more lines"))
                };
                let place = match (device, &approval.binding.directory) {
                    (Some(device), Some(directory)) => format!("\n    on {device}, in {directory}"),
                    (Some(device), None) => format!("\n    on {device}"),
                    (None, Some(directory)) => format!("\n    in {directory}"),
                    (None, None) => String::new(),
                };
                let read = show::came_of(&approval.binding.origins);
                format!("{}{preview}{more}{place}{}{read}", show::approval_asked(approval), show::approval_changed(approval))
            }
            Self::Question(question) => {
                let known = question.known.as_ref().map(|known| format!("\n    {known}")).unwrap_or_default();
                let options: Vec<String> =
                    question.options.iter().enumerate().map(|(place, option)| format!("\n    {} {option}", place + 1)).collect();
                let options = options.concat();
                format!("● {}{known}{options}", question.text)
            }
            Self::Offer(_, from) => format!("● {from} offers you this session."),
            Self::Held { said, error, .. } => format!("● Not sent yet: {said}\n    {} {}", error.message, error.hint),
        }
    }

    /// The whole of what would run.
    pub(super) fn whole(&self) -> Option<String> {
        match self {
            Self::Approval(approval) => Some(format!("    {}", approval.binding.preview.replace('\n', "\n    "))),
            _ => None,
        }
    }

    /// Whether less than the whole of it fits beside the line: then the rest is shown before it can be allowed (S19).
    pub(super) fn is_cut(&self, width: usize) -> bool {
        matches!(self, Self::Approval(approval) if preview(&approval.binding.preview, width).1 > 0)
    }

    pub(super) fn is_dangerous(&self) -> bool {
        matches!(self, Self::Approval(approval) if approval.binding.risk == Risk::Dangerous)
    }

    /// Whether something like it may be allowed from now on.
    pub(super) fn may_be_remembered(&self, scope: RememberScope) -> bool {
        match self {
            Self::Approval(approval) => {
                !self.is_dangerous()
                    && approval.binding.device_id.is_some()
                    && (scope == RememberScope::Always || approval.binding.task_id.is_some())
            }
            _ => false,
        }
    }

    /// The keys that act on it.
    pub(super) fn keys(&self) -> String {
        match self {
            Self::Approval(_) if self.is_dangerous() => "y allow, asks once more · n no · r no, why · v view all · Esc aside".to_owned(),
            Self::Approval(_) => {
                let task = if self.may_be_remembered(RememberScope::Task) { "t this task · " } else { "" };
                let always = if self.may_be_remembered(RememberScope::Always) { "a always · " } else { "" };
                format!("y once · {task}{always}n no · r no, why · v view all · Esc aside")
            }
            Self::Question(question) if question.options.is_empty() => "type the answer, Enter sends it · Esc aside".to_owned(),
            Self::Question(question) => {
                format!("1 to {} chooses, or type the answer, Enter sends it · Esc aside", question.options.len().min(9))
            }
            Self::Offer(..) => "y accept · n decline · Esc aside".to_owned(),
            Self::Held { .. } => "y send it all the same · n take it back · Esc aside".to_owned(),
        }
    }

    /// What may be remembered of a command, by the key that chooses it: this very one, or those that begin with some of its words.
    pub(super) fn beginnings(&self) -> Vec<(u32, String)> {
        let Self::Approval(approval) = self else { return Vec::new() };
        let words: Vec<&str> = approval
            .arguments
            .get("argv")
            .and_then(serde_json::Value::as_array)
            .map(|argv| argv.iter().filter_map(serde_json::Value::as_str).collect())
            .unwrap_or_default();
        (1..words.len().min(MOST_WORDS + 1))
            .filter_map(|count| Some((u32::try_from(count).ok()?, crate::words::command(words[..count].iter().copied()))))
            .collect()
    }
}

pub(super) const fn remember(scope: RememberScope, prefix_words: Option<u32>) -> Remember {
    Remember { scope, prefix_words }
}

/// The first rows of a preview, indented, and how many rows are left out.
fn preview(text: &str, width: usize) -> (String, usize) {
    let all: Vec<String> = shown(text).lines().flat_map(|line| rows(line, width.saturating_sub(4))).collect();
    let seen: Vec<String> = all.iter().take(PREVIEW_ROWS).map(|row| format!("\n    {row}")).collect();
    (seen.concat(), all.len().saturating_sub(PREVIEW_ROWS))
}

impl Lying {
    const fn waits(&self) -> bool {
        !self.aside && !self.answered
    }
}

/// What waits, in the order in which it came. The first that isn't set aside is in front.
#[derive(Debug, Default)]
pub(super) struct Desk {
    cards: Vec<Lying>,
}

#[derive(Debug)]
struct Lying {
    card: Card,
    aside: bool,
    /// The answer was given here, and the hub hasn't taken it in yet.
    answered: bool,
    /// Since when it is in front.
    since: Option<Instant>,
    /// The whole of it was shown.
    whole_shown: bool,
}

impl Desk {
    /// Lays a card down, or a newer version of one in its place. Whether it is new.
    pub(super) fn lay(&mut self, card: Card) -> bool {
        if let Some(lying) = self.cards.iter_mut().find(|lying| lying.card.id() == card.id()) {
            let same = lying.card.whole() == card.whole();
            lying.whole_shown &= same;
            lying.card = card;
            return false;
        }
        self.cards.push(Lying { card, aside: false, answered: false, since: None, whole_shown: false });
        true
    }

    /// Takes a card away for good.
    pub(super) fn remove(&mut self, id: CardId) -> Option<Card> {
        let place = self.cards.iter().position(|lying| lying.card.id() == id)?;
        Some(self.cards.remove(place).card)
    }

    /// The card in front, if it isn't the one that was in front before: it has to be shown.
    pub(super) fn newly_in_front(&mut self, now: Instant) -> Option<Card> {
        let lying = self.cards.iter_mut().find(|lying| lying.waits())?;
        if lying.since.is_some() {
            return None;
        }
        lying.since = Some(now);
        Some(lying.card.clone())
    }

    pub(super) fn front(&self) -> Option<&Card> {
        self.cards.iter().find(|lying| lying.waits()).map(|lying| &lying.card)
    }

    pub(super) fn find(&self, id: CardId) -> Option<&Card> {
        self.cards.iter().map(|lying| &lying.card).find(|card| card.id() == id)
    }

    /// The whole of it is shown from now on. Whether it was already.
    pub(super) fn show_whole(&mut self, id: CardId) -> bool {
        let lying = self.cards.iter_mut().find(|lying| lying.card.id() == id);
        lying.is_none_or(|lying| std::mem::replace(&mut lying.whole_shown, true))
    }

    /// It was answered here: its keys do nothing any more.
    pub(super) fn answer(&mut self, id: CardId) {
        if let Some(lying) = self.cards.iter_mut().find(|lying| lying.card.id() == id) {
            lying.answered = true;
        }
    }

    /// The answer didn't arrive, so that it waits again.
    pub(super) fn ask_again(&mut self, id: CardId) {
        if let Some(lying) = self.cards.iter_mut().find(|lying| lying.card.id() == id) {
            lying.answered = false;
            lying.since = None;
        }
    }

    /// Keeps what a new view still knows of.
    pub(super) fn keep(&mut self, known: impl Fn(CardId) -> bool) {
        self.cards.retain(|lying| known(lying.card.id()));
    }

    /// When the keys of the card in front work.
    pub(super) fn works_from(&self) -> Option<Instant> {
        self.cards.iter().find(|lying| lying.waits()).and_then(|lying| lying.since).map(|since| since + READ_FIRST)
    }

    /// Typing goes on: the card in front has not been read yet.
    pub(super) fn put_off(&mut self, now: Instant) {
        if let Some(lying) = self.cards.iter_mut().find(|lying| lying.waits()) {
            lying.since = lying.since.map(|_| now);
        }
    }

    pub(super) fn set_aside(&mut self) {
        if let Some(lying) = self.cards.iter_mut().find(|lying| lying.waits()) {
            lying.aside = true;
            lying.since = None;
        }
    }

    pub(super) fn bring_back(&mut self) {
        for lying in &mut self.cards {
            lying.aside = false;
            lying.since = None;
        }
    }

    pub(super) fn aside(&self) -> usize {
        self.cards.iter().filter(|lying| lying.aside).count()
    }

    /// How many wait for an answer here and now.
    pub(super) fn waiting(&self) -> usize {
        self.cards.iter().filter(|lying| lying.waits()).count()
    }
}
