//! A full disk: what was acknowledged is kept, what is refused is refused in words, and with some space the work goes on, nothing doubled.
//! The hub's data lies on a small file system of its own in memory, which bubblewrap mounts without root.

use crate::rule;
use crate::support::house::{House, Plan, messages, operate, refusal, task};
use crate::support::hub::Unusual;
use baton_proto::{DevicePatch, ErrorCode, Intent, Operation, OperationId, Phase, ReplyStatus, Role, SessionEvent, SessionId};
use baton_store::{SqliteStore, Store, StreamId, StreamKind};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Mounts a small file system where the hub is to keep its data, and a process that keeps it there when the hub is gone.
const ON_A_SMALL_DISK: &str = r#"
for word; do [ "$before" = --data ] && data=$word; before=$word; done
mkdir -p "$data"
exec bwrap --dev-bind / / --size 20971520 --tmpfs "$data" --die-with-parent -- sh -c 'sleep "$KEEPER" & exec "$@"' sh "$@"
"#;

/// Ends what would outlive the test.
struct Ends {
    keeper: String,
    device: Option<u64>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        let pids = pids(&self.keeper).into_iter().chain(self.device);
        for pid in pids {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// The processes that sleep for exactly so long.
fn pids(keeper: &str) -> Vec<u64> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter(|entry| std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == format!("sleep\0{keeper}\0").as_bytes()))
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .collect()
}

