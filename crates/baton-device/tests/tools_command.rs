//! Commands in the real sandbox: what they can't reach, and how they end.

mod common;

use baton_device::sandbox::{Access, Job, Limits, SandboxMode};
use baton_device::tool::{CancelSignal, ProgressSink};
use baton_device::workspace::{WorkspaceOptions, WorkspaceRoot};
use baton_proto::{Outcome, Risk, StateModified};
use common::{Place, call_id, error_of, git, result_of_failure, succeeded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn sh(line: &str) -> serde_json::Value {
    json!({"argv": ["sh", "-c", line]})
}

#[tokio::test]
async fn a_command_answers_its_output_and_status() {
    let place = Place::new();
    let result = place.ok("run_command", json!({"argv": ["printf", "%s|", "a b", "$HOME", "*"]})).await;
    let (heading, printed) = result.content.split_once('\n').unwrap();
    assert!(heading.starts_with("exit status 0 after"), "{heading}");
    assert_eq!(printed, "a b|$HOME|*|");
    let (code, content) = result_of_failure(place.run("run_command", sh("echo out; echo err >&2; exit 7")).await);
    assert_eq!(code, "exit_status");
    assert!(content.starts_with("exit status 7") && content.ends_with("out\nerr\n"), "{content}");
    let (_, content) = result_of_failure(place.run("run_command", json!({"argv": ["no-such-program"]})).await);
    assert!(content.contains("no-such-program"), "{content}");

    place.write("sub/x", "");
    assert!(place.ok("run_command", json!({"argv": ["ls"], "directory": "sub"})).await.content.ends_with("\nx\n"));
    assert_eq!(place.error("run_command", json!({"argv": ["ls"], "directory": "../"})).await.code, "outside_workspace");
    assert_eq!(place.error("run_command", json!({"argv": []})).await.code, "invalid_arguments");
}

#[tokio::test]
async fn what_a_command_changed_is_listed() {
    let place = Place::new();
    place.write("a", "1");
    place.write("b", "1");
    let content = place.ok("run_command", sh("echo 22 > a; rm b; echo 3 > c")).await.content;
    assert!(content.contains("[files changed: a, c (new), b (gone)]") && !content.contains("not recorded"), "{content}");
    let content = place.ok("run_command", sh("mkdir .git")).await.content;
    assert!(content.contains("[not recorded: .git: what belongs to git") && content.contains("a new '.git' appeared"), "{content}");
    let result = place.ok("run_command", sh("true")).await;
    assert!(!result.content.contains("changed") && result.changes.is_empty() && result.not_recorded.is_empty(), "{}", result.content);
}

#[tokio::test]
async fn s14_nothing_of_the_devices_environment_is_inside() {
    let place = Place::new();
    let script = "tr '\\0' '\\n' </proc/1/environ; tr '\\0' '\\n' </proc/self/environ; env; cat /proc/1/cmdline | tr '\\0' ' '";
    let content = place.ok("run_command", sh(script)).await.content;
    assert!(content.contains("HOME=/home/agent"));
    // The test runner sets variables of its own; none of them, nor any other of this process, may be there.
    for (name, value) in std::env::vars() {
        if !["PATH", "HOME", "LANG", "LC_ALL", "TERM", "PWD", "OLDPWD", "SHLVL", "_", "USER", "LOGNAME", "SHELL", "PAGER", "TMPDIR"]
            .contains(&name.as_str())
            && !name.starts_with("RUSTUP_")
            && !name.starts_with("CARGO_")
            && !name.starts_with("GIT_")
        {
            assert!(!content.contains(&format!("{name}={value}")), "{name}");
        }
    }
    assert!(!content.contains("NEXTEST") && !content.contains("CARGO_MANIFEST_DIR"));
}

#[tokio::test]
async fn s15_no_network_no_sockets_no_home() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = place.directory.path().join("socket");
    let _unix = UnixListener::bind(&socket).unwrap();
    std::fs::write(place.directory.path().join("secret"), "canary").unwrap();

    let connect = |target: String| {
        json!({"argv": ["/usr/bin/perl", "-MIO::Socket::INET", "-MIO::Socket::UNIX", "-e",
            format!("my $s = {target}; print $s ? 'connected' : \"refused: $!\"")]})
    };
    let tcp = format!("IO::Socket::INET->new(PeerAddr => '127.0.0.1:{port}', Timeout => 5)");
    let content = place.ok("run_command", connect(tcp.clone())).await.content;
    assert!(content.contains("refused:"), "{content}");
    let unix = format!("IO::Socket::UNIX->new(Peer => '{}')", socket.display());
    let content = place.ok("run_command", connect(unix)).await.content;
    assert!(content.contains("refused:"), "{content}");
    // The same program does connect outside, so the refusal is the sandbox's.
    let open = Place::with(SandboxMode::None, Limits::default(), |_| {});
    assert!(open.ok("run_command", connect(tcp)).await.content.contains("connected"));

    let home = std::env::var("HOME").unwrap();
    let script = format!("ls -A {home} /home /root /run /var /tmp {} 2>&1; cat {0}/secret", place.directory.path().display());
    let (_, content) = result_of_failure(place.run("run_command", sh(&script)).await);
    assert!(!content.contains("canary") && !content.contains(".ssh") && !content.contains("socket\n"), "{content}");
    assert!(!content.contains(".bashrc") && !content.contains(".gitconfig"), "{content}");
}

