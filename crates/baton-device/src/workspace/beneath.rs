//! A directory handle below which everything is opened, without following any link (S13).
//!
//! Paths are resolved by the kernel from the handle, so a directory swapped for a link between a check and its use gains nothing.

use super::RelativePath;
use super::names::name_of;
use crate::tool::refused;
use baton_proto::{Digest, StateModified, ToolError};
use rustix::fs::{self, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Largest file read whole into a result or edited, in bytes.
pub const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;
/// Largest file whose content the history keeps, and whose digest an approval is bound to, in bytes.
pub const MAX_RECORDED_BYTES: u64 = 64 * 1024 * 1024;

/// A directory and how paths below it are resolved.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    resolver: Resolver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolver {
    /// One `openat2` call.
    Kernel,
    /// One `openat` per component, for kernels and containers without `openat2`.
    Walk,
}

/// A regular file as it was when it was read.
#[derive(Clone, Debug)]
pub struct Content {
    pub bytes: Vec<u8>,
    pub digest: Digest,
    /// Permission bits.
    pub mode: u32,
    pub owner: (u32, u32),
}

impl Beneath {
    /// Opens the directory at an absolute path that may contain links: the user named it.
    pub fn open_root(path: &Path) -> std::io::Result<Self> {
        let root = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut beneath = Self { root, resolver: Resolver::Kernel };
        if let Err(Errno::NOSYS | Errno::PERM) = beneath.kernel_open(b".", OFlags::PATH | OFlags::DIRECTORY) {
            beneath.resolver = Resolver::Walk;
        }
        Ok(beneath)
    }

    /// The directory's own handle.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Opens a directory below the root.
    pub fn directory(&self, path: &RelativePath) -> Result<OwnedFd, ToolError> {
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(|errno| explain(path, errno))
    }

    /// Opens a directory below the root, creating what is missing of it.
    pub fn make_directory(&self, path: &RelativePath) -> Result<OwnedFd, ToolError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let step = |from: &OwnedFd, name: &[u8]| -> Result<OwnedFd, Errno> {
            match fs::mkdirat(from, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => fs::fsync(from)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            fs::openat(from, name, flags, Mode::empty())
        };
        let mut directory = self.directory(&RelativePath::root())?;
        for name in path.components() {
            directory = step(&directory, &name_of(name)).map_err(|errno| explain(path, errno))?;
        }
        Ok(directory)
    }

    /// Opens a regular file for reading. Pipes, sockets and devices are refused without waiting for their other end.
    pub fn file(&self, path: &RelativePath) -> Result<(File, Stat), ToolError> {
        let fd = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(|errno| explain(path, errno))?;
        regular(path, fd)
    }

    /// Reads a file of at most `limit` bytes, or `None` if there is none.
    pub fn read(&self, path: &RelativePath, limit: u64) -> Result<Option<Content>, ToolError> {
        match self.file(path) {
            Ok((file, stat)) => read_content(path, file, &stat, limit).map(Some),
            Err(error) if error.code == "not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn resolve(&self, path: &RelativePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.resolver {
            Resolver::Kernel => self.kernel_open(&name_of(path.as_str()), flags),
            Resolver::Walk => self.walk_open(path, flags),
        }
    }

    fn kernel_open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let mut tries = 0;
        loop {
            match fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // The kernel says so when something was renamed while it looked.
                Err(Errno::AGAIN) if tries < 16 => tries += 1,
                other => return other,
            }
        }
    }

    fn walk_open(&self, path: &RelativePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let Some((parent, name)) = path.split() else {
            return fs::openat(&self.root, ".", flags | OFlags::CLOEXEC, Mode::empty());
        };
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = fs::openat(&self.root, ".", step, Mode::empty())?;
        for component in parent.components() {
            let component = &*name_of(component);
            directory = match fs::openat(&directory, component, step, Mode::empty()) {
                // A link opened this way is "not a directory"; say what it is.
                Err(Errno::NOTDIR) if is_link(&directory, component) => return Err(Errno::LOOP),
                other => other?,
            };
        }
        let name = &*name_of(name);
        match fs::openat(&directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOTDIR) if is_link(&directory, name) => Err(Errno::LOOP),
            other => other,
        }
    }

    #[cfg(test)]
    pub(super) fn walking(path: &Path) -> Self {
        Self { resolver: Resolver::Walk, ..Self::open_root(path).unwrap() }
    }
}

/// Reads an opened file, checking its size before and while reading.
pub(super) fn read_content(path: &RelativePath, file: File, stat: &Stat, limit: u64) -> Result<Content, ToolError> {
    let mut bytes = Vec::new();
    (&file).take(limit + 1).read_to_end(&mut bytes).map_err(|error| device_error("reading", path, &error))?;
    let size = u64::try_from(stat.st_size).unwrap_or(0).max(bytes.len() as u64);
    if size > limit {
        let message = format!("'{path}' is {size} bytes; at most {limit} are read.");
        return Err(refused("too_large", message, "Search it with find_text or /find, or take a part of it with run_command or /run."));
    }
    let digest = Digest::of_bytes(&bytes);
    Ok(Content { bytes, digest, mode: stat.st_mode & 0o7777, owner: (stat.st_uid, stat.st_gid) })
}

