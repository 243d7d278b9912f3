//! A link that can be cut at any moment: a relay between an end and its hub.

use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes bytes on in both directions until it is told to cut; later connections pass again.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    cuts: watch::Sender<u64>,
}

impl Relay {
    pub(super) async fn start(hub: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (cuts, cut) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((end, _)) = listener.accept().await {
                let mut cut = cut.clone();
                cut.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        // Both sockets are dropped with bytes still under way, so the peers see the link break and not close.
                        _ = cut.changed() => {}
                        _ = pass(end, hub) => {}
                    }
                });
            }
        });
        Ok(Self { address, cuts })
    }

    /// Breaks every connection that there is.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

async fn pass(mut end: TcpStream, hub: SocketAddr) -> std::io::Result<()> {
    let mut hub = TcpStream::connect(hub).await?;
    end.set_nodelay(true)?;
    hub.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut end, &mut hub).await.map(drop)
}
