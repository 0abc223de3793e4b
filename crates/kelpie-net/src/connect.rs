//! Opens a stream to an endpoint.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use crate::endpoint::Endpoint;
use crate::local_address::is_local as is_local_address;
use crate::read_ahead::ReadAhead;
use crate::resolve::{ResolveError, resolve};
use crate::stream::{Stream, StreamKind};
use crate::tls_fault::TlsFault;

/// An attempt that has not succeeded after this delay gets the next address started beside it.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// An error that prevented a connection. `at` is the server as `host:port`, `source` the error of
/// the resolver or of the network, `fault` the reason that TLS failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the doc of the enum explains the fields")]
pub enum ConnectError {
    /// The host name has no address, or the resolver did not answer.
    #[error("{at}: cannot resolve the host name: {source}")]
    Resolve { at: String, source: ResolveError },
    /// All addresses are loopback, link-local or metadata addresses, which
    /// [`Network::refusing_local_addresses`](crate::Network::refusing_local_addresses) refuses. No
    /// connection was attempted.
    #[error("{at}: loopback, link-local and metadata addresses are refused")]
    LocalAddress { at: String },
    /// This host lacks what a connection needs: a file descriptor, a port, memory, a route or the
    /// permission of its firewall. The server did not see the attempt.
    #[error("{at}: this host cannot open a connection: {source}")]
    Local { at: String, source: io::Error },
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
    let at = || endpoint.authority();
    let unresolved = |source| ConnectError::Resolve { at: at(), source };
    let mut addresses = resolve(endpoint).await.map_err(unresolved)?;
    if let Some(dial) = &endpoint.network.dial {
        let stream = dial(&endpoint.host, endpoint.port).await;
        let stream = stream.map_err(|source| match ResolveError::in_io_error(&source) {
            Some(source) => unresolved(source),
            None => DialFailure::from(source).at(at()),
        })?;
        return Ok(Stream::new(StreamKind::InProcess(stream)));
    }
    if endpoint.network.refuses_local {
        addresses.retain(|address| !is_local_address(address.ip()));
        if addresses.is_empty() {
            return Err(ConnectError::LocalAddress { at: at() });
        }
    }
    let tcp = connect_any(addresses).await;
    let tcp = tcp.map_err(|failure| failure.at(at()))?;
    let Some((tls, name)) = &endpoint.tls else {
        return Ok(Stream::new(StreamKind::Tcp(tcp)));
    };
    let tcp = ReadAhead::new(tcp);
    // Boxed because a task reserves space for everything it awaits, and a handshake is large.
    let handshake = Box::pin(TlsConnector::from(tls.config()).connect(name.clone(), tcp));
    let stream = handshake.await.map_err(|error| ConnectError::Tls {
        at: at(),
        fault: TlsFault::from_handshake(&error),
    })?;
    Ok(Stream::new(StreamKind::Tls(Box::new(stream))))
}

/// The error of one or several dialed addresses.
#[derive(Debug)]
struct DialFailure {
    error: io::Error,
    /// True if no attempt left this host.
    is_local: bool,
}

impl From<io::Error> for DialFailure {
    fn from(error: io::Error) -> Self {
        Self {
            is_local: is_local(&error),
            error,
        }
    }
}

impl DialFailure {
    /// Combines the failures of two addresses. The first error is kept, but any other error is
    /// preferred to a refused connection: a refusal is evidence about the server only if all of its
    /// addresses could be tried.
    fn combine(first: Option<Self>, next: io::Error) -> Self {
        let next = Self::from(next);
        let Some(first) = first else { return next };
        let is_local = first.is_local && next.is_local;
        let error = if first.error.kind() == io::ErrorKind::ConnectionRefused {
            next.error
        } else {
            first.error
        };
        Self { error, is_local }
    }

    fn at(self, at: String) -> ConnectError {
        let Self { error, is_local } = self;
        if is_local {
            ConnectError::Local { at, source: error }
        } else if error.kind() == io::ErrorKind::ConnectionRefused {
            ConnectError::Refused { at }
        } else {
            ConnectError::Unreachable { at, source: error }
        }
    }
}

