//! A running hub, and ends that talk to it.

mod raw;
mod socket;
mod stream;

pub(crate) use raw::raw;
pub(crate) use socket::{Socket, kind};
pub(crate) use stream::{Stream, Told};

use baton_proto::{ClientType, DeviceId, Digest, ErrorCode, SessionId, Trust, UserId};
use baton_runtime::{Clock, Hub, HubConfig, SystemClock};
use baton_server::{Asset, ServerConfig, bind, serve};
use baton_store::SqliteStore;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// However slow the machine is, what is awaited comes within this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) hub: Arc<Hub>,
    pub(crate) address: SocketAddr,
    /// A user that exists.
    pub(crate) user: UserId,
    /// The name of the cookie that browsers keep their token in.
    pub(crate) cookie: String,
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    data: Arc<tempfile::TempDir>,
}

/// A paired device with its token.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    pub(crate) token: String,
    pub(crate) client_type: &'static str,
}

fn assets(name: &str) -> Option<Asset> {
    let (bytes, content_type): (&'static [u8], &'static str) = match name {
        "index.html" => (b"<!doctype html><title>Baton</title>", "text/html; charset=utf-8"),
        "service_worker.js" => (b"addEventListener", "text/javascript"),
        "assets/index-1a2b.js" => (b"export {};", "text/javascript"),
        // Its content only has to be told from the file's own.
        "assets/index-1a2b.js.gz" => (b"squeezed", "application/octet-stream"),
        _ => return None,
    };
    Some(Asset { bytes: bytes.into(), content_type: content_type.into() })
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), change, Arc::new(SystemClock)).await
    }

    /// With another clock than the machine's.
    pub(crate) async fn start_at(clock: Arc<dyn Clock>) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().unwrap()), |_| {}, clock).await
    }

    /// Stops, and starts another server over the same data.
    pub(crate) async fn restarted(self) -> Self {
        self.restarted_at(Arc::new(SystemClock)).await
    }

    /// The same, by another clock.
    pub(crate) async fn restarted_at(mut self, clock: Arc<dyn Clock>) -> Self {
        let (hub, data) = (Arc::clone(&self.hub), Arc::clone(&self.data));
        self.begin_stop();
        self.stopped().await;
        hub.shut_down("The hub is stopping.").await;
        drop(hub);
        Self::start_in(data, |_| {}, clock).await
    }

    async fn start_in(data: Arc<tempfile::TempDir>, change: impl FnOnce(&mut ServerConfig), clock: Arc<dyn Clock>) -> Self {
        let store = SqliteStore::open(data.path()).unwrap();
        let config = HubConfig { uploads_dir: Some(data.path().join("uploads")), clock, ..HubConfig::new("0.0.0-test", None) };
        let hub = Hub::open(store, config).await.unwrap();
        let user = match hub.users().first() {
            Some((id, _)) => *id,
            None => hub.create_user("ada").await.unwrap(),
        };
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = ServerConfig::new(assets);
        change(&mut config);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = Arc::clone(&hub);
        let task = tokio::spawn(async move {
            let until = async move {
                let _ = stopped.await;
            };
            serve(served, listener, config, until).await.unwrap();
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let cookie = format!("baton_{}", Digest::of_bytes(user.to_string().as_bytes()).short());
        Self { hub, address, user, cookie, client, stop: Some(stop), task, data }
    }

    /// Asks the server to stop; returns at once.
    pub(crate) fn begin_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn stopped(self) {
        tokio::time::timeout(PATIENCE, self.task).await.expect("the server stops").unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn origin(&self) -> String {
        self.url("")
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let request = self.client.request(method.parse::<Method>().unwrap(), self.url(path));
        if matches!(method, "POST" | "PATCH") { request.header("content-type", "application/json") } else { request }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.request("POST", path).json(&body).send().await.unwrap()
    }

    /// Pairs a device as the owner's link does.
    pub(crate) async fn pair(&self, user: UserId, trust: Trust, client_type: ClientType) -> Device {
        let made = self.hub.invite(user, None, trust).await.unwrap();
        let client_type = match client_type {
            ClientType::Phone => "phone",
            ClientType::Device => "device",
            _ => "cli",
        };
        let claim = json!({"secret": made.secret, "name": format!("a {client_type}"), "client_type": client_type});
        let credentials: Value = self.post("/v1/invitations/claim", claim).await.error_for_status().unwrap().json().await.unwrap();
        Device {
            id: credentials["device_id"].as_str().unwrap().parse().unwrap(),
            token: credentials["token"].as_str().unwrap().to_owned(),
            client_type,
        }
    }

    pub(crate) async fn phone(&self) -> Device {
        self.pair(self.user, Trust::Trusted, ClientType::Phone).await
    }

    /// A session of a device's, empty; its epoch is 1.
    pub(crate) async fn session(&self, by: &Device) -> SessionId {
        let reply = self.operate(by, &json!({"v": 1, "operation_id": fresh(), "intent": "new_session"})).await;
        assert_eq!(reply["status"], "accepted", "{reply}");
        reply["session_id"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) async fn operate(&self, by: &Device, operation: &Value) -> Value {
        let response = self.request("POST", "/v1/ops").bearer_auth(&by.token).json(operation).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json().await.unwrap()
    }

    pub(crate) async fn get(&self, by: &Device, path: &str) -> Value {
        let response = self.request("GET", path).bearer_auth(&by.token).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    pub(crate) async fn connect(&self, device: &Device) -> Socket {
        self.connect_with(device, json!({})).await
    }

    /// Connects and says hello with these fields besides the usual ones; the welcome is taken.
    pub(crate) async fn connect_with(&self, device: &Device, fields: Value) -> Socket {
        let mut socket = Socket::dial(self.address, &device.token).await;
        socket.send(&hello(device, &fields)).await;
        let welcome = socket.next().await;
        assert_eq!(kind(&welcome), "welcome", "{welcome}");
        socket
    }
}

pub(crate) fn hello(device: &Device, fields: &Value) -> Value {
    let mut hello = json!({"type": "hello", "protocol": 1, "client_type": device.client_type});
    for (name, value) in fields.as_object().unwrap() {
        hello[name] = value.clone();
    }
    hello
}

pub(crate) fn fresh() -> String {
    Uuid::now_v7().to_string()
}

/// An operation on a session whose epoch is 1.
pub(crate) fn operation(session: SessionId, intent: &str, payload: Value) -> Value {
    json!({"v": 1, "operation_id": fresh(), "session_id": session, "intent": intent, "payload": payload, "epoch": 1})
}

impl Server {
    pub(crate) fn uploads(&self) -> std::path::PathBuf {
        self.data.path().join("uploads")
    }
}

/// Asserts a refusal: its status, its code, and that it says what happened and what to do.
pub(crate) async fn assert_refused(response: Response, status: u16, code: ErrorCode, case: &str) -> Value {
    assert_eq!(response.status().as_u16(), status, "{case}");
    assert_eq!(response.headers()["content-type"], "application/problem+json", "{case}");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], code.as_str(), "{case}: {problem}");
    assert_eq!(problem["status"], status, "{case}: {problem}");
    assert!(!problem["detail"].as_str().unwrap().is_empty() && !problem["hint"].as_str().unwrap().is_empty(), "{case}: {problem}");
    problem
}
