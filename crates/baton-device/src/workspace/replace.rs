//! Changing one file so that nobody ever sees half of it, and nothing that appeared meanwhile is lost.
//!
//! The new content is written beside the file, made durable, and exchanged with it in one step. What came out is then
//! compared with what was expected to be there; if the user was faster, both are exchanged back.

use super::beneath::{Beneath, Content, device_error, explain, read_content, regular};
use super::names::name_of;
use super::{MAX_RECORDED_BYTES, RelativePath};
use crate::history::ChangeSet;
use crate::tool::refused;
use baton_proto::{CallId, Digest, ToolError};
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

impl Beneath {
    /// Puts `after` in the place of what is at `path`, which has to be `before` still. Without a `mode` a new file gets the usual one.
    pub fn replace(
        &self,
        path: &RelativePath,
        before: Option<&Content>,
        after: &[u8],
        mode: Option<u32>,
        call_id: CallId,
    ) -> Result<(), ToolError> {
        let (parent, name) = target(path)?;
        let name = &*name_of(name);
        let directory = self.make_directory(&parent)?;
        let beside = beside(call_id);
        let io = |errno: Errno| device_error("writing", path, &errno.into());
        write_beside(&directory, &beside, after, before, mode).map_err(|error| device_error("writing", path, &error))?;
        let result = match before {
            None => put_new(&directory, &beside, name, path),
            Some(content) => exchange(&directory, &beside, name, path, &content.digest),
        };
        // After a failure of the system nobody knows whose content lies beside the file, so it stays for the recovery to judge.
        if result.as_ref().is_err_and(|error| error.code == "device_error") {
            return result;
        }
        match fs::unlinkat(&directory, &beside, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(io(errno)),
        }
        result?;
        fs::fsync(&directory).map_err(io)
    }

    /// Removes the file at `path`, which has to be `before` still.
    pub fn remove(&self, path: &RelativePath, before: &Digest, call_id: CallId) -> Result<(), ToolError> {
        let (parent, name) = target(path)?;
        let name = &*name_of(name);
        let directory = self.directory(&parent)?;
        let beside = beside(call_id);
        let io = |errno: Errno| device_error("deleting", path, &errno.into());
        fs::renameat(&directory, name, &directory, &beside).map_err(|errno| explain(path, errno))?;
        if digest_at(&directory, beside.as_bytes(), path).ok().as_ref() != Some(before) {
            put_new(&directory, &beside, name, path)?;
            return Err(changed(path));
        }
        fs::unlinkat(&directory, &beside, AtFlags::empty()).map_err(io)?;
        fs::fsync(&directory).map_err(io)
    }

    /// Takes away what an interrupted change left beside its file. Returns whether something was left there that this device can't
    /// have made, which then stays.
    pub fn clear_beside(
        &self,
        path: &RelativePath,
        call_id: CallId,
        known: &[Option<Digest>],
        after: Option<&[u8]>,
    ) -> Result<bool, ToolError> {
        let (parent, _) = target(path)?;
        let directory = match self.directory(&parent) {
            Err(error) if error.code == "not_found" => return Ok(false),
            other => other?,
        };
        let beside = beside(call_id);
        let Some(left) = self.read(&parent.join(&beside), MAX_RECORDED_BYTES)? else { return Ok(false) };
        let ours = known.contains(&Some(left.digest)) || after.is_some_and(|after| after.starts_with(&left.bytes));
        if ours {
            fs::unlinkat(&directory, &beside, AtFlags::empty()).map_err(|errno| device_error("clearing", path, &errno.into()))?;
        }
        Ok(!ours)
    }
}

/// The name that a call's new content has beside its file: the same on every attempt, so that it can be found again.
pub(crate) fn beside(call_id: CallId) -> String {
    format!(".baton-{call_id}.tmp")
}

/// The error of a file that is not as the agent knows it.
pub(crate) fn changed(path: &RelativePath) -> ToolError {
    refused(
        "changed_since_read",
        format!("'{path}' was changed by somebody else since it was last read or written here. Nothing was overwritten."),
        READ_AGAIN,
    )
}

/// The same where it is known that nobody else did it.
pub(crate) fn changed_here(path: &RelativePath, by: &ChangeSet) -> ToolError {
    let message = if by.undoes.is_empty() {
        format!("'{path}' was changed by a command here since it was last read. Nothing was overwritten.")
    } else {
        format!("'{path}' was put back by an undo, and what it holds now was never read here. Nothing was overwritten.")
    };
    refused("changed_since_read", message, READ_AGAIN)
}

const READ_AGAIN: &str = "Look at the file as it is now, with read_file or /show, then repeat the change on that.";

fn target(path: &RelativePath) -> Result<(RelativePath, &str), ToolError> {
    path.split().ok_or_else(|| refused("not_a_file", "The path names the workspace itself.", "Name a file in it."))
}

