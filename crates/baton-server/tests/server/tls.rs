//! HTTPS of the hub's own, as ends meet it that trust it, that don't, and that know nothing of it.

use crate::support::{PATIENCE, Server, raw};
use baton_client::{Authority, ClientError, Connection, ConnectionConfig, Fingerprint, Hello, Http, HubUrl, Incoming, Timing, Token};
use baton_proto::{ClientType, ErrorCode, Trust};
use baton_server::{Tls, routes};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A hub that speaks HTTPS, and the directory of its authority.
struct Secure {
    server: Server,
    tls: Arc<Tls>,
    directory: TempDir,
}

impl Secure {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    async fn start_with(change: impl FnOnce(&mut baton_server::ServerConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tls = Arc::new(open(directory.path()));
        let shown = Arc::clone(&tls);
        let server = Server::start_with(|config| {
            config.tls = Some(shown);
            config.allowed_hosts = vec!["hub.lan".to_owned()];
            change(config);
        })
        .await;
        Self { server, tls, directory }
    }

    fn url(&self, host: &str) -> HubUrl {
        format!("https://{host}:{}", self.server.address.port()).parse().unwrap()
    }

    fn fingerprint(&self) -> Authority {
        Authority::Fingerprint(self.tls.fingerprint().parse().unwrap())
    }

    fn certificates(&self) -> Authority {
        Authority::from_pem(&std::fs::read(self.directory.path().join("baton-hub.crt")).unwrap()).unwrap()
    }

    /// The token of a trusted terminal, paired by a link as the owner's.
    async fn token(&self) -> String {
        let secret = self.server.hub.invite(self.server.user, None, Trust::Trusted).await.unwrap().secret;
        let claim = json!({"secret": secret, "name": "a terminal", "client_type": "cli"});
        let url = format!("https://127.0.0.1:{}/v1/invitations/claim", self.server.address.port());
        let credentials: Value = self.browser().post(url).json(&claim).send().await.unwrap().json().await.unwrap();
        credentials["token"].as_str().unwrap_or_else(|| panic!("{credentials}")).to_owned()
    }

    /// A browser that trusts the authority.
    fn browser(&self) -> reqwest::Client {
        let pem = std::fs::read(self.directory.path().join("baton-hub.crt")).unwrap();
        let certificate = reqwest::Certificate::from_pem(&pem).unwrap();
        reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).timeout(PATIENCE).build().unwrap()
    }
}

fn open(directory: &Path) -> Tls {
    Tls::open(directory, &["hub.lan".to_owned()], &[]).unwrap()
}

#[tokio::test]
async fn ends_that_know_the_fingerprint_or_the_certificate_speak_to_the_hub() {
    let hub = Secure::start().await;
    let token = Token::new(&hub.token().await).unwrap();
    for authority in [hub.fingerprint(), hub.certificates()] {
        for host in ["127.0.0.1", "localhost"] {
            let http = Http::new(hub.url(host).vouched_for_by(authority.clone()), Some(token.clone())).unwrap();
            http.hub().await.unwrap_or_else(|error| panic!("{host} {authority:?}: {error}"));
        }
    }
}

#[tokio::test]
async fn whoever_cannot_prove_to_be_the_hub_is_told_nothing() {
    let (hub, other) = (Secure::start().await, Secure::start().await);
    let token = Token::new(&hub.token().await).unwrap();
    // The right certificate of another hub, and those that the system trusts: neither vouches for this one.
    for authority in [other.fingerprint(), other.certificates(), Authority::System] {
        let http = Http::new(hub.url("127.0.0.1").vouched_for_by(authority.clone()), Some(token.clone())).unwrap();
        let error = http.hub().await.unwrap_err();
        assert!(matches!(error, ClientError::Untrusted(_)) && !error.may_be_repeated(), "{authority:?}: {error}");
        let words = error.to_string();
        assert!(words.contains("--fingerprint") && words.contains("baton up --tls"), "{words}");
    }
    let nobody: Fingerprint = "0".repeat(64).parse().unwrap();
    let http = Http::new(hub.url("127.0.0.1").vouched_for_by(Authority::Fingerprint(nobody)), None).unwrap();
    assert!(matches!(http.hub().await, Err(ClientError::Untrusted(_))));
}

