use crate::args::Chat;
use crate::chat::{Talk, talk};
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
use baton_proto::Intent;
use std::io::IsTerminal;

pub(crate) async fn run(args: Chat, profile_name: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if out.is_json() || !is_terminal {
        return Err(Failure::usage(
            "`baton chat` is for people at a terminal.",
            "Programs and pipes use `baton send --wait TEXT`, or `baton send -` for standard input, with `baton events --follow`.",
        ));
    }
    let profile = profile::load(profile_name)?;
    let http = profile.http()?;
    let named = match args.session.as_deref() {
        Some(named) => Some(pick::session(&http, named).await?),
        None if args.new => None,
        None => pick::newest(&http).await?.map(|session| session.session_id),
    };
    let session = match named {
        Some(session) => session,
        None => pick::operate(&http, None, None, Intent::NewSession { title: None, workspace: None }, false)
            .await?
            .session_id
            .ok_or_else(|| Failure::failed("The hub opened a session without naming it.", "Are hub and terminal of the same version?"))?,
    };
    let (view, hub) = (http.session(session).await?, http.hub().await?);
    talk(Talk { profile: &profile, profile_name, http, hub, view }).await
}
