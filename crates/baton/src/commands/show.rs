use crate::args::Show;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::call_line;
use crate::{pick, profile, words};
use baton_proto::{
    ApprovalEntity, ApprovalState, EntityView, Origin, OriginKind, Origins, Phase, QuestionEntity, QuestionState, Role, SessionView,
    StepStatus, WorkState,
};
use std::fmt::Write as _;

pub(crate) async fn run(args: Show, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let view = http.session(session).await?;
    let text = describe(&view)?;
    out.say(&serde_json::to_value(&view).unwrap_or_default(), &text);
    Ok(match pick::entity(&view)?.state {
        WorkState::AwaitingInput => crate::failure::AWAITING_INPUT,
        _ => 0,
    })
}

fn describe(view: &SessionView) -> Result<String, Failure> {
    let session = pick::entity(view)?;
    let mut text = String::new();
    let _ = writeln!(text, "{}", if session.title.is_empty() { "(nothing said yet)" } else { &session.title });
    let _ = writeln!(text, "  session {}  {}  epoch {}  version {}", session.id, words::session(session), session.epoch, view.seq);
    for entity in &view.entities {
        match entity {
            EntityView::Workspace(workspace) => {
                let baseline = &workspace.baseline;
                let commit = baseline.commit.as_deref().and_then(|commit| commit.get(..10)).unwrap_or("no commit");
                let dirty = if baseline.dirty.is_some() { ", uncommitted changes" } else { "" };
                let _ = writeln!(
                    text,
                    "  workspace {} ({}, {commit}{dirty})",
                    baseline.path,
                    baseline.branch.as_deref().unwrap_or("no branch")
                );
            }
            EntityView::Task(task) if Some(task.id) == session.active_task => {
                let line = format!("\nTask: {} [{}, {} %] {}", task.title, words::phase(task.phase), task.progress, task.line);
                let _ = writeln!(text, "{}", line.trim_end());
                if let Some(reason) = &task.last_error {
                    let _ = writeln!(text, "  {reason}");
                }
                if task.phase == Phase::Paused {
                    let _ = writeln!(text, "  baton resume {}", session.id);
                }
                for step in &task.steps {
                    let mark = match step.status {
                        StepStatus::Done => "✓",
                        StepStatus::Running => "→",
                        StepStatus::Pending => "○",
                    };
                    let _ = writeln!(text, "  {mark} {}", step.title);
                }
            }
            _ => {}
        }
    }
    let mut timeline: Vec<_> = view.entities.iter().filter_map(entry).collect();
    timeline.sort_by_key(|(seq, _)| *seq);
    if !timeline.is_empty() {
        text.push('\n');
    }
    for (_, line) in timeline {
        let _ = writeln!(text, "{line}");
    }
    Ok(text.trim_end().to_owned())
}

/// What is said, done or asked, with its place in the timeline.
pub(crate) fn entry(entity: &EntityView) -> Option<(u64, String)> {
    Some(match entity {
        EntityView::Message(message) => {
            let who = match (message.role, &message.sender) {
                (Role::User, Some(sender)) => format!("you ({})", sender.name),
                (Role::User, None) => "you".to_owned(),
                (Role::Agent, _) => "agent".to_owned(),
                (Role::Hub, _) => "hub".to_owned(),
            };
            (message.created_seq, format!("{who}: {}", message.text))
        }
        EntityView::Call(call) => {
            let waits = format!("… {} ({})", words::call_title(&call.tool, &call.arguments), words::call(call.state));
            (call.created_seq, call_line(call).unwrap_or(waits))
        }
        EntityView::Approval(open) if open.state == ApprovalState::Open => (open.created_seq, approval(open)),
        EntityView::Question(open) if open.state == QuestionState::Open => (open.created_seq, question(open)),
        _ => return None,
    })
}

/// An open approval with everything that is to be known before answering it: the whole of what would run.
pub(crate) fn approval(approval: &ApprovalEntity) -> String {
    let place = approval.binding.directory.as_ref().map(|directory| format!("\n    in {directory}")).unwrap_or_default();
    format!(
        "{}\n    {}{place}{}{}\n    baton approve {id}   |   baton reject {id}",
        approval_asked(approval),
        approval.binding.preview.replace('\n', "\n    "),
        approval_changed(approval),
        came_of(&approval.binding.origins),
        id = approval.id
    )
}

/// What is asked, and how risky it is.
pub(crate) fn approval_asked(approval: &ApprovalEntity) -> String {
    let risk = words::risk(approval.binding.risk);
    format!("● May this run? {} [{risk}: {}]", approval.binding.tool, approval.binding.risk_reason.trim())
}

/// A line of its own where the workspace isn't as it was.
pub(crate) const fn approval_changed(approval: &ApprovalEntity) -> &'static str {
    if approval.workspace_changed { "\n    The workspace changed since this was asked." } else { "" }
}

/// A line of its own on what the agent had read before: it may have led to this (S21).
pub(crate) fn came_of(origins: &Origins) -> String {
    if origins.is_empty() {
        return String::new();
    }
    let one = |origin: &Origin| match origin.kind {
        OriginKind::Command => format!("run {}", origin.name),
        OriginKind::Attachment => format!("attached {}", origin.name),
        OriginKind::Path | OriginKind::Tool => origin.name.clone(),
    };
    // On one line, whatever the names are like.
    let mut read: Vec<String> = origins.read.iter().rev().map(|origin| one(origin).replace('\n', " ")).collect();
    if origins.more > 0 {
        read.push(format!("{} more", origins.more));
    }
    if origins.earlier {
        read.push("what it read for earlier tasks".to_owned());
    }
    format!("\n    The agent had read before: {}", read.join(" · "))
}

pub(crate) fn question(question: &QuestionEntity) -> String {
    let mut text = format!("● {}", question.text);
    if let Some(known) = &question.known {
        let _ = write!(text, "\n    {known}");
    }
    for (place, option) in question.options.iter().enumerate() {
        let _ = write!(text, "\n    {} {option}", place + 1);
    }
    let answer = if question.options.is_empty() { "TEXT" } else { "NUMBER_OR_TEXT" };
    let _ = write!(text, "\n    baton answer {} {answer}", question.id);
    text
}
