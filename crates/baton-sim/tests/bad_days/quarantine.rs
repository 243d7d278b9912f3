//! A session that takes the hub down whenever it is taken up: after a few times it is left alone, says so, and can be resumed (C11, C44).

use crate::rule;
use crate::support::house::{House, messages, script, task};
use baton_proto::{Phase, Role};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn c11_c44_a_session_that_kills_the_hub_each_time_is_left_alone_in_words_until_it_is_resumed() {
    let hanging = json!([rule("deadly", 0, json!({"fault": "hang"})), rule("harmless", 0, json!({"text": "All is well."}))]);
    let mut house = House::with_model(hanging).await;
    let session = house.tell("deadly work").await;
    house.model().wait_for_requests(1).await;
    // What a request that brings the process down looks like from outside: each start takes the session up, asks, and dies.
    for start in 1..=5 {
        house.hub.kill().await;
        house.hub.start().await;
        if start < 5 {
            house.model().wait_for_requests(start + 1).await;
        }
    }
    let view = house.until(session, "it is left alone", |view| (task(view).phase == Phase::Paused).then(|| view.clone())).await;
    assert_eq!(house.model().requests().len(), 5, "it isn't asked about again");
    let reason = task(&view).last_error.clone().expect("a reason");
    let told: Vec<_> = messages(&view).into_iter().filter(|(role, _)| *role == Role::Hub).collect();
    assert_eq!(told, [(Role::Hub, reason.clone())], "the view says it to every end, once");
    for words in ["died 5 times in a row", "leaves this one alone", "Nothing is lost", "baton resume"] {
        assert!(reason.contains(words), "{reason}");
    }
    let shown = house.terminal.show(&["show", &session.to_string()], "").await;
    assert!(shown.out.contains(&reason) && shown.out.contains(&format!("baton resume {session}")), "{}", shown.out);
    let listed = house.terminal.show(&["sessions"], "").await;
    assert!(listed.out.contains(&format!("{session}  rests")) && listed.out.contains(&reason), "{}", listed.out);
    let listed = house.terminal.ok(&["sessions"]).await;
    assert_eq!(listed.lines[0]["line"], json!(reason));

    // The others are served, and another start changes nothing.
    let (_, said) = house.ask("harmless").await;
    assert_eq!(said.code, 0, "{said:?}");
    house.hub.kill().await;
    house.hub.start().await;
    let view = house.view(session).await;
    assert_eq!((task(&view).phase, messages(&view).len()), (Phase::Paused, 2), "nothing is said twice");

    // The cause is mended, and the user does what was said.
    house.model().replace(script(json!([rule("deadly", 0, json!({"text": "It was nothing."}))])));
    house.terminal.ok(&["resume", &session.to_string()]).await;
    let view = house.until(session, "the end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert!(messages(&view).iter().any(|(role, text)| *role == Role::Agent && text == "It was nothing."));
    assert!(task(&view).last_error.is_none());
    let listed = house.terminal.show(&["sessions"], "").await;
    assert!(!listed.out.contains("died"), "{}", listed.out);
}
