use crate::args::Backup;
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use baton_device::backup::{self, copy_file};
use baton_store::{BackupFigures, StoreError, back_up};
use serde_json::json;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the hub's program keeps beside its database.
const OF_HUB: [&str; 1] = ["baton.toml"];
/// What it keeps for the device beside the hub. Not which process that is: the copy's own device is another.
const OF_DEVICE: [&str; 2] = ["profile.json", "workspaces.json"];

/// Copies a data directory while its hub runs or not; the hub has no part in it. The copy is a data directory itself.
pub(crate) async fn run(args: Backup, out: &Output) -> Result<u8, Failure> {
    let data = match args.data {
        Some(data) => data,
        None => files::default_data()?,
    };
    let to = args.directory;
    let (from, copy) = (data.clone(), to.clone());
    let copied = tokio::task::spawn_blocking(move || copied(&from, &copy)).await;
    let figures = copied.map_err(|error| Failure::failed(format!("The backup came to no end: {error}."), "Try again."))??;
    let BackupFigures { sessions, users, events, bytes } = figures;
    out.say(
        &json!({"event": "backed_up", "directory": to, "data": data, "sessions": sessions, "users": users, "events": events, "bytes": bytes}),
        &format!(
            "{} holds {sessions} {} with {events} events, the devices of {users} {}, the configuration, and the device beside the hub: {} KiB.\n\
             Not in it: workspaces, the sample project among them, and uploads under way.\n\
             To restore it, copy it to where the hub's data belongs, and start `baton up` there. Two hubs must not go on from one history.",
            to.display(),
            noun(sessions, "session"),
            noun(users, "user"),
            bytes.div_ceil(1024)
        ),
    );
    Ok(0)
}

fn noun(count: u64, one: &str) -> String {
    if count == 1 { one.to_owned() } else { format!("{one}s") }
}

fn copied(data: &Path, to: &Path) -> Result<BackupFigures, Failure> {
    let unfinished = Unfinished::make(to)?;
    let failed = |error: io::Error| not_made(format!("a file can't be copied: {error}"), "The hub's data is left as it is.");
    // The database first: a device's journal and history that are newer answer every question that it can ask.
    let mut figures = back_up(data, &unfinished.path.join("baton.db")).map_err(|error| store_failure(&error))?;
    for name in OF_HUB {
        figures.bytes += copy_file(&data.join(name), &unfinished.path.join(name)).map_err(failed)?;
    }
    // With another authority every device would have to trust the hub anew.
    let (from, copy) = (data.join("tls"), unfinished.path.join("tls"));
    if from.is_dir() {
        DirBuilder::new().mode(0o700).create(&copy).map_err(failed)?;
        figures.bytes += copy_file(&from.join("authority.pem"), &copy.join("authority.pem")).map_err(failed)?;
        sync(&copy).map_err(failed)?;
    }
    let (from, copy) = (data.join("device"), unfinished.path.join("device"));
    if from.is_dir() {
        DirBuilder::new().mode(0o700).create(&copy).map_err(failed)?;
        for name in OF_DEVICE {
            figures.bytes += copy_file(&from.join(name), &copy.join(name)).map_err(failed)?;
        }
        figures.bytes += backup::back_up(&from, &copy).map_err(failed)?;
        sync(&copy).map_err(failed)?;
    }
    unfinished.finish(to)?;
    Ok(figures)
}

/// A directory that is being filled, and vanishes if it doesn't come to its end: one called as the user said is always a whole backup.
struct Unfinished {
    path: PathBuf,
    finished: bool,
}

impl Unfinished {
    fn make(to: &Path) -> Result<Self, Failure> {
        let Some(name) = to.file_name() else {
            return Err(Failure::usage(format!("{} is no name for a new directory.", to.display()), "Name one that doesn't exist yet."));
        };
        if to.symlink_metadata().is_ok() {
            return Err(files::exists(to));
        }
        let mut name = name.to_owned();
        name.push(format!(".{}.unfinished", std::process::id()));
        let path = to.with_file_name(name);
        // What a user says to an agent is nobody else's business, in a backup neither.
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            not_made(
                format!("the directory {} can't be made: {error}", path.display()),
                "Choose another place, or make the directory around it.",
            )
        })?;
        Ok(Self { path, finished: false })
    }

    fn finish(mut self, to: &Path) -> Result<(), Failure> {
        let failed = |error: io::Error| match error.kind() {
            // A directory takes the place of an empty one at most, never of a file.
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => files::exists(to),
            _ => not_made(format!("{} can't be given its name: {error}", self.path.display()), "Look at the disk."),
        };
        sync(&self.path).and_then(|()| std::fs::rename(&self.path, to)).map_err(failed)?;
        self.finished = true;
        let around = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(around).map_err(|error| not_made(format!("it may not be on the disk yet: {error}"), "Look at the disk."))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.finished {
            // What stays of it says by its name that it is none.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn not_made(why: String, hint: &str) -> Failure {
    Failure::failed(format!("No backup was made: {why}."), hint)
}

fn store_failure(error: &StoreError) -> Failure {
    let hint = match error {
        StoreError::Absent(_) => "Name the hub's data directory with --data.",
        StoreError::Full => "Free some space, or write it to another disk.",
        StoreError::NewerVersion { .. } => "Make the backup with the Baton that wrote the data.",
        _ => "The hub's data is left as it is.",
    };
    not_made(error.to_string(), hint)
}
