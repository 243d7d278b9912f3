use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// One agent that follows you across your devices. Its running state lives on a hub of your own.
///
/// Exit codes: 0 done, 2 usage, 3 awaiting input, 4 failed, 5 hub unreachable, 130 waiting was interrupted.
#[derive(Debug, Parser)]
#[command(name = "baton", version, max_term_width = 100)]
pub(crate) struct Args {
    /// One JSON object a line, with stable names, for programs.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Which hub and device to be, of those that were paired here.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// What is logged to standard error, such as `debug` or `baton_runtime=debug`.
    #[arg(long, global = true, env = "BATON_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a hub with a device beside it, and print a link for your phone.
    Up(Up),
    /// Start a hub only.
    Serve(Serve),
    /// Be a device that holds a workspace and acts in it.
    Device(Device),
    /// Users of a hub on this machine.
    User(User),
    /// Pair this terminal with a hub; a trusted device approves it with a code.
    Pair(Pair),
    /// List, approve or revoke devices.
    Devices(Devices),
    /// List sessions, newest first.
    Sessions(Sessions),
    /// Talk with the agent in this terminal: follow it live, steer it, and answer what it asks.
    Chat(Chat),
    /// Say something to the agent, or `-` to read it from standard input.
    Send(Send),
    /// Show a session: its task, what was said and done, and what waits for you.
    Show(Show),
    /// Print a session's events.
    Events(Events),
    /// Show what the agent changed in the workspace, in a task or a step of it.
    Diff(OfWork),
    /// Print a file of the workspace, whichever device holds it.
    #[command(visible_alias = "open")]
    Cat(Cat),
    /// Take back what the agent changed in a task or a step of it: all of it or nothing. What you changed since stays.
    Undo(Undo),
    /// Allow a call that waits for approval, once or from now on.
    Approve(Approve),
    /// Refuse a call that waits for approval.
    Reject(Reject),
    /// Tokens used by day, and the budgets that hold.
    Usage,
    /// List or remove remembered approvals.
    Rules(Rules),
    /// Answer a question.
    Answer(Answer),
    /// Take a session over to this terminal.
    TakeOver(TakeOver),
    /// Offer a session to another device, and wait for its answer.
    Handoff(Handoff),
    /// Let the agent begin afresh: it no longer sees what was said and done in the session. You still do.
    Reset(Reset),
    /// Find messages by their words, in all sessions.
    Search(Search),
    /// Give a session a title of your own.
    Rename(Rename),
    /// Keep a session at the top of lists.
    Pin(Place),
    /// Put a session away: out of the list, still readable. Speaking in it brings it back.
    Archive(Place),
    /// Give a session up, so that whichever device speaks next has it.
    Release(Release),
    /// Stop what the agent is doing.
    Stop(Stop),
    /// Go on with a paused task.
    Resume(OfSession),
    /// Where the work stands, in a few lines.
    Brief(OfSession),
    /// The whole running state as JSON.
    Snapshot(OfSession),
    /// Write a session to a file, for keeping or for another hub.
    Export(Export),
    /// Bring an exported session into your account. Nothing that was open in it goes on.
    Import(Import),
    /// Copy a hub's data to a new directory, while it runs or not.
    Backup(Backup),
    /// Print completions for a shell, such as `baton completions bash > ~/.local/share/bash-completion/completions/baton`.
    Completions(Completions),
    /// Print the manual page.
    Man(Man),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Hub {
    /// Where everything is kept. Default: `baton` in your data directory.
    #[arg(long, value_name = "DIR", env = "BATON_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7440")]
    pub(crate) listen: std::net::SocketAddr,
    /// A name or address under which other devices reach this hub; may be given several times.
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Speak HTTPS, with a certificate authority of the hub's own that each device trusts once. It is made in the data directory.
    #[arg(long, conflicts_with = "allow_plain_http")]
    pub(crate) tls: bool,
    /// Listen beyond this machine without encryption: everybody on the way can read tokens and act as you. For networks you trust only.
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
    /// The address under which browsers reach this hub through a TLS proxy or a tunnel, such as `https://baton.example`.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// An address or network, such as `127.0.0.1` or `10.0.0.0/8`, of what stands before this hub: only its `X-Forwarded-For` says who is
    /// calling. May be given several times.
    #[arg(long = "trusted-proxy", value_name = "ADDR")]
    pub(crate) trusted_proxies: Vec<baton_server::Network>,
    /// Base URL of the model's server, such as `http://127.0.0.1:11434/v1`. Its key is read from `BATON_MODEL_KEY`.
    #[arg(long, value_name = "URL", env = "BATON_MODEL_URL")]
    pub(crate) model_url: Option<String>,
    /// How that server is spoken to. Default: as its address tells, mostly `openai`.
    #[arg(long, value_name = "NAME", env = "BATON_MODEL_PROVIDER", value_enum)]
    pub(crate) model_provider: Option<crate::config::ProviderName>,
    /// The model's name.
    #[arg(long, value_name = "NAME", env = "BATON_MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) hub: Hub,
    /// The directory to work in. Default: a small sample project in the data directory.
    #[arg(long, value_name = "PATH")]
    pub(crate) workspace: Option<PathBuf>,
    /// Run commands without a sandbox: they can then read and change everything you can.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) hub: Hub,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Device {
    /// The hub's address, with `/#ca=FINGERPRINT` where it vouches for itself. Needed the first time; the device is paired then.
    #[arg(long, value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// The same, as `baton pair` takes it.
    #[arg(value_name = "URL", conflicts_with = "hub")]
    pub(crate) hub_named: Option<String>,
    #[command(flatten)]
    pub(crate) vouching: Vouching,
    /// Where the device keeps its journal and history. Default: `baton/device` in your data directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The directory to work in.
    #[arg(long, value_name = "PATH")]
    pub(crate) workspace: PathBuf,
    /// The device's name. Default: this machine's.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Run commands without a sandbox: they can then read and change everything you can.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// The file in which a hub on this machine writes its address.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) hub_file: Option<PathBuf>,
}

/// By what a hub at an `https` address proves itself. Without these by what the operating system trusts, or by what its link says.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Vouching {
    /// The SHA-256 of the hub's certificate authority, as `baton up --tls` prints it.
    #[arg(long, value_name = "SHA256", conflicts_with = "ca")]
    pub(crate) fingerprint: Option<String>,
    /// The file with the certificate of the authority that vouches for the hub.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct User {
    #[command(subcommand)]
    pub(crate) action: UserAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserAction {
    /// Add a user, and print the link that pairs that user's first device. The hub has to be running.
    Add {
        name: String,
        /// The hub's data directory.
        #[arg(long, value_name = "DIR", env = "BATON_DATA")]
        data: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pair {
    /// The hub's address, with `/#ca=FINGERPRINT` where it vouches for itself, as `baton up` prints it. Default: the hub on this machine.
    #[arg(value_name = "URL")]
    pub(crate) hub: Option<String>,
    /// The same, as `baton device` takes it.
    #[arg(long = "hub", value_name = "URL", conflicts_with = "hub")]
    pub(crate) hub_named: Option<String>,
    #[command(flatten)]
    pub(crate) vouching: Vouching,
    /// This terminal's name. Default: this machine's.
    #[arg(long)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Devices {
    #[command(subcommand)]
    pub(crate) action: Option<DevicesAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DevicesAction {
    /// Let a new device in by the code that it shows.
    Approve {
        code: String,
        /// The number that it shows, where nobody is here to be asked.
        #[arg(long, value_name = "NUMBER")]
        number: Option<String>,
        /// How far it is trusted.
        #[arg(long, value_enum, default_value_t = TrustLevel::Trusted)]
        trust: TrustLevel,
    },
    /// Make a one-time link that pairs a device, once you have confirmed here what opened it.
    Invite {
        #[arg(long, value_enum, default_value_t = TrustLevel::Trusted)]
        trust: TrustLevel,
    },
    /// Let in what opened a link of this terminal's, by the number that it shows. Without a number: say what asks.
    Confirm {
        number: Option<String>,
        /// Turn it away instead.
        #[arg(long, requires = "number")]
        refuse: bool,
    },
    /// Cut a device off: its token is dead at once.
    Revoke { id: String },
    /// Change how far a device is trusted.
    Trust { id: String, level: TrustLevel },
    /// Rename a device.
    Rename { id: String, name: String },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum TrustLevel {
    Trusted,
    Standard,
    Guest,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    /// How many at most, 1 to 200.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
    /// Those in which something waits for you.
    #[arg(long)]
    pub(crate) waiting: bool,
    /// Those that were put away.
    #[arg(long)]
    pub(crate) archived: bool,
    /// Those that are pinned.
    #[arg(long)]
    pub(crate) pinned: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    /// Words that all stand in the message.
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// How many at most, 1 to 100.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rename {
    pub(crate) title: String,
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long)]
    pub(crate) session: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The session, by its id, the end of it, or `latest`.
    pub(crate) id: String,
    /// The opposite.
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line, and stands for itself")]
pub(crate) struct Send {
    /// What to say; `-` reads standard input, of which more than a message holds is attached as a file. Slash commands such as
    /// `/show PATH` need no model.
    pub(crate) text: String,
    /// A file that goes with it: an image, or a text of up to 64 MiB that the agent reads in parts. May be given up to ten times.
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// The session, by its id, the end of it, or `latest`. Default: the newest open one, or a new one.
    #[arg(long, value_name = "ID", conflicts_with = "new")]
    pub(crate) session: Option<String>,
    /// Open a new session.
    #[arg(long)]
    pub(crate) new: bool,
    /// Open a new session in this workspace: its name, its path, or its id, as `baton devices` lists them.
    #[arg(long, value_name = "NAME|PATH|ID", conflicts_with = "session")]
    pub(crate) workspace: Option<String>,
    /// While the agent works: let it finish first, then begin with this. Without it, this is read at the agent's next step.
    #[arg(long, conflicts_with = "interrupt")]
    pub(crate) queue: bool,
    /// While the agent works: stop it, and begin with this at once.
    #[arg(long)]
    pub(crate) interrupt: bool,
    /// Follow until the agent rests or waits for you.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Confirm what asked for an extra confirmation.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OfWork {
    /// The task, by its id or the end of it. Default: that of the newest recorded change, which may be a slash command's alone.
    pub(crate) task: Option<String>,
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// A step of the task's plan.
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// The file, relative to the workspace, as in `src/main.rs` or `src/main.rs:12`. The directory that you are in doesn't matter.
    pub(crate) path: String,
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Write it to a new file instead.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    #[command(flatten)]
    pub(crate) work: OfWork,
    /// Confirm what asked for an extra confirmation.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OfSession {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
    /// The file to write; it must not exist yet. Default: `baton-session-ID.jsonl` here.
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// A file that `baton export` wrote.
    pub(crate) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The directory to make; it must not exist yet.
    pub(crate) directory: PathBuf,
    /// The hub's data directory. Default: `baton` in your data directory.
    #[arg(long, value_name = "DIR", env = "BATON_DATA")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Events {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
    /// Print what came after this sequence number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) after: u64,
    /// Go on printing what comes.
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The approval.
    pub(crate) id: String,
    /// Confirm once more what is dangerous.
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Allow calls like it without asking again: for this task, or always. What is dangerous is asked about each time.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) remember: Option<Scope>,
    /// Remember commands that begin with the first N words of this one, instead of this one alone.
    #[arg(long, value_name = "N", requires = "remember", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) prefix: Option<u32>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Scope {
    Task,
    Always,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Reject {
    /// The approval.
    pub(crate) id: String,
    /// Why not, for the agent to read.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rules {
    #[command(subcommand)]
    pub(crate) action: Option<RulesAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesAction {
    /// Forget one; calls like it are asked about again.
    Remove { id: String },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Answer {
    /// The question.
    pub(crate) id: String,
    /// The answer, or the number of one of the question's options, or an option word by word.
    pub(crate) text: String,
    /// Confirm once more what is dangerous.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TakeOver {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
    /// From a device that is connected, too.
    #[arg(long)]
    pub(crate) force: bool,
    /// Confirm a switch while something with a lasting effect is under way.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    pub(crate) id: Option<String>,
    /// Pause instead, to go on later.
    #[arg(long)]
    pub(crate) pause: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Chat {
    /// The session, by its id, the end of it, or `latest`. Default: the newest open one, or a new one.
    #[arg(long, value_name = "ID", conflicts_with = "new")]
    pub(crate) session: Option<String>,
    /// Open a new session.
    #[arg(long)]
    pub(crate) new: bool,
    /// Open a new session in this workspace: its name, its path, or its id, as `baton devices` lists them.
    #[arg(long, value_name = "NAME|PATH|ID", conflicts_with = "session")]
    pub(crate) workspace: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Handoff {
    /// The device to offer it to: its id or the end of it, its name or a part of it, or its kind, such as `phone`.
    pub(crate) device: String,
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Confirm a switch while something with a lasting effect is under way.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Reset {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Take the latest reset back.
    #[arg(long)]
    pub(crate) undo: bool,
    /// Confirm the reset.
    #[arg(long, conflicts_with = "undo")]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    /// The session, by its id, the end of it, or `latest`. Default: the newest.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Confirm a switch while something with a lasting effect is under way.
    #[arg(long)]
    pub(crate) confirm: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Write a page for the program and for each command into this directory instead.
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}
