use crate::world::World;
use baton_core::{ProposedCall, part_of, wanted_blob};
use baton_proto::{Attachment, Delivery, Digest, EntityView, ErrorCode, Event, Intent, ModelMessage};
use serde_json::json;

fn attached(name: &str, media_type: &str, bytes: &[u8]) -> Attachment {
    Attachment { digest: Digest::of_bytes(bytes), name: name.to_owned(), media_type: media_type.to_owned(), bytes: bytes.len() as u64 }
}

fn say(text: &str, attachments: Vec<Attachment>) -> Intent {
    Intent::Say { text: text.to_owned(), selection: None, attachments, delivery: Delivery::Steer }
}

fn read(arguments: serde_json::Value, blob: Option<&[u8]>) -> ProposedCall {
    ProposedCall {
        tool: "read_attachment".to_owned(),
        written: arguments.to_string(),
        fetched: blob.map(|blob| part_of(blob, &arguments)),
        arguments: Ok(arguments),
    }
}

#[test]
fn d6_a_large_text_goes_with_a_message_and_is_read_in_pages() {
    let text = "line of a log\n".repeat(200_000);
    let mut world = World::asked("hello");
    assert!(world.request().tools.iter().all(|tool| tool.name != "read_attachment"), "there is nothing to read yet");
    world.op("phone", say("look at this", vec![attached("app.log", "text/plain", text.as_bytes())])).unwrap();
    let added = |event: &Event| match baton_core::upserts(&world.state, event).as_slice() {
        [EntityView::Message(message), ..] => message.attachments.iter().any(|it| it.name == "app.log"),
        _ => false,
    };
    let shown = world.log.iter().any(added);
    assert!(shown, "ends see what was attached");
    world.answer("I look.", &[]);

    let request = world.request();
    let Some(ModelMessage::User { text: said, .. }) = request.messages.last() else { panic!("{:?}", request.messages) };
    assert!(said.contains("[attached: app.log (text/plain, 2800000 bytes; read it with read_attachment)]"), "{said}");
    assert!(request.tools.iter().any(|tool| tool.name == "read_attachment"));

    let by_name = json!({"attachment": "app.log", "offset": 12_288});
    assert_eq!(wanted_blob(&world.state, "read_attachment", &by_name), Some(Digest::of_bytes(text.as_bytes())));
    assert_eq!(wanted_blob(&world.state, "read_file", &by_name), None);
    let unknown = json!({"attachment": "other.log"});
    assert_eq!(wanted_blob(&world.state, "read_attachment", &unknown), None);
    world.answer_with("", vec![read(by_name, Some(text.as_bytes())), read(unknown, None)]);
    let request = world.request();
    let results: Vec<_> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            ModelMessage::Result { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let [page, missing] = results.as_slice() else { panic!("{results:?}") };
    assert!(page.starts_with("[bytes 12288 to 23757 of 2800000; go on with offset 23757]\n"), "{}", &page[..80]);
    assert!(missing.contains("There is no attachment 'other.log'. There are: app.log."), "{missing}");
}

#[test]
fn d6_what_cannot_be_attached_is_refused_in_words() {
    let fine = || attached("a.txt", "text/plain", b"a");
    let rows = [
        (vec![fine(); 11], ErrorCode::TooLarge),
        (vec![Attachment { name: "../a".to_owned(), ..fine() }], ErrorCode::Invalid),
        (vec![Attachment { name: " ".to_owned(), ..fine() }], ErrorCode::Invalid),
        (vec![Attachment { name: "a\nb".to_owned(), ..fine() }], ErrorCode::Invalid),
        (vec![Attachment { media_type: String::new(), ..fine() }], ErrorCode::Invalid),
    ];
    for (attachments, code) in rows {
        let mut world = World::asked("hello");
        let before = world.state.seq;
        let refused = world.op("phone", say("look", attachments)).unwrap_err();
        assert_eq!((refused.code, world.state.seq), (code, before), "{}", refused.message);
    }
}

#[test]
fn r3_images_go_with_the_words_they_were_sent_with_and_only_the_latest() {
    let mut world = World::asked("hello");
    for n in 0..8_u8 {
        let image = attached(&format!("{n}.png"), "image/png", &[n]);
        world.op("phone", say(&format!("picture {n}"), vec![image])).unwrap();
        world.answer("Seen.", &[]);
    }
    world.op("phone", say("", vec![attached("last.png", "image/png", b"last")])).unwrap();
    world.answer("Seen.", &[]);
    world.op("phone", say("well?", Vec::new())).unwrap();
    let request = world.request();
    let sent: Vec<_> = request
        .messages
        .iter()
        .filter_map(|message| match message {
            ModelMessage::User { images, .. } => Some(images.iter().map(|image| image.digest.clone())),
            _ => None,
        })
        .flatten()
        .collect();
    let expected: Vec<_> = (3..8_u8).map(|n| Digest::of_bytes(&[n])).chain([Digest::of_bytes(b"last")]).collect();
    assert_eq!(sent, expected);
}
