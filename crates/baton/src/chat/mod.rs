//! A conversation in a terminal: what is said and done goes by as it comes, and what waits for the user is answered in place.
//!
//! One task owns everything: keys, the hub's words and answers to what was sent come in here, one after the other. It never decides how the
//! session stands; that it is told. It draws with `screen`, and what is typed leaves through `post`.

mod below;
mod card;
mod complete;
mod hub_words;
mod keys;
mod known;
mod line;
mod post;
mod screen;
mod wrap;

use crate::commands::show;
use crate::failure::Failure;
use crate::profile::Profile;
use crate::progress::Shown;
use crate::{interrupt, pick};
use baton_client::{Connection, ConnectionConfig, Hello, Http, Timing};
use baton_proto::{
    ClientType, Delivery, EntityView, ErrorBody, ErrorCode, HubInfo, Intent, Operation, QuestionId, Role, SessionId, SessionView,
};
use card::{Card, CardId, Desk};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use known::Known;
use line::Line;
use post::{News, Post};
use screen::{Screen, Style};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Entries of the timeline that are shown at the beginning.
const RECENT: usize = 20;

/// Whether the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Leave,
}

/// What the keys mean at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They write, or act on the card in front while nothing is written.
    Free,
    /// Which calls are allowed from now on.
    Remember(CardId),
    /// The reason of a refusal.
    Reason(CardId),
    /// The word that allows something dangerous.
    Danger(CardId),
}

/// The one who talks, and about what.
pub(crate) struct Talk<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) profile_name: Option<&'a str>,
    pub(crate) http: Http,
    pub(crate) hub: HubInfo,
    pub(crate) view: SessionView,
}

impl std::fmt::Debug for Talk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").field("session", &self.view.session_id).finish_non_exhaustive()
    }
}

/// Talks until the user leaves.
pub(crate) async fn talk(talk: Talk<'_>) -> Result<u8, Failure> {
    let session = talk.view.session_id;
    let (post, mut answers) = Post::open(talk.profile_name, talk.http.clone(), session)?;
    let url = talk.profile.hub_url()?;
    let (handle, mut incoming) = Connection::spawn(ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: talk.profile.token()?,
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::from([(session, talk.view.seq)]),
        timing: Timing::default(),
    });
    let (notes, mut side_answers) = mpsc::channel(16);
    let screen = Screen::open()?;
    let mut keys = EventStream::new();
    let mut chat = Chat {
        session,
        http: talk.http,
        hub: talk.hub,
        known: Known::new(talk.profile.device_id),
        shown: Shown::beside_cards(),
        desk: Desk::default(),
        line: Line::default(),
        completing: None,
        mode: Mode::Free,
        answers_to: None,
        post,
        link: Link::Up,
        progress: None,
        stopped_at: None,
        said_again: None,
        seen: 0,
        notes,
        screen,
    };
    chat.read_devices();
    chat.begin(&talk.view);
    let mut asked_to_stop = std::pin::pin!(interrupt::asked_to_stop());
    let ended = loop {
        chat.post.send();
        chat.draw();
        let wake = chat.wake();
        let flow = tokio::select! {
            key = keys.next() => match key {
                Some(Ok(event)) => chat.event(event),
                // The terminal is gone.
                Some(Err(_)) | None => Ok(Flow::Leave),
            },
            word = incoming.recv() => match word {
                Some(word) => chat.word(word).map(|()| Flow::On),
                None => Err(Failure::unreachable("The link to the hub ended.", "Start `baton chat` again; the session is safe on the hub.")),
            },
            Some(answer) = answers.recv() => chat.answered(answer).map(|()| Flow::On),
            Some(note) = side_answers.recv() => {
                chat.noted(note);
                Ok(Flow::On)
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => Ok(Flow::On),
            _ = &mut asked_to_stop => Ok(Flow::Leave),
        };
        match flow {
            Ok(Flow::On) => {}
            Ok(Flow::Leave) => break Ok(0),
            Err(failure) => break Err(failure),
        }
    };
    let (waiting, written) = (chat.post.waiting() + chat.post.held().count(), chat.line.take());
    drop(chat);
    handle.stop().await;
    if !written.trim().is_empty() {
        eprintln!("Not sent: {}", wrap::shown(&written));
    }
    if waiting > 0 {
        eprintln!("{waiting} still to be sent; it is kept here until you run: baton chat --session {session}");
    }
    ended
}