#[tokio::test]
async fn s10_git_is_readable_but_neither_writable_nor_movable() {
    let place = Place::repository();
    for line in [
        "echo x >> .git/config",
        "echo x > .git/hooks/pre-commit",
        "mv .git x",
        "rm -rf .git",
        "mkdir n && mv n .git",
        "ln -sfn x .git/new",
        "mount -o remount,rw .git",
        "umount .git",
        "git commit --allow-empty -m x",
        "git config user.name x",
    ] {
        let error = place.error("run_command", sh(line)).await;
        assert_eq!(error.code, "exit_status", "{line}");
    }
    assert!(place.ok("run_command", json!({"argv": ["git", "log", "--oneline", "-n", "5"]})).await.content.contains("first"));
    assert!(place.path().join(".git/HEAD").is_file() && !place.path().join("x").exists());
    assert_eq!(git(&place.path(), &["log", "--oneline"]).lines().count(), 1);
}

#[tokio::test]
async fn s10_a_worktrees_repository_is_shown_read_only_and_an_unconfirmed_one_not_at_all() {
    let place = Place::with(SandboxMode::Bubblewrap, Limits::default(), |path| {
        let main = path.parent().unwrap().join("main");
        std::fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
        git(&main, &["worktree", "add", "-q", "-b", "topic", path.to_str().unwrap()]);
    });
    assert_eq!(place.root.baseline().await.branch.as_deref(), Some("topic"));
    assert!(place.ok("run_command", json!({"argv": ["git", "log", "--oneline", "-n", "1"]})).await.content.contains("first"));
    let common = place.directory.path().join("main/.git");
    for line in [format!("echo x >> {}/config", common.display()), "echo x > .git".to_owned(), "mv .git x".to_owned()] {
        assert_eq!(place.error("run_command", sh(&line)).await.code, "exit_status", "{line}");
    }

    let victim = common.parent().unwrap().to_owned();
    let hostile = Place::with(SandboxMode::Bubblewrap, Limits::default(), |path| {
        std::fs::write(path.join(".git"), format!("gitdir: {}/.git\n", victim.display())).unwrap();
    });
    assert_eq!(hostile.error("run_command", json!({"argv": ["ls"]})).await.code, "unsafe_git");
    assert_eq!(hostile.root.baseline().await.commit, None);
}

