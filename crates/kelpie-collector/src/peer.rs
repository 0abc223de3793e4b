//! An HTTP server with credentials and a connection pool.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use kelpie_net::{
    Alpn, ConnectError, Endpoint, EndpointError, HttpConnection, Network, RequestError, TlsClient,
    TlsConfigError, TlsFault, TlsFilePaths, TlsFiles, TlsFilesError,
};
use parking_lot::Mutex;
use secrecy::zeroize::Zeroizing;
use tokio::time::Instant;
use tracing::{info, warn};

/// The CA bundles of common operating systems.
const SYSTEM_CA_BUNDLES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// Limits the size of a token file. No real token is larger.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

/// Limits how long an idle connection is kept. Servers and proxies close idle connections, some of
/// them silently, and a source gets requests only once per tick.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits the head of a response. Proxies add large cookies and policies.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The user agent of all requests.
const USER_AGENT_VALUE: &str = concat!("kelpie-collector/", env!("CARGO_PKG_VERSION"));

/// The address of a server and the credentials for it. Files are reloaded when they change.
#[derive(Clone, Debug, Default)]
pub struct PeerConfig {
    /// The URL as `http(s)://host[:port][/path]`.
    pub url: String,
    /// The bearer token to send.
    pub token: Option<BearerToken>,
    /// A file with the bearer token to send.
    pub token_file: Option<PathBuf>,
    /// A file with the trusted authorities. `None` means the CA bundle of the system.
    pub ca_file: Option<PathBuf>,
    /// The files with the client certificate and its key.
    pub identity_files: Option<(PathBuf, PathBuf)>,
}

/// A bearer token. It is never shown.
#[derive(Clone)]
pub struct BearerToken(Zeroizing<String>);

impl From<String> for BearerToken {
    fn from(token: String) -> Self {
        Self(Zeroizing::new(token))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// The reason that a [`PeerConfig`] is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PeerConfigError {
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] EndpointError),
    /// A certificate file cannot be used.
    #[error(transparent)]
    TlsFiles(#[from] TlsFilesError),
    /// The certificates do not make a valid TLS configuration.
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    /// The token has characters that a header cannot have.
    #[error("the token is not one line of ASCII text")]
    Token,
    /// There is no CA bundle on this system.
    #[error("no CA bundle found on this system: specify a CA file")]
    NoCaBundle,
}

/// A request that got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{at}: {source}")]
    Request { at: String, source: RequestError },
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    #[error("token file {}: {source}", path.display())]
    Token { path: PathBuf, source: io::Error },
}

impl PeerError {
    /// Returns true if a retry may succeed: the server was unreachable, or the connection was lost.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            // A handshake that is cut says nothing about certificates: a server restarts, or a load
            // balancer has no backend.
            Self::Connect(ConnectError::Tls { fault, .. }) => *fault == TlsFault::Closed,
            Self::Token { .. } => false,
            Self::Connect(_) | Self::TimedOut(_) => true,
            Self::Request { source, .. } => {
                matches!(source, RequestError::Broken(_) | RequestError::Unusable)
            }
        }
    }
}

/// A server with its idle connections.
pub(crate) struct HttpPeer {
    /// The path of the URL as it was given.
    path: String,
    /// The scheme, host and port of the URL.
    origin: String,
    token: Option<HeaderValue>,
    token_file: Option<PathBuf>,
    network: Network,
    state: Mutex<PeerState>,
}

struct PeerState {
    files: Option<TlsFiles>,
    endpoint: Endpoint,
    /// Increases with every change of the certificates. Connections of older generations are not
    /// reused.
    generation: u64,
    /// Idle connections, each with the start of its idle time.
    idle: Vec<(Instant, HttpConnection)>,
}

/// A connection from the pool, for one request.
pub(crate) struct PooledConnection {
    pub(crate) connection: HttpConnection,
    generation: u64,
}

impl HttpPeer {
    pub(crate) fn new(config: &PeerConfig, network: &Network) -> Result<Self, PeerConfigError> {
        let is_tls = config.url.starts_with("https:");
        let mut files = None;
        if is_tls || config.ca_file.is_some() || config.identity_files.is_some() {
            let roots = config.ca_file.clone().or_else(system_ca_bundle);
            files = Some(TlsFiles::load(TlsFilePaths {
                identity: config.identity_files.clone(),
                roots: Some(roots.ok_or(PeerConfigError::NoCaBundle)?),
            })?);
        }
        // Validates the whole URL. Below, only its origin becomes the endpoint.
        Endpoint::new(&config.url, tls(files.as_ref())?)?;
        let (origin, path) = split(&config.url);
        Ok(Self {
            path: path.to_owned(),
            origin: origin.to_owned(),
            token: config.token.as_ref().map(authorization).transpose()?,
            token_file: config.token_file.clone(),
            network: network.clone(),
            state: Mutex::new(PeerState {
                endpoint: endpoint(origin, files.as_ref(), network)?,
                files,
                generation: 0,
                idle: Vec::new(),
            }),
        })
    }

