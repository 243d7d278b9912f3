use serde::Deserialize;

/// Types of event with words that people look for: what users and the hub said, and what the agent answered.
pub const SEARCHED: [&str; 2] = ["message_added", "model_finished"];

/// The text of a stored event that a search looks in, if it has one.
pub fn searched_text(kind: &str, event: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Stored {
        data: Message,
    }
    #[derive(Deserialize)]
    struct Message {
        text: String,
    }
    if !SEARCHED.contains(&kind) {
        return None;
    }
    let stored: Stored = serde_json::from_slice(event).ok()?;
    Some(stored.data.text).filter(|text| !text.trim().is_empty())
}
