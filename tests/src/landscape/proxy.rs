//! A TCP proxy on loopback that can be broken.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What is wrong with the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every connection is reset, old ones and new ones.
    Reset,
    /// Nothing goes through any more, and nobody is told: old connections are half open, new ones
    /// are accepted.
    Stall,
    /// The same for old connections only: new ones work.
    StallOld,
    /// Everything comes later, both ways.
    Delay(Duration),
}

/// Forwards connections to an upstream. It ends when dropped.
pub struct Proxy {
    url: String,
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

struct Shared {
    fault: watch::Sender<Fault>,
    upstream: Mutex<SocketAddr>,
    connections: AtomicUsize,
}

impl Proxy {
    /// In front of the server at `url` (`https://127.0.0.1:6443`).
    pub async fn start(url: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own = format!("https://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            fault: watch::Sender::new(Fault::None),
            upstream: Mutex::new(address(url)?),
            connections: AtomicUsize::new(0),
        });
        let mut accepting = JoinSet::new();
        accepting.spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            url: own,
            shared,
            _accepting: accepting,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Breaks the path, or mends it.
    pub fn set(&self, fault: Fault) {
        self.shared.fault.send_replace(fault);
    }

    /// New connections go to another server.
    pub fn swap(&self, url: &str) -> Result<()> {
        let address = address(url)?;
        let upstream = self.shared.upstream.lock();
        *upstream.unwrap_or_else(PoisonError::into_inner) = address;
        Ok(())
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

fn address(url: &str) -> Result<SocketAddr> {
    let host = url.strip_prefix("https://").context("not HTTPS")?;
    Ok(host.parse()?)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // Whatever ends a connection is the peers' to see.
            let _ = carry(client, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, shared: &Shared) -> Result<()> {
    // Old connections are those that were there when the fault came.
    let mut fault = shared.fault.subscribe();
    let at_birth = *fault.borrow_and_update();
    let upstream = *shared
        .upstream
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Closing with data unread or with no linger is a reset.
    #[expect(
        deprecated,
        reason = "the runtime does not block on closing with no linger"
    )]
    client.set_linger(Some(Duration::ZERO))?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let reset = async {
        let mut fault = shared.fault.subscribe();
        // The sender lives as long as we do.
        let _ = fault.wait_for(|fault| *fault == Fault::Reset).await;
    };
    tokio::select! {
        done = pump(from_client, to_server, fault.clone(), at_birth) => done,
        done = pump(from_server, to_client, fault, at_birth) => done,
        () = reset => Ok(()),
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut fault: watch::Receiver<Fault>,
    at_birth: Fault,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let stalls = |fault: &Fault| {
            *fault == Fault::Stall || (*fault == Fault::StallOld && *fault != at_birth)
        };
        let now = *fault.wait_for(|fault| !stalls(fault)).await?;
        if let Fault::Delay(time) = now {
            sleep(time).await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}
