//! Finds what a user names: sessions by id or by its end, approvals and questions by id among what is open.

use crate::failure::Failure;
use baton_client::Http;
use baton_proto::{
    ApprovalEntity, ApprovalState, CallEntity, EntityView, ErrorCode, Intent, Operation, OperationId, QuestionEntity, Reply, ReplyStatus,
    SessionEntity, SessionFilter, SessionId, SessionSummary, SessionView, TaskId,
};
use uuid::Uuid;

/// Sessions that are looked through for what is open.
const LOOKED_THROUGH: u32 = 200;

/// A session by its whole id, by the end of it as far as that is unique, or `latest`.
pub(crate) async fn session(http: &Http, named: &str) -> Result<SessionId, Failure> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let list = http.sessions(None, Some(LOOKED_THROUGH)).await?.sessions;
    if named == "latest" {
        return newest_of(&list)
            .map(|session| session.session_id)
            .ok_or_else(|| Failure::failed("There is no session yet.", "Open one with `baton send --new TEXT`."));
    }
    let ends = |session: &SessionSummary| named.len() >= 4 && session.session_id.to_string().ends_with(named);
    let mut matching: Vec<_> = list.into_iter().filter(ends).collect();
    if matching.is_empty() {
        let archived = SessionFilter { archived: true, ..SessionFilter::default() };
        let put_away = http.sessions_that(archived, None, Some(LOOKED_THROUGH)).await?.sessions;
        matching.extend(put_away.into_iter().filter(ends));
    }
    match matching.as_slice() {
        [one] => Ok(one.session_id),
        [] => Err(Failure::usage(format!("No session's id ends with '{named}'."), "`baton sessions` lists them.")),
        _ => Err(Failure::usage(format!("More than one session's id ends with '{named}'."), "Give more of it.")),
    }
}

/// The newest session that is open, if any.
pub(crate) async fn newest(http: &Http) -> Result<Option<SessionSummary>, Failure> {
    Ok(newest_of(&http.sessions(None, Some(LOOKED_THROUGH)).await?.sessions).cloned())
}

/// The newest in which something was said; one in which nothing was only where there is no other. The list puts pinned ones first.
fn newest_of(list: &[SessionSummary]) -> Option<&SessionSummary> {
    let newest = |said: bool| list.iter().filter(|session| session.title.is_empty() != said).max_by_key(|session| session.updated_at);
    newest(true).or_else(|| newest(false))
}

/// Whether nothing was said in a session yet.
pub(crate) fn is_empty(view: &SessionView) -> bool {
    !view.entities.iter().any(|entity| matches!(entity, EntityView::Message(_)))
}

pub(crate) fn entity(view: &SessionView) -> Result<&SessionEntity, Failure> {
    view.entities
        .iter()
        .find_map(|entity| match entity {
            EntityView::Session(session) => Some(&**session),
            _ => None,
        })
        .ok_or_else(|| Failure::failed("The hub's view of the session has no session in it.", "Are hub and terminal of the same version?"))
}

/// A session that is named, or the newest.
pub(crate) async fn session_or_newest(http: &Http, named: Option<&str>) -> Result<SessionId, Failure> {
    session(http, named.unwrap_or("latest")).await
}

/// A task of a session, by its whole id or by the end of it.
pub(crate) fn task(view: &SessionView, named: &str) -> Result<TaskId, Failure> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let tasks = tasks(view);
    let matching: Vec<_> = tasks.iter().filter(|id| matches(&id.to_string(), named)).collect();
    match matching.as_slice() {
        [one] => Ok(**one),
        [] => Err(Failure::usage(format!("No task's id ends with '{named}' in that session."), "`baton show SESSION --json` lists them.")),
        _ => Err(Failure::usage(format!("More than one task's id ends with '{named}'."), "Give more of it.")),
    }
}

