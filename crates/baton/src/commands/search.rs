use crate::args::Search;
use crate::failure::Failure;
use crate::output::Output;
use crate::profile;
use baton_proto::{Role, SearchHit};
use serde_json::{Value, json};

/// Finds messages by their words, in all sessions.
pub(crate) async fn run(args: Search, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let http = profile::load(profile)?.http()?;
    let results = http.search(&args.words.join(" "), Some(args.limit.clamp(1, 100))).await?;
    if results.hits.is_empty() {
        out.say(&Value::Null, "Nothing was found.");
    }
    for hit in &results.hits {
        let mut value = serde_json::to_value(hit).unwrap_or_default();
        value["event"] = json!("hit");
        let who = match hit.role {
            Role::User => "you",
            Role::Agent => "agent",
            Role::Hub => "hub",
        };
        let title = if hit.title.is_empty() { "(no title)" } else { &hit.title };
        let archived = if hit.archived { "  (archived)" } else { "" };
        out.say(&value, &format!("{}  {title}{archived}\n    {who}: {}", hit.session_id, marked(hit)));
    }
    if !results.complete {
        out.say(&json!({"event": "incomplete"}), "Older messages are still being read for the first time; search again in a moment.");
    }
    Ok(0)
}

/// The excerpt with what was found in brackets.
fn marked(hit: &SearchHit) -> String {
    let mut text = String::new();
    for (at, c) in hit.excerpt.chars().chain(std::iter::once('\0')).enumerate() {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        if hit.matches.iter().any(|(_, end)| *end == at) {
            text.push(']');
        }
        if hit.matches.iter().any(|(begin, _)| *begin == at) {
            text.push('[');
        }
        if c != '\0' {
            text.push(c);
        }
    }
    text
}
