//! The command line of bubblewrap for one job.

use super::toolchains::{ENVIRONMENT, Toolchains};
use super::{Access, Job, Limits};
use crate::workspace::Repository;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the inside looks like.
#[derive(Debug)]
pub(super) struct Layout<'a> {
    pub(super) workspace: &'a Path,
    pub(super) repository: &'a Repository,
    pub(super) data: &'a Path,
    pub(super) toolchains: &'a Toolchains,
    pub(super) limits: &'a Limits,
}

/// Home of every command: empty at its start, gone after its end.
const HOME: &str = "/home/agent";
/// Caches that outlive a command, one set for each workspace.
const CACHE: &str = "/home/agent/.cache";

/// Of `/etc` only what programs need to find libraries, certificates and names. All of it is public.
const ETC: [&str; 12] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/protocols",
    "/etc/services",
    "/etc/fonts",
    "/etc/java-17-openjdk",
];

/// Where bubblewrap is, if it is installed. Fixed places only: the device's `PATH` may hold a directory that others can write.
pub(super) fn find() -> Option<PathBuf> {
    ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// Writes the files of `/etc` that are the sandbox's own, so that the host's users stay unknown.
pub(super) fn write_own_files(directory: &Path) -> std::io::Result<()> {
    let (user, group) = ids();
    let root = if user == 0 { String::new() } else { "root:x:0:0:root:/:/usr/sbin/nologin\n".to_owned() };
    let files = [
        ("passwd", format!("{root}agent:x:{user}:{group}:agent:{HOME}:/bin/sh\n")),
        ("group", format!("agent:x:{group}:\n")),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".to_owned()),
    ];
    for (name, content) in files {
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}

fn ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Bubblewrap, ready to be started, with an empty environment: what it is started with stays readable inside (S14).
pub(super) fn command(program: &Path, layout: &Layout<'_>, job: &Job) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/").stdin(Stdio::null()).args(arguments(layout, job));
    command
}

fn arguments(layout: &Layout<'_>, job: &Job) -> Vec<OsString> {
    let mut list = List::default();
    list.words(&["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    list.words(&["--hostname", "sandbox"]);
    system(&mut list);
    list.words(&["--proc", "/proc", "--dev", "/dev"]);
    // Files in memory count against nobody's limit, so each such place has its own.
    list.words(&["--size", "268435456", "--tmpfs", "/dev/shm", "--size", "1073741824", "--tmpfs", "/tmp"]);
    list.words(&["--size", "1073741824", "--tmpfs", HOME]);
    for path in &layout.toolchains.shown {
        list.bind("--ro-bind-try", path, path);
    }
    list.bind("--bind", &layout.data.join("cache"), Path::new(CACHE));
    if let Some(crates) = &layout.toolchains.crates {
        list.bind("--ro-bind-try", crates, &Path::new(CACHE).join("cargo/registry"));
    }
    workspace(&mut list, layout, job.access);
    list.words(&["--remount-ro", "/"]);
    environment(&mut list, layout.toolchains);
    list.word("--chdir");
    list.0.push(job.directory.clone().into_os_string());
    list.word("--");
    if let Some(prlimit) = ["/usr/bin/prlimit", "/bin/prlimit"].into_iter().find(|path| Path::new(path).is_file()) {
        // Set inside, where the user namespace counts its own processes only.
        list.word(prlimit);
        list.word(&format!("--data={}", layout.limits.memory_bytes));
        list.word(&format!("--nproc={}", layout.limits.processes));
        list.words(&["--core=0", "--"]);
    }
    list.0.extend(job.argv.iter().map(OsString::from));
    list.0
}

/// The system's programs and libraries, where they are on this host.
fn system(list: &mut List) {
    list.words(&["--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        match std::fs::read_link(&path) {
            Ok(target) => {
                list.word("--symlink");
                list.0.push(target.into_os_string());
                list.0.push(path.into_os_string());
            }
            Err(_) if path.is_dir() => list.bind("--ro-bind", &path, &path),
            Err(_) => {}
        }
    }
    for path in ETC {
        // A link as the source would show whatever it points to; resolved, it is shown under the name that programs look for (S16).
        if let Ok(resolved) = Path::new(path).canonicalize()
            && (resolved.starts_with("/etc") || resolved.starts_with("/usr") || resolved.starts_with("/var/lib/ca-certificates"))
        {
            list.bind("--ro-bind", &resolved, Path::new(path));
        }
    }
}

fn workspace(list: &mut List, layout: &Layout<'_>, access: Access) {
    for name in ["passwd", "group", "hosts", "nsswitch.conf"] {
        list.bind("--ro-bind", &layout.data.join("etc").join(name), &Path::new("/etc").join(name));
    }
    let bind = if access == Access::ReadWrite { "--bind" } else { "--ro-bind" };
    list.bind(bind, layout.workspace, layout.workspace);
    let dot_git = layout.workspace.join(".git");
    match layout.repository {
        Repository::None | Repository::Unconfirmed => {}
        Repository::Directory => list.bind("--ro-bind", &dot_git, &dot_git),
        Repository::Worktree { common, .. } => {
            list.bind("--ro-bind", &dot_git, &dot_git);
            // The worktree's own part lies in the common one.
            list.bind("--ro-bind", common, common);
        }
    }
}

fn environment(list: &mut List, toolchains: &Toolchains) {
    list.word("--clearenv");
    list.set("PATH", &toolchains.path_value());
    for (name, value) in [
        ("HOME", HOME),
        ("USER", "agent"),
        ("LOGNAME", "agent"),
        ("SHELL", "/bin/sh"),
        ("TMPDIR", "/tmp"),
        ("XDG_CACHE_HOME", CACHE),
        ("CARGO_HOME", "/home/agent/.cache/cargo"),
        ("CARGO_NET_OFFLINE", "true"),
        ("npm_config_cache", "/home/agent/.cache/npm"),
        ("PIP_CACHE_DIR", "/home/agent/.cache/pip"),
        ("GOCACHE", "/home/agent/.cache/go-build"),
        ("GOMODCACHE", "/home/agent/.cache/go-mod"),
    ]
    .into_iter()
    .chain(ENVIRONMENT)
    {
        list.set(name, OsStr::new(value));
    }
    if let Some(rustup) = &toolchains.rustup {
        list.set("RUSTUP_HOME", rustup.as_os_str());
        list.set("RUSTUP_AUTO_INSTALL", OsStr::new("0"));
    }
}

#[derive(Default)]
struct List(Vec<OsString>);

impl List {
    fn word(&mut self, word: &str) {
        self.0.push(word.into());
    }

    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &Path) {
        self.0.extend([how.into(), from.as_os_str().to_owned(), to.as_os_str().to_owned()]);
    }

    fn set(&mut self, name: &str, value: &OsStr) {
        self.0.extend(["--setenv".into(), name.into(), value.to_owned()]);
    }
}