/// How the link to the hub is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// Since something failed, in words.
    Down(String),
}

/// What came back from something that was asked on the side.
#[derive(Debug)]
enum Note {
    Devices(Vec<baton_proto::DeviceView>),
    Trouble(Failure),
    /// Paths for the word that begins there.
    Paths {
        start: usize,
        word: String,
        found: Vec<baton_proto::FoundPath>,
    },
}

struct Chat {
    session: SessionId,
    http: Http,
    hub: HubInfo,
    known: Known,
    shown: Shown,
    desk: Desk,
    line: Line,
    /// A path that Tab completes.
    completing: Option<complete::Completing>,
    mode: Mode,
    /// The question that was in front when the line was begun.
    answers_to: Option<QuestionId>,
    post: Post,
    link: Link,
    /// The last word of a running call.
    progress: Option<String>,
    /// When the agent was last asked to stop by Ctrl+C.
    stopped_at: Option<Instant>,
    /// Why something is being sent again by itself, as far as that was said.
    said_again: Option<ErrorCode>,
    /// The newest sequence number that was shown.
    seen: u64,
    notes: mpsc::Sender<Note>,
    screen: Screen,
}

impl Chat {
    /// Shows the end of the timeline, and what waits.
    fn begin(&mut self, view: &SessionView) {
        let after = std::mem::replace(&mut self.seen, view.seq);
        // What is held back here is this terminal's own.
        self.desk.keep(|id| matches!(id, CardId::Held(_)) || view.entities.iter().any(|entity| is_about(entity, id)));
        for entity in &view.entities {
            self.known.take(entity);
            self.lay(entity);
        }
        let mut timeline: Vec<(u64, String)> = view
            .entities
            .iter()
            .filter(|entity| matches!(entity, EntityView::Message(_) | EntityView::Call(_)))
            .filter_map(show::entry)
            .filter(|(seq, _)| *seq > after)
            .collect();
        timeline.sort_by_key(|(seq, _)| *seq);
        let left_out = timeline.len().saturating_sub(RECENT);
        if left_out > 0 || view.history_before.is_some() {
            self.say(&format!("(earlier: baton show {})", self.session));
        }
        for (_, text) in timeline.drain(..).skip(left_out) {
            self.screen.print(Style::Plain, &text);
        }
        for entity in &view.entities {
            if let EntityView::Message(message) = entity
                && message.role == Role::User
            {
                self.line.remember(&message.text);
            }
        }
        if after == 0 {
            self.say("Enter sends, Alt+Enter makes a new line, /help tells more, Ctrl+D leaves.");
            if self.hub.model.is_none() {
                self.say("No model is configured on this hub; slash commands work without one.");
            }
            if self.post.waiting() > 0 {
                self.say(&format!("{} from last time is sent now.", self.post.waiting()));
            }
            self.hold_up();
        }
        if let Some(message) = self.known.answering() {
            self.shown.under_way(message);
        }
    }

    /// Something that the terminal itself has to say.
    fn say(&mut self, text: &str) {
        self.screen.print(Style::Dim, text);
    }

    fn trouble(&mut self, failure: &Failure) {
        self.say(&failure.words());
    }

