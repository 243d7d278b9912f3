use super::begin;
use crate::args::Chat;
use crate::chat::{Talk, talk};
use crate::failure::Failure;
use crate::output::Output;
use crate::{pick, profile};
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
        None if args.new || args.workspace.is_some() => None,
        None => pick::newest(&http).await?.map(|session| session.session_id),
    };
    let begun = named.is_none();
    let session = match named {
        Some(session) => session,
        None => begin::session(&http, args.workspace.as_deref()).await?.0,
    };
    let (view, hub) = (http.session(session).await?, http.hub().await?);
    let ended = talk(Talk { profile: &profile, profile_name, http: http.clone(), hub, view }).await;
    // Looked at anew: something may have been said elsewhere.
    if begun && http.session(session).await.is_ok_and(|view| pick::is_empty(&view)) {
        begin::put_away(&http, session).await;
    }
    ended
}