fn write_beside(directory: &OwnedFd, beside: &str, bytes: &[u8], before: Option<&Content>, mode: Option<u32>) -> std::io::Result<()> {
    // An earlier attempt of the same call may have left its own.
    match fs::unlinkat(directory, beside, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(fs::openat(directory, beside, flags, Mode::from_raw_mode(if mode.is_some() { 0o600 } else { 0o666 }))?);
    file.write_all(bytes)?;
    if let Some(content) = before {
        // Only a privileged device can give a file to another owner; elsewhere the file is the device's user's anyway.
        let (owner, group) = content.owner;
        let _ = fs::fchown(&file, Some(fs::Uid::from_raw(owner)), Some(fs::Gid::from_raw(group)));
    }
    if let Some(mode) = mode {
        fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    file.sync_all()
}

/// Gives `beside` its final name unless something has that name.
fn put_new(directory: &OwnedFd, beside: &str, name: &[u8], path: &RelativePath) -> Result<(), ToolError> {
    match fs::renameat_with(directory, beside, directory, name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => match fs::linkat(directory, beside, directory, name, AtFlags::empty()) {
            Ok(()) => fs::unlinkat(directory, beside, AtFlags::empty()).map_err(|errno| explain(path, errno)),
            Err(Errno::EXIST) => Err(changed(path)),
            Err(errno) => Err(device_error("writing", path, &errno.into())),
        },
        Err(Errno::EXIST) => Err(changed(path)),
        other => other.map_err(|errno| device_error("writing", path, &errno.into())),
    }
}

fn exchange(directory: &OwnedFd, beside: &str, name: &[u8], path: &RelativePath, expected: &Digest) -> Result<(), ToolError> {
    let io = |errno: Errno| device_error("writing", path, &errno.into());
    if digest_at(directory, name, path).ok().as_ref() != Some(expected) {
        return Err(changed(path));
    }
    match fs::renameat_with(directory, beside, directory, name, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // The file system can't exchange; the comparison above has to do.
        Err(Errno::INVAL | Errno::NOSYS) => return fs::renameat(directory, beside, directory, name).map_err(io),
        Err(Errno::NOENT) => return Err(changed(path)),
        Err(errno) => return Err(io(errno)),
    }
    if digest_at(directory, beside.as_bytes(), path).ok().as_ref() == Some(expected) {
        return Ok(());
    }
    fs::renameat_with(directory, beside, directory, name, RenameFlags::EXCHANGE).map_err(io)?;
    Err(changed(path))
}

fn digest_at(directory: &OwnedFd, name: &[u8], path: &RelativePath) -> Result<Digest, ToolError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = fs::openat(directory, name, flags, Mode::empty()).map_err(|errno| explain(path, errno))?;
    let (file, stat) = regular(path, fd)?;
    read_content(path, file, &stat, MAX_RECORDED_BYTES).map(|content| content.digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn call() -> CallId {
        "00000000-0000-7000-8000-000000000007".parse().unwrap()
    }

    #[test]
    fn replacing_keeps_the_mode_and_leaves_nothing_beside() {
        let directory = tempfile::tempdir().unwrap();
        let beneath = Beneath::open_root(directory.path()).unwrap();
        let path = RelativePath::parse("run.sh").unwrap();
        std::fs::write(directory.path().join("run.sh"), "old").unwrap();
        std::fs::set_permissions(directory.path().join("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
        let before = beneath.read(&path, 100).unwrap().unwrap();
        beneath.replace(&path, Some(&before), b"new", Some(before.mode), call()).unwrap();
        assert_eq!(std::fs::read(directory.path().join("run.sh")).unwrap(), b"new");
        assert_eq!(std::fs::metadata(directory.path().join("run.sh")).unwrap().permissions().mode() & 0o7777, 0o751);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_the_user_wrote_meanwhile_stays() {
        let directory = tempfile::tempdir().unwrap();
        let beneath = Beneath::open_root(directory.path()).unwrap();
        let path = RelativePath::parse("file").unwrap();
        let at = directory.path().join("file");
        std::fs::write(&at, "old").unwrap();
        let before = beneath.read(&path, 100).unwrap().unwrap();
        std::fs::write(&at, "the user's").unwrap();
        assert_eq!(beneath.replace(&path, Some(&before), b"new", None, call()).unwrap_err().code, "changed_since_read");
        assert_eq!(beneath.remove(&path, &before.digest, call()).unwrap_err().code, "changed_since_read");
        assert_eq!(beneath.replace(&path, None, b"new", None, call()).unwrap_err().code, "changed_since_read");
        assert_eq!(std::fs::read_to_string(&at).unwrap(), "the user's");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