/// Returns true if an error is caused by this host alone.
fn is_local(error: &io::Error) -> bool {
    use io::ErrorKind;
    /// EMFILE and ENFILE are the same on all systems; ENOBUFS is that of Linux.
    const ENFILE_EMFILE_ENOBUFS: [i32; 3] = [23, 24, 105];
    matches!(
        error.kind(),
        ErrorKind::AddrNotAvailable
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::OutOfMemory
            | ErrorKind::PermissionDenied
    ) || error
        .raw_os_error()
        .is_some_and(|code| ENFILE_EMFILE_ENOBUFS.contains(&code))
}

/// Returns the first connection that one of `addresses` accepts. An address is tried when the one
/// before it failed or is slow. If none accepts, the most informative error is returned.
async fn connect_any(addresses: Vec<SocketAddr>) -> Result<TcpStream, DialFailure> {
    let mut failure = None;
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.into_iter();
    loop {
        if let Some(address) = waiting.next() {
            // The last address is awaited without a task, so that the common case of one address
            // spawns none.
            if waiting.len() == 0 && attempts.is_empty() {
                let last = dial(address).await;
                return last.map_err(|error| DialFailure::combine(failure, error));
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
            done = attempts.join_next() => {
                let error = match done {
                    Some(Ok(Ok(stream))) => return Ok(stream),
                    Some(Ok(Err(error))) => error,
                    Some(Err(error)) => io::Error::other(error),
                    None => {
                        let none = || io::Error::from(io::ErrorKind::NotFound).into();
                        return Err(failure.unwrap_or_else(none));
                    }
                };
                failure = Some(DialFailure::combine(failure, error));
            }
            () = slow => {}
        }
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
    use crate::network::Network;

    /// The listener would accept: the error does not tell whether a port is open.
    #[tokio::test]
    async fn local_address_is_refused_after_resolution() {
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = open.local_addr().unwrap().port();
        let network = Network::default().refusing_local_addresses();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let url = format!("http://{host}:{port}");
            let endpoint = Endpoint::new(&url, None).unwrap();
            let error = connect(&endpoint.clone().with_network(&network)).await;
            let error = error.err().unwrap();
            assert!(
                matches!(error, ConnectError::LocalAddress { .. }),
                "{host}: {error}"
            );
        }
        let allowed = Endpoint::new(&format!("http://127.0.0.1:{port}"), None).unwrap();
        connect(&allowed).await.unwrap();
    }

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
        let failure = connect_any(vec![refusing, refusing]).await.unwrap_err();
        let error = failure.at("a:1".into());
        assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn refusal_does_not_hide_other_errors() {
        let refusing = SocketAddr::from(([127, 0, 0, 1], 1));
        // The kernel has no TCP route to the broadcast address.
        let unreachable = SocketAddr::from(([255, 255, 255, 255], 1));
        let failure = connect_any(vec![unreachable]).await.unwrap_err();
        let alone = failure.error.kind();
        assert_ne!(alone, io::ErrorKind::ConnectionRefused);
        assert!(failure.is_local, "{failure:?}");
        for addresses in [
            vec![refusing, unreachable],
            vec![unreachable, refusing],
            vec![refusing, unreachable, refusing],
        ] {
            let failure = connect_any(addresses.clone()).await.unwrap_err();
            assert_eq!(failure.error.kind(), alone, "{addresses:?}");
            // A server refused, so it is not this host alone.
            assert!(!failure.is_local, "{addresses:?}");
        }
    }

    #[test]
    fn own_faults_are_told_from_those_of_the_server() {
        for (code, is_own) in [
            (1, true),    // EPERM
            (12, true),   // ENOMEM
            (23, true),   // ENFILE
            (24, true),   // EMFILE
            (99, true),   // EADDRNOTAVAIL
            (100, true),  // ENETDOWN
            (101, true),  // ENETUNREACH
            (105, true),  // ENOBUFS
            (104, false), // ECONNRESET
            (110, false), // ETIMEDOUT
            (111, false), // ECONNREFUSED
            (113, false), // EHOSTUNREACH
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_local(&error), is_own, "{error}");
        }
    }
}
