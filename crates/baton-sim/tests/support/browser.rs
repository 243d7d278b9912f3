use super::root;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A real Chromium at a given size, driven from outside.
#[derive(Debug)]
pub struct Browser {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Browser {
    pub fn open(width: u32, height: u32, locale: &str) -> Self {
        let mut child = Command::new("node")
            .arg(root().join("web/e2e/driver.mjs"))
            .env("DRIVER_WIDTH", width.to_string())
            .env("DRIVER_HEIGHT", height.to_string())
            .env("DRIVER_LOCALE", locale)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .expect("node starts");
        let input = child.stdin.take().expect("standard input");
        let output = BufReader::new(child.stdout.take().expect("standard output")).lines();
        Self { _child: child, input, output }
    }

    /// Does one thing; what can't be done is an error with what the page shows.
    pub async fn attempt(&mut self, command: Value) -> Result<Value, String> {
        self.input.write_all(format!("{command}\n").as_bytes()).await.expect("the driver listens");
        let line = self.output.next_line().await.expect("the driver answers").expect("the driver lives");
        let answer: Value = serde_json::from_str(&line).expect("an answer in JSON");
        if answer["ok"] == true { Ok(answer["value"].clone()) } else { Err(format!("{}\npage: {}", answer["error"], answer["body"])) }
    }

    pub async fn act(&mut self, command: Value) -> Value {
        self.attempt(command.clone()).await.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub async fn goto(&mut self, url: &str) {
        self.act(json!({"do": "goto", "url": url})).await;
    }

    pub async fn fill(&mut self, id: &str, text: &str) {
        self.act(json!({"do": "fill", "id": id, "text": text})).await;
    }

    pub async fn click(&mut self, id: &str) {
        self.act(json!({"do": "click", "id": id})).await;
    }

    pub async fn wait(&mut self, id: &str, attributes: Value) {
        self.act(json!({"do": "wait", "id": id, "attributes": attributes})).await;
    }

    pub async fn wait_text(&mut self, id: &str, attributes: Value, text: &str) {
        self.act(json!({"do": "wait", "id": id, "attributes": attributes, "text": text})).await;
    }

    pub async fn count(&mut self, id: &str, attributes: Value) -> u64 {
        self.act(json!({"do": "count", "id": id, "attributes": attributes})).await.as_u64().unwrap_or(0)
    }

    pub async fn texts(&mut self, id: &str, attributes: Value) -> Vec<String> {
        let texts = self.act(json!({"do": "texts", "id": id, "attributes": attributes})).await;
        texts.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// A picture, kept where the build's own things are, for people to look at.
    pub async fn picture(&mut self, name: &str) {
        let directory = root().join("target/pictures");
        std::fs::create_dir_all(&directory).expect("a directory");
        self.act(json!({"do": "screenshot", "path": directory.join(format!("{name}.png"))})).await;
    }
}
