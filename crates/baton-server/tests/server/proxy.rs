//! A hub behind something that terminates TLS under a public name, such as a reverse proxy or a tunnel: `--public-url`.

use crate::support::{PATIENCE, Server};
use baton_proto::Trust;
use futures::{SinkExt, StreamExt};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const NAME: &str = "baton.example";

/// Passes on what comes encrypted under the public name, as it is.
struct Proxy {
    address: SocketAddr,
    certificate: rcgen::Certificate,
}

impl Proxy {
    async fn before(hub: SocketAddr) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await?;
                    let mut inside = TcpStream::connect(hub).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Self { address, certificate }
    }

    fn browser(&self) -> reqwest::Client {
        let certificate = reqwest::Certificate::from_der(self.certificate.der()).unwrap();
        reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).resolve(NAME, self.address).timeout(PATIENCE).build().unwrap()
    }
}

#[tokio::test]
async fn behind_a_proxy_the_hub_works_under_its_public_name() {
    let server = Server::start_with(|config| config.public_url = Some(format!("https://{NAME}"))).await;
    let proxy = Proxy::before(server.address).await;
    let browser = proxy.browser();
    let base = format!("https://{NAME}:{}", proxy.address.port());
    assert_eq!(browser.get(&base).send().await.unwrap().status(), 200);

    let secret = server.hub.invite(server.user, None, Trust::Trusted).await.unwrap().secret;
    let claim = json!({"secret": secret, "name": "a phone", "client_type": "phone", "cookie": true});
    let request = |origin: &str| {
        let request = browser.post(format!("{base}/v1/invitations/claim"));
        request.header("content-type", "application/json").header("origin", origin.to_owned()).json(&claim)
    };
    // The name as it is without the proxy, or unencrypted: pages from there are none of the hub's.
    for foreign in [format!("http://{NAME}"), format!("https://{NAME}.evil.example"), "null".to_owned(), "https://evil.example".to_owned()]
    {
        assert_eq!(request(&foreign).send().await.unwrap().status(), 403, "{foreign}");
    }
    let answer = request(&format!("https://{NAME}")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("; Secure"), "the cookie is for the encrypted name only");
    let cookie = cookie.split(';').next().unwrap().to_owned();

    let invite = browser.post(format!("{base}/v1/invitations")).header("content-type", "application/json");
    let made = invite.header("origin", format!("https://{NAME}")).header("cookie", &cookie).body(r#"{"trust":"trusted"}"#);
    let made: Value = made.send().await.unwrap().json().await.unwrap();
    let url = made["url"].as_str().unwrap_or_else(|| panic!("{made}"));
    assert!(url.starts_with(&format!("https://{NAME}/#invite=")), "links lead to the public name: {url}");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(proxy.certificate.der().clone()).unwrap();
    let connector = TlsConnector::from(Arc::new(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()));
    for (origin, opens) in [(format!("https://{NAME}"), true), ("https://evil.example".to_owned(), false)] {
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        let stream = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
        let mut request = format!("wss://{NAME}/v1/ws").into_client_request().unwrap();
        request.headers_mut().insert("origin", origin.parse().unwrap());
        request.headers_mut().insert("cookie", cookie.parse().unwrap());
        let opened = client_async(request, stream).await;
        assert_eq!(opened.is_ok(), opens, "{origin}");
        if let Ok((mut socket, _)) = opened {
            socket.send(Message::text(r#"{"type":"hello","protocol":1,"client_type":"phone"}"#)).await.unwrap();
            let first = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
            assert!(first.to_text().unwrap().contains("\"type\":\"welcome\""), "{first}");
        }
    }
}