    /// Returns the path of the URL as it was given. It is empty if there is none.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the headers of every request. The token is read anew each time.
    pub(crate) fn headers(&self) -> Result<HeaderMap, PeerError> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        } else if let Some(path) = &self.token_file {
            let bearer = bearer(path).map_err(|source| PeerError::Token {
                path: path.clone(),
                source,
            })?;
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }

    /// Returns an idle connection, or opens one.
    pub(crate) async fn connect(&self) -> Result<PooledConnection, PeerError> {
        let (endpoint, generation, idle) = self.refresh();
        let connection = match idle {
            Some(connection) => connection,
            None => HttpConnection::open(&endpoint).await?,
        };
        Ok(PooledConnection {
            connection,
            generation,
        })
    }

    /// Returns a connection to the pool if it can be reused.
    pub(crate) fn release(&self, mut pooled: PooledConnection) {
        let mut state = self.state.lock();
        if pooled.generation == state.generation && pooled.connection.is_usable() {
            state.idle.push((Instant::now(), pooled.connection));
        }
    }

    /// Adds the address of the server to an error.
    pub(crate) fn request_error(&self, source: RequestError) -> PeerError {
        let at = self.state.lock().endpoint.authority();
        PeerError::Request { at, source }
    }

    /// Reloads changed files. Returns the endpoint, its generation and an idle connection, if any.
    fn refresh(&self) -> (Endpoint, u64, Option<HttpConnection>) {
        let mut state = self.state.lock();
        match state.files.as_mut().map_or(Ok(false), TlsFiles::refresh) {
            Ok(false) => {}
            Ok(true) => match endpoint(&self.origin, state.files.as_ref(), &self.network) {
                Ok(endpoint) => {
                    info!(server = %endpoint.authority(), "reloaded certificates");
                    state.endpoint = endpoint;
                    state.generation += 1;
                    state.idle.clear();
                }
                Err(error) => {
                    warn!(%error, "cannot use the new certificates; keeping the old ones");
                }
            },
            Err(error) => warn!(%error, "cannot reload certificates; keeping the old ones"),
        }
        while let Some((since, mut connection)) = state.idle.pop() {
            if since.elapsed() < IDLE_TIMEOUT && connection.is_usable() {
                return (state.endpoint.clone(), state.generation, Some(connection));
            }
        }
        (state.endpoint.clone(), state.generation, None)
    }
}

fn system_ca_bundle() -> Option<PathBuf> {
    let mut paths = SYSTEM_CA_BUNDLES.iter().map(PathBuf::from);
    paths.find(|path| path.exists())
}

fn tls(files: Option<&TlsFiles>) -> Result<Option<TlsClient>, PeerConfigError> {
    let Some((files, roots)) = files.and_then(|files| Some((files, files.roots()?))) else {
        return Ok(None);
    };
    Ok(Some(TlsClient::new(roots, files.identity(), Alpn::Http1)?))
}

fn endpoint(
    origin: &str,
    files: Option<&TlsFiles>,
    network: &Network,
) -> Result<Endpoint, PeerConfigError> {
    let endpoint = Endpoint::new(origin, tls(files)?)?.with_network(network);
    Ok(endpoint.with_max_head_bytes(MAX_HEAD_BYTES))
}

/// Splits a URL into its origin and its path.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    url.split_at(end)
}

fn authorization(token: &BearerToken) -> Result<HeaderValue, PeerConfigError> {
    let text = Zeroizing::new(format!("Bearer {}", token.0.trim()));
    let mut header = HeaderValue::from_str(&text).map_err(|_| PeerConfigError::Token)?;
    header.set_sensitive(true);
    Ok(header)
}

fn bearer(path: &Path) -> io::Result<HeaderValue> {
    let mut text = Zeroizing::new("Bearer ".to_owned());
    let start = text.len();
    File::open(path)?
        .take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)?;
    if text[start..].trim().is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    // The error of `HeaderValue` is dropped, because it could show the token.
    let mut value = HeaderValue::from_str(text.trim_end())
        .map_err(|_| io::Error::other("it does not hold a valid token"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(config: &PeerConfig) -> Result<HttpPeer, PeerConfigError> {
        HttpPeer::new(config, &Network::default())
    }

    #[test]
    fn url_is_split_into_origin_and_path() {
        for (url, origin, path) in [
            ("http://h", "http://h", ""),
            ("http://h:1/", "http://h:1", "/"),
            ("http://[::1]:1/a/b/", "http://[::1]:1", "/a/b/"),
        ] {
            assert_eq!(split(url), (origin, path), "{url}");
        }
    }

    #[test]
    fn invalid_url_or_missing_file_is_rejected() {
        for url in ["", "h", "http://", "http://h?q", "http://u:secret@h"] {
            let config = PeerConfig {
                url: url.to_owned(),
                ..PeerConfig::default()
            };
            let error = peer(&config).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = PeerConfig {
            url: "https://h".to_owned(),
            ca_file: Some("/does/not/exist".into()),
            ..PeerConfig::default()
        };
        assert!(matches!(peer(&missing), Err(PeerConfigError::TlsFiles(_))));
    }

    #[test]
    fn token_is_reread_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let peer = peer(&PeerConfig {
            url: "http://h".to_owned(),
            token_file: Some(path.clone()),
            ..PeerConfig::default()
        });
        let peer = peer.unwrap();
        assert!(matches!(peer.headers(), Err(PeerError::Token { .. })));
        for (written, sent) in [("one\n", "Bearer one"), ("two", "Bearer two")] {
            std::fs::write(&path, written).unwrap();
            let headers = peer.headers().unwrap();
            assert_eq!(headers[AUTHORIZATION], sent);
            assert!(!format!("{headers:?}").contains(sent));
        }
        for wrong in ["", " \n", "a\nhunter2"] {
            std::fs::write(&path, wrong).unwrap();
            let error = peer.headers().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
