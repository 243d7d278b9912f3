//! The `baton` binary: composition only. Each command is a file in `commands`; what it means is decided elsewhere.

mod address;
mod args;
mod assets;
mod chat;
mod commands;
mod config;
mod failure;
mod files;
mod interrupt;
mod local;
mod output;
mod pager;
mod pick;
mod profile;
mod progress;
mod sample;
mod supervise;
mod words;

use crate::args::{Args, Command};
use crate::failure::Failure;
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    // Nothing but the conversation writes into its terminal, unless it was asked for.
    let level = if matches!(args.command, Command::Chat(_)) { Some("off") } else { None };
    start_logging(args.log.as_deref().or(level));
    let json = args.json;
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::failed(format!("The program can't start: {error}."), "Look at the machine's limits.").tell(json),
    };
    match runtime.block_on(run(args)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(json),
    }
}

async fn run(args: Args) -> Result<u8, Failure> {
    let out = output::Output::new(args.json);
    let profile = args.profile.as_deref();
    match args.command {
        Command::Up(up) => commands::up::run(up, &out).await,
        Command::Serve(serve) => commands::serve::run(serve, &out).await,
        Command::Device(device) => commands::device::run(device, &out).await,
        Command::User(user) => commands::user::run(user, &out).await,
        Command::Pair(pair) => commands::pair::run(pair, profile, &out).await,
        Command::Devices(devices) => commands::devices::run(devices, profile, &out).await,
        Command::Sessions(sessions) => commands::sessions::run(sessions, profile, &out).await,
        Command::Chat(chat) => commands::chat::run(chat, profile, &out).await,
        Command::Send(send) => commands::send::run(send, profile, &out).await,
        Command::Show(show) => commands::show::run(show, profile, &out).await,
        Command::Events(events) => commands::events::run(events, profile, &out).await,
        Command::Diff(work) => commands::diff::run(work, profile, &out).await,
        Command::Cat(cat) => commands::cat::run(cat, profile, &out).await,
        Command::Undo(undo) => commands::undo::run(undo, profile, &out).await,
        Command::Approve(approve) => commands::approve::approve(approve, profile, &out).await,
        Command::Reject(reject) => commands::approve::reject(reject, profile, &out).await,
        Command::Usage => commands::usage::run(profile, &out).await,
        Command::Rules(rules) => commands::rules::run(rules, profile, &out).await,
        Command::Answer(answer) => commands::answer::run(answer, profile, &out).await,
        Command::TakeOver(take) => commands::take_over::run(take, profile, &out).await,
        Command::Handoff(handoff) => commands::handoff::run(handoff, profile, &out).await,
        Command::Search(search) => commands::search::run(search, profile, &out).await,
        Command::Rename(rename) => commands::rename::run(rename, profile, &out).await,
        Command::Pin(place) => commands::pin::run(place, profile, &out).await,
        Command::Archive(place) => commands::archive::run(place, profile, &out).await,
        Command::Reset(reset) => commands::reset::run(reset, profile, &out).await,
        Command::Release(release) => commands::release::run(release, profile, &out).await,
        Command::Stop(stop) => commands::stop::run(stop, profile, &out).await,
        Command::Resume(resume) => commands::resume::run(resume, profile, &out).await,
        Command::Brief(brief) => commands::read::brief(brief, profile, &out).await,
        Command::Snapshot(snapshot) => commands::read::snapshot(snapshot, profile, &out).await,
        Command::Export(export) => commands::export::run(export, profile, &out).await,
        Command::Import(import) => commands::import::run(import, profile, &out).await,
        Command::Backup(backup) => commands::backup::run(backup, &out).await,
        Command::Completions(completions) => Ok(commands::completions::run(completions)),
        Command::Man(man) => commands::man::run(man),
    }
}

/// Logs go to standard error, so that standard output stays for what was asked.
fn start_logging(level: Option<&str>) {
    let filter = level.map_or_else(|| "warn,baton=info".to_owned(), str::to_owned);
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}
