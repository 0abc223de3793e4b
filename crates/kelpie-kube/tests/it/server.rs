//! API servers that misbehave on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_kube::kubeconfig::Access;
use kelpie_kube::tenant::{Keeping, Tenant};
use kelpie_net::{Identity, TlsListener, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::kubeconfig::Kubeconfig;

/// The server's side of a connection.
pub(crate) struct Wire {
    stream: kelpie_net::ServerStream,
    /// Which connection of the server this is, from 0.
    pub(crate) number: usize,
}

impl Wire {
    /// The path of the next request; `None` when the client has gone.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let head = self.head().await?;
        Some(head.split(' ').nth(1).unwrap().to_owned())
    }

    /// The next request's head.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.ok()?);
        }
        Some(String::from_utf8(head).unwrap())
    }

    /// Whether the client took it.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    pub(crate) async fn answer(&mut self, content_type: &str, body: &[u8]) -> bool {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(head.as_bytes()).await && self.send(body).await
    }

    /// Answers `/version` as it should be and the rest by `body` in JSON, for ever.
    pub(crate) async fn serve(&mut self, body: &str) {
        while let Some(path) = self.request().await {
            let body = if path == "/version" { "{}" } else { body };
            if !self.answer("application/json", body.as_bytes()).await {
                return;
            }
        }
    }

    /// Waits until the client has gone.
    pub(crate) async fn stall(&mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new()).await;
    }
}

/// A server that plays a script on each connection, until it is dropped.
pub(crate) struct Server {
    accepted: Arc<AtomicUsize>,
    pub(crate) kubeconfig: Kubeconfig,
    _running: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start<F, S>(script: S) -> Self
    where
        S: Fn(Wire) -> F + Send + Sync + 'static,
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
        let mut listener = TlsListener::new(tcp, TlsServer::new(&identity).unwrap());
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await;
                let number = count.fetch_add(1, Ordering::SeqCst);
                connections.spawn(script(Wire { stream, number }));
            }
        });
        let url = format!("https://127.0.0.1:{port}");
        Self {
            accepted,
            kubeconfig: Kubeconfig::with_token(&url, &authority.pem()),
            _running: running,
        }
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn tenant(&self) -> Tenant {
        self.tenant_with(Keeping::Kept)
    }

    pub(crate) fn tenant_with(&self, keeping: Keeping) -> Tenant {
        let access = Access::from_kubeconfig(self.kubeconfig.yaml().as_bytes());
        Tenant::new(access.unwrap(), keeping)
    }
}

pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

/// Far enough away that a test that needs it has failed.
pub(crate) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(crate) fn after(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}
