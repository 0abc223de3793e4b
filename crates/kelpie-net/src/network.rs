//! The network between the process and its servers.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::DuplexStream;

use crate::resolve::ResolveError;

/// The way to reach servers: TCP, or in-process streams. Clones refer to the same network.
#[derive(Clone, Default)]
pub struct Network {
    /// `None` for TCP.
    pub(crate) dial: Option<Arc<Dial>>,
    /// `None` if host names need no lookup, or for TCP.
    resolver: Option<Arc<Resolve>>,
    /// Over TCP, connections to this host, its link and metadata services are refused.
    pub(crate) refuses_local: bool,
}

/// A future that resolves to an in-process stream.
pub type DialFuture = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

/// A future that ends when a host name is found.
pub type ResolveFuture = Pin<Box<dyn Future<Output = Result<(), ResolveError>> + Send>>;

pub(crate) type Dial = dyn Fn(&str, u16) -> DialFuture + Send + Sync;

type Resolve = dyn Fn(&str) -> ResolveFuture + Send + Sync;

impl Network {
    /// Creates a network of servers in this process. `dial` finds them by host and port.
    ///
    /// No socket is opened and only the runtime's clock is used, so everything runs in virtual
    /// time. The streams have no TLS, because no other process can read them.
    ///
    /// The errors of `dial` count like those of a socket: a
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) is
    /// [`ConnectError::Refused`](crate::ConnectError::Refused), and an error that wraps a
    /// [`ResolveError`] is [`ConnectError::Resolve`](crate::ConnectError::Resolve). A network whose
    /// name service can fail has a [resolver](Self::with_resolver) instead.
    pub fn in_process(dial: impl Fn(&str, u16) -> DialFuture + Send + Sync + 'static) -> Self {
        Self {
            dial: Some(Arc::new(dial)),
            resolver: None,
            refuses_local: false,
        }
    }

    /// Refuses TCP connections to loopback, link-local and metadata addresses, for servers that
    /// another party names. The address counts, not the name: it is checked after each lookup.
    #[must_use]
    pub fn refusing_local_addresses(mut self) -> Self {
        self.refuses_local = true;
        self
    }

    /// Looks host names up with `resolver` before an in-process server is dialed. Time limits and
    /// known addresses apply as they do to DNS. A lookup must end at some time.
    #[must_use]
    pub fn with_resolver(
        mut self,
        resolver: impl Fn(&str) -> ResolveFuture + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Some(Arc::new(resolver));
        self
    }

    /// Returns true if host names have to be looked up.
    pub(crate) fn resolves_names(&self) -> bool {
        self.dial.is_none() || self.resolver.is_some()
    }

    /// Looks a name up with the resolver of an in-process network, if it has one.
    pub(crate) fn look_up(&self, host: &str) -> Option<ResolveFuture> {
        self.resolver.as_ref().map(|resolver| resolver(host))
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.dial {
            None => "Network(TCP)",
            Some(_) => "Network(in-process)",
        })
    }
}