#[tokio::test]
async fn s9_a_hostile_repository_runs_nothing_outside() {
    let place = Place::repository();
    let at = place.path();
    let marker = place.directory.path().join("marker");
    let inside = at.join("inside");
    let script = at.join("evil.sh");
    std::fs::write(&script, format!("#!/bin/sh\ntouch {} {}\ncat\n", marker.display(), inside.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.to_str().unwrap();
    for (name, value) in [
        ("core.fsmonitor", evil),
        ("core.pager", evil),
        ("core.sshCommand", evil),
        ("diff.external", evil),
        ("filter.x.clean", evil),
        ("filter.x.smudge", evil),
        ("filter.x.process", evil),
        ("diff.x.textconv", evil),
        ("core.hooksPath", at.join("hooks").to_str().unwrap()),
    ] {
        git(&at, &["config", name, value]);
    }
    std::fs::create_dir(at.join("hooks")).unwrap();
    std::fs::copy(&script, at.join("hooks/post-index-change")).unwrap();
    place.write(".gitattributes", "* filter=x diff=x\n");
    place.write("tracked", "changed\n");

    // The repository is armed: outside, git does run the script.
    git(&at, &["status"]);
    assert!(marker.exists() && inside.exists());
    std::fs::remove_file(&marker).unwrap();
    std::fs::remove_file(&inside).unwrap();
    place.write("tracked", "changed again\n");

    let baseline = place.root.baseline().await;
    assert!(baseline.dirty.is_some() && baseline.commit.is_some());
    for argv in [json!(["git", "status"]), json!(["git", "diff"]), json!(["git", "diff", "--stat"]), json!(["git", "log", "-n", "1"])] {
        let prepared = place.prepare("run_command", json!({"argv": argv})).await;
        assert_eq!(prepared.risk, Risk::Safe);
        let _ = place.run("run_command", json!({"argv": argv})).await;
    }
    assert!(!inside.exists(), "a command that only reads changed the workspace");
    let _ = place.run("run_command", json!({"argv": ["git", "add", "."]})).await;
    assert!(!marker.exists());
}

/// A project is trusted when its directory is named on the device's own command line. Until somebody asks for something, nothing of it runs:
/// neither what git is told to run, nor what editors, shells, package managers and other agents would run by themselves.
#[tokio::test]
async fn s11_opening_a_project_starts_nothing_of_it() {
    let place = Place::with(SandboxMode::Bubblewrap, Limits::default(), |path| {
        git(path, &["init", "-q"]);
        git(path, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let marker = path.parent().unwrap().join("marker");
        let evil = path.join("evil.sh");
        std::fs::write(&evil, format!("#!/bin/sh\ntouch {}\ncat\n", marker.display())).unwrap();
        std::fs::set_permissions(&evil, std::fs::Permissions::from_mode(0o755)).unwrap();
        let evil = evil.to_str().unwrap();
        for (name, value) in [("core.fsmonitor", evil), ("core.pager", evil), ("filter.x.clean", evil), ("diff.external", evil)] {
            git(path, &["config", name, value]);
        }
        for (name, text) in [
            (".gitattributes", "* filter=x diff=x\n".to_owned()),
            (".envrc", evil.to_owned()),
            (".vscode/tasks.json", json!({"tasks": [{"command": evil, "runOptions": {"runOn": "folderOpen"}}]}).to_string()),
            (".mcp.json", json!({"mcpServers": {"x": {"command": evil}}}).to_string()),
            (".claude/settings.json", json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": evil}]}]}}).to_string()),
            (".baton/tools.json", json!({"tools": [{"name": "x", "command": evil}]}).to_string()),
            ("package.json", json!({"scripts": {"preinstall": evil, "postinstall": evil}}).to_string()),
            ("Makefile", format!("all:\n\t{evil}\n")),
            ("build.rs", "fn main() {}".to_owned()),
        ] {
            let at = path.join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        }
        // It is armed: git runs the script at the first look.
        git(path, &["status"]);
        assert!(marker.exists());
        std::fs::remove_file(&marker).unwrap();
    });
    let marker = place.directory.path().join("marker");
    let described = place.root.describe(baton_proto::WorkspaceId(uuid::Uuid::now_v7())).await;
    assert!(described.baseline.commit.is_some() && place.root.baseline().await.dirty.is_some());
    assert!(inside(&place.path()).is_empty(), "a process works in the workspace");
    // Reading it is no reason either.
    place.ok("list_files", json!({})).await;
    place.ok("read_file", json!({"path": ".mcp.json"})).await;
    place.ok("find_text", json!({"pattern": "evil"})).await;
    assert!(inside(&place.path()).is_empty(), "a process works in the workspace");
    assert!(!marker.exists(), "something of the project ran");
    // Its files define no tools: what is offered is the same as without them.
    let offered = |place: &Place| place.tools.specs().into_iter().map(|spec| spec.name).collect::<Vec<_>>();
    assert_eq!(offered(&place), offered(&Place::new()));
}

#[tokio::test]
async fn s16_no_nested_namespaces_and_no_capabilities() {
    let place = Place::new();
    let (_, content) = result_of_failure(place.run("run_command", sh("unshare -U true")).await);
    assert!(content.contains("unshare"), "{content}");
    let content = place.ok("run_command", sh("grep -i '^cap' /proc/self/status; ps -eo sid,pid,args")).await.content;
    assert_eq!(content.lines().filter(|line| line.starts_with("Cap")).count(), 5, "{content}");
    for line in content.lines().filter(|line| line.starts_with("Cap")) {
        assert!(line.ends_with("0000000000000000"), "{line}");
    }
    // A session of the outside would be shown as 0, and its terminal could be typed into.
    let session = content.lines().find(|line| line.ends_with("sid,pid,args")).unwrap().split_whitespace().next().unwrap();
    assert_ne!(session, "0", "{content}");
    assert!(!content.contains("baton"), "a process of the host is visible: {content}");
}

/// A process that left its group and session, and holds a file that says whether it lives.
const ESCAPE: &str = "setsid sh -c 'while :; do date +%s%N > beat; sleep 0.05; done' >/dev/null 2>&1 & (setsid sleep 1000 &) ; ";

/// Processes of the host's view that work in the workspace; those in a sandbox among them.
#[allow(clippy::unwrap_used, reason = "a test fails where it stands")]
fn inside(workspace: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let working = entries.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at.starts_with(workspace)));
    working.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn still(place: &Place) -> bool {
    !inside(&place.path()).is_empty()
}

#[tokio::test]
async fn c24_a_cancelled_command_is_gone_with_all_that_it_started() {
    let place = Place::new();
    let (running, switch, mut lines) = place.start("run_command", sh(&format!("{ESCAPE} sleep 0.4; echo started; sleep 1000")));
    let line = tokio::time::timeout(Duration::from_secs(30), lines.recv()).await.unwrap().unwrap();
    assert_eq!(line, "started");
    assert!(place.path().join("beat").exists() && still(&place));
    switch.cancel();
    let outcome = running.await.unwrap();
    assert!(matches!(&outcome, Outcome::Cancelled { result: Some(result) } if result.content.contains("started")), "{outcome:?}");
    assert!(!still(&place));
}

/// The device of the next test, in a process of its own.
#[tokio::test]
#[ignore = "started by the test below"]
async fn a_device_to_be_killed() {
    let Some(workspace) = std::env::var_os("WORKSPACE_OF_THE_TEST") else { return };
    let data = Path::new(&workspace).with_file_name("data");
    let options = WorkspaceOptions { data, sandbox: SandboxMode::Bubblewrap, limits: Limits::default() };
    let root = WorkspaceRoot::open(Path::new(&workspace), &options).unwrap();
    let job = Job {
        argv: ["sh", "-c", &format!("{ESCAPE} sleep 0.4; echo started; sleep 1000")].map(str::to_owned).to_vec(),
        directory: root.path().to_owned(),
        access: Access::ReadWrite,
        wall: Duration::from_secs(1000),
        cancel: CancelSignal::never(),
        progress: ProgressSink::new(|_| std::fs::write("/dev/stdout", "the command runs\n").unwrap()),
    };
    let _ = root.sandbox().run(job).await;
}

#[test]
fn c23_a_killed_device_leaves_no_command_running() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().canonicalize().unwrap().join("work");
    std::fs::create_dir(&workspace).unwrap();
    let mut device = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_device_to_be_killed", "--ignored", "--nocapture"])
        .env("WORKSPACE_OF_THE_TEST", &workspace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(device.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("the command runs")));
    let running: Vec<_> =
        inside(&workspace).into_iter().filter_map(|id| pidfd_open(Pid::from_raw(id)?, PidfdFlags::empty()).ok()).collect();
    assert!(running.len() >= 3, "{running:?}");
    device.kill().unwrap();
    device.wait().unwrap();
    for process in running {
        let within = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&within)), Ok(1), "a process outlived its device");
    }
}

