//! A TCP proxy on loopback that injects connection faults.

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

/// A fault of the connections through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyFault {
    /// No fault: connections work normally.
    None,
    /// All connections are reset, both existing and new ones.
    Reset,
    /// No data passes, and neither side is notified: existing connections become half open, and new
    /// ones are accepted.
    Stall,
    /// Like `Stall`, for existing connections only. New connections work.
    StallExisting,
    /// Data is delayed in both directions.
    Delay(Duration),
}

/// Forwards connections to an upstream server, until dropped.
pub struct TcpProxy {
    url: String,
    state: Arc<ProxyState>,
    _task: JoinSet<()>,
}

struct ProxyState {
    fault: watch::Sender<ProxyFault>,
    upstream: Mutex<SocketAddr>,
    connections: AtomicUsize,
}

impl TcpProxy {
    /// Starts a proxy in front of the server at `url`, as in `https://127.0.0.1:6443`.
    pub async fn start(url: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own_url = format!("https://{}", listener.local_addr()?);
        let state = Arc::new(ProxyState {
            fault: watch::Sender::new(ProxyFault::None),
            upstream: Mutex::new(address(url)?),
            connections: AtomicUsize::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(accept(listener, Arc::clone(&state)));
        Ok(Self {
            url: own_url,
            state,
            _task: task,
        })
    }

    /// The address of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes the fault of all connections; [`ProxyFault::None`] repairs them.
    pub fn set_fault(&self, fault: ProxyFault) {
        self.state.fault.send_replace(fault);
    }

    /// Forwards new connections to another server.
    pub fn set_upstream(&self, url: &str) -> Result<()> {
        let address = address(url)?;
        let upstream = self.state.upstream.lock();
        *upstream.unwrap_or_else(PoisonError::into_inner) = address;
        Ok(())
    }

    /// The number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }
}

fn address(url: &str) -> Result<SocketAddr> {
    let host = url.strip_prefix("https://").context("not HTTPS")?;
    Ok(host.parse()?)
}

async fn accept(listener: TcpListener, state: Arc<ProxyState>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::Relaxed);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            // The peers notice the end of a connection themselves.
            let _ = forward(client, &state).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(client: TcpStream, state: &ProxyState) -> Result<()> {
    // Existing connections are those that were open before the fault.
    let mut fault = state.fault.subscribe();
    let initial_fault = *fault.borrow_and_update();
    let upstream = *state
        .upstream
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    // Closing with unread data or without linger sends a reset.
    #[expect(
        deprecated,
        reason = "the runtime does not block on closing with no linger"
    )]
    client.set_linger(Some(Duration::ZERO))?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let reset = async {
        let mut fault = state.fault.subscribe();
        // The sender is part of the state, so it outlives this receiver.
        let _ = fault.wait_for(|fault| *fault == ProxyFault::Reset).await;
    };
    tokio::select! {
        done = pump(from_client, to_server, fault.clone(), initial_fault) => done,
        done = pump(from_server, to_client, fault, initial_fault) => done,
        () = reset => Ok(()),
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut fault: watch::Receiver<ProxyFault>,
    initial_fault: ProxyFault,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let stalls = |fault: &ProxyFault| {
            *fault == ProxyFault::Stall
                || (*fault == ProxyFault::StallExisting && *fault != initial_fault)
        };
        let now = *fault.wait_for(|fault| !stalls(fault)).await?;
        if let ProxyFault::Delay(time) = now {
            sleep(time).await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}
