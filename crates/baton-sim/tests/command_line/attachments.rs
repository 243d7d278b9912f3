//! Files that go with a message, and input that is too long for one.

use crate::rule;
use crate::support::house::{House, operate};
use baton_proto::{Attachment, Delivery, Digest, ErrorCode, Intent};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn c37_a_text_of_three_megabytes_arrives_whole_and_can_be_read_to_its_end() {
    let text = "a line of a long log\n".repeat(150_000) + "the last words";
    let last = text.len() - 20;
    let rules = json!([
        {"when": {"last_user_contains": "stdin.txt", "results": 0}, "reply": {"calls": [
            {"name": "read_attachment", "arguments": {"attachment": "stdin.txt", "offset": last}},
            {"name": "read_attachment", "arguments": {"attachment": "stdin.txt", "find": "last words"}},
            {"name": "read_attachment", "arguments": {"attachment": "nothing.txt"}}]}},
        rule("stdin.txt", 3, json!({"text": "Read."})),
    ]);
    let house = House::with_model(rules).await;
    let shown = house.terminal.show(&["send", "--new", "--wait", "-"], &text).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    let attached = house.log(session).await.into_iter().find_map(|change| match change.event.body {
        baton_proto::SessionEvent::MessageAdded { attachments, .. } => attachments.into_iter().next(),
        _ => None,
    });
    let attached = attached.expect("the message has a file");
    assert_eq!((attached.name.as_str(), attached.bytes), ("stdin.txt", text.len() as u64));
    assert_eq!(house.phone.blob(&attached.digest).await.expect("the blob"), text.as_bytes(), "another end reads it whole");
    let last_request = house.model().requests().pop().expect("the model was asked").body.to_string();
    for expected in ["the last words", "1 lines contain it", "There is no attachment 'nothing.txt'"] {
        assert!(last_request.contains(expected), "{expected}: {last_request}");
    }
    house.all_dialogues_were_valid();
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_an_image_reaches_the_model_and_what_is_none_is_said_to_be_none() {
    let rules = json!([rule("look", 0, json!({"text": "Seen."}))]);
    let house = House::with_model(rules).await;
    let png = b"\x89PNG\r\n\x1a\nnot much of a picture";
    let (picture, fake) = (house.directory.path().join("picture.png"), house.directory.path().join("picture.bin"));
    std::fs::write(&picture, png).expect("a file");
    std::fs::write(&fake, b"nothing\0of the kind\xff").expect("a file");
    let (picture, fake) = (picture.to_str().expect("a path"), fake.to_str().expect("a path"));
    house.terminal.ok(&["send", "--new", "--wait", "look", "--attach", picture, "--attach", fake]).await;
    let asked = house.model().requests().pop().expect("the model was asked").body.to_string();
    assert!(asked.contains("data:image/png;base64,iVBORw0KGgpub3Q"), "{asked}");
    assert!(asked.contains("[attached: picture.bin (application/octet-stream, 20 bytes"), "{asked}");

    let session = house.phone.sessions(None, None).await.expect("a list").sessions[0].session_id;
    let absent = Attachment { digest: Digest::of_bytes(b"never sent"), name: "a.txt".into(), media_type: "text/plain".into(), bytes: 3 };
    let say = Intent::Say { text: "look".into(), selection: None, attachments: vec![absent], delivery: Delivery::Steer };
    let reply = operate(&house.phone, session, say).await;
    let error = reply.error.expect("it is refused");
    assert_eq!(error.code, ErrorCode::NotFound);
    assert!(error.message.contains("hasn't been uploaded"), "{}", error.message);

    let missing = house.terminal.show(&["send", "look", "--attach", "/no/such/file"], "").await;
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.errors.contains("/no/such/file can't be read"), "{missing:?}");
}
