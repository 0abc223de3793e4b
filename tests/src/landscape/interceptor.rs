//! An HTTP proxy in front of an API server that sees each request and decides about it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
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
use tokio::time::{Instant, sleep};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::fake_api_server;
use crate::pki::TestCa;
use crate::{Credentials, KubeApiServer, poll};

/// A request that reached the interceptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterceptedRequest {
    /// The time of arrival.
    pub at: Instant,
    /// The HTTP method, as in `GET` or `PATCH`.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The bearer token of the client; empty if it sent none.
    pub token: String,
}

/// The treatment of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterceptAction {
    /// Forward the request and its response unchanged.
    Pass,
    /// Respond with this status and these header lines instead of forwarding the request.
    Reject(u16, Vec<&'static str>),
    /// Forward the request after this time, even if its client is gone by then.
    Delay(Duration),
    /// Keep the request until [`Interceptor::release_held`], then forward it.
    Hold,
    /// Forward the request, and keep the response until [`Interceptor::release_held`].
    HoldResponse,
}

/// Decides about each request, in the order of arrival.
type InterceptRule = Box<dyn FnMut(&InterceptedRequest) -> InterceptAction + Send>;

/// Terminates TLS between clients and an API server, with its own keys, until dropped.
pub struct Interceptor {
    url: String,
    ca: TestCa,
    state: Arc<InterceptorState>,
    _task: JoinSet<()>,
}

struct InterceptorState {
    address: SocketAddr,
    tls: TlsConnector,
    rule: Mutex<InterceptRule>,
    requests: Mutex<Vec<InterceptedRequest>>,
    held: Mutex<Vec<InterceptedRequest>>,
    /// Counts the calls of [`Interceptor::release_held`].
    releases: watch::Sender<u64>,
    /// Counts the calls of [`Interceptor::drop_watches`].
    watch_drops: watch::Sender<u64>,
}

impl Interceptor {
    /// Starts an interceptor that forwards all requests.
    pub async fn start(api: &KubeApiServer) -> Result<Self> {
        Self::start_for_url(api, api.url()).await
    }

    /// Like [`start`](Self::start), for a server that is reached at another address, such as that
    /// of a [`TcpProxy`](super::TcpProxy).
    pub async fn start_for_url(api: &KubeApiServer, url: &str) -> Result<Self> {
        let ca = TestCa::new()?;
        let acceptor = fake_api_server::acceptor(&ca)?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(api.ca_certificate().as_bytes()) {
            roots.add(certificate?)?;
        }
        let tls = ClientConfig::builder().with_root_certificates(roots);
        let address = url.strip_prefix("https://").context("not HTTPS")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own_url = format!("https://{}", listener.local_addr()?);
        let state = Arc::new(InterceptorState {
            address: address.parse()?,
            tls: TlsConnector::from(Arc::new(tls.with_no_client_auth())),
            rule: Mutex::new(Box::new(|_| InterceptAction::Pass)),
            requests: Mutex::default(),
            held: Mutex::default(),
            releases: watch::Sender::new(0),
            watch_drops: watch::Sender::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(serve(listener, acceptor, Arc::clone(&state)));
        Ok(Self {
            url: own_url,
            ca,
            state,
            _task: task,
        })
    }

    /// Returns a kubeconfig that leads through the interceptor. The user must authenticate with a
    /// token.
    pub fn kubeconfig(&self, user: &Credentials) -> String {
        user.kubeconfig(&self.url, &self.ca.certificate())
    }

    /// Replaces the rule for all requests from now on.
    pub fn set_rule(
        &self,
        rule: impl FnMut(&InterceptedRequest) -> InterceptAction + Send + 'static,
    ) {
        *lock(&self.state.rule) = Box::new(rule);
    }

    /// Returns all requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<InterceptedRequest> {
        lock(&self.state.requests).clone()
    }

    /// Returns the requests that were held so far, or whose responses were. The server has
    /// processed a request whose response is held.
    pub fn held(&self) -> Vec<InterceptedRequest> {
        lock(&self.state.held).clone()
    }

    /// Waits until a request that satisfies `predicate` is held, or its response.
    pub async fn until_held(
        &self,
        timeout: Duration,
        predicate: impl Fn(&InterceptedRequest) -> bool,
    ) -> Result<InterceptedRequest> {
        let held = poll::until("a held request", timeout, async || {
            Ok(self.held().into_iter().find(&predicate))
        });
        let held = held.await;
        held.with_context(|| format!("the last requests: {:#?}", self.last(12)))
    }

    /// Forwards everything that is held, even if its client is gone. The rule stays.
    pub fn release_held(&self) {
        self.state.releases.send_modify(|count| *count += 1);
    }

    /// Closes the connections of all watches that are open now.
    pub fn drop_watches(&self) {
        self.state.watch_drops.send_modify(|count| *count += 1);
    }

    fn last(&self, count: usize) -> Vec<String> {
        let requests = self.requests();
        let last = requests.iter().rev().take(count).rev();
        last.map(|request| format!("{} {}", request.method, request.path))
            .collect()
    }
}

impl InterceptedRequest {
    /// Returns true for requests about a single Deployment.
    pub fn is_deployment_call(&self) -> bool {
        self.path.contains("/deployments/")
    }

    /// Returns true for requests that change a Deployment.
    pub fn is_deployment_write(&self) -> bool {
        self.is_deployment_call() && self.method != "GET"
    }

