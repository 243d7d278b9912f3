//! What a store gives back: events of sessions and of users.

use baton_proto::{Event, EventBody, SessionEvent, UserEvent};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Nothing panics; what decodes writes back to the same.
pub fn check(bytes: &[u8]) {
    event::<SessionEvent>(bytes);
    event::<UserEvent>(bytes);
}

fn event<B: EventBody + Serialize + DeserializeOwned>(bytes: &[u8]) {
    match Event::<B>::decode(bytes) {
        Ok(read) => {
            let written = serde_json::to_vec(&read).expect("an event can be written");
            let again = Event::<B>::decode(&written).expect("an event that was written can be read");
            let twice = serde_json::to_vec(&again).expect("an event can be written");
            assert!(written == twice, "an event changes by being written:\n{}\n{}", text(&written), text(&twice));
        }
        // Said to people; it is never empty.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
