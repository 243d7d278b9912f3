//! A hub that speaks HTTPS by an authority of its own, as `baton up --tls` starts it, and Baton's ends that know it by its fingerprint.

use crate::support::command::Terminal;
use crate::support::house::approve;
use crate::support::hub::{Hub, Unusual, code_of};
use crate::support::workspace::small_project;
use crate::support::{program, until};
use baton_client::{Authority, Http, HubUrl, Token};
use baton_proto::{Capabilities, ClientType, InvitationClaim, Trust};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

async fn secure_hub(directory: &Path) -> Hub {
    let workspace = small_project(directory);
    Hub::with(directory, &workspace, None, &Unusual { arguments: &["--tls"], ..Unusual::default() }).await
}

fn text(ready: &Value, field: &str) -> String {
    ready[field].as_str().unwrap_or_else(|| panic!("no {field} in {ready}")).to_owned()
}

fn url(hub: &Hub) -> HubUrl {
    let fingerprint = text(&hub.ready, "fingerprint").parse().expect("a fingerprint");
    let url: HubUrl = text(&hub.ready, "url").parse().expect("an address");
    url.vouched_for_by(Authority::Fingerprint(fingerprint))
}

/// The owner's phone.
async fn phone(hub: &Hub) -> Http {
    let link = hub.owner_link();
    let secret = link.split_once("#invite=").and_then(|(_, rest)| rest.split('&').next()).expect("a secret").to_owned();
    let claim = InvitationClaim {
        secret,
        name: "Phone".to_owned(),
        client_type: ClientType::Phone,
        capabilities: Capabilities::default(),
        cookie: false,
    };
    let door = Http::new(url(hub), None).expect("a client");
    let credentials = door.claim_invitation(&claim).await.expect("the link is good");
    Http::new(url(hub), Some(Token::new(&credentials.token).expect("a token"))).expect("a client")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_with_tls_is_reached_by_its_device_its_terminals_and_a_phone_over_restarts() {
    let directory = TempDir::new().expect("a directory");
    let mut hub = secure_hub(directory.path()).await;
    let (address, link, trust) = (text(&hub.ready, "url"), hub.owner_link(), text(&hub.ready, "trust_link"));
    let fingerprint = text(&hub.ready, "fingerprint");
    assert_eq!(address, format!("https://127.0.0.1:{}", hub.port));
    assert!(link.starts_with(&format!("{address}/#invite=")) && !link.contains(&fingerprint), "{link}");
    assert_eq!(trust, format!("http://127.0.0.1:{}/trust", hub.port));

    let phone = phone(&hub).await;
    until("the hub's own device is connected", || async {
        let devices = phone.devices().await.ok()?;
        devices.iter().any(|device| device.online && !device.workspaces.is_empty()).then_some(())
    })
    .await;

    let terminal = Terminal::new(directory.path());
    let refused = terminal.run(&["pair", &link]).await;
    assert_eq!(refused.code, 2, "a link that lets in is refused on a command line: {}", refused.errors);
    let mut pairing = terminal.start(&["pair", &format!("{address}/#ca={fingerprint}"), "--name", "desk"]);
    let code = code_of(&mut pairing).await;
    approve(&phone, &code, Trust::Trusted).await;
    pairing.event("paired").await;
    // The live connection, which the command waits by, goes the same way.
    let said = terminal.ok(&["send", "--new", "--wait", "/find fn"]).await;
    assert!(!said.lines.is_empty());

    let (data, copy) = (hub.data.display().to_string(), directory.path().join("copy"));
    terminal.ok(&["backup", &copy.display().to_string(), "--data", &data]).await;
    let authority = |data: &Path| std::fs::read(data.join("tls/authority.pem")).expect("an authority");
    assert_eq!(authority(&copy), authority(&hub.data), "devices trust a restored hub as they did the one before");

    hub.interrupt().await;
    hub.start().await;
    assert_eq!(text(&hub.ready, "fingerprint"), fingerprint, "the authority stays");
    assert_eq!(terminal.ok(&["sessions"]).await.lines.len(), 1);
    assert_eq!(hub.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_certificate_or_plain_http_is_refused_with_what_to_do() {
    let directory = TempDir::new().expect("a directory");
    let hub = secure_hub(directory.path()).await;
    let terminal = Terminal::new(directory.path());
    let address = text(&hub.ready, "url");
    let other = "0".repeat(64);
    for arguments in [vec!["pair", &address], vec!["pair", &address, "--fingerprint", &other]] {
        let said = terminal.run(&arguments).await;
        assert_eq!(said.code, 5, "{arguments:?}: {}", said.errors);
        assert!(said.errors.contains("can't prove to be your hub") && said.errors.contains("--fingerprint"), "{}", said.errors);
        assert!(said.lines.is_empty(), "nothing was said to it: {:?}", said.lines);
    }
    let plain = terminal.run(&["pair", &hub.url()]).await;
    assert_eq!(plain.code, 4, "{}", plain.errors);
    assert!(plain.errors.contains("HTTPS only") && plain.errors.contains("https://"), "{}", plain.errors);
    for (arguments, code) in [(["--fingerprint", "abc"], 2), (["--ca", "/nowhere"], 2)] {
        assert_eq!(terminal.run(&[&["pair", &address], &arguments[..]].concat()).await.code, code, "{arguments:?}");
    }
    let file = hub.data.join("tls/baton-hub.crt");
    let mut pairing = terminal.start(&["pair", &address, "--ca", &file.display().to_string()]);
    code_of(&mut pairing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_hubs_machine_its_address_and_authority_are_found_without_being_named() {
    let directory = TempDir::new().expect("a directory");
    let hub = secure_hub(directory.path()).await;
    let plain = hub.url();
    // Without an address, and by the one that the hub had before it spoke HTTPS.
    for arguments in [vec!["--json", "pair"], vec!["--json", "pair", &plain]] {
        let mut child = Command::new(program("baton"))
            .args(&arguments)
            .env("BATON_DATA", &hub.data)
            .env("XDG_CONFIG_HOME", directory.path().join("local"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let line = lines.next_line().await.expect("output can be read").expect("a line");
        assert!(line.contains("\"event\":\"pairing\""), "{arguments:?}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_was_paired_before_goes_on_over_https() {
    let directory = TempDir::new().expect("a directory");
    let workspace = small_project(directory.path());
    let mut before = Hub::with(directory.path(), &workspace, None, &Unusual::default()).await;
    let (owner, _) = crate::support::house::claim(&before, &before.owner_link(), "Phone", ClientType::Phone).await;
    let terminal = Terminal::new(directory.path());
    crate::support::house::pair_with(&before, &owner, &terminal, "desk", Trust::Trusted).await;
    let device = terminal.known("device_id");
    before.interrupt().await;
    let hub = before.also("--tls").await;
    let refused = terminal.run(&["sessions"]).await;
    assert!(refused.code == 4 && refused.errors.contains("HTTPS only"), "{}", refused.errors);
    let moved = terminal.ok(&["pair", &text(&hub.ready, "url"), "--fingerprint", &text(&hub.ready, "fingerprint")]).await;
    assert_eq!(moved.event("moved")["device_id"], device);
    terminal.ok(&["sessions"]).await;
}
