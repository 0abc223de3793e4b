//! Opens a stream to an endpoint.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::read_ahead::ReadAhead;
use crate::stream::{Stream, StreamKind};
use crate::tls_fault::TlsFault;

/// The number of addresses that are tried for one host name.
const MAX_ADDRESSES: usize = 8;

/// An attempt that has not succeeded after this delay gets the next address started beside it.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Limits the lookup of a host name. It is shorter than any caller's timeout for a server, so that
/// a hanging resolver is not mistaken for a hanging server.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// An error that prevented a connection. `at` is the server as `host:port`, `source` the error of
/// the resolver or of the network, `fault` the reason that TLS failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the doc of the enum explains the fields")]
pub enum ConnectError {
    /// The host name has no address, or the resolver did not answer.
    #[error("{at}: cannot resolve the host name: {source}")]
    Resolve { at: String, source: io::Error },
    /// No process listens on the port.
    #[error("{at}: connection refused")]
    Refused { at: String },
    /// The server cannot be reached, or another error occurred below TLS.
    #[error("{at}: cannot connect: {source}")]
    Unreachable { at: String, source: io::Error },
    /// The TCP connection succeeded but TLS failed.
    #[error("{at}: {fault}")]
    Tls { at: String, fault: TlsFault },
}

/// Connects to the server: TCP to the first of its addresses that accepts, then TLS if the endpoint
/// has it.
///
/// Only the lookup of the name is limited, to two seconds. Drop the future to give up earlier.
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
        let stream = dial(&endpoint.host, endpoint.port).await.map_err(failed)?;
        return Ok(Stream::new(StreamKind::InProcess(stream)));
    }
    let addresses = resolve(endpoint).await?;
    let tcp = connect_any(addresses).await.map_err(failed)?;
    let Some((tls, name)) = &endpoint.tls else {
        return Ok(Stream::new(StreamKind::Tcp(tcp)));
    };
    let tcp = ReadAhead::new(tcp);
    // Boxed because a task reserves space for everything it awaits, and a handshake is large.
    let handshake = Box::pin(TlsConnector::from(tls.config()).connect(name.clone(), tcp));
    let stream = handshake.await.map_err(|error| ConnectError::Tls {
        at: endpoint.authority(),
        fault: TlsFault::from_handshake(&error),
    })?;
    Ok(Stream::new(StreamKind::Tls(Box::new(stream))))
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
    let found = resolve_within(RESOLVE_TIMEOUT, lookup).await;
    let addresses: Vec<_> = found.map_err(failed)?.take(MAX_ADDRESSES).collect();
    if addresses.is_empty() {
        return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
    }
    Ok(addresses)
}

async fn resolve_within<T>(
    limit: Duration,
    lookup: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout(limit, lookup).await.unwrap_or_else(|_| {
        let text = format!("the resolver did not answer within {limit:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Returns the first connection that one of `addresses` accepts. An address is tried when the one
/// before it failed or is slow. If none accepts, the most informative error is returned.
async fn connect_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut fault = None;
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.into_iter();
    loop {
        if let Some(address) = waiting.next() {
            // The last address is awaited without a task, so that the common case of one address
            // spawns none.
            if waiting.len() == 0 && attempts.is_empty() {
                let last = dial(address).await;
                return last.map_err(|error| more_informative(fault, error));
            }
            attempts.spawn(dial(address));
        }
        let slow = async {
            if waiting.len() == 0 {
                std::future::pending::<()>().await;
            } else {
                sleep(ATTEMPT_DELAY).await;
            }
        };
        tokio::select! {
            done = attempts.join_next() => match done {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => fault = Some(more_informative(fault, error)),
                Some(Err(error)) => fault = Some(more_informative(fault, io::Error::other(error))),
                None => return Err(fault.unwrap_or_else(|| io::ErrorKind::NotFound.into())),
            },
            () = slow => {}
        }
    }
}

/// Keeps the first error, but prefers any other error to a refused connection. A refusal is
/// evidence about the server only if all of its addresses could be tried.
fn more_informative(first: Option<io::Error>, next: io::Error) -> io::Error {
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
    async fn refused_address_falls_back_to_next() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let refusing = closed.local_addr().unwrap();
        drop(closed);
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let accepting = open.local_addr().unwrap();

        let stream = connect_any(vec![refusing, refusing, accepting])
            .await
            .unwrap();
        assert_eq!(stream.peer_addr().unwrap(), accepting);
        let error = connect_any(vec![refusing, refusing]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn hanging_resolver_times_out() {
        let hanging = std::future::pending::<io::Result<()>>();
        let error = resolve_within(Duration::from_millis(10), hanging).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("resolver"), "{error}");
        let found = resolve_within(RESOLVE_TIMEOUT, async { Ok(7) }).await;
        assert_eq!(found.unwrap(), 7);
    }

    #[tokio::test]
    async fn refusal_does_not_hide_other_errors() {
        let refusing = SocketAddr::from(([127, 0, 0, 1], 1));
        // The kernel has no TCP route to the broadcast address.
        let unreachable = SocketAddr::from(([255, 255, 255, 255], 1));
        let alone = connect_any(vec![unreachable]).await.unwrap_err().kind();
        assert_ne!(alone, io::ErrorKind::ConnectionRefused);
        for addresses in [
            vec![refusing, unreachable],
            vec![unreachable, refusing],
            vec![refusing, unreachable, refusing],
        ] {
            let error = connect_any(addresses.clone()).await.unwrap_err();
            assert_eq!(error.kind(), alone, "{addresses:?}");
        }
    }
}
