//! Serving until told to stop.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, Connections};

/// Connections that are served at once.
const MOST_OPEN: usize = 1_024;

/// After the shutdown began, answers that are under way may take this long.
const GRACE: Duration = Duration::from_secs(5);

/// Serves `router` until `shutdown` is done and the answers under way are given, 5 s at most.
///
/// What a client can do to it is bounded, as [`serve_within`] says.
pub async fn serve<L, Stop>(listener: L, router: Router, shutdown: Stop) -> io::Result<()>
where
    L: Listener,
    L::Addr: Debug,
    Stop: Future<Output = ()> + Send + 'static,
{
    serve_within(GRACE, listener, router, shutdown).await
}

/// Serves `router` until `shutdown` is done and the answers under way are given, `grace` at most.
///
/// What a client can do to it is bounded: a request target has at most 64 KiB (414) and 100 headers
/// (431), as `hyper` has it; a request that is not complete and answered 30 s after its first byte,
/// and a connection that is idle for 75 s, are closed; with 1,024 connections open, the oldest
/// makes room for a new one. A client that leaves or half-closes its connection ends its own wait,
/// nobody else's.
pub async fn serve_within<L, Stop>(
    grace: Duration,
    listener: L,
    router: Router,
    shutdown: Stop,
) -> io::Result<()>
where
    L: Listener,
    L::Addr: Debug,
    Stop: Future<Output = ()> + Send + 'static,
{
    let connections = Connections::new(MOST_OPEN);
    let patient = Patient {
        listener,
        connections: connections.clone(),
    };
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    let serving = axum::serve(patient, router).with_graceful_shutdown(async move {
        shutdown.await;
        stopping.cancel();
    });
    let overtime = async {
        stopped.cancelled().await;
        sleep(grace).await;
    };
    tokio::select! {
        served = serving.into_future() => served,
        () = overtime => {
            connections.clear();
            Ok(())
        }
    }
}

/// A listener whose connections do not wait forever.
struct Patient<L> {
    listener: L,
    connections: Connections,
}

impl<L: Listener> Listener for Patient<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.listener.accept().await;
        (self.connections.admit(stream), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
