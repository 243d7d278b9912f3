use super::link::Ended;
use crate::http::{failure, unanswered};
use crate::{ClientError, HubUrl, Token};
use baton_proto::{ErrorCode, MAX_FRAME_BYTES};
use reqwest::header::AUTHORIZATION;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens the socket, or says why there is none and whether to try again.
pub(super) async fn dial(url: &HubUrl, token: &Token, patience: Duration) -> Result<Socket, Ended> {
    let mut request = url.websocket().as_str().into_client_request().map_err(|error| Ended::lost(error.to_string()))?;
    request.headers_mut().insert(AUTHORIZATION, token.authorization());
    let tls = url.authority().client_config().map_err(Ended::lost)?;
    let connector = tls.map(|config| Connector::Rustls(Arc::new(config)));
    match tokio::time::timeout(patience, connect_async_tls_with_config(request, Some(limits()), true, connector)).await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(Error::Http(response))) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(refusal(failure(response.status(), body)))
        }
        Ok(Err(error)) => Err(Ended::lost(unanswered(&error).to_string())),
        Err(_) => Err(Ended::lost(ClientError::Unreachable(format!("no answer within {} s", patience.as_secs())).to_string())),
    }
}

/// A hub may be a little off in its promise before memory is at risk (S8).
pub(super) fn limits() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(4 * MAX_FRAME_BYTES)).max_frame_size(Some(4 * MAX_FRAME_BYTES))
}

/// Whether the hub's no to the handshake is its last word.
fn refusal(error: ClientError) -> Ended {
    match error {
        ClientError::Hub(error)
            if matches!(error.code, ErrorCode::Unauthenticated | ErrorCode::Forbidden | ErrorCode::UnsupportedVersion) =>
        {
            Ended::Refused(error)
        }
        error => Ended::lost(error.to_string()),
    }
}
