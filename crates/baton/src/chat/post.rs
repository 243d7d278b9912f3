use crate::failure::Failure;
use crate::files;
use baton_client::{ClientError, Http, Outbox, OutboxError, Settled};
use baton_proto::{ErrorBody, ErrorCode, Intent, Operation, OperationId, Reply, SessionId};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

/// Before something is sent again that had no good answer.
const PAUSE: Duration = Duration::from_secs(1);

/// What the hub answered, or that it didn't.
pub(super) type Answered = Result<Reply, ClientError>;

/// Sends what was said in this terminal, one after the other, each kept on disk until the hub has settled it (H12).
#[derive(Debug)]
pub(super) struct Post {
    outbox: Outbox,
    http: Http,
    session: SessionId,
    /// Whether something is on its way.
    under_way: bool,
    not_before: Option<Instant>,
    answers: mpsc::Sender<Answered>,
}

/// What the user has to hear of an operation.
#[derive(Debug)]
pub(super) enum News {
    /// The hub refused it for good; what was typed is handed back.
    Refused(Box<Operation>, ErrorBody),
    /// It waits for the user to say that it is meant all the same.
    Held,
}

impl Post {
    /// Each session of each profile has an outbox of its own, so that a terminal keeps out of another one's way.
    pub(super) fn open(profile: Option<&str>, http: Http, session: SessionId) -> Result<(Self, mpsc::Receiver<Answered>), Failure> {
        let path = path(profile, session)?;
        if let Some(parent) = path.parent() {
            files::private_directory(parent)?;
        }
        let outbox = Outbox::open(&path).map_err(|error| {
            Failure::failed(
                format!("What this terminal has still to send can't be kept: {error}."),
                "Is this session open in another terminal?",
            )
        })?;
        let (answers, receiver) = mpsc::channel(4);
        Ok((Self { outbox, http, session, under_way: false, not_before: None, answers }, receiver))
    }

    pub(super) fn put(&mut self, intent: Intent, epoch: Option<u64>, confirmed: bool) -> Result<(), Failure> {
        let mut operation = Operation::new(OperationId(Uuid::now_v7()), Some(self.session), intent);
        operation.epoch = epoch.filter(|_| operation.intent.needs_epoch());
        operation.confirmed = confirmed;
        self.outbox.put(operation).map_err(failed)
    }

    /// How many wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.outbox.due().count()
    }

    /// What waits for the user's word, oldest first.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Operation, &ErrorBody)> {
        self.outbox.needing_user()
    }

    /// When [`Post::send`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.not_before.filter(|_| !self.under_way && self.waiting() > 0)
    }

    /// The link stands again.
    pub(super) fn at_once(&mut self) {
        self.not_before = None;
    }

    /// Sends what is next, unless something is on its way. Repeating it can't do it twice: it has an id of its own.
    pub(super) fn send(&mut self) {
        if self.under_way || self.not_before.is_some_and(|time| time > Instant::now()) {
            return;
        }
        let Some(operation) = self.outbox.due().next().cloned() else { return };
        self.under_way = true;
        let (http, answers) = (self.http.clone(), self.answers.clone());
        tokio::spawn(async move {
            let answer = http.operate(&operation).await;
            // Without a receiver nobody waits for it any more; the outbox still has it.
            let _ = answers.send(answer).await;
        });
    }

    pub(super) fn answered(&mut self, answer: Answered) -> Result<Option<News>, Failure> {
        self.under_way = false;
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) if error.is_unauthenticated() => return Err(error.into()),
            Err(_) => {
                self.not_before = Some(Instant::now() + PAUSE);
                return Ok(None);
            }
        };
        Ok(match self.outbox.settle(&reply).map_err(failed)? {
            Settled::Done | Settled::NotHere => None,
            Settled::TryAgain(_) => {
                self.not_before = Some(Instant::now() + PAUSE);
                None
            }
            Settled::NeedsUser(_) => Some(News::Held),
            Settled::Refused { operation, error } => Some(News::Refused(operation, error)),
        })
    }

    /// The user means it all the same.
    pub(super) fn confirm(&mut self, id: OperationId, epoch: Option<u64>) -> Result<(), Failure> {
        let Some((kept, error)) = self.outbox.needing_user().find(|(operation, _)| operation.operation_id == id) else { return Ok(()) };
        if error.code == ErrorCode::NeedsConfirmation {
            return self.outbox.confirm(id).map_err(failed);
        }
        // The hub remembers how it refused the old one.
        let mut again = Operation::new(OperationId(Uuid::now_v7()), Some(self.session), kept.intent.clone());
        again.epoch = epoch.filter(|_| again.intent.needs_epoch());
        again.confirmed = kept.confirmed;
        self.outbox.replace(id, again).map_err(failed)
    }

    pub(super) fn discard(&mut self, id: OperationId) -> Result<Operation, Failure> {
        self.outbox.discard(id).map_err(failed)
    }
}

fn path(profile: Option<&str>, session: SessionId) -> Result<PathBuf, Failure> {
    Ok(files::config()?.join("outbox").join(format!("{}-{session}.jsonl", profile.unwrap_or("default"))))
}

fn failed(error: OutboxError) -> Failure {
    Failure::failed(format!("What was typed can't be kept: {error}."), "Check the disk, and start again.")
}