#[tokio::test]
async fn the_certificate_stands_for_the_hubs_names_and_no_others() {
    let hub = Secure::start().await;
    let mut roots = rustls::RootCertStore::empty();
    let Authority::Certificates(certificates) = hub.certificates() else { panic!("certificates") };
    for certificate in certificates {
        roots.add(certificate).unwrap();
    }
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    for (name, right) in
        [("localhost", true), ("127.0.0.1", true), ("hub.lan", true), ("other.lan", false), ("example.com", false), ("10.0.0.1", false)]
    {
        let stream = TcpStream::connect(hub.server.address).await.unwrap();
        let joined = connector.connect(ServerName::try_from(name).unwrap(), stream).await;
        assert_eq!(joined.is_ok(), right, "{name}");
        if let Ok(mut stream) = joined {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: hub.lan\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        }
    }
}

#[tokio::test]
async fn browsers_get_a_secure_cookie_and_pages_of_plain_http_are_foreign() {
    let hub = Secure::start().await;
    let browser = hub.browser();
    let (origin, port) = (format!("https://127.0.0.1:{}", hub.server.address.port()), hub.server.address.port());
    let secret = hub.server.hub.invite(hub.server.user, None, Trust::Trusted).await.unwrap().secret;
    let claim = json!({"secret": secret, "name": "a phone", "client_type": "phone", "cookie": true});
    let request = |from: String| {
        browser.post(format!("{origin}/v1/invitations/claim")).header("content-type", "application/json").header("origin", from)
    };
    for foreign in [format!("http://127.0.0.1:{port}"), format!("https://localhost:{port}"), "https://127.0.0.1".to_owned()] {
        assert_eq!(request(foreign.clone()).json(&claim).send().await.unwrap().status(), 403, "{foreign}");
    }
    let answer = request(origin.clone()).json(&claim).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.contains("; Secure") && cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "the cookie goes over TLS only"
    );
    let page = browser.get(&origin).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(
        !page.headers().contains_key("strict-transport-security"),
        "a device that doesn't trust the hub yet has to reach the page that helps"
    );
}

#[tokio::test]
async fn a_live_connection_goes_over_tls() {
    let hub = Secure::start().await;
    let token = Token::new(&hub.token().await).unwrap();
    let url = hub.url("localhost").vouched_for_by(hub.fingerprint());
    let config = ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token,
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::new(),
        timing: Timing::default(),
    };
    let (handle, mut incoming) = Connection::spawn(config);
    let first = tokio::time::timeout(PATIENCE, incoming.recv()).await.expect("a word").expect("a connection");
    assert!(matches!(first, Incoming::Connected(_)), "{first:?}");
    handle.stop().await;

    let url = hub.url("localhost").vouched_for_by(Authority::Fingerprint("0".repeat(64).parse().unwrap()));
    let config = ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: Token::new(&hub.token().await).unwrap(),
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::new(),
        timing: Timing::default(),
    };
    let (_handle, mut incoming) = Connection::spawn(config);
    let first = tokio::time::timeout(PATIENCE, incoming.recv()).await.expect("a word").expect("a reason");
    assert!(matches!(&first, Incoming::Disconnected { reason } if reason.contains("--fingerprint")), "{first:?}");
}

