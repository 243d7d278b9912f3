use crate::app::{App, stopped};
use crate::auth::Peer;
use crate::config::ServerConfig;
use crate::door::CameInAt;
use crate::error::ServerError;
use crate::routes::router;
use crate::tls::plain_router;
use axum::Router;
use axum::body::Body;
use baton_runtime::Hub;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

/// A request's line and headers together are at most this large, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// After the system refused a connection, such as for want of file descriptors.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// The first byte of a TLS handshake. No method of HTTP begins with it.
const HANDSHAKE: u8 = 0x16;

/// A connection's place among those served at once. An upgraded one keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// What is served: the hub, and where it speaks HTTPS, what the same port answers without.
#[derive(Clone)]
struct Routers {
    hub: Router,
    plain: Option<Router>,
}

/// Takes the address to listen on.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|error| ServerError::listening(address, error))
}

/// Serves the hub until `shutdown` resolves, then tells each socket, lets requests end, and returns. The hub itself stays open.
pub async fn serve(
    hub: Arc<Hub>,
    listener: TcpListener,
    config: ServerConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    let address = listener.local_addr().map_err(|source| ServerError::Listen { address: unspecified, source })?;
    let app = App::new(hub, &config, address)?;
    let routers = Routers { hub: router(&app), plain: app.tls.as_ref().map(|tls| plain_router(&app, tls)) };
    let places = Arc::new(Semaphore::new(config.limits.connections));
    tokio::pin!(shutdown);
    loop {
        let connected = tokio::select! {
            biased;
            () = &mut shutdown => break,
            connected = accept(&listener, &places) => connected,
        };
        if let Some((stream, peer, place)) = connected {
            tokio::spawn(connection(app.clone(), routers.clone(), stream, peer, place, app.stopping.subscribe()));
        }
    }
    drop(listener);
    app.stopping.send_replace(true);
    if tokio::time::timeout(config.limits.drain, app.stopping.closed()).await.is_err() {
        tracing::warn!(connections = app.stopping.receiver_count(), "connections were still open when the server stopped");
    }
    Ok(())
}

/// The next connection, once there is a place for it. Until then it waits in the system's queue, which is bounded too.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, SocketAddr, Place)> {
    let permit = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, Place { _permit: Arc::new(permit) })),
        Err(error) => {
            tracing::warn!(%error, "a connection can't be taken");
            tokio::time::sleep(REFUSED_PAUSE).await;
            None
        }
    }
}

async fn connection(app: App, routers: Routers, stream: TcpStream, peer: SocketAddr, place: Place, mut stopping: watch::Receiver<bool>) {
    // Frames are small and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok().map(|address| CameInAt(address.ip().to_canonical()));
    let caller = Caller { peer: Peer(peer.ip().to_canonical()), local, place };
    let (Some(tls), Some(plain)) = (app.tls.clone(), routers.plain) else {
        return http(&app, routers.hub, timed(&app, stream), caller, stopping).await;
    };
    let begun = async {
        let mut first = [0];
        // What isn't a handshake isn't taken away: whoever answers reads it again.
        if stream.peek(&mut first).await? == 0 {
            return Ok(None);
        }
        let stream = timed(&app, stream);
        if first[0] != HANDSHAKE {
            return Ok(Some(Begun::Plain(stream)));
        }
        let address = local.map(|CameInAt(address)| address);
        tls.accept(stream, address).await.map(|stream| Some(Begun::Encrypted(Box::new(stream))))
    };
    let begun: io::Result<_> = tokio::select! {
        () = stopped(&mut stopping) => return,
        // A peer that is slow here has a place, and no more of it than this (S8).
        begun = tokio::time::timeout(app.limits.handshake, begun) => begun.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
    };
    match begun {
        Ok(Some(Begun::Encrypted(stream))) => http(&app, routers.hub, stream, caller, stopping).await,
        Ok(Some(Begun::Plain(stream))) => http(&app, plain, stream, caller, stopping).await,
        Ok(None) => {}
        // A browser that doesn't trust the authority says so here.
        Err(error) => tracing::debug!(%error, "a handshake came to no end"),
    }
}

type Timed = Pin<Box<TimeoutStream<TcpStream>>>;

/// A connection after its first words.
enum Begun {
    Encrypted(Box<TlsStream<Timed>>),
    Plain(Timed),
}

/// Who is at the other end, and where it came in.
struct Caller {
    peer: Peer,
    local: Option<CameInAt>,
    place: Place,
}

fn timed(app: &App, stream: TcpStream) -> Timed {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(app.limits.stalled));
    Box::pin(stream)
}

async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    app: &App,
    router: Router,
    stream: S,
    caller: Caller,
    mut stopping: watch::Receiver<bool>,
) {
    let Caller { peer, local, place } = caller;
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        request.extensions_mut().insert(place.clone());
        router.clone().oneshot(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.headers)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopped(&mut stopping) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
