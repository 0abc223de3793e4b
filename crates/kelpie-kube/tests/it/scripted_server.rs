//! API servers with a script per connection, which may misbehave.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::tenant::{ConnectionReuse, Tenant};
use kelpie_net::{Identity, Network, TlsListener, TlsServer, TlsServerSettings};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kubeconfig_builder::KubeconfigBuilder;

/// The server's side of a connection.
pub(crate) struct ServerConnection {
    stream: Box<dyn ReadWriteStream>,
    /// The number of this connection, counted from 0.
    pub(crate) number: usize,
}

trait ReadWriteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ReadWriteStream for S {}

impl ServerConnection {
    /// Reads the next request and returns its path. `None`: the client closed the connection.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let head = self.head().await?;
        Some(head.split(' ').nth(1).unwrap().to_owned())
    }

    /// Reads the next request and returns its request line and headers.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8(head).unwrap())
    }

    /// Sends bytes. Returns whether the client received them.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Sends a response with status 200.
    pub(crate) async fn respond(&mut self, content_type: &str, body: &[u8]) -> bool {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(head.as_bytes()).await && self.send(body).await
    }

    /// Responds to `/version` correctly and to all other requests with `body` in JSON, until the
    /// client closes the connection.
    pub(crate) async fn serve(&mut self, body: &str) {
        while let Some(path) = self.request().await {
            let body = if path == "/version" { "{}" } else { body };
            if !self.respond("application/json", body.as_bytes()).await {
                return;
            }
        }
    }

    /// Waits until the client closes the connection.
    pub(crate) async fn stall(&mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new()).await;
    }
}

/// A server that runs a script on each connection, until it is dropped.
pub(crate) struct ScriptedApiServer {
    accepted: Arc<AtomicUsize>,
    pub(crate) kubeconfig: KubeconfigBuilder,
    network: Network,
    _running: Arc<Mutex<JoinSet<()>>>,
}

impl ScriptedApiServer {
    /// Starts a server without sockets, for tests in virtual time. Its certificates are not used.
    pub(crate) fn in_process<F, S>(script: S) -> Self
    where
        S: Fn(ServerConnection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let running = Arc::new(Mutex::new(JoinSet::new()));
        let connections = Arc::downgrade(&running);
        let network = Network::in_process(move |_, _| {
            let Some(connections) = connections.upgrade() else {
                return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
            };
            let number = count.fetch_add(1, Ordering::SeqCst);
            let (client, server) = duplex(64 * 1024);
            let stream = Box::new(server);
            let served = script(ServerConnection { stream, number });
            connections.lock().spawn(served);
            Box::pin(async { Ok(client) })
        });
        Self {
            accepted,
            kubeconfig: KubeconfigBuilder::with_token("https://api.inside", &authority().pem()),
            network,
            _running: running,
        }
    }

    /// Starts a server with TLS on a port of its own.
    pub(crate) async fn start<F, S>(script: S) -> Self
    where
        S: Fn(ServerConnection) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let serving = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let chain = serving.signed_by(&key, &authority).unwrap().pem();
        let secret = key.serialize_pem().into_bytes().into();
        let identity = Identity::from_pem(chain.as_bytes(), &secret).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        let mut listener = TlsListener::new(
            tcp,
            TlsServer::new(&identity, TlsServerSettings::default()).unwrap(),
        );
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await;
                let number = count.fetch_add(1, Ordering::SeqCst);
                let stream = Box::new(stream);
                connections.spawn(script(ServerConnection { stream, number }));
            }
        });
        let url = format!("https://127.0.0.1:{port}");
        Self {
            accepted,
            kubeconfig: KubeconfigBuilder::with_token(&url, &authority.pem()),
            network: Network::default(),
            _running: Arc::new(Mutex::new(running)),
        }
    }

    /// Returns the number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant_with(ConnectionReuse::Keep)
    }

    pub(crate) fn tenant_with(&self, reuse: ConnectionReuse) -> Tenant {
        let config = TenantConfig::from_kubeconfig(self.kubeconfig.yaml().as_bytes());
        Tenant::new(config.unwrap().with_network(&self.network), reuse)
    }
}

/// Returns a tenant of a server that has no certificate of its authority.
pub(crate) fn tenant_at(url: &str) -> Tenant {
    let kubeconfig = KubeconfigBuilder::with_token(url, &authority().pem());
    let config = TenantConfig::from_kubeconfig(kubeconfig.yaml().as_bytes());
    Tenant::new(config.unwrap(), ConnectionReuse::Keep)
}

/// Creates a certificate authority.
pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// A deadline that no passing test reaches.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Returns the instant in `millis` milliseconds.
pub(crate) fn after(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}