/// Takes all the space that is left.
fn fill(path: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    for size in [1 << 20, 4096, 1] {
        let piece = vec![0; size];
        loop {
            match file.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn note(session: SessionId, number: usize) -> Operation {
    let value = format!("{number} {}", "x".repeat(1500));
    let intent = serde_json::from_value(json!({"intent": "set_note", "payload": {"key": format!("k{}", number % 5), "value": value}}))
        .expect("an intent");
    let mut operation = Operation::new(OperationId(Uuid::now_v7()), Some(session), intent);
    operation.epoch = Some(1);
    operation
}

fn noted(event: &SessionEvent) -> Option<usize> {
    let SessionEvent::NoteSet { value, .. } = event else { return None };
    value.split(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_keeps_what_was_acknowledged_refuses_the_rest_in_words_and_doubles_nothing() {
    let keeper = format!("86400.{}", Uuid::now_v7().as_u128() % 1_000_000_007);
    let variables = [("KEEPER", keeper.as_str())];
    let hub = Unusual { wrapper: &["sh", "-c", ON_A_SMALL_DISK, "sh"], variables: &variables, ..Unusual::default() };
    let rules =
        json!([rule("slow", 0, json!({"text": "Slowly done.", "delay_ms": 400})), rule("quick", 0, json!({"text": "Quickly done."}))]);
    let mut house = House::build(Plan { rules: Some(rules), hub, ..Plan::default() }).await;
    let _ends = Ends { keeper: keeper.clone(), device: house.hub.ready["device_pid"].as_u64() };
    let hub_root = format!("/proc/{}/root", house.hub.ready["pid"]);
    let data = PathBuf::from(format!("{hub_root}{}", house.hub.data.display()));
    assert!(data.join("baton.db").exists() && !house.hub.data.join("baton.db").exists(), "its data is on the small disk");
    let opened = house
        .phone
        .operate(&Operation::new(OperationId(Uuid::now_v7()), None, Intent::NewSession { title: None, workspace: None }))
        .await
        .expect("a session");
    let session = opened.session_id.expect("an id");

    // The disk fills up while an answer of the model is on its way.
    let slow = house.tell("slow work").await;
    let filler = data.join("filler");
    fill(&filler);
    let mut accepted = Vec::new();
    let refused = loop {
        // What SQLite has taken of the disk before may still hold some.
        let operation = note(session, accepted.len());
        let reply = house.phone.operate(&operation).await.expect("the hub answers");
        match (reply.status, reply.error) {
            (ReplyStatus::Accepted, None) => accepted.push(operation),
            (ReplyStatus::Rejected, Some(error)) => {
                assert_eq!(error.code, ErrorCode::StorageFailed);
                assert!(error.message.contains("disk is full") && error.hint.contains("Free some space"), "{error:?}");
                assert!(!error.code.is_final(), "it may be sent again");
                break operation;
            }
            other => panic!("{other:?}"),
        }
        assert!(accepted.len() < 20_000, "the disk isn't full");
        fill(&filler);
    };

    // What is there can be read; whatever would have to be written is refused, on every way, and the hub lives.
    assert_eq!(house.events(session).await.iter().filter_map(noted).count(), accepted.len());
    let shown = house.terminal.show(&["show", &session.to_string()], "").await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let plain = house.terminal.show(&["send", "--session", &session.to_string(), "quick"], "").await;
    assert_eq!(plain.code, 4);
    assert!(plain.errors.contains("disk is full") && plain.errors.contains("Free some space"), "{}", plain.errors);
    let said = house.terminal.run(&["send", "--new", "quick"]).await;
    assert!(said.code == 4 && said.errors.contains("storage_failed"), "{said:?}");
    let own = house.phone.devices().await.expect("a list").into_iter().find(|device| device.own).expect("the phone").device_id;
    let patch = DevicePatch { name: Some("other".to_owned()), trust: None };
    assert!(house.phone.change_device(own, &patch).await.is_err());
    assert_eq!(house.phone.operate(&refused).await.expect("an answer").error.map(|error| error.code), Some(ErrorCode::StorageFailed));
    assert!(house.phone.hub().await.is_ok());

    // There is space again: the same operation is taken, the answer of the model arrives, and everything works.
    std::fs::remove_file(&filler).expect("the filler");
    let taken = house.phone.operate(&refused).await.expect("an answer");
    assert_eq!((taken.status, taken.error), (ReplyStatus::Accepted, None));
    assert_eq!(house.phone.operate(&refused).await.expect("an answer").status, ReplyStatus::Duplicate);
    for earlier in accepted.iter().rev().take(3) {
        assert_eq!(house.phone.operate(earlier).await.expect("an answer").status, ReplyStatus::Duplicate, "it was kept");
    }
    let view = house.until(slow, "the slow work's end", |view| (task(view).phase == Phase::Done).then(|| view.clone())).await;
    assert_eq!(messages(&view), [(Role::User, "slow work".to_owned()), (Role::Agent, "Slowly done.".to_owned())]);
    let (quick, said) = house.ask("quick").await;
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(messages(&house.view(quick).await).len(), 2);
    assert_eq!(
        refusal(&operate(&house.phone, session, Intent::Release {}).await),
        Some(ErrorCode::Invalid),
        "an operation is looked at again"
    );
    house.all_dialogues_were_valid();

    // What is on the disk after a kill is what was acknowledged: each once, in order, without a gap.
    house.hub.kill().await;
    let kept =
        pids(&keeper).first().map(|pid| PathBuf::from(format!("/proc/{pid}/root{}", house.hub.data.display()))).expect("the small disk");
    let copy = house.directory.path().join("copy");
    std::fs::create_dir(&copy).expect("a directory");
    for name in ["baton.db", "baton.db-wal"] {
        if let Ok(mut file) = File::open(kept.join(name)) {
            std::io::copy(&mut file, &mut File::create(copy.join(name)).expect("a file")).expect("a copy");
        }
    }
    let store = SqliteStore::open(&copy).expect("the store is sound");
    let stream = StreamId { kind: StreamKind::Session, id: session.0 };
    let user =
        store.all(StreamKind::Session).await.expect("heads").into_iter().find(|head| head.stream == stream).expect("the session").user;
    let mut stored = Vec::new();
    loop {
        let page = store.read(user, stream, stored.len() as u64, 1000).await.expect("events");
        if page.is_empty() {
            break;
        }
        stored.extend(page.into_iter().map(|event| baton_proto::Event::<SessionEvent>::decode(&event.event).expect("an event").body));
    }
    let numbers: Vec<_> = stored.iter().filter_map(noted).collect();
    assert_eq!(numbers, (0..=accepted.len()).collect::<Vec<_>>());
}