    fn event(&mut self, event: Event) -> Result<Flow, Failure> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(key),
            Event::Paste(text) => {
                self.write(&text);
                Ok(Flow::On)
            }
            Event::Resize(width, height) => {
                self.screen.resize(width, height);
                Ok(Flow::On)
            }
            _ => Ok(Flow::On),
        }
    }

    /// Lays down what the outbox holds back.
    fn hold_up(&mut self) {
        let held: Vec<Card> = self
            .post
            .held()
            .map(|(operation, error)| Card::Held { id: operation.operation_id, said: said(&operation.intent), error: error.clone() })
            .collect();
        for card in held {
            self.desk.lay(card);
        }
    }

    fn answered(&mut self, answer: post::Answered) -> Result<(), Failure> {
        match self.post.answered(answer)? {
            None => {}
            Some(News::Held) => self.hold_up(),
            Some(News::NotNow(operation, error)) => self.not_now(*operation, &error)?,
            Some(News::Again(error)) => {
                if self.said_again.replace(error.code) != Some(error.code) {
                    self.say(&format!("{} It is sent again by itself.", error.message));
                }
                return Ok(());
            }
            Some(News::Refused(operation, error)) => {
                self.say(&format!("Refused: {} {}", error.message, error.hint));
                if let Some(id) = answers(&operation.intent) {
                    self.desk.ask_again(id);
                }
                if let Intent::Say { text, .. } = operation.intent {
                    self.give_back(text);
                }
            }
        }
        self.said_again = None;
        Ok(())
    }

    /// What was typed last goes back into the line. Anything else waits on a card, and what is said later goes past it.
    fn not_now(&mut self, operation: Operation, error: &ErrorBody) -> Result<(), Failure> {
        let returns = self.line.is_empty() && self.mode == Mode::Free;
        if let Intent::Say { text, delivery, .. } = &operation.intent
            && returns
        {
            self.say(&format!("Not sent: {} {}", error.message, error.hint));
            let text = match delivery {
                Delivery::Steer => text.clone(),
                Delivery::Queue => format!("/queue {text}"),
                Delivery::Interrupt => format!("/interrupt {text}"),
            };
            self.post.discard(operation.operation_id)?;
            self.line.put(text);
            self.say("It is in the line again: Enter sends it, Ctrl+C drops it.");
        } else {
            self.hold_up();
        }
        Ok(())
    }

    /// Text that wasn't taken goes back into the line, or is shown where something else is being written.
    fn give_back(&mut self, text: String) {
        if self.line.is_empty() && self.mode == Mode::Free {
            self.line.put(text);
        } else {
            self.say(&format!("Not sent: {text}"));
        }
    }

    fn noted(&mut self, note: Note) {
        match note {
            Note::Devices(devices) => self.known.devices(devices),
            Note::Trouble(failure) => self.trouble(&failure),
            Note::Paths { start, word, found } => self.offered(start, word, found),
        }
    }

    fn read_devices(&self) {
        let (http, notes) = (self.http.clone(), self.notes.clone());
        tokio::spawn(async move {
            if let Ok(devices) = http.devices().await {
                let _ = notes.send(Note::Devices(devices)).await;
            }
        });
    }

    /// Stops the agent. It isn't kept for later: what it would stop then is something else.
    fn stop(&mut self) {
        let (http, notes, session) = (self.http.clone(), self.notes.clone(), self.session);
        self.say("(stopping)");
        tokio::spawn(async move {
            if let Err(failure) = pick::operate(&http, Some(session), None, Intent::Cancel { task_id: None }, false).await {
                let _ = notes.send(Note::Trouble(failure)).await;
            }
        });
    }

    fn put(&mut self, intent: Intent, confirmed: bool) {
        let text = said(&intent);
        let card = answers(&intent);
        let kept = self.post.put(intent, self.known.epoch(), confirmed);
        if let Some(id) = card.filter(|_| kept.is_ok()) {
            self.desk.answer(id);
        }
        match kept {
            Ok(()) if self.link != Link::Up => self.say(&format!("(kept until the hub is back: {text})")),
            Ok(()) => {}
            Err(failure) => {
                self.trouble(&failure);
                self.give_back(text);
            }
        }
    }
}

fn is_about(entity: &EntityView, id: CardId) -> bool {
    match (entity, id) {
        (EntityView::Approval(it), CardId::Approval(id)) => it.id == id,
        (EntityView::Question(it), CardId::Question(id)) => it.id == id,
        (EntityView::Handoff(it), CardId::Offer(id)) => it.id == id,
        _ => false,
    }
}

/// The card that an intent answers.
const fn answers(intent: &Intent) -> Option<CardId> {
    match intent {
        Intent::Confirm { approval_id, .. } => Some(CardId::Approval(*approval_id)),
        Intent::Answer { question_id, .. } => Some(CardId::Question(*question_id)),
        Intent::AcceptHandoff { handoff_id } | Intent::DeclineHandoff { handoff_id } => Some(CardId::Offer(*handoff_id)),
        _ => None,
    }
}

/// An intent in the words in which the user gave it.
fn said(intent: &Intent) -> String {
    match intent {
        Intent::Say { text, .. } => text.clone(),
        Intent::Confirm { decision, .. } => format!("{decision:?}").to_lowercase(),
        Intent::Answer { text, option, .. } => text.clone().or_else(|| option.clone()).unwrap_or_default(),
        other => other.name().to_owned(),
    }
}
