use super::card::{Card, CardId, remember};
use super::line::To;
use super::{Chat, Flow, Mode};
use crate::failure::Failure;
use baton_proto::{Decision, Delivery, Intent, MAX_TEXT_BYTES, OperationId, RememberScope};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;
use tokio::time::Instant;

/// Two of Ctrl+C within this leave, even while the agent works.
const TWICE: Duration = Duration::from_secs(2);

const OWN_COMMANDS: &[(&str, &str)] = &[
    ("/queue TEXT", "while the agent works: let it finish, then begin with this"),
    ("/interrupt TEXT", "while the agent works: stop it, and begin with this at once"),
    ("/cards", "bring back what was set aside"),
    ("/retry", "send again what the hub didn't take"),
    ("/discard", "take back what the hub didn't take"),
    ("/quit", "leave; the agent goes on"),
];

impl Chat {
    pub(super) fn key(&mut self, key: KeyEvent) -> Result<Flow, Failure> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('c') if control => return Ok(self.interrupt()),
            KeyCode::Char('d') if control && self.line.is_empty() => return Ok(Flow::Leave),
            KeyCode::Esc => self.escape(),
            KeyCode::Tab => self.complete(),
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => self.write("\n"),
            KeyCode::Char('j') if control => self.write("\n"),
            KeyCode::Enter => return self.enter(),
            KeyCode::Char(c) if !control && !alt => {
                if !self.card_key(c)? {
                    self.write(c.encode_utf8(&mut [0; 4]));
                }
            }
            code => self.edit(code, control, alt),
        }
        Ok(Flow::On)
    }

    /// Whether the keys of the card in front work: nothing is being written, and there was time to see it.
    pub(super) fn armed(&self) -> bool {
        self.mode == Mode::Free && self.line.is_empty() && self.desk.works_from().is_some_and(|time| time <= Instant::now())
    }

    /// Text at the cursor. What is begun while a question is in front answers it.
    pub(super) fn write(&mut self, text: &str) {
        if matches!(self.mode, Mode::Remember(_)) {
            return;
        }
        if self.line.is_empty() && self.mode == Mode::Free {
            self.answers_to = match self.desk.front() {
                Some(Card::Question(question)) if self.armed() && !text.starts_with('/') => Some(question.id),
                _ => None,
            };
        }
        self.line.insert(text);
        self.touched();
    }

    pub(super) fn touched(&mut self) {
        self.completing = None;
        self.desk.put_off(Instant::now());
        if self.line.is_empty() {
            self.answers_to = None;
        }
    }

    fn edit(&mut self, code: KeyCode, control: bool, alt: bool) {
        let word = control || alt;
        match code {
            KeyCode::Left => self.line.go(if word { To::WordLeft } else { To::Left }),
            KeyCode::Right => self.line.go(if word { To::WordRight } else { To::Right }),
            KeyCode::Char('b') => self.line.go(if alt { To::WordLeft } else { To::Left }),
            KeyCode::Char('f') => self.line.go(if alt { To::WordRight } else { To::Right }),
            KeyCode::Home | KeyCode::Char('a') => self.line.go(To::LineStart),
            KeyCode::End | KeyCode::Char('e') => self.line.go(To::LineEnd),
            KeyCode::Up | KeyCode::Char('p') => self.line.up(),
            KeyCode::Down | KeyCode::Char('n') => self.line.down(),
            KeyCode::Backspace => self.line.delete(if word { To::WordLeft } else { To::Left }),
            KeyCode::Char('h') => self.line.delete(To::Left),
            KeyCode::Delete | KeyCode::Char('d') => self.line.delete(if alt { To::WordRight } else { To::Right }),
            KeyCode::Char('w') => self.line.delete(To::WordLeft),
            KeyCode::Char('u') => self.line.delete(To::LineStart),
            KeyCode::Char('k') => self.line.delete(To::LineEnd),
            _ => return,
        }
        self.touched();
    }

    /// The first time it stops the agent; while nothing is under way it empties the line, then leaves.
    fn interrupt(&mut self) -> Flow {
        if self.known.works() {
            let now = Instant::now();
            if self.stopped_at.replace(now).is_some_and(|last| now - last < TWICE) {
                return Flow::Leave;
            }
            self.stop();
            return Flow::On;
        }
        if self.line.is_empty() && self.mode == Mode::Free {
            return Flow::Leave;
        }
        self.mode = Mode::Free;
        self.line.take();
        self.touched();
        Flow::On
    }

    /// Steps back, sets a card aside, or stops the agent; it never refuses anything.
    fn escape(&mut self) {
        if self.mode != Mode::Free {
            self.mode = Mode::Free;
            self.line.take();
            self.touched();
        } else if self.desk.front().is_some() && self.line.is_empty() {
            self.desk.set_aside();
        } else if self.known.works() {
            self.stop();
        }
    }

    /// A key that acts on the card in front, if it does.
    fn card_key(&mut self, key: char) -> Result<bool, Failure> {
        if let Mode::Remember(id) = self.mode {
            self.remember_key(id, key);
            return Ok(true);
        }
        if !self.armed() {
            return Ok(false);
        }
        let Some(card) = self.desk.front().cloned() else { return Ok(false) };
        let id = card.id();
        // Nobody allows what was not shown to its end (S19).
        if matches!(key, 'y' | 't' | 'a') && card.is_cut(self.screen.width()) && !self.desk.show_whole(id) {
            self.screen.print(super::Style::Plain, &card.whole().unwrap_or_default());
            self.say("That is all of what would run. Once you have read it, the key allows it.");
            // A key that is held down hasn't read it.
            self.desk.put_off(Instant::now());
            return Ok(true);
        }
        match (&card, key) {
            (Card::Approval(_), 'y') if card.is_dangerous() => self.mode = Mode::Danger(id),
            (Card::Approval(_), 'y') => self.decide(id, Decision::Approve, None, None, false),
            (Card::Approval(_), 't') if card.may_be_remembered(RememberScope::Task) => {
                self.decide(id, Decision::Approve, Some(remember(RememberScope::Task, None)), None, false);
            }
            (Card::Approval(_), 'a') if card.may_be_remembered(RememberScope::Always) => self.mode = Mode::Remember(id),
            (Card::Approval(_), 'n') => self.decide(id, Decision::Reject, None, None, false),
            (Card::Approval(_), 'r') => self.mode = Mode::Reason(id),
            (Card::Approval(_), 'v') => {
                self.desk.show_whole(id);
                if let Some(whole) = card.whole() {
                    self.screen.print(super::Style::Plain, &whole);
                }
            }
            (Card::Question(question), '1'..='9') => {
                let place = usize::from(key as u8 - b'1');
                let Some(option) = question.options.get(place).cloned() else { return Ok(false) };
                self.answer(question.id, option);
            }
            (Card::Offer(offer, _), 'y' | 'n') => {
                let intent = if key == 'y' {
                    Intent::AcceptHandoff { handoff_id: offer.id }
                } else {
                    Intent::DeclineHandoff { handoff_id: offer.id }
                };
                self.put(intent, false);
            }
            (Card::Held { id: operation, .. }, 'y') => {
                self.post.confirm(*operation, self.known.epoch())?;
                self.desk.remove(id);
            }
            (Card::Held { id: operation, .. }, 'n') => self.take_back(*operation)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_back(&mut self, id: OperationId) -> Result<(), Failure> {
        let operation = self.post.discard(id)?;
        self.desk.remove(CardId::Held(id));
        if let Some(id) = super::answers(&operation.intent) {
            self.desk.ask_again(id);
        }
        if let Intent::Say { text, .. } = operation.intent {
            self.give_back(text);
        }
        Ok(())
    }

    /// Sends again all that the hub didn't take, or takes it all back.
    fn settle_held(&mut self, again: bool) -> Result<(), Failure> {
        let held: Vec<OperationId> = self.post.held().map(|(operation, _)| operation.operation_id).collect();
        if held.is_empty() {
            self.say("Nothing waits here to be sent again.");
        }
        for id in held {
            if again {
                self.post.confirm(id, self.known.epoch())?;
                self.desk.remove(CardId::Held(id));
            } else {
                self.take_back(id)?;
            }
        }
        Ok(())
    }

    fn remember_key(&mut self, id: CardId, key: char) {
        let beginnings = self.desk.find(id).map(Card::beginnings).unwrap_or_default();
        let chosen = key.to_digit(10).filter(|digit| beginnings.iter().any(|(count, _)| count == digit));
        if let Some(count) = chosen {
            self.decide(id, Decision::Approve, Some(remember(RememberScope::Always, Some(count))), None, false);
        }
    }

    fn decide(&mut self, id: CardId, decision: Decision, remember: Option<baton_proto::Remember>, reason: Option<String>, confirmed: bool) {
        self.mode = Mode::Free;
        if let CardId::Approval(approval_id) = id {
            self.put(Intent::Confirm { approval_id, decision, remember, reason }, confirmed);
        }
    }

    fn answer(&mut self, question_id: baton_proto::QuestionId, text: String) {
        let is_option =
            matches!(self.desk.find(CardId::Question(question_id)), Some(Card::Question(question)) if question.options.contains(&text));
        let (text, option) = if is_option { (None, Some(text)) } else { (Some(text), None) };
        self.put(Intent::Answer { question_id, text, option }, false);
    }

    fn enter(&mut self) -> Result<Flow, Failure> {
        if let Mode::Remember(id) = self.mode {
            self.decide(id, Decision::Approve, Some(remember(RememberScope::Always, None)), None, false);
            return Ok(Flow::On);
        }
        if self.line.text().trim().is_empty() {
            return Ok(Flow::On);
        }
        if self.line.text().len() > MAX_TEXT_BYTES {
            let bytes = self.line.text().len();
            self.say(&format!(
                "That has {bytes} bytes; {MAX_TEXT_BYTES} is the limit. Put it into a file, and: baton send --attach FILE TEXT"
            ));
            return Ok(Flow::On);
        }
        let answers_to = self.answers_to.take();
        let text = self.line.take();
        match self.mode {
            Mode::Reason(id) => self.decide(id, Decision::Reject, None, Some(text.trim().to_owned()), false),
            Mode::Danger(id) if text.trim() == "yes" => self.decide(id, Decision::Approve, None, None, true),
            Mode::Danger(_) => self.say("Not allowed yet: only the word yes does. Esc goes back."),
            Mode::Free | Mode::Remember(_) => {
                self.line.remember(&text);
                if let Some(question) = answers_to {
                    self.answer(question, text.trim().to_owned());
                } else {
                    return self.said(text);
                }
            }
        }
        Ok(Flow::On)
    }

    /// A message, or a command of this terminal's own. Other commands are the hub's to understand.
    fn said(&mut self, text: String) -> Result<Flow, Failure> {
        let (first, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let (text, delivery) = match (first, rest.trim()) {
            ("/quit", "") => return Ok(Flow::Leave),
            ("/help", "") => {
                self.help();
                return Ok(Flow::On);
            }
            ("/cards", "") => {
                self.desk.bring_back();
                return Ok(Flow::On);
            }
            ("/retry" | "/discard", "") => {
                self.settle_held(first == "/retry")?;
                return Ok(Flow::On);
            }
            ("/queue" | "/interrupt", "") => {
                self.say(&format!("Say with what: {first} TEXT"));
                return Ok(Flow::On);
            }
            ("/queue", rest) => (rest.to_owned(), Delivery::Queue),
            ("/interrupt", rest) => (rest.to_owned(), Delivery::Interrupt),
            _ => (text, Delivery::Steer),
        };
        self.put(Intent::Say { text, selection: None, attachments: Vec::new(), delivery }, false);
        Ok(Flow::On)
    }

    fn help(&mut self) {
        let own = OWN_COMMANDS.iter().map(|(usage, description)| format!("  {usage:<28} {description}\n"));
        let hub = self.hub.commands.iter().map(|command| format!("  {:<28} {}\n", command.usage, command.description));
        let text: String = hub.chain(own).collect();
        self.say(&format!(
            "{text}Esc sets a card aside, or stops the agent. Ctrl+C stops it too; twice leaves. Ctrl+D leaves.\nAlt+Enter or Ctrl+J makes a new line; arrows go through what was said.\nTab after @ completes a path of the workspace."
        ));
    }
}
