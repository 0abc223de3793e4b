//! Accepts TLS connections.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::crypto::provider;
use crate::identity::{Identity, TlsConfigError};
use crate::stream::ServerStream;
use crate::tls::Roots;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits concurrent handshakes. One more aborts the oldest.
const MAX_HANDSHAKES: usize = 256;

/// The TLS settings of a server. Clones share the certificate, so replacing it in one replaces it
/// in all.
#[derive(Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
    certificate: Arc<ServerCertificate>,
}

struct ServerCertificate(RwLock<Arc<CertifiedKey>>);

impl TlsServer {
    /// Creates settings for an HTTP/1.1 server that presents `identity`. With `roots`, it accepts
    /// client certificates that they verify, and clients without a certificate as well.
    /// [`client_certificate`] returns the certificate of a connection.
    pub fn new(identity: &Identity, roots: Option<&Roots>) -> Result<Self, TlsConfigError> {
        let certificate = Arc::new(ServerCertificate(RwLock::new(Arc::clone(&identity.0))));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<ServerCertificate>::clone(&certificate);
        let config = ServerConfig::builder_with_provider(provider().clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsConfigError::Setup(error.to_string()))?;
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

    /// Uses `identity` for all handshakes from now on.
    pub fn replace(&self, identity: &Identity) {
        *self.certificate.0.write() = Arc::clone(&identity.0);
    }
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate").finish_non_exhaustive()
    }
}

/// Returns the certificate that the client presented, as DER.
pub fn client_certificate(stream: &ServerStream) -> Option<&[u8]> {
    let (_, connection) = stream.get_ref();
    let chain = connection.peer_certificates()?;
    chain.first().map(AsRef::as_ref)
}

/// A listener that returns connections after their TLS handshake. Handshakes run concurrently with
/// accepting, so a stalled client does not delay others. It is dropped after 10 s.
pub struct TlsListener {
    tcp: TcpListener,
    server: TlsServer,
    handshakes: JoinSet<Option<(ServerStream, SocketAddr)>>,
    /// The handles of `handshakes`, oldest first. Some may have finished.
    in_progress: VecDeque<AbortHandle>,
}

impl TlsListener {
    /// Accepts connections from `tcp` and presents the certificate of `server`.
    pub fn new(tcp: TcpListener, server: TlsServer) -> Self {
        Self {
            tcp,
            server,
            handshakes: JoinSet::new(),
            in_progress: VecDeque::new(),
        }
    }

    /// Returns the next connection and its peer address. Dropping the future does not lose
    /// handshakes in progress.
    pub async fn accept(&mut self) -> (ServerStream, SocketAddr) {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(accepted)) = done {
                        return accepted;
                    }
                }
                // axum's listener retries after errors such as having too many open files.
                (stream, peer) = Listener::accept(&mut self.tcp) => {
                    self.start_handshake(stream, peer);
                }
            }
        }
    }

    fn start_handshake(&mut self, stream: tokio::net::TcpStream, peer: SocketAddr) {
        self.in_progress
            .retain(|handshake| !handshake.is_finished());
        if self.in_progress.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.in_progress.pop_front()
        {
            oldest.abort();
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server.config));
        let handshake = async move {
            // Responses are small and are sent at once. A failure to set this changes little.
            let _ = stream.set_nodelay(true);
            match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => Some((stream, peer)),
                Ok(Err(error)) => {
                    tracing::debug!(%peer, %error, "TLS handshake with a client failed");
                    None
                }
                Err(_) => {
                    tracing::debug!(%peer, "TLS handshake with a client timed out");
                    None
                }
            }
        };
        self.in_progress.push_back(self.handshakes.spawn(handshake));
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
