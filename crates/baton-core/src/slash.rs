use baton_proto::{ErrorBody, ErrorCode, SlashCommand};
use serde_json::{Value, json};
use uuid::Uuid;

/// A call that the user asked for word by word.
pub(crate) struct Literal {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Work whose calls are meant; the hub finds them in the log.
    pub(crate) named: Option<NamedWork>,
}

/// A task, or one call, and possibly one step of the task's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWork {
    pub id: Uuid,
    pub step: Option<String>,
}

/// The work that a message names, where it is a command about work.
pub fn named_work(text: &str) -> Option<NamedWork> {
    parse(text.trim())?.ok()?.named
}

/// The commands that work without a model; the same list on every end (R7).
pub fn commands() -> Vec<SlashCommand> {
    let row = |name: &str, usage: &str, description: &str| SlashCommand {
        name: name.to_owned(),
        usage: usage.to_owned(),
        description: description.to_owned(),
    };
    vec![
        row("/show", "/show PATH", "Show a file of the workspace."),
        row("/find", "/find TEXT", "Find text in the workspace's files."),
        row("/replace", "/replace PATH OLD NEW", "Replace a text that occurs once in a file. Quote what has spaces."),
        row("/run", "/run COMMAND [ARGUMENT…]", "Run a command in the workspace's sandbox."),
        row("/undo", "/undo [TASK [STEP]]", "Take the newest recorded change back, or all that a task or a step of it changed."),
    ]
}

/// Reads a message as a command; `None` when it isn't one, an error when it is one that can't be read.
pub(crate) fn parse(text: &str) -> Option<Result<Literal, ErrorBody>> {
    let rest = text.strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return None;
    }
    Some(read(name, arguments.trim()))
}

fn read(name: &str, rest: &str) -> Result<Literal, ErrorBody> {
    let usage = |of: &str| -> ErrorBody {
        let usage = commands().into_iter().find(|command| command.name == of).map(|command| command.usage).unwrap_or_default();
        ErrorBody::new(ErrorCode::Invalid, format!("That command can't be read. Usage: {usage}"), "Write it like that, and send it again.")
    };
    let literal = |tool: &str, arguments: Value| Ok(Literal { tool: tool.to_owned(), arguments, named: None });
    match name {
        "show" => match split(rest).as_deref() {
            Some([path]) => literal("read_file", json!({"path": path})),
            _ => Err(usage("/show")),
        },
        "find" if rest.is_empty() => Err(usage("/find")),
        "find" => {
            let wanted = match split(rest).as_deref() {
                Some([one]) => one.clone(),
                _ => rest.to_owned(),
            };
            literal("find_text", json!({"pattern": wanted, "literal": true}))
        }
        "replace" => match split(rest).as_deref() {
            Some([path, old, new]) => literal("edit_file", json!({"path": path, "old_text": old, "new_text": new})),
            _ => Err(usage("/replace")),
        },
        "run" => match split(rest) {
            Some(argv) if !argv.is_empty() => literal("run_command", json!({"argv": argv})),
            _ => Err(usage("/run")),
        },
        "undo" if rest.is_empty() => literal("undo", json!({})),
        "undo" => {
            let words = split(rest).unwrap_or_default();
            let (id, step) = match words.as_slice() {
                [id] => (id, None),
                [id, step] => (id, Some(step.clone())),
                _ => return Err(usage("/undo")),
            };
            let id = id.parse().map_err(|_| usage("/undo"))?;
            Ok(Literal { tool: "undo".to_owned(), arguments: json!({}), named: Some(NamedWork { id, step }) })
        }
        other => {
            let known: Vec<_> = commands().into_iter().map(|command| command.name).collect();
            Err(ErrorBody::new(
                ErrorCode::Invalid,
                format!("There is no command '/{other}'; known are {}.", known.join(", ")),
                "Write one of these; what isn't meant as a command may begin with any other character.",
            ))
        }
    }
}

/// Splits into words as a shell does with quotes and backslashes, and with nothing else: no variables, no globs, no operators.
/// `None` when a quote isn't closed.
fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    let mut quote: Option<char> = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match parse(text) {
            None => "not a command".to_owned(),
            Some(Ok(literal)) => format!("{} {}", literal.tool, literal.arguments),
            Some(Err(error)) => error.code.to_string(),
        }
    }

    #[test]
    fn undo_may_name_a_task_and_a_step() {
        let id = "0193e3a6-5a00-7000-8000-000000000001";
        let work = |step: Option<&str>| Some(NamedWork { id: id.parse().unwrap(), step: step.map(str::to_owned) });
        assert_eq!(named_work(&format!(" /undo {id}")), work(None));
        assert_eq!(named_work(&format!("/undo {id} 'step 2'")), work(Some("step 2")));
        for other in ["/undo", "undo", &format!("/undo {id} a b"), &format!("/show {id}")] {
            assert_eq!(named_work(other), None, "{other}");
        }
    }

    #[test]
    fn commands_are_read_as_they_are_written() {
        let rows = [
            ("/show index.html", r#"read_file {"path":"index.html"}"#),
            ("/show 'a b.txt'", r#"read_file {"path":"a b.txt"}"#),
            ("/show", "invalid"),
            ("/find border radius", r#"find_text {"literal":true,"pattern":"border radius"}"#),
            (r#"/replace a.css "4px" "8px 2px""#, r#"edit_file {"new_text":"8px 2px","old_text":"4px","path":"a.css"}"#),
            ("/replace a.css 'it", "invalid"),
            (r"/run echo $HOME a\ b ;", r#"run_command {"argv":["echo","$HOME","a b",";"]}"#),
            ("/undo", "undo {}"),
            ("/undo now", "invalid"),
            ("/frobnicate", "invalid"),
            ("/usr/bin/ls is a path", "not a command"),
            ("hello /show", "not a command"),
            ("/ show", "not a command"),
        ];
        for (given, wanted) in rows {
            assert_eq!(read(given), wanted, "{given}");
        }
    }
}
