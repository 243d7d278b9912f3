//! Long logs, written through the store as a hub would have written them, so that a bench needn't live through them.

use anyhow::Result;
use baton_core::{STATE_FORMAT, Session, summary, upserts};
use baton_proto::{
    Actor, DeviceId, Event, EventBody, Lane, Language, MessageId, ModelCallId, ModelCause, Role, SessionEvent, SessionId, TurnId, Usage,
    UserId,
};
use baton_store::{Append, EventRow, HeadWrite, StateCache, Store, StreamId, StreamKind};
use uuid::Uuid;

/// Bytes of each message.
const MESSAGE_BYTES: usize = 400;
/// Events of one append.
const PIECE: usize = 2000;
/// Events of one exchange: a message, the turn's start, the model call's start and end, and the turn's end.
const EXCHANGE: usize = 5;

/// Writes a session of exactly that many events, and returns its state. It rests where the number is one more than a multiple of [`EXCHANGE`];
/// else its last turn is open, and a hub that opens it goes on with it.
pub(super) async fn write(store: &dyn Store, user: UserId, holder: Option<DeviceId>, events: usize) -> Result<Session> {
    let mut state = Session::empty(SessionId(Uuid::now_v7()));
    let mut exchange = Exchange::new();
    let mut written = 0;
    while written < events {
        let expected_seq = state.seq;
        let mut rows = Vec::new();
        while written < events && rows.len() < PIECE {
            let body = if written == 0 { created(user, holder) } else { exchange.next(written) };
            let event = Event {
                at: baton_runtime::Clock::now(&baton_runtime::SystemClock),
                lane: Lane::default(),
                actor: Actor::Hub,
                operation_id: None,
                body,
            };
            state.apply(&event);
            rows.push(EventRow {
                kind: event.body.name().to_owned(),
                event: serde_json::to_vec(&event)?,
                upserts: serde_json::to_vec(&upserts(&state, &event))?,
            });
            written += 1;
        }
        let head = HeadWrite {
            epoch: state.holder.epoch,
            active: false,
            wake_at: None,
            updated_at: state.updated_at,
            summary: serde_json::to_vec(&summary(&state))?,
        };
        let (stream, fence) = (stream(&state), store.incarnation());
        store.append(Append { stream, user, expected_seq, fence, rows, head, operation: None }).await?;
    }
    Ok(state)
}

/// Keeps a session's state in the cache, as a hub does from time to time.
pub(super) async fn cache(store: &dyn Store, state: &Session) -> Result<()> {
    let bytes = serde_json::to_vec(state)?;
    Ok(store.put_state(state.user, stream(state), StateCache { seq: state.seq, format: STATE_FORMAT, bytes }).await?)
}

/// Takes a session's state out of the cache: what another version of Baton left there is of no use.
pub(super) async fn forget(store: &dyn Store, state: &Session) -> Result<()> {
    Ok(store.put_state(state.user, stream(state), StateCache { seq: state.seq, format: 0, bytes: Vec::new() }).await?)
}

fn stream(state: &Session) -> StreamId {
    StreamId { kind: StreamKind::Session, id: state.id.0 }
}

fn created(user_id: UserId, holder: Option<DeviceId>) -> SessionEvent {
    SessionEvent::SessionCreated {
        user_id,
        title: "A long conversation".to_owned(),
        language: Language::En,
        workspace: None,
        holder,
        epoch: 1,
    }
}

/// The ids of the exchange that is being written.
struct Exchange {
    question: MessageId,
    answer: MessageId,
    turn: TurnId,
    call: ModelCallId,
}

impl Exchange {
    fn new() -> Self {
        let id = Uuid::now_v7;
        Self { question: MessageId(id()), answer: MessageId(id()), turn: TurnId(id()), call: ModelCallId(id()) }
    }

    /// The event with that number, where the session's creation is number 0.
    fn next(&mut self, number: usize) -> SessionEvent {
        let text = || format!("{number:06} {}", "lorem ipsum ".repeat(MESSAGE_BYTES / 12));
        match number % EXCHANGE {
            1 => {
                *self = Self::new();
                SessionEvent::MessageAdded {
                    message_id: self.question,
                    role: Role::User,
                    text: text(),
                    turn_id: Some(self.turn),
                    task_id: None,
                    sender: None,
                    selection: None,
                    attachments: Vec::new(),
                }
            }
            2 => SessionEvent::TurnStarted { turn_id: self.turn, task_id: None, message_id: Some(self.question), literal: false },
            3 => SessionEvent::ModelStarted {
                model_call_id: self.call,
                turn_id: self.turn,
                attempt: 1,
                iteration: 1,
                message_id: self.answer,
                cause: ModelCause::Input,
                read: vec![self.question],
            },
            4 => SessionEvent::ModelFinished {
                model_call_id: self.call,
                attempt: 1,
                message_id: self.answer,
                model: "bench".to_owned(),
                text: text(),
                thinking: String::new(),
                calls: Vec::new(),
                usage: Usage::default(),
                truncated: false,
            },
            _ => SessionEvent::TurnFinished { turn_id: self.turn, reason: "answered".to_owned() },
        }
    }
}
