//! Accepts TLS connections.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::RwLock;
use rustls::server::NoClientAuth;
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
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

/// The client certificates that a server asks for.
#[derive(Clone, Debug, Default)]
pub enum ClientAuth {
    /// None.
    #[default]
    None,
    /// One that these authorities verify, or none. [`client_certificate`] returns it.
    Optional(Roots),
    /// One that these authorities verify. A client without one fails the handshake.
    Required(Roots),
}

/// The oldest version of TLS that a server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinTlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl MinTlsVersion {
    fn versions(self) -> &'static [&'static SupportedProtocolVersion] {
        // The newest first.
        static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::Tls12 => &VERSIONS,
            Self::Tls13 => &VERSIONS[..1],
        }
    }
}

/// The HTTP versions that a server offers in the TLS handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerAlpn {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, which gRPC needs, and HTTP/1.1.
    Http2AndHttp1,
}

/// The TLS settings of a server. The default accepts every client that speaks HTTP/1.1.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the types explain the fields")]
pub struct TlsServerSettings {
    pub clients: ClientAuth,
    pub min_version: MinTlsVersion,
    pub alpn: ServerAlpn,
}

/// The certificate and the TLS settings of a server. Clones share them, so replacing the
/// certificates in one replaces them in all.
#[derive(Clone)]
pub struct TlsServer {
    settings: TlsServerSettings,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl TlsServer {
    /// Creates a server that presents `identity`.
    pub fn new(identity: &Identity, settings: TlsServerSettings) -> Result<Self, TlsConfigError> {
        let config = server_config(identity, &settings)?;
        Ok(Self {
            settings,
            config: Arc::new(RwLock::new(Arc::new(config))),
        })
    }

    /// Uses `identity` and `clients` for all handshakes from now on. Sessions of earlier
    /// connections are not resumed.
    pub fn replace(&self, identity: &Identity, clients: ClientAuth) -> Result<(), TlsConfigError> {
        let settings = TlsServerSettings {
            clients,
            ..self.settings.clone()
        };
        let config = server_config(identity, &settings)?;
        *self.config.write() = Arc::new(config);
        Ok(())
    }
}

fn server_config(
    identity: &Identity,
    settings: &TlsServerSettings,
) -> Result<ServerConfig, TlsConfigError> {
    let verifier = match &settings.clients {
        ClientAuth::None => Arc::new(NoClientAuth),
        ClientAuth::Optional(roots) => roots.client_verifier(false)?,
        ClientAuth::Required(roots) => roots.client_verifier(true)?,
    };
    let mut config = ServerConfig::builder_with_provider(provider().clone())
        .with_protocol_versions(settings.min_version.versions())
        .map_err(|error| TlsConfigError::Setup(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.0))));
    config.alpn_protocols = match settings.alpn {
        ServerAlpn::Http1 => vec![b"http/1.1".to_vec()],
        ServerAlpn::Http2AndHttp1 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
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
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server.config.read()));
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
