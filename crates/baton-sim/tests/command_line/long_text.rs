//! Long texts from a terminal: taken whole, or refused with the limit named, and nothing left behind (C37, D6).

use crate::rule;
use crate::support::house::{House, Plan, messages};
use baton_proto::{EntityView, MAX_TEXT_BYTES, Role};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn c37_a_long_text_is_used_whole_or_refused_with_the_limit_named() {
    let house = House::build(Plan { rules: Some(json!([rule("long", 0, json!({"text": "Read."}))])), ..Plan::default() }).await;
    let limit = MAX_TEXT_BYTES.to_string();
    let three_megabytes = "a long text ".repeat(250_000);
    let chinese = "很长的文本".repeat(200_000);
    // As an argument, as far as the system carries it.
    let shown = house.terminal.show(&["send", "--new", &three_megabytes[..100_000]], "").await;
    assert!(shown.code == 2 && shown.errors.contains(&limit) && shown.errors.contains("--attach"), "{shown:?}");
    assert!(house.phone.sessions(None, None).await.expect("a list").sessions.is_empty(), "no empty session is left behind");
    assert!(house.model().requests().is_empty());

    // What just fits is there whole: for the model, and for whoever reads it later.
    let fitting = format!("a long text: {} its end", "lorem ipsum ".repeat((MAX_TEXT_BYTES - 100) / 12));
    let shown = house.terminal.show(&["send", "--new", "--wait", "-"], &fitting).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    assert_eq!(messages(&house.view(session).await)[0], (Role::User, fitting.clone()));
    assert!(house.model().requests()[0].body.to_string().contains(&fitting), "nothing is cut for the model");

    // What doesn't fit goes up in pieces and is there whole, too.
    for text in [three_megabytes, chinese] {
        let shown = house.terminal.show(&["send", "--new", "-"], &text).await;
        assert_eq!(shown.code, 0, "{shown:?}");
        let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
        let view = house.view(session).await;
        let attached = view.entities.iter().find_map(|entity| match entity {
            EntityView::Message(message) if message.role == Role::User => Some(message.attachments.clone()),
            _ => None,
        });
        let [attachment] = attached.expect("a message").try_into().expect("one attachment");
        assert_eq!(attachment.bytes, text.len() as u64);
        assert!(house.phone.blob(&attachment.digest).await.expect("the file") == text.as_bytes(), "not a byte is missing");
    }
}
