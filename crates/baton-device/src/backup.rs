//! A copy of what a device keeps, taken while it works or not (O7).
//!
//! The journal comes first and the histories after it, since a change is in the history before its result is in the journal; and each
//! record of changes comes before the images that it names. So whoever starts on the copy finds an answer to what it asks, and a record
//! that was being written is torn at its end, as after a crash. Caches and what is being written are left out: they are made anew.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Copies the device's directory `from` into the existing directory `to`, readable by its owner alone, and on the disk when this returns.
/// Answers with the bytes that were copied. What the program around the device keeps beside this, such as its token, isn't copied.
pub fn back_up(from: &Path, to: &Path) -> io::Result<u64> {
    let mut bytes = copy_file(&from.join("journal"), &to.join("journal"))?;
    let (from, to) = (from.join("workspaces"), to.join("workspaces"));
    let workspaces = names(&from)?;
    if !workspaces.is_empty() {
        make_directory(&to)?;
    }
    for name in workspaces {
        let (from, to) = (from.join(&name), to.join(&name));
        make_directory(&to)?;
        let (history, copied) = (from.join("history"), to.join("history"));
        make_directory(&copied)?;
        for file in ["changes.jsonl", "seen.jsonl"] {
            bytes += copy_file(&history.join(file), &copied.join(file))?;
        }
        bytes += copy_named_by_digest(&history.join("images"), &copied.join("images"))?;
        bytes += copy_named_by_digest(&from.join("spool"), &to.join("spool"))?;
        sync_directory(&copied)?;
        sync_directory(&to)?;
    }
    if to.exists() {
        sync_directory(&to)?;
    }
    Ok(bytes)
}

/// Copies one file as it is at the moment, readable by its owner alone; one that isn't there is nothing to copy.
pub fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut copy = options.open(to)?;
    let bytes = io::copy(&mut source, &mut copy)?;
    copy.sync_all()?;
    Ok(bytes)
}

/// What is whole has its digest as its name; what is being written has another, and old output may vanish meanwhile.
fn copy_named_by_digest(from: &Path, to: &Path) -> io::Result<u64> {
    make_directory(to)?;
    let mut bytes = 0;
    for name in names(from)? {
        if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bytes += copy_file(&from.join(&name), &to.join(&name))?;
        }
    }
    sync_directory(to)?;
    Ok(bytes)
}

/// The names in a directory; none where there is no such directory.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // Every name in these directories is a device's own, made of digits.
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Change, History, State};
    use baton_proto::{CallId, Timestamp};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whatever moment a copy is taken at: what it says was done can be undone from it.
    #[test]
    fn a_copy_taken_in_the_middle_of_work_opens_and_has_every_image_that_it_names() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("device");
        let history = data.join("workspaces/0a/history");
        std::fs::create_dir_all(&history).unwrap();
        std::fs::create_dir_all(data.join("workspaces/0a/spool")).unwrap();
        std::fs::write(data.join("workspaces/0a/spool/half"), "not whole").unwrap();
        std::fs::create_dir_all(data.join("workspaces/0a/cache")).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (open, stopping) = (History::open(&history).unwrap(), Arc::clone(&stop));
        let worker = std::thread::spawn(move || {
            let mut before = None;
            let mut number = 0_u128;
            while !stopping.load(Ordering::SeqCst) {
                let after = Some(open.keep(number.to_string().as_bytes()).unwrap());
                let call_id = CallId(uuid::Uuid::from_u128(number));
                let change = Change { path: "a".into(), before: before.take(), after: after.clone(), mode: 0o644, mode_before: None };
                open.intend(call_id, &[], vec![change], Timestamp(1)).unwrap();
                open.done(call_id).unwrap();
                open.saw("a", after.as_ref()).unwrap();
                (before, number) = (after, number + 1);
            }
        });
        let mut most = 0;
        for round in 0..5 {
            let to = directory.path().join(round.to_string());
            make_directory(&to).unwrap();
            back_up(&data, &to).unwrap();
            let copy = History::open(&to.join("workspaces/0a/history")).unwrap();
            for set in copy.list() {
                for digest in set.changes.iter().flat_map(|change| [&change.before, &change.after]).flatten() {
                    assert!(copy.image(digest).is_some(), "round {round}: {digest} is named and not there");
                }
            }
            most = most.max(copy.list().iter().filter(|set| set.state == State::Done).count());
            assert!(!to.join("workspaces/0a/spool/half").exists() && !to.join("workspaces/0a/cache").exists());
        }
        stop.store(true, Ordering::SeqCst);
        worker.join().unwrap();
        assert!(most > 0, "nothing was done while it was copied");
    }

    #[test]
    fn a_device_that_never_worked_has_nothing_to_copy() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(back_up(&directory.path().join("none"), directory.path()).unwrap(), 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