    /// The path of the object, without query and without the scale subresource.
    pub fn object_path(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or_default();
        path.strip_suffix("/scale").unwrap_or(path)
    }

    /// Returns true for requests that open a watch.
    pub fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| pair == "watch=true" || pair == "watch=1")
    }

    /// Returns true for requests about Leases, which leader election uses.
    pub fn is_lease_call(&self) -> bool {
        self.path.contains("/leases")
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<InterceptorState>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        connections.spawn(async move {
            // The peers notice the end of a connection themselves.
            let _ = handle_connection(stream, &acceptor, &state).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

type ClientStream = server::TlsStream<TcpStream>;
type UpstreamStream = client::TlsStream<TcpStream>;

async fn handle_connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    state: &InterceptorState,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let client = acceptor.accept(stream).await?;
    let stream = TcpStream::connect(state.address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(state.address.ip());
    let server = state.tls.connect(name, stream).await?;
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    // Rejections and the server's responses share one stream. Only one is in flight at a time.
    let to_client = tokio::sync::Mutex::new(to_client);
    let held_response = watch::Sender::new(None);
    let is_watch = AtomicBool::new(false);
    let requests = RequestForwarder {
        responses: &to_client,
        held_response: &held_response,
        is_watch: &is_watch,
        state,
    };
    tokio::select! {
        done = requests.run(from_client, to_server) => done,
        () = watch_dropped(state, &is_watch) => Ok(()),
        done = forward_responses(from_server, &to_client, held_response.subscribe(), state) => done,
    }
}

/// Waits until watches are dropped while the last request of this connection was one.
async fn watch_dropped(state: &InterceptorState, is_watch: &AtomicBool) {
    let mut drops = state.watch_drops.subscribe();
    // The sender is part of the state, so it outlives this receiver.
    while drops.changed().await.is_ok() && !is_watch.load(Ordering::Relaxed) {}
}

/// Forwards the requests of one connection.
struct RequestForwarder<'a> {
    responses: &'a tokio::sync::Mutex<WriteHalf<ClientStream>>,
    held_response: &'a watch::Sender<Option<InterceptedRequest>>,
    /// True if the last request opened a watch.
    is_watch: &'a AtomicBool,
    state: &'a InterceptorState,
}

impl RequestForwarder<'_> {
    async fn run(
        &self,
        from: ReadHalf<ClientStream>,
        mut to: WriteHalf<UpstreamStream>,
    ) -> Result<()> {
        let mut from = BufReader::new(from);
        while let Some((request, bytes)) = next_request(&mut from).await? {
            self.is_watch.store(request.is_watch(), Ordering::Relaxed);
            lock(&self.state.requests).push(request.clone());
            let action = (lock(&self.state.rule))(&request);
            self.forward(request, action, &bytes, &mut to).await?;
            to.flush().await?;
        }
        Ok(())
    }

    async fn forward(
        &self,
        request: InterceptedRequest,
        action: InterceptAction,
        bytes: &[u8],
        to: &mut WriteHalf<UpstreamStream>,
    ) -> Result<()> {
        let mut releases = self.state.releases.subscribe();
        match action {
            InterceptAction::Pass => to.write_all(bytes).await?,
            InterceptAction::Delay(time) => {
                sleep(time).await;
                to.write_all(bytes).await?;
            }
            InterceptAction::Reject(status, lines) => {
                let mut head = format!("HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n");
                for line in lines {
                    head.extend([line, "\r\n"]);
                }
                head.push_str("\r\n");
                let mut responses = self.responses.lock().await;
                responses.write_all(head.as_bytes()).await?;
                responses.flush().await?;
            }
            InterceptAction::Hold => {
                lock(&self.state.held).push(request);
                releases.changed().await?;
                to.write_all(bytes).await?;
            }
            InterceptAction::HoldResponse => {
                self.held_response.send_replace(Some(request));
                to.write_all(bytes).await?;
                to.flush().await?;
                releases.changed().await?;
                self.held_response.send_replace(None);
            }
        }
        Ok(())
    }
}

async fn forward_responses(
    mut from: ReadHalf<UpstreamStream>,
    to: &tokio::sync::Mutex<WriteHalf<ClientStream>>,
    mut held_response: watch::Receiver<Option<InterceptedRequest>>,
    state: &InterceptorState,
) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let request = held_response.borrow().clone();
        lock(&state.held).extend(request);
        held_response.wait_for(Option::is_none).await?;
        let mut to = to.lock().await;
        to.write_all(&buffer[..count]).await?;
        to.flush().await?;
    }
}

/// Reads the next request with its bytes; `None` at the end of the connection.
async fn next_request(
    from: &mut BufReader<ReadHalf<ClientStream>>,
) -> Result<Option<(InterceptedRequest, Vec<u8>)>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    let mut token = String::new();
    loop {
        let start = bytes.len();
        if from.read_until(b'\n', &mut bytes).await? == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("authorization: bearer ") {
            // The line is in lower case, the token is not.
            let end = String::from_utf8_lossy(&bytes[bytes.len() - value.len()..]).into_owned();
            end.trim().clone_into(&mut token);
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.starts_with("transfer-encoding:") {
            bail!("chunked requests are not supported");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = head.split(' ').map(str::to_owned);
    let request = InterceptedRequest {
        at: Instant::now(),
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        token,
    };
    let end = bytes.len();
    bytes.resize(end + length, 0);
    from.read_exact(&mut bytes[end..]).await?;
    Ok(Some((request, bytes)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