#[tokio::test]
async fn slow_handshakes_are_ended_and_give_their_places_back() {
    let hub = Secure::start_with(|config| {
        config.limits.handshake = Duration::from_millis(300);
        config.limits.connections = 2;
    })
    .await;
    let mut silent = TcpStream::connect(hub.server.address).await.unwrap();
    let mut slow = TcpStream::connect(hub.server.address).await.unwrap();
    // The beginning of a handshake that never goes on.
    slow.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    for stream in [&mut silent, &mut slow] {
        let mut bytes = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the hub closes it");
        assert!(bytes.is_empty(), "{bytes:?}");
    }
    let answer = hub.browser().get(format!("https://127.0.0.1:{}/healthz", hub.server.address.port())).send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn without_encryption_the_port_answers_with_the_help_to_trust_it_and_nothing_else() {
    let hub = Secure::start().await;
    let token = hub.token().await;
    let ask = async |method: &str, path: &str, more: &str| {
        raw(hub.server.address, &format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}Connection: close\r\n\r\n")).await
    };
    for route in routes().iter().filter(|route| route.path != "/") {
        let path = route.path.replace(['{', '}', '*'], "x");
        let answer = ask(route.method, &path, &format!("Authorization: Bearer {token}\r\n")).await;
        assert_eq!(answer.status, 426, "{} {path}: {}", route.method, answer.text);
        assert!(route.method == "HEAD" || answer.text.contains("HTTPS only"), "{}", answer.text);
    }
    for (method, path) in
        [("POST", "/"), ("POST", "/trust"), ("GET", "/trust/authority.pem"), ("GET", "/trust/../v1/hub"), ("GET", "/index.html")]
    {
        assert_eq!(ask(method, path, "").await.status, 426, "{method} {path}");
    }
    let first = ask("GET", "/", "").await;
    assert!(first.status == 307 && first.text.contains("location: /trust\r\n"), "{}", first.text);

    let fingerprint = hub.tls.fingerprint().to_uppercase();
    let page = ask("GET", "/trust", "").await;
    assert_eq!(page.status, 200);
    let shown: String = page.text.chars().filter(|sign| !sign.is_whitespace()).collect();
    assert!(shown.contains(&fingerprint), "the fingerprint is there to be compared");
    assert!(page.text.contains("lang=\"en\"") && page.text.contains("https://localhost/") && !page.text.contains("{{"), "{}", page.text);
    assert!(page.text.contains("content-security-policy: default-src 'none'; style-src 'self';") && !page.text.contains("<script"));
    let chinese = ask("GET", "/trust", "Accept-Language: zh-CN,zh;q=0.9,en;q=0.5\r\nUser-Agent: Mozilla/5.0 (iPhone; Mac OS X)\r\n").await;
    assert!(
        chinese.text.contains("lang=\"zh-CN\"") && chinese.text.contains("<details open>\n        <summary>iPhone"),
        "{}",
        chinese.text
    );

    let certificate = ask("GET", "/trust/baton-hub.crt", "").await;
    let pem = std::fs::read_to_string(hub.directory.path().join("baton-hub.crt")).unwrap();
    assert!(certificate.text.contains("content-type: application/x-x509-ca-cert") && certificate.text.ends_with(&pem));
    assert!(!certificate.text.contains("PRIVATE"));
    let profile = ask("GET", "/trust/baton-hub.mobileconfig", "").await;
    assert!(profile.text.contains("content-type: application/x-apple-aspen-config") && !profile.text.contains("{{"), "{}", profile.text);
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    assert!(profile.text.contains(&body), "the profile holds the same certificate");

    let foreign = raw(hub.server.address, "GET /trust HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert_eq!(foreign.status, 421);
    let told = Http::new(format!("http://localhost:{}", hub.server.address.port()).parse().unwrap(), None).unwrap().hub().await;
    assert!(
        matches!(&told, Err(ClientError::Hub(error)) if error.code == ErrorCode::Forbidden && error.hint.contains("fingerprint")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_link_that_is_made_over_https_leads_to_https() {
    let hub = Secure::start().await;
    let token = hub.token().await;
    let answer = hub
        .browser()
        .post(format!("https://localhost:{}/v1/invitations", hub.server.address.port()))
        .bearer_auth(token)
        .json(&json!({"trust": "trusted"}))
        .send()
        .await
        .unwrap();
    let made: Value = answer.json().await.unwrap();
    let url = made["url"].as_str().unwrap_or_else(|| panic!("{made}"));
    assert!(url.starts_with(&format!("https://localhost:{}/#invite=", hub.server.address.port())), "{url}");
}

#[test]
fn the_authority_stays_the_same_and_only_its_owner_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("tls");
    let first = open(&place).fingerprint();
    assert_eq!(open(&place).fingerprint(), first);
    assert_ne!(open(&directory.path().join("other")).fingerprint(), first);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place), 0o700);
    for entry in std::fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn what_cannot_be_vouched_for_or_read_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let fingerprint = open(place).fingerprint();
    // Made when it wasn't known: a public name is no local one, and devices that trust the authority don't take its word for it.
    let error = Tls::open(place, &["baton.example".to_owned()], &[]).unwrap_err().to_string();
    assert!(error.contains("baton.example") && error.contains("authority.pem"), "{error}");
    assert!(Tls::open(place, &["a b".to_owned()], &[]).is_err());
    let found = Tls::open(place, &["nas.local".to_owned()], &["203.0.113.9".to_owned(), "192.168.7.9".to_owned()]).unwrap();
    assert_eq!(found.fingerprint(), fingerprint, "addresses that come later don't change the authority");
    let named = tempfile::tempdir().unwrap();
    Tls::open(named.path(), &["baton.example".to_owned()], &[]).unwrap();

    let key = std::fs::read_to_string(place.join("authority.pem")).unwrap();
    for damaged in ["", &key[..key.len() / 2], "hello"] {
        std::fs::write(place.join("authority.pem"), damaged).unwrap();
        let error = Tls::open(place, &[], &[]).unwrap_err().to_string();
        assert!(error.contains("authority.pem") && error.contains("Restore it"), "{error}");
        assert_eq!(std::fs::read_to_string(place.join("authority.pem")).unwrap(), damaged, "it is left as it is");
    }
}
