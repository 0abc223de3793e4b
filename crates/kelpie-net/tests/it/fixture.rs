//! Certificates and scripted servers on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_net::{Alpn, Endpoint, HttpConnection, Identity, Roots, TlsClient};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

pub(crate) struct SignedCertificate {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::default();
        // All authorities share one name, like those of Kubernetes clusters.
        parameters.distinguished_name.push(DnType::CommonName, "ca");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn sign(&self, name: &str, expired: bool) -> SignedCertificate {
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if expired {
            parameters.not_before = date_time_ymd(2001, 1, 1);
            parameters.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        SignedCertificate {
            chain: parameters.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn client(&self, identity: Option<&SignedCertificate>) -> TlsClient {
        let roots = Roots::from_pem(self.pem().as_bytes()).unwrap();
        let identity = identity.map(SignedCertificate::identity);
        TlsClient::new(&roots, identity.as_ref(), Alpn::Http1).unwrap()
    }
}

impl SignedCertificate {
    pub(crate) fn identity(&self) -> Identity {
        let key = self.key.as_bytes().to_vec().into();
        Identity::from_pem(self.chain.as_bytes(), &key).unwrap()
    }

    /// Returns the configuration of a server with this certificate. With `clients`, it requires
    /// client certificates that this authority signed.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        kelpie_net::install_crypto();
        let chain = vec![CertificateDer::from_pem_slice(self.chain.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let builder = match clients {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                let pem = authority.pem();
                let root = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
                roots.add(root).unwrap();
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
                    .build()
                    .unwrap();
                ServerConfig::builder().with_client_cert_verifier(verifier)
            }
        };
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }
}

/// Either side of a connection, with or without TLS.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A server that runs `script` on every connection until it is dropped.
pub(crate) struct Server {
    pub(crate) port: u16,
    accepted: Arc<AtomicUsize>,
    resumed: Arc<AtomicUsize>,
    _running: JoinSet<()>,
}

impl Server {
    pub(crate) async fn plain<F, S>(script: S) -> Self
    where
        S: Fn(Box<dyn ByteStream>) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(None, script).await
    }

    pub(crate) async fn tls<F, S>(config: Arc<ServerConfig>, script: S) -> Self
    where
        S: Fn(Box<dyn ByteStream>) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(Some(config), script).await
    }

    async fn start<F, S>(config: Option<Arc<ServerConfig>>, script: S) -> Self
    where
        S: Fn(Box<dyn ByteStream>) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let resumed = Arc::new(AtomicUsize::new(0));
        let counts = (Arc::clone(&accepted), Arc::clone(&resumed));
        let mut running = JoinSet::new();
        running.spawn(async move {
            let script = Arc::new(script);
            let mut connections = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                counts.0.fetch_add(1, Ordering::SeqCst);
                let (config, script) = (config.clone(), Arc::clone(&script));
                let resumed = Arc::clone(&counts.1);
                connections.spawn(async move {
                    let stream: Box<dyn ByteStream> = match config {
                        None => Box::new(tcp),
                        Some(config) => match TlsAcceptor::from(config).accept(tcp).await {
                            Ok(stream) => {
                                let kind = stream.get_ref().1.handshake_kind();
                                if kind == Some(HandshakeKind::Resumed) {
                                    resumed.fetch_add(1, Ordering::SeqCst);
                                }
                                Box::new(stream)
                            }
                            Err(_) => return,
                        },
                    };
                    script(stream).await;
                });
            }
        });
        Self {
            port,
            accepted,
            resumed,
            _running: running,
        }
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that resumed an earlier session.
    pub(crate) fn resumed(&self) -> usize {
        self.resumed.load(Ordering::SeqCst)
    }

    pub(crate) fn http(&self) -> Endpoint {
        Endpoint::new(&format!("http://127.0.0.1:{}", self.port), None).unwrap()
    }

    pub(crate) fn https(&self, tls: TlsClient) -> Endpoint {
        Endpoint::new(&format!("https://127.0.0.1:{}", self.port), Some(tls)).unwrap()
    }

    pub(crate) async fn open(&self) -> HttpConnection {
        HttpConnection::open(&self.http()).await.unwrap()
    }
}

/// Reads the head of one request. Returns `None` when the client closed the connection.
pub(crate) async fn request(stream: &mut dyn ByteStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers every request of a connection with `response`.
pub(crate) async fn respond_to_all(mut stream: Box<dyn ByteStream>, response: &[u8]) {
    while request(&mut stream).await.is_some() {
        if stream.write_all(response).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Awaits `future` for at most ten seconds, so that no test hangs.
pub(crate) async fn within_10s<F: Future>(future: F) -> F::Output {
    let limited = tokio::time::timeout(Duration::from_secs(10), future);
    limited.await.expect("took longer than 10 s")
}