#[tokio::test]
async fn a_command_is_gone_after_its_time_and_after_its_end() {
    let place = Place::new();
    let outcome = place.run("run_command", json!({"argv": ["sh", "-c", format!("{ESCAPE} sleep 1000")], "timeout_s": 1})).await;
    let error = error_of(outcome);
    assert!(error.code == "timed_out" && error.state_modified == StateModified::Yes, "{error:?}");
    assert!(!still(&place));

    place.ok("run_command", sh(&format!("{ESCAPE} sleep 0.2"))).await;
    assert!(!still(&place));

    let open = Place::with(SandboxMode::None, Limits::default(), |_| {});
    let error =
        open.error("run_command", json!({"argv": ["sh", "-c", "sleep 1000 & setsid sleep 1000 & sleep 1000"], "timeout_s": 1})).await;
    assert_eq!(error.code, "timed_out");
    assert!(!still(&open));
}

#[tokio::test]
async fn e9_a_flood_of_output_is_bounded_kept_and_stopped() {
    let place = Place::with(SandboxMode::Bubblewrap, Limits { output_bytes: 8 << 20, ..Limits::default() }, |_| {});
    let result = place.ok("run_command", sh("echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo last")).await;
    assert!(result.content.contains("\nfirst\n") && result.content.ends_with("\nlast\n"));
    assert_eq!((result.bytes, result.content.len() <= baton_proto::MAX_RESULT_BYTES), (1_000_012, true));
    assert!(place.root.sandbox().spool().join(result.digest.unwrap().0).is_file());

    let outcome = place.run("run_command", json!({"argv": ["head", "-c", "100000000", "/dev/zero"]})).await;
    let Outcome::Failed { error, result: Some(result) } = outcome else { panic!() };
    assert_eq!(error.code, "output_limit");
    assert!(result.bytes < (8 << 20) + (1 << 20) && result.content.len() <= baton_proto::MAX_RESULT_BYTES);
}

