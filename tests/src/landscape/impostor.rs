//! A server in the place of an API server, with answers of its own.

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
use crate::pki::Authority;

/// What it answers to one request.
#[derive(Debug, Clone)]
pub enum Play {
    /// A whole answer: status, header lines, body.
    Answer(u16, Vec<String>, Vec<u8>),
    /// A body that is this piece again and again, so many times, after a beginning.
    Flood {
        /// Its content type.
        content: String,
        /// What it begins with.
        start: Vec<u8>,
        /// What is repeated.
        piece: Vec<u8>,
        /// How often.
        times: usize,
    },
    /// Nothing, for ever.
    Silence,
    /// The connection is closed.
    Close,
}

impl Play {
    /// A JSON answer.
    pub fn json(status: u16, body: &str) -> Self {
        let header = "Content-Type: application/json".to_owned();
        Self::Answer(status, vec![header], body.into())
    }

    /// What an API server of today answers to `/version`.
    pub fn version() -> Self {
        let body = r#"{"major":"1","minor":"36","gitVersion":"v1.36.4"}"#;
        Self::json(200, body)
    }

    /// The same with one header line more.
    #[must_use]
    pub fn header(self, line: &str) -> Self {
        match self {
            Self::Answer(status, mut lines, body) => {
                lines.push(line.to_owned());
                Self::Answer(status, lines, body)
            }
            other => other,
        }
    }
}

type Script = Arc<Mutex<Box<dyn Fn(&str) -> Play + Send + Sync>>>;

/// A TLS server whose script says what it answers to a path. It ends when dropped.
pub struct Impostor {
    url: String,
    authority: Authority,
    script: Script,
    asked: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

impl Impostor {
    /// Starts with a script: from the path and query of a request to what is answered.
    pub async fn start(script: impl Fn(&str) -> Play + Send + Sync + 'static) -> Result<Self> {
        let authority = Authority::new()?;
        let acceptor = acceptor(&authority)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("https://{}", listener.local_addr()?);
        let script: Script = Arc::new(Mutex::new(Box::new(script)));
        let asked = Arc::default();
        let mut serving = JoinSet::new();
        serving.spawn(serve(
            listener,
            acceptor,
            Arc::clone(&script),
            Arc::clone(&asked),
        ));
        Ok(Self {
            url,
            authority,
            script,
            asked,
            _serving: serving,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig for it, with a token.
    pub fn kubeconfig(&self) -> String {
        let token = Credentials::Token("secret-token-of-the-tenant".into());
        token.kubeconfig(&self.url, &self.authority.certificate())
    }

    /// Another script from now on.
    pub fn play(&self, script: impl Fn(&str) -> Play + Send + Sync + 'static) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(script);
    }

    /// The paths that were asked for so far.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// For a TLS server on loopback with a certificate of this authority.
pub(super) fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let own = authority.serving()?;
    let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes())?;
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    script: Script,
    asked: Arc<Mutex<Vec<String>>>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, script, asked) = (acceptor.clone(), Arc::clone(&script), Arc::clone(&asked));
        connections.spawn(async move {
            // A client that goes away is no concern of ours.
            let _ = converse(stream, &acceptor, &script, &asked).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    script: &Script,
    asked: &Mutex<Vec<String>>,
) -> Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    while let Some(path) = next_request(&mut stream).await? {
        asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path.clone());
        let play = {
            let script = script.lock().unwrap_or_else(PoisonError::into_inner);
            script(&path)
        };
        match play {
            Play::Answer(status, lines, body) => {
                let mut head = format!("HTTP/1.1 {status} As-Scripted\r\n");
                for line in lines {
                    head.extend([line.as_str(), "\r\n"]);
                }
                head.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n"]);
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&body).await?;
                stream.flush().await?;
            }
            Play::Flood {
                content,
                start,
                piece,
                times,
            } => {
                let length = start.len() + piece.len() * times;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {content}\r\nContent-Length: {length}\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&start).await?;
                for _ in 0..times {
                    stream.write_all(&piece).await?;
                }
                stream.flush().await?;
            }
            Play::Silence => std::future::pending().await,
            Play::Close => return Ok(()),
        }
    }
    Ok(())
}

/// The path of the next request; nothing at the end of the connection.
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
