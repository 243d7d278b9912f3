use crate::failure::Failure;
use crate::files;
use baton_client::record_file::RecordFileError;
use baton_client::{ClientError, Http, Outbox, OutboxError, Settled};
use baton_proto::{ErrorBody, ErrorCode, Intent, Operation, OperationId, Reply, SessionId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

/// Before something is sent again that had no good answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Terminals of one profile that talk in one session at once.
const MOST_TERMINALS: u32 = 32;

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
    /// What the hub refused for now, and why. It waits here for the user's word, so that nothing else waits behind it.
    aside: BTreeMap<OperationId, ErrorBody>,
    answers: mpsc::Sender<Answered>,
}

/// What the user has to hear of an operation.
#[derive(Debug)]
pub(super) enum News {
    /// The hub refused it for good; what was typed is handed back.
    Refused(Box<Operation>, ErrorBody),
    /// It waits for the user to say that it is meant all the same.
    Held,
    /// The hub can't take it at the moment. It is kept, and waits for the user's word.
    NotNow(Box<Operation>, ErrorBody),
    /// It is sent again by itself, since what is in the way passes.
    Again(ErrorBody),
}

impl Post {
    /// Each session of each profile has an outbox of its own, so that a terminal keeps out of another one's way; a second terminal in the same
    /// session has the next one. What a terminal that is gone has left in its outbox is sent from here.
    pub(super) fn open(profile: Option<&str>, http: Http, session: SessionId) -> Result<(Self, mpsc::Receiver<Answered>), Failure> {
        let directory = files::config()?.join("outbox");
        files::private_directory(&directory)?;
        let (mut own, mut left) = (None, Vec::new());
        for number in 1..=MOST_TERMINALS {
            let path = path(&directory, profile, session, number);
            if own.is_some() && !path.exists() {
                break;
            }
            match Outbox::open(&path) {
                Ok(outbox) if own.is_none() => own = Some(outbox),
                Ok(outbox) => left.push(outbox),
                Err(OutboxError::File(RecordFileError::Locked { .. })) => {}
                Err(error) => return Err(kept_nowhere(&error)),
            }
        }
        let Some(mut outbox) = own else {
            return Err(Failure::failed(
                format!("{MOST_TERMINALS} terminals talk in this session already."),
                "Leave one of them, or use another --profile.",
            ));
        };
        for mut left in left {
            adopt(&mut outbox, &mut left).map_err(|error| kept_nowhere(&error))?;
        }
        let (answers, receiver) = mpsc::channel(4);
        Ok((Self { outbox, http, session, under_way: false, not_before: None, aside: BTreeMap::new(), answers }, receiver))
    }

    pub(super) fn put(&mut self, intent: Intent, epoch: Option<u64>, confirmed: bool) -> Result<(), Failure> {
        let mut operation = Operation::new(OperationId(Uuid::now_v7()), Some(self.session), intent);
        operation.epoch = epoch.filter(|_| operation.intent.needs_epoch());
        operation.confirmed = confirmed;
        self.outbox.put(operation).map_err(failed)
    }

    /// How many wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.due().count()
    }

    fn due(&self) -> impl Iterator<Item = &Operation> {
        self.outbox.due().filter(|operation| !self.aside.contains_key(&operation.operation_id))
    }

    /// What waits for the user's word.
    pub(super) fn held(&self) -> impl Iterator<Item = (&Operation, &ErrorBody)> {
        let aside = self.outbox.due().filter_map(|operation| Some((operation, self.aside.get(&operation.operation_id)?)));
        self.outbox.needing_user().chain(aside)
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
        let Some(operation) = self.due().next().cloned() else { return };
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
            Settled::TryAgain(error) if passes(error.code) => {
                self.not_before = Some(Instant::now() + PAUSE);
                Some(News::Again(error))
            }
            Settled::TryAgain(error) => {
                let refused = self.outbox.due().find(|operation| operation.operation_id == reply.operation_id).cloned();
                self.aside.insert(reply.operation_id, error.clone());
                refused.map(|operation| News::NotNow(Box::new(operation), error))
            }
            Settled::NeedsUser(_) => Some(News::Held),
            Settled::Refused { operation, error } => Some(News::Refused(operation, error)),
        })
    }

    /// The user means it all the same.
    pub(super) fn confirm(&mut self, id: OperationId, epoch: Option<u64>) -> Result<(), Failure> {
        if self.aside.remove(&id).is_some() {
            return Ok(());
        }
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
        self.aside.remove(&id);
        self.outbox.discard(id).map_err(failed)
    }
}

/// Whether what is in the way is gone in a moment, without anybody's doing.
const fn passes(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::RateLimited | ErrorCode::ShuttingDown | ErrorCode::CursorTooOld)
}

/// Takes over what another outbox keeps. It is in both for a moment, under the same id, so that it can neither be lost nor done twice.
fn adopt(outbox: &mut Outbox, left: &mut Outbox) -> Result<(), OutboxError> {
    let operations: Vec<Operation> = left.due().chain(left.needing_user().map(|(operation, _)| operation)).cloned().collect();
    for operation in operations {
        let id = operation.operation_id;
        outbox.put(operation)?;
        left.discard(id)?;
    }
    Ok(())
}

fn kept_nowhere(error: &OutboxError) -> Failure {
    Failure::failed(format!("What this terminal has still to send can't be kept: {error}."), "Check the disk and the permissions.")
}

fn path(directory: &Path, profile: Option<&str>, session: SessionId, number: u32) -> PathBuf {
    let profile = profile.unwrap_or("default");
    let name = if number == 1 { format!("{profile}-{session}.jsonl") } else { format!("{profile}-{session}.{number}.jsonl") };
    directory.join(name)
}

fn failed(error: OutboxError) -> Failure {
    Failure::failed(format!("What was typed can't be kept: {error}."), "Check the disk, and start again.")
}
