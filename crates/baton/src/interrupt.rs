use crate::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};

/// Resolves at the first Ctrl-C or request to terminate.
pub(crate) async fn asked_to_stop() -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
