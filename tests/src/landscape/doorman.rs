//! Stands at the door of an API server: it sees every request, and decides what becomes of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::impostor;
use crate::pki::Authority;
use crate::{ApiServer, Credentials, poll};

/// A request that came to the door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// When.
    pub at: Instant,
    /// `GET`, `PATCH`, …
    pub method: String,
    /// Path and query.
    pub path: String,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// It goes in.
    Pass,
    /// It does not; the doorman answers with this status and these header lines.
    Refuse(u16, Vec<&'static str>),
    /// It waits outside until the doorman lets go.
    Hold,
    /// It goes in, and its answer waits inside until the doorman lets go.
    HoldAnswer,
}

/// What becomes of each request, in the order they come.
type Rule = Box<dyn FnMut(&Asked) -> Ruling + Send>;

/// Between a client and an API server, with keys of its own. It ends when dropped.
pub struct Doorman {
    url: String,
    authority: Authority,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    address: SocketAddr,
    tls: TlsConnector,
    rule: Mutex<Rule>,
    asked: Mutex<Vec<Asked>>,
    held: Mutex<Vec<Asked>>,
    /// How often everybody was let go.
    lets_go: watch::Sender<u64>,
}

impl Doorman {
    /// Lets everything pass at first.
    pub async fn start(api: &ApiServer) -> Result<Self> {
        let authority = Authority::new()?;
        let acceptor = impostor::acceptor(&authority)?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(api.authority().as_bytes()) {
            roots.add(certificate?)?;
        }
        let trust = ClientConfig::builder().with_root_certificates(roots);
        let address = api.url().strip_prefix("https://").context("not HTTPS")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            address: address.parse()?,
            tls: TlsConnector::from(Arc::new(trust.with_no_client_auth())),
            rule: Mutex::new(Box::new(|_| Ruling::Pass)),
            asked: Mutex::default(),
            held: Mutex::default(),
            lets_go: watch::Sender::new(0),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&shared)));
        Ok(Self {
            url,
            authority,
            shared,
            _serving: serving,
        })
    }

    /// A kubeconfig for who comes by this door; the server must know them by a token.
    pub fn kubeconfig(&self, who: &Credentials) -> String {
        who.kubeconfig(&self.url, &self.authority.certificate())
    }

    /// Another rule from now on.
    pub fn rule(&self, rule: impl FnMut(&Asked) -> Ruling + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
    }

    /// Every request so far, in the order they came.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// The requests that were held so far, or whose answers were: what they asked for is done then.
    pub fn held(&self) -> Vec<Asked> {
        lock(&self.shared.held).clone()
    }

    /// Waits until such a request is held, or its answer.
    pub async fn until_held(
        &self,
        patience: Duration,
        is_such: impl Fn(&Asked) -> bool,
    ) -> Result<Asked> {
        let held = poll::until("a request to hold", patience, async || {
            Ok(self.held().into_iter().find(&is_such))
        });
        let held = held.await;
        held.with_context(|| format!("the last requests: {:#?}", self.last(12)))
    }

    /// Everything that is held goes on, also if who sent it is gone. The rule stays.
    pub fn let_go(&self) {
        self.shared.lets_go.send_modify(|times| *times += 1);
    }

    fn last(&self, count: usize) -> Vec<String> {
        let asked = self.asked();
        let last = asked.iter().rev().take(count).rev();
        last.map(|asked| format!("{} {}", asked.method, asked.path))
            .collect()
    }
}

impl Asked {
    /// A call on a Deployment, of whatever kind.
    pub fn is_on_target(&self) -> bool {
        self.path.contains("/deployments/")
    }

    /// A call that would change a Deployment.
    pub fn is_write_on_target(&self) -> bool {
        self.is_on_target() && self.method != "GET"
    }

    /// The path of the object the call is on, be it as a whole or its scale.
    pub fn object(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or_default();
        path.strip_suffix("/scale").unwrap_or(path)
    }

    /// A call on a Lease: the election's.
    pub fn is_on_lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
        connections.spawn(async move {
            // Whatever ends a connection is the peers' to see.
            let _ = attend(stream, &acceptor, &shared).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

type Client = server::TlsStream<TcpStream>;
type Server = client::TlsStream<TcpStream>;

async fn attend(stream: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    let client = acceptor.accept(stream).await?;
    let stream = TcpStream::connect(shared.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(shared.address.ip());
    let server = shared.tls.connect(name, stream).await?;
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    // The doorman's own answers go the same way as the server's: only one is ever under way.
    let to_client = tokio::sync::Mutex::new(to_client);
    let waiting = watch::Sender::new(None);
    tokio::select! {
        done = carry_requests(from_client, to_server, &to_client, &waiting, shared) => done,
        done = carry_answers(from_server, &to_client, waiting.subscribe(), shared) => done,
    }
}

async fn carry_requests(
    from: ReadHalf<Client>,
    mut to: WriteHalf<Server>,
    answers: &tokio::sync::Mutex<WriteHalf<Client>>,
    waiting: &watch::Sender<Option<Asked>>,
    shared: &Shared,
) -> Result<()> {
    let mut from = BufReader::new(from);
    while let Some((asked, bytes)) = next_request(&mut from).await? {
        lock(&shared.asked).push(asked.clone());
        let ruling = (lock(&shared.rule))(&asked);
        let mut lets_go = shared.lets_go.subscribe();
        match ruling {
            Ruling::Pass => to.write_all(&bytes).await?,
            Ruling::Refuse(status, lines) => {
                let mut head = format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n");
                for line in lines {
                    head.extend([line, "\r\n"]);
                }
                head.push_str("\r\n");
                let mut answers = answers.lock().await;
                answers.write_all(head.as_bytes()).await?;
                answers.flush().await?;
            }
            Ruling::Hold => {
                lock(&shared.held).push(asked);
                lets_go.changed().await?;
                to.write_all(&bytes).await?;
            }
            Ruling::HoldAnswer => {
                waiting.send_replace(Some(asked));
                to.write_all(&bytes).await?;
                to.flush().await?;
                lets_go.changed().await?;
                waiting.send_replace(None);
            }
        }
        to.flush().await?;
    }
    Ok(())
}

async fn carry_answers(
    mut from: ReadHalf<Server>,
    to: &tokio::sync::Mutex<WriteHalf<Client>>,
    mut waiting: watch::Receiver<Option<Asked>>,
    shared: &Shared,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let asked = waiting.borrow().clone();
        lock(&shared.held).extend(asked);
        waiting.wait_for(Option::is_none).await?;
        let mut to = to.lock().await;
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}

/// The next request and its bytes; nothing at the end of the connection.
async fn next_request(from: &mut BufReader<ReadHalf<Client>>) -> Result<Option<(Asked, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    loop {
        let start = bytes.len();
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.starts_with("transfer-encoding:") {
            bail!("a request in chunks");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = head.split(' ').map(str::to_owned);
    let asked = Asked {
        at: Instant::now(),
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
    };
    let end = bytes.len();
    bytes.resize(end + length, 0);
    from.read_exact(&mut bytes[end..]).await?;
    Ok(Some((asked, bytes)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
