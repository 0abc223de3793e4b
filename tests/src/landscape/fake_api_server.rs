//! A server in place of an API server, with scripted responses.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Credentials;
use crate::pki::TestCa;

/// The response to one request.
#[derive(Debug, Clone)]
pub enum FakeResponse {
    /// A complete response: status, header lines, body.
    Full(u16, Vec<String>, Vec<u8>),
    /// A huge body: `piece` repeated `times` times after `start`.
    Flood {
        /// The value of the header `Content-Type`.
        content_type: String,
        /// The beginning of the body.
        start: Vec<u8>,
        /// The part that is repeated.
        piece: Vec<u8>,
        /// The number of repetitions.
        times: usize,
    },
    /// No response at all; the connection stays open.
    Hang,
    /// No response; the connection is closed.
    Close,
}

impl FakeResponse {
    /// A complete response with a JSON body.
    pub fn json(status: u16, body: &str) -> Self {
        let header = "Content-Type: application/json".to_owned();
        Self::Full(status, vec![header], body.into())
    }

    /// The response of a current API server to `/version`.
    pub fn version() -> Self {
        let body = r#"{"major":"1","minor":"36","gitVersion":"v1.36.4"}"#;
        Self::json(200, body)
    }

    /// Adds a header line to a complete response.
    #[must_use]
    pub fn header(self, line: &str) -> Self {
        match self {
            Self::Full(status, mut lines, body) => {
                lines.push(line.to_owned());
                Self::Full(status, lines, body)
            }
            other => other,
        }
    }
}

type ResponseScript = Arc<Mutex<Box<dyn Fn(&str) -> FakeResponse + Send + Sync>>>;

/// A TLS server whose script maps paths to responses. It stops on drop.
pub struct FakeApiServer {
    url: String,
    ca: TestCa,
    script: ResponseScript,
    paths: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl FakeApiServer {
    /// Starts a server. `script` gets the path and query of a request, and returns the response.
    pub async fn start(
        script: impl Fn(&str) -> FakeResponse + Send + Sync + 'static,
    ) -> Result<Self> {
        let ca = TestCa::new()?;
        let acceptor = acceptor(&ca)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let script: ResponseScript = Arc::new(Mutex::new(Box::new(script)));
        let paths = Arc::default();
        let mut task = JoinSet::new();
        task.spawn(serve(
            listener,
            acceptor,
            Arc::clone(&script),
            Arc::clone(&paths),
        ));
        Ok(Self {
            url,
            ca,
            script,
            paths,
            _task: task,
        })
    }

    /// The address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a kubeconfig for the server, with a token.
    pub fn kubeconfig(&self) -> String {
        let token = Credentials::Token("secret-token-of-the-tenant".into());
        token.kubeconfig(&self.url, &self.ca.certificate())
    }

    /// Replaces the script for all requests from now on.
    pub fn set_script(&self, script: impl Fn(&str) -> FakeResponse + Send + Sync + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }

    /// Returns the paths of all requests so far.
    pub fn requested_paths(&self) -> Vec<String> {
        let paths = self.paths.lock();
        paths.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Accepts TLS connections on loopback with a certificate of this authority.
pub(super) fn acceptor(ca: &TestCa) -> Result<TlsAcceptor> {
    let pair = ca.serving()?;
    let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    script: ResponseScript,
    paths: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, script, paths) = (acceptor.clone(), Arc::clone(&script), Arc::clone(&paths));
        connections.spawn(async move {
            // A client may close the connection at any time.
            let _ = handle_connection(stream, &acceptor, &script, &paths).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn handle_connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    script: &ResponseScript,
    paths: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    while let Some(path) = next_request(&mut stream).await? {
        paths
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.clone());
        let response = {
            let script = script.lock().unwrap_or_else(PoisonError::into_inner);
            script(&path)
        };
        match response {
            FakeResponse::Full(status, lines, body) => {
                let mut head = format!("HTTP/1.1 {status} As-Scripted\r\n");
                for line in lines {
                    head.extend([line.as_str(), "\r\n"]);
                }
                head.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n"]);
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&body).await?;
                stream.flush().await?;
            }
            FakeResponse::Flood {
                content_type,
                start,
                piece,
                times,
            } => {
                let length = start.len() + piece.len() * times;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\
                     Content-Length: {length}\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&start).await?;
                for _ in 0..times {
                    stream.write_all(&piece).await?;
                }
                stream.flush().await?;
            }
            FakeResponse::Hang => std::future::pending().await,
            FakeResponse::Close => return Ok(()),
        }
    }
    Ok(())
}

/// Reads the path of the next request; `None` at the end of the connection.
async fn next_request<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut BufReader<S>,
) -> Result<Option<String>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        let mut header = String::new();
        if stream.read_line(&mut header).await? <= 2 {
            return Ok(Some(path));
        }
    }
}
