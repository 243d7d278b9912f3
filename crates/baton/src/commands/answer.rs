use crate::args::Answer;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use serde_json::json;

pub(crate) async fn run(args: Answer, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let (session, question) = pick::question(&http, &args.id).await?;
    let text = args.text.trim().to_owned();
    // The number that `baton show` gives an option, unless an option is called like that.
    let text = match text.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?)) {
        Some(option) if !question.options.contains(&text) => option.clone(),
        _ => text,
    };
    let is_option = question.options.contains(&text);
    let (text, option) = if is_option { (None, Some(text)) } else { (Some(text), None) };
    let reply = pick::operate(&http, Some(session), None, Intent::Answer { question_id: question.id, text, option }, args.confirm).await?;
    out.say(&json!({"event": "answered", "question_id": question.id, "session_id": session, "version": reply.version}), "Answered.");
    Ok(0)
}
