use super::program;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A terminal with a profile of its own.
#[derive(Clone, Debug)]
pub struct Terminal {
    config: PathBuf,
    /// Where it stands; the tests' own directory unless it says so.
    directory: Option<PathBuf>,
}

/// What a finished command said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub lines: Vec<Value>,
    pub errors: String,
}

impl Said {
    /// The first line of that event.
    pub fn event(&self, name: &str) -> &Value {
        self.lines.iter().find(|line| line["event"] == name).unwrap_or_else(|| panic!("no '{name}' in {:?}; {}", self.lines, self.errors))
    }
}

/// What a finished command showed to a person.
#[derive(Debug)]
pub struct Shown {
    pub code: i32,
    pub out: String,
    pub errors: String,
}

impl Terminal {
    pub fn new(directory: &Path) -> Self {
        Self::named(directory, "terminal")
    }

    /// One of several terminals.
    pub fn named(directory: &Path, name: &str) -> Self {
        Self { config: directory.join(name), directory: None }
    }

    /// The same terminal after a `cd`.
    #[must_use]
    pub fn standing_in(&self, directory: &Path) -> Self {
        Self { directory: Some(directory.to_owned()), ..self.clone() }
    }

    /// The file in which it keeps what it is paired as.
    pub fn profile(&self) -> PathBuf {
        self.config.join("baton/profiles/default.json")
    }

    /// A field of that file.
    pub fn known(&self, field: &str) -> String {
        let profile: Value = serde_json::from_slice(&std::fs::read(self.profile()).expect("a profile")).expect("JSON");
        profile[field].as_str().expect("a text").to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain_command(arguments);
        command.arg("--json");
        command
    }

    fn plain_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("baton"));
        command
            .args(arguments)
            .env("XDG_CONFIG_HOME", &self.config)
            .env("BATON_LOCAL_MODELS", "none")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Runs a command as a person does, with what it is given on standard input.
    pub async fn show(&self, arguments: &[&str], input: &str) -> Shown {
        let mut child = self
            .plain_command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        // Dropped after it, so that the command sees the end of its input. One that reads nothing may be gone already.
        let _ = child.stdin.take().expect("standard input").write_all(input.as_bytes()).await;
        let output = child.wait_with_output().await.expect("the command runs");
        Shown {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Said {
        let output = self.command(arguments).output().await.expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Said {
            code: output.status.code().unwrap_or(-1),
            lines: text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The same, and it has to succeed.
    pub async fn ok(&self, arguments: &[&str]) -> Said {
        let said = self.run(arguments).await;
        assert_eq!(said.code, 0, "baton {arguments:?}: {}", said.errors);
        said
    }

    /// Starts a command whose lines are read as they come.
    pub fn start(&self, arguments: &[&str]) -> Started {
        let mut child = self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("the command starts");
        let lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        Started { child, lines }
    }
}

/// A command under way.
#[derive(Debug)]
pub struct Started {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Started {
    /// The next line.
    pub async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("output can be read").expect("another line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))
    }

    /// The next line of that event; other lines are passed over.
    pub async fn event(&mut self, name: &str) -> Value {
        while let Some(line) = self.lines.next_line().await.expect("output can be read") {
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
            if value["event"] == name {
                return value;
            }
        }
        panic!("the command ended without '{name}'");
    }
}
