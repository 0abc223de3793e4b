//! Accepting TLS connections.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::crypto::provider;
use crate::identity::{Identity, TlsError};
use crate::stream::ServerStream;
use crate::tls::Roots;

/// A handshake may take this long.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Handshakes under way at once; with one more, the oldest makes room.
const MOST_HANDSHAKES: usize = 256;

/// As whom a server appears. Clones share the certificate: replacing it in one replaces it in all.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
}

struct Certificate(RwLock<Arc<CertifiedKey>>);

impl TlsServer {
    /// A server for HTTP/1.1 that appears as `identity` and asks nobody who they are.
    pub fn new(identity: &Identity) -> Result<Self, TlsError> {
        Self::with(identity, None)
    }

    /// The same, but clients may show a certificate that `roots` vouch for: [`client_certificate`].
    pub fn asking(identity: &Identity, roots: &Roots) -> Result<Self, TlsError> {
        Self::with(identity, Some(roots))
    }

    fn with(identity: &Identity, roots: Option<&Roots>) -> Result<Self, TlsError> {
        let certificate = Arc::new(Certificate(RwLock::new(identity.certified())));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Certificate>::clone(&certificate);
        let config = ServerConfig::builder_with_provider(provider().clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?;
        let mut config = match roots {
            None => config.with_no_client_auth(),
            Some(roots) => config.with_client_cert_verifier(roots.client_verifier()?),
        }
        .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificate,
        })
    }

    /// Handshakes from now on use `identity`.
    pub fn replace(&self, identity: &Identity) {
        let current = self.certificate.0.write();
        *current.unwrap_or_else(PoisonError::into_inner) = identity.certified();
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").finish_non_exhaustive()
    }
}

/// The certificate that a client has shown, as DER.
pub fn client_certificate(stream: &ServerStream) -> Option<&[u8]> {
    let (_, connection) = stream.get_ref();
    let chain = connection.peer_certificates()?;
    chain.first().map(AsRef::as_ref)
}

/// A listener whose connections are past their TLS handshake. Handshakes run beside the accepting:
/// a client that stalls holds up nobody, and is dropped after 10 s.
#[derive(Debug)]
pub struct TlsListener {
    tcp: TcpListener,
    server: TlsServer,
    handshakes: JoinSet<Option<(ServerStream, SocketAddr)>>,
    /// Of `handshakes`, oldest first; may hold some that are done.
    under_way: VecDeque<AbortHandle>,
}

impl TlsListener {
    /// Accepts from `tcp` as `server`.
    pub fn new(tcp: TcpListener, server: TlsServer) -> Self {
        Self {
            tcp,
            server,
            handshakes: JoinSet::new(),
            under_way: VecDeque::new(),
        }
    }

    /// The next connection, and whose it is. What was under way is not lost with the future.
    pub async fn accept(&mut self) -> (ServerStream, SocketAddr) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(accepted)) = done {
                        return accepted;
                    }
                }
                // axum's own listener waits out what a system says that has run out of files.
                (stream, from) = Listener::accept(&mut self.tcp) => {
                    self.begin(stream, from);
                }
            }
        }
    }

    fn begin(&mut self, stream: tokio::net::TcpStream, from: SocketAddr) {
        self.under_way.retain(|handshake| !handshake.is_finished());
        if self.under_way.len() >= MOST_HANDSHAKES
            && let Some(oldest) = self.under_way.pop_front()
        {
            oldest.abort();
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server.config));
        let handshake = async move {
            // An answer is small and goes out at once; failing to say so changes little.
            let _ = stream.set_nodelay(true);
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => Some((stream, from)),
                Ok(Err(error)) => {
                    tracing::debug!(%from, %error, "a client's TLS handshake failed");
                    None
                }
                Err(_) => {
                    tracing::debug!(%from, "a client's TLS handshake took too long");
                    None
                }
            }
        };
        self.under_way.push_back(self.handshakes.spawn(handshake));
    }
}

impl Listener for TlsListener {
    type Io = ServerStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        Self::accept(self).await
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
