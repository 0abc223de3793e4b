//! From an endpoint to a stream.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::fault::TlsFault;
use crate::read_ahead::ReadAhead;
use crate::stream::Stream;

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 8;

/// An address that has not answered for this long gets company by the next one.
const STAGGER: Duration = Duration::from_millis(250);

/// A name that is not resolved by then is not going to be. Less than anybody waits for a server, so
/// that a resolver that hangs is not taken for a server that does.
const RESOLVE: Duration = Duration::from_secs(2);

/// Why there is no connection. `at` is `host:port`.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("{at}: the name cannot be resolved: {source}")]
    Resolve {
        /// Which server.
        at: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody listens there.
    #[error("{at}: connection refused")]
    Refused {
        /// Which server.
        at: String,
    },
    /// No way there, or any other fault below TLS.
    #[error("{at}: cannot connect: {source}")]
    Unreachable {
        /// Which server.
        at: String,
        /// What the network said.
        source: io::Error,
    },
    /// The server is there, but TLS did not come about.
    #[error("{at}: {fault}")]
    Tls {
        /// Which server.
        at: String,
        /// Why.
        fault: TlsFault,
    },
}

/// Connects to the server: TCP to whichever of its addresses answers first, then TLS if the
/// endpoint has it. But for the name, which has two seconds, without a time limit of its own: drop
/// the future to give up.
pub async fn connect(endpoint: &Endpoint) -> Result<Stream, ConnectError> {
    let failed = |source: io::Error| {
        let at = endpoint.authority();
        if source.kind() == io::ErrorKind::ConnectionRefused {
            ConnectError::Refused { at }
        } else {
            ConnectError::Unreachable { at, source }
        }
    };
    if let Some(dial) = &endpoint.network.0 {
        let dialled = dial(&endpoint.host, endpoint.port).await;
        return dialled.map(Stream::inside).map_err(failed);
    }
    let addresses = resolve(endpoint).await?;
    let tcp = race(addresses).await.map_err(failed)?;
    let Some((tls, name)) = &endpoint.tls else {
        return Ok(Stream::plain(tcp));
    };
    let tcp = ReadAhead::new(tcp);
    // On the heap: a task keeps room for all it ever awaits, and a handshake is large.
    let handshake = Box::pin(TlsConnector::from(tls.config()).connect(name.clone(), tcp));
    let stream = handshake.await.map_err(|error| ConnectError::Tls {
        at: endpoint.authority(),
        fault: TlsFault::of_handshake(&error),
    })?;
    Ok(Stream::tls(stream))
}

async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, ConnectError> {
    if let Ok(ip) = endpoint.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, endpoint.port)]);
    }
    let failed = |source| ConnectError::Resolve {
        at: endpoint.authority(),
        source,
    };
    let lookup = lookup_host((&*endpoint.host, endpoint.port));
    let found = within(RESOLVE, lookup).await;
    let addresses: Vec<_> = found.map_err(failed)?.take(MOST_ADDRESSES).collect();
    if addresses.is_empty() {
        return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
    }
    Ok(addresses)
}

async fn within<T>(limit: Duration, lookup: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, lookup).await.unwrap_or_else(|_| {
        let text = format!("no answer of the resolver for {limit:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// The first of `addresses` that accepts, each started when the one before failed or is slow; the
/// telling fault if none does.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut fault = None;
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.into_iter();
    loop {
        if let Some(address) = waiting.next() {
            // The last one is awaited here: with one address, the usual case, there is no task.
            if waiting.len() == 0 && attempts.is_empty() {
                let last = dial(address).await;
                return last.map_err(|error| telling(fault, error));
            }
            attempts.spawn(dial(address));
        }
        let slow = async {
            if waiting.len() == 0 {
                std::future::pending::<()>().await;
            } else {
                sleep(STAGGER).await;
            }
        };
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => fault = Some(telling(fault, error)),
                Some(Err(error)) => fault = Some(telling(fault, io::Error::other(error))),
                None => return Err(fault.unwrap_or_else(|| io::ErrorKind::NotFound.into())),
            },
            () = slow => {}
        }
    }
}

/// The first fault, but any other rather than a refusal: that nobody listens is evidence about the
/// server only if each of its addresses could be asked.
fn telling(first: Option<io::Error>, next: io::Error) -> io::Error {
    match first {
        Some(first) if first.kind() != io::ErrorKind::ConnectionRefused => first,
        _ => next,
    }
}

async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_address_that_refuses_does_not_hide_the_next() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let accepting = open.local_addr().unwrap();

        let stream = race(vec![refusing, refusing, accepting]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), accepting);
        let error = race(vec![refusing, refusing]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_resolver_that_hangs_is_not_waited_for() {
        let hanging = std::future::pending::<io::Result<()>>();
        let error = within(Duration::from_millis(10), hanging).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("resolver"), "{error}");
        let found = within(RESOLVE, async { Ok(7) }).await;
        assert_eq!(found.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_refusal_does_not_hide_another_fault() {
        let refusing = SocketAddr::from(([127, 0, 0, 1], 1));
        // The kernel has no way there for TCP.
        let unreachable = SocketAddr::from(([255, 255, 255, 255], 1));
        let alone = race(vec![unreachable]).await.unwrap_err().kind();
        assert_ne!(alone, io::ErrorKind::ConnectionRefused);
        for addresses in [
            vec![refusing, unreachable],
            vec![unreachable, refusing],
            vec![refusing, unreachable, refusing],
        ] {
            let error = race(addresses.clone()).await.unwrap_err();
            assert_eq!(error.kind(), alone, "{addresses:?}");
        }
    }
}
