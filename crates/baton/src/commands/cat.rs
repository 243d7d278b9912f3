use crate::args::Cat;
use crate::failure::Failure;
use crate::output::Output;
use crate::{files, pick, profile};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use baton_client::{ClientError, Http};
use baton_proto::{Digest, ErrorCode, SessionId};
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};

/// Prints a file of a session's workspace, whichever device holds it.
pub(crate) async fn run(args: Cat, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    if let Some(target) = args.output.as_ref().filter(|target| target.symlink_metadata().is_ok()) {
        return Err(files::exists(target));
    }
    let (path, bytes) = fetched(&http, session, &args.path).await?;
    if let Some(target) = args.output {
        files::write_private_new(&target, &bytes)?;
        let value = json!({"event": "file", "session_id": session, "path": path, "bytes": bytes.len(), "file": target});
        out.say(&value, &format!("{} holds '{path}' with its {} bytes.", target.display(), bytes.len()));
        return Ok(0);
    }
    if out.is_json() {
        let mut value =
            json!({"event": "file", "session_id": session, "path": path, "bytes": bytes.len(), "digest": Digest::of_bytes(&bytes)});
        match String::from_utf8(bytes) {
            Ok(text) => value["text"] = json!(text),
            Err(error) => value["base64"] = json!(BASE64_STANDARD.encode(error.as_bytes())),
        }
        out.say(&value, "");
        return Ok(0);
    }
    if std::io::stdout().is_terminal() {
        return shown(out, &path, bytes);
    }
    // A reader that is gone, such as `head`, needs no more.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
    Ok(0)
}

/// A terminal is given text only, with what deceives it made visible (S19).
fn shown(out: &Output, path: &str, bytes: Vec<u8>) -> Result<u8, Failure> {
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => {
            out.say(&json!(null), text.strip_suffix('\n').unwrap_or(&text));
            Ok(0)
        }
        Ok(_) | Err(_) => Err(Failure::failed(
            format!("'{path}' is no text, so it isn't written to the terminal."),
            "Save it with --output FILE, or send it to another program.",
        )),
    }
}

/// The file, and its path: a link such as `src/main.rs:12` names the file without the line.
async fn fetched(http: &Http, session: SessionId, named: &str) -> Result<(String, Vec<u8>), Failure> {
    match http.file(session, named).await {
        Ok(bytes) => Ok((named.to_owned(), bytes)),
        Err(ClientError::Hub(error)) if error.code == ErrorCode::NotFound && without_line(named) != named => {
            let path = without_line(named);
            Ok((path.to_owned(), http.file(session, path).await?))
        }
        Err(error) => Err(error.into()),
    }
}

/// A path without the line and the column that may follow it.
fn without_line(named: &str) -> &str {
    let mut path = named;
    for _ in 0..2 {
        match path.rsplit_once(':') {
            Some((before, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => path = before,
            _ => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::without_line;

    #[test]
    fn a_line_and_a_column_are_no_part_of_the_path() {
        for (named, path) in
            [("a.rs:12", "a.rs"), ("a.rs:12:3", "a.rs"), ("a.rs", "a.rs"), ("a:b", "a:b"), ("a:1:2:3", "a:1"), ("a:", "a:")]
        {
            assert_eq!(without_line(named), path, "{named}");
        }
    }
}