/// The call that made the newest recorded change of a session, for a task or as a slash command. What takes changes back is none.
pub(crate) fn newest_change(view: &SessionView) -> Option<&CallEntity> {
    let calls = view.entities.iter().filter_map(|entity| match entity {
        EntityView::Call(call) => Some(&**call),
        _ => None,
    });
    calls
        .filter(|call| call.tool != "undo" && call.result.as_ref().is_some_and(|result| !result.changes.is_empty()))
        .max_by_key(|call| call.created_seq)
}

/// The tasks of a session, the newest last.
pub(crate) fn tasks(view: &SessionView) -> Vec<TaskId> {
    let mut tasks: Vec<_> = view
        .entities
        .iter()
        .filter_map(|entity| match entity {
            EntityView::Task(task) => Some(task.id),
            _ => None,
        })
        .collect();
    tasks.sort_unstable();
    tasks
}

/// An open approval with its session. One that is closed is named as such, so that the hub can say what became of it.
pub(crate) async fn approval(http: &Http, named: &str) -> Result<(SessionId, ApprovalEntity), Failure> {
    let found = find(http, |entity| match entity {
        EntityView::Approval(approval) if matches(&approval.id.to_string(), named) => {
            Some(((**approval).clone(), approval.state == ApprovalState::Open))
        }
        _ => None,
    })
    .await?;
    found.ok_or_else(|| {
        Failure::usage(format!("No approval '{named}' is known in your recent sessions."), "`baton show SESSION` lists what waits.")
    })
}

pub(crate) async fn question(http: &Http, named: &str) -> Result<(SessionId, QuestionEntity), Failure> {
    let found = find(http, |entity| match entity {
        EntityView::Question(question) if matches(&question.id.to_string(), named) => {
            Some((question.clone(), question.state == baton_proto::QuestionState::Open))
        }
        _ => None,
    })
    .await?;
    found.ok_or_else(|| {
        Failure::usage(format!("No question '{named}' is known in your recent sessions."), "`baton show SESSION` lists what waits.")
    })
}

fn matches(id: &str, named: &str) -> bool {
    id == named || (named.len() >= 6 && id.ends_with(named))
}

/// Looks through recent sessions, those that wait for the user first; open things go before closed ones.
async fn find<T>(http: &Http, wanted: impl Fn(&EntityView) -> Option<(T, bool)>) -> Result<Option<(SessionId, T)>, Failure> {
    let mut sessions = http.sessions(None, Some(LOOKED_THROUGH)).await?.sessions;
    sessions.sort_by_key(|session| session.waiting == 0);
    let mut closed = None;
    for session in sessions.into_iter().take(40) {
        let view = http.session(session.session_id).await?;
        for (found, open) in view.entities.iter().filter_map(&wanted) {
            if open {
                return Ok(Some((session.session_id, found)));
            }
            closed.get_or_insert((session.session_id, found));
        }
    }
    Ok(closed)
}

/// Sends one operation with an id of its own. A request whose answer was lost is sent again with the same id, which can't do it twice.
pub(crate) async fn operate(
    http: &Http,
    session: Option<SessionId>,
    epoch: Option<u64>,
    intent: Intent,
    confirmed: bool,
) -> Result<Reply, Failure> {
    let mut operation = Operation::new(OperationId(Uuid::now_v7()), session, intent);
    operation.epoch = epoch;
    operation.confirmed = confirmed;
    let mut tries = 0;
    let reply = loop {
        match http.operate(&operation).await {
            Ok(reply) => break reply,
            Err(error) if error.may_be_repeated() && tries < 3 => {
                tries += 1;
                tokio::time::sleep(std::time::Duration::from_millis(200 << tries)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    match (reply.status, reply.error.clone()) {
        (ReplyStatus::Accepted | ReplyStatus::Duplicate, None) => Ok(reply),
        (_, Some(mut error)) => {
            if error.code == ErrorCode::NeedsConfirmation {
                "To do it all the same, run this again with --confirm.".clone_into(&mut error.hint);
            }
            Err(error.into())
        }
        (ReplyStatus::Rejected, None) => Err(Failure::failed("The hub refused without a reason.", "Look at the hub's log.")),
    }
}
