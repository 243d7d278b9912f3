use crate::args::OfSession;
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};

pub(crate) async fn brief(args: OfSession, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let brief = http.brief(session).await?;
    out.say(&serde_json::to_value(&brief).unwrap_or_default(), &brief.text);
    Ok(0)
}

pub(crate) async fn snapshot(args: OfSession, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.id.as_deref()).await?;
    let snapshot = http.snapshot(session).await?;
    let text = serde_json::to_string_pretty(&snapshot).unwrap_or_default();
    out.say(&serde_json::to_value(&snapshot).unwrap_or_default(), &text);
    Ok(0)
}