/// Accepts a handle only if it is a regular file.
pub(super) fn regular(path: &RelativePath, fd: OwnedFd) -> Result<(File, Stat), ToolError> {
    let stat = fs::fstat(&fd).map_err(|errno| explain(path, errno))?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok((File::from(fd), stat)),
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(not_a_file(path, kind))
}

/// An error of the operating system while a tool worked on `path`.
pub(crate) fn device_error(doing: &str, path: &RelativePath, error: &std::io::Error) -> ToolError {
    ToolError {
        code: "device_error".to_owned(),
        message: format!("The device failed while {doing} '{path}': {error}."),
        hint: "Check free space and permissions on the device, then try again.".to_owned(),
        state_modified: StateModified::Unknown,
    }
}

fn not_a_file(path: &RelativePath, kind: &str) -> ToolError {
    refused("not_a_file", format!("'{path}' is {kind}, not a file."), "Look at what is there, with list_files or /run ls.")
}

pub(super) fn explain(path: &RelativePath, errno: Errno) -> ToolError {
    match errno {
        Errno::NOENT => {
            refused("not_found", format!("There is no '{path}' in the workspace."), "Look at what is there, with list_files or /run ls.")
        }
        Errno::LOOP | Errno::XDEV => refused(
            "outside_workspace",
            format!("'{path}' is, or leads through, a symbolic link; links are not followed."),
            "Name the file that the link points to, if it is inside the workspace.",
        ),
        Errno::NOTDIR => {
            refused("not_found", format!("A part of '{path}' is not a directory."), "Look at what is there, with list_files or /run ls.")
        }
        Errno::ISDIR => not_a_file(path, "a directory"),
        Errno::NXIO | Errno::NODEV => not_a_file(path, "a socket or a device"),
        Errno::ACCESS | Errno::PERM => refused(
            "no_permission",
            format!("The device's user may not open '{path}'."),
            "The device's user has to change the file's permissions; or choose another file.",
        ),
        Errno::NAMETOOLONG => refused("outside_workspace", "A name in the path is too long.", "Use a shorter name."),
        other => device_error("opening", path, &other.into()),
    }
}

fn is_link(directory: &OwnedFd, name: &[u8]) -> bool {
    fs::statat(directory.as_fd(), name, fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn code(beneath: &Beneath, path: &str) -> String {
        match RelativePath::parse(path).and_then(|path| beneath.file(&path)) {
            Ok(_) => "opened".to_owned(),
            Err(error) => error.code,
        }
    }

    #[test]
    fn s13_only_regular_files_below_the_root_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/file"), "x").unwrap();
        std::fs::write(directory.path().join("secret"), "x").unwrap();
        symlink("real", root.join("inner")).unwrap();
        symlink("..", root.join("outer")).unwrap();
        symlink("/etc/passwd", root.join("passwd")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        fs::mknodat(fs::CWD, root.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _listener = UnixListener::bind(root.join("socket")).unwrap();

        for beneath in [Beneath::open_root(&root).unwrap(), Beneath::walking(&root)] {
            for (path, expected) in [
                ("real/deep/file", "opened"),
                ("inner/deep/file", "outside_workspace"),
                ("outer/secret", "outside_workspace"),
                ("passwd", "outside_workspace"),
                ("magic/etc/passwd", "outside_workspace"),
                ("pipe", "not_a_file"),
                ("socket", "not_a_file"),
                ("real", "not_a_file"),
                ("", "not_a_file"),
                ("real/deep/file/x", "not_found"),
                ("%2e%2e/secret", "not_found"),
                ("none", "not_found"),
            ] {
                assert_eq!(code(&beneath, path), expected, "{path} with {:?}", beneath.resolver);
            }
        }
    }

    #[test]
    fn a_directory_is_made_step_by_step_and_never_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir(&root).unwrap();
        symlink(directory.path(), root.join("out")).unwrap();
        let beneath = Beneath::open_root(&root).unwrap();
        beneath.make_directory(&RelativePath::parse("a/b/c").unwrap()).unwrap();
        assert!(root.join("a/b/c").is_dir());
        assert!(beneath.make_directory(&RelativePath::parse("out/x").unwrap()).is_err());
        assert!(!directory.path().join("x").exists());
    }

    #[test]
    fn a_file_over_the_limit_is_refused_with_the_limit_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("big"), [b'x'; 11]).unwrap();
        let beneath = Beneath::open_root(directory.path()).unwrap();
        let path = RelativePath::parse("big").unwrap();
        let error = beneath.read(&path, 10).unwrap_err();
        assert!(error.code == "too_large" && error.message.contains("10"), "{error:?}");
        assert_eq!(beneath.read(&path, 11).unwrap().unwrap().bytes.len(), 11);
    }
}
