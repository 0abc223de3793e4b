//! An HTTP server that a slow or hostile client cannot block.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::{ClientConnection, ConnectionTracker};
use crate::loopback::{Client, ClientAddress};

/// Maximum number of open connections. The kubelet and the monitoring system need a few.
const MAX_CONNECTIONS: usize = 64;

/// Default time for requests in flight to complete after the shutdown began.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `router` until `shutdown` completes, then waits up to 5 s for requests in flight.
///
/// Clients are limited as described for [`serve_with_grace`].
pub async fn serve<L, Stop>(listener: L, router: Router, shutdown: Stop) -> io::Result<()>
where
    L: Listener<Addr: ClientAddress>,
    Stop: Future<Output = ()> + Send + 'static,
{
    serve_with_grace(GRACE, listener, router, shutdown).await
}

/// Serves `router` until `shutdown` completes, then waits up to `grace` for requests in flight.
///
/// These limits apply to clients:
///
/// - A request target has at most 64 KiB (414) and a request at most 100 headers (431). These are
///   limits of `hyper`.
/// - A request that is not complete and answered 30 s after its first byte is closed, and so is a
///   connection that is idle for 75 s.
/// - With 64 connections open, a new connection closes the oldest.
/// - A client that disconnects or half-closes its connection ends only its own request. Runs that
///   other probes wait for continue.
pub async fn serve_with_grace<L, Stop>(
    grace: Duration,
    listener: L,
    router: Router,
    shutdown: Stop,
) -> io::Result<()>
where
    L: Listener<Addr: ClientAddress>,
    Stop: Future<Output = ()> + Send + 'static,
{
    let connections = ConnectionTracker::new(MAX_CONNECTIONS);
    let listener = LimitedListener {
        listener,
        connections: connections.clone(),
    };
    let pages = router.into_make_service_with_connect_info::<Client>();
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    let serving = axum::serve(listener, pages).with_graceful_shutdown(async move {
        shutdown.await;
        stopping.cancel();
    });
    let grace_over = async {
        stopped.cancelled().await;
        sleep(grace).await;
    };
    tokio::select! {
        served = serving.into_future() => served,
        () = grace_over => {
            connections.close_all();
            Ok(())
        }
    }
}

/// A listener whose connections have timeouts and a maximum number.
pub(crate) struct LimitedListener<L> {
    listener: L,
    connections: ConnectionTracker,
}

impl<L: Listener> Listener for LimitedListener<L> {
    type Io = ClientConnection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.listener.accept().await;
        (self.connections.admit(stream), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