#[tokio::test]
async fn e8_memory_and_processes_are_limited() {
    let place = Place::with(SandboxMode::Bubblewrap, Limits { memory_bytes: 200 << 20, processes: 40, ..Limits::default() }, |_| {});
    // One process is stopped by the kernel.
    let error = place.error("run_command", json!({"argv": ["/usr/bin/perl", "-e", "my $x = 'x' x 400_000_000; print length $x"]})).await;
    assert!(["exit_status", "memory_limit", "signalled"].contains(&error.code.as_str()), "{error:?}");
    // Several together are stopped by the device.
    let many = "for i in 1 2 3; do perl -e 'my $x = \"x\" x 90_000_000; sleep 100' & done; wait";
    assert_eq!(place.error("run_command", sh(many)).await.code, "memory_limit");
    let bomb = "for i in $(seq 200); do sleep 100 & done; wait";
    let error = place.error("run_command", sh(bomb)).await;
    assert!(["process_limit", "exit_status"].contains(&error.code.as_str()), "{error:?}");
    assert!(!still(&place));
}

#[tokio::test]
async fn s17_and_s19_what_is_approved_is_shown_whole_and_is_what_runs() {
    let place = Place::new();
    place.write("run.sh", "echo approved\n");
    let arguments = json!({"argv": ["sh", "run.sh", "it's \u{202e}"]});
    let prepared = place.prepare("run_command", arguments.clone()).await;
    assert_eq!(prepared.preview, "sh run.sh 'it'\\''s ⟨U+202E⟩'");
    assert_eq!((prepared.risk, prepared.directory.as_deref()), (Risk::Sensitive, place.path().to_str()));
    assert!(prepared.digests.contains_key("run.sh"));
    let result = succeeded(place.run_as(call_id(), "run_command", arguments.clone(), prepared.digests.clone()).await);
    assert!(result.content.ends_with("approved\n"));
    place.write("run.sh", "echo other\n");
    assert_eq!(error_of(place.run_as(call_id(), "run_command", arguments, prepared.digests).await).code, "changed_since_approval");

    let long = place.prepare("run_command", json!({"argv": ["echo", "x".repeat(40_000)]})).await;
    assert_eq!(long.refusal.unwrap().code, "preview_too_long");
    let open = Place::with(SandboxMode::None, Limits::default(), |_| {});
    assert_eq!(open.prepare("run_command", json!({"argv": ["git", "status"]})).await.risk, Risk::Sensitive);
    assert_eq!(open.prepare("run_command", json!({"argv": ["ls"]})).await.risk, Risk::Safe);
}

#[tokio::test]
async fn the_baseline_tells_commit_branch_and_uncommitted_work() {
    let place = Place::repository();
    let clean = place.root.baseline().await;
    assert_eq!((clean.branch.as_deref(), clean.dirty.clone()), (Some("main"), None));
    assert_eq!(clean.commit.unwrap(), git(&place.path(), &["rev-parse", "HEAD"]));
    place.write("tracked", "two\n");
    let dirty = place.root.baseline().await.dirty;
    assert!(dirty.is_some() && dirty == place.root.baseline().await.dirty);
    place.write("tracked", "six\n");
    assert_ne!(place.root.baseline().await.dirty, dirty);
    place.write("tracked", "one\n");
    place.write("new", "x");
    assert!(place.root.baseline().await.dirty.is_some());

    let plain = Place::new();
    let empty = plain.root.baseline().await;
    assert_eq!((empty.branch, empty.commit), (None, None));
    plain.write("x", "1");
    assert_ne!(plain.root.baseline().await.dirty, empty.dirty);
}

#[tokio::test]
async fn toolchains_of_the_user_work_inside() {
    let place = Place::new();
    for argv in [json!(["git", "--version"]), json!(["perl", "-e", "print 1"])] {
        place.ok("run_command", json!({"argv": argv})).await;
    }
    let content = place
        .ok("run_command", sh("touch /tmp/x ~/x ~/.cache/x && id -un && ! touch /usr/x && ! touch /etc/x && ! touch /x"))
        .await
        .content;
    assert!(content.contains("agent"), "{content}");
}
