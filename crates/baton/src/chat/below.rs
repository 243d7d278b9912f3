use super::card::Card;
use super::screen::{Below, Style};
use super::{Chat, Link, Mode, wrap};
use tokio::time::Instant;

/// What stands below the conversation, and a card that comes in front.
impl Chat {
    /// When something is to be drawn or sent without anything coming in.
    pub(super) fn wake(&self) -> Option<Instant> {
        let armed = self.desk.works_from().filter(|time| *time > Instant::now());
        armed.into_iter().chain(self.post.next()).min()
    }

    pub(super) fn draw(&mut self) {
        self.screen.measure();
        if let Some(card) = self.desk.newly_in_front(Instant::now()) {
            let device = match &card {
                Card::Approval(approval) => approval.binding.device_id.map(|id| self.known.device(id)),
                _ => None,
            };
            let text = card.text(device.as_deref(), self.screen.width());
            self.screen.print(Style::Bold, &text);
        }
        let (input, cursor) = self.line.rows(self.prompt(), self.screen.width());
        self.screen.set_below(Below { status: self.status(), input, cursor });
    }

    fn status(&self) -> Vec<String> {
        let mut first = match &self.link {
            Link::Down(reason) => format!("no link to the hub, trying again ({reason})"),
            Link::Up => self.known.status(),
        };
        if self.post.waiting() > 0 {
            first = format!("{} to be sent · {first}", self.post.waiting());
        }
        if let Some(progress) = self.progress.as_ref().filter(|_| self.known.works()) {
            first = format!("{first} · {progress}");
        }
        let mut rows = vec![wrap::shown(&first)];
        rows.extend(self.known.unread().map(|row| wrap::shown(&row)));
        rows.extend(self.card_row().map(|row| wrap::shown(&row)));
        rows
    }

    fn card_row(&self) -> Option<String> {
        match self.mode {
            Mode::Remember(id) => {
                let beginnings = self.desk.find(id).map(Card::beginnings).unwrap_or_default();
                let choices: Vec<String> = beginnings.iter().map(|(count, words)| format!(" · {count} {words} …")).collect();
                return Some(format!("always: Enter exactly this{} · Esc back", choices.concat()));
            }
            Mode::Reason(_) => return Some("why not, for the agent to read · Enter refuses · Esc back".to_owned()),
            Mode::Danger(_) => return Some("This is dangerous. Type yes and press Enter to allow it once · Esc back".to_owned()),
            Mode::Free => {}
        }
        let behind = match self.desk.waiting() {
            0 | 1 => String::new(),
            more => format!(" · {} more wait", more - 1),
        };
        match self.desk.front() {
            Some(_) if self.answers_to.is_some() => Some("Enter sends the answer".to_owned()),
            Some(_) if !self.line.is_empty() => Some("the card above waits; its keys work once this line is sent or empty".to_owned()),
            Some(card) if self.armed() => Some(format!("{}{behind}", card.keys())),
            None if self.desk.aside() > 0 => Some(format!("{} set aside · /cards brings it back", self.desk.aside())),
            Some(_) | None => None,
        }
    }

    const fn prompt(&self) -> &'static str {
        match (self.mode, self.answers_to) {
            (Mode::Reason(_), _) => "why not> ",
            (Mode::Danger(_), _) => "allow> ",
            (Mode::Free, Some(_)) => "answer> ",
            _ => "> ",
        }
    }
}
