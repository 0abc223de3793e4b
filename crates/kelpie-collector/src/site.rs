//! A server that is read from or written to: where it is, and as whom we appear there.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, USER_AGENT};
use kelpie_net::{
    Alpn, ConnectError, Connection, Endpoint, EndpointError, FilePaths, Files, FilesError, Network,
    RequestError, TlsClient, TlsError,
};
use secrecy::zeroize::Zeroizing;
use tokio::time::Instant;
use tracing::{info, warn};

/// Where systems keep the authorities that everybody trusts.
const SYSTEM_ROOTS: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// Larger is no honest token.
const LARGEST_TOKEN: u64 = 64 * 1024;

/// How long a connection may have been idle. Servers and what lies before them close those that were
/// for long, some without a word; a source is asked only once in a tick.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// How we introduce ourselves.
const NAME: &str = concat!("kelpie-collector/", env!("CARGO_PKG_VERSION"));

/// Where a server is, and as whom we appear there. Files are read again when they change.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `http(s)://host[:port][/path]`.
    pub url: String,
    /// A bearer token to send.
    pub token: Option<PathBuf>,
    /// Authorities that vouch for the server; `None`: the system's.
    pub roots: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why a server cannot be spoken to as its flags say.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The address.
    #[error(transparent)]
    Url(#[from] EndpointError),
    /// The certificates' files.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// What is in them.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody to trust.
    #[error("there is no file with certificate authorities on this system: name one")]
    NoRoots,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteFault {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{at}: {source}")]
    Request { at: String, source: RequestError },
    #[error("the token file {}: {source}", path.display())]
    Token { path: PathBuf, source: io::Error },
}

impl SiteFault {
    /// Another attempt may well succeed: nobody is there, or the line broke.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Connect(ConnectError::Tls { .. }) | Self::Token { .. } => false,
            Self::Connect(_) => true,
            Self::Request { source, .. } => {
                matches!(source, RequestError::Broken(_) | RequestError::Unusable)
            }
        }
    }
}

/// A server with the connections to it that are idle.
pub(crate) struct Site {
    /// Of its URL, without a slash at its end.
    path: String,
    origin: String,
    token: Option<PathBuf>,
    network: Network,
    state: Mutex<State>,
}

struct State {
    files: Option<Files>,
    endpoint: Endpoint,
    /// Counts the certificates: a connection that was opened with older ones is not used again.
    generation: u64,
    /// Each with the time since when it is.
    idle: Vec<(Instant, Connection)>,
}

/// A connection for one request.
pub(crate) struct Lent {
    pub(crate) connection: Connection,
    generation: u64,
}

impl Site {
    pub(crate) fn new(access: &Access, network: &Network) -> Result<Self, SiteError> {
        let is_tls = access.url.starts_with("https:");
        let mut files = None;
        if is_tls || access.roots.is_some() || access.identity.is_some() {
            let roots = access.roots.clone().or_else(system_roots);
            files = Some(Files::load(FilePaths {
                identity: access.identity.clone(),
                roots: Some(roots.ok_or(SiteError::NoRoots)?),
            })?);
        }
        // The whole address is judged; of it, the path is ours to add.
        Endpoint::new(&access.url, tls(files.as_ref())?)?;
        let (origin, path) = split(&access.url);
        Ok(Self {
            path: path.to_owned(),
            origin: origin.to_owned(),
            token: access.token.clone(),
            network: network.clone(),
            state: Mutex::new(State {
                endpoint: endpoint(origin, files.as_ref(), network)?,
                files,
                generation: 0,
                idle: Vec::new(),
            }),
        })
    }

    /// Of its URL, without a slash at its end.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The headers of every request.
    pub(crate) fn headers(&self) -> Result<HeaderMap, SiteFault> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(NAME));
        if let Some(path) = &self.token {
            let bearer = bearer(path).map_err(|source| SiteFault::Token {
                path: path.clone(),
                source,
            })?;
            headers.insert(AUTHORIZATION, bearer);
        }
        Ok(headers)
    }

    /// A connection that is idle, else a new one.
    pub(crate) async fn connect(&self) -> Result<Lent, SiteFault> {
        let (endpoint, generation, idle) = self.refreshed();
        let connection = match idle {
            Some(connection) => connection,
            None => Connection::open(&endpoint).await?,
        };
        Ok(Lent {
            connection,
            generation,
        })
    }

    /// For the next request.
    pub(crate) fn give_back(&self, mut lent: Lent) {
        let mut state = self.lock();
        if lent.generation == state.generation && lent.connection.is_usable() {
            state.idle.push((Instant::now(), lent.connection));
        }
    }

    /// What went wrong with a request there.
    pub(crate) fn fault(&self, source: RequestError) -> SiteFault {
        let at = self.lock().endpoint.authority();
        SiteFault::Request { at, source }
    }

    /// Looks at the files first.
    fn refreshed(&self) -> (Endpoint, u64, Option<Connection>) {
        let mut state = self.lock();
        match state.files.as_mut().map_or(Ok(false), Files::refresh) {
            Ok(false) => {}
            Ok(true) => match endpoint(&self.origin, state.files.as_ref(), &self.network) {
                Ok(endpoint) => {
                    info!(server = %endpoint.authority(), "certificates were read again");
                    state.endpoint = endpoint;
                    state.generation += 1;
                    state.idle.clear();
                }
                Err(error) => warn!(%error, "new certificates are of no use: the old ones stay"),
            },
            Err(error) => warn!(%error, "certificates cannot be read: those from before stay"),
        }
        while let Some((since, mut connection)) = state.idle.pop() {
            if since.elapsed() < LONGEST_IDLE && connection.is_usable() {
                return (state.endpoint.clone(), state.generation, Some(connection));
            }
        }
        (state.endpoint.clone(), state.generation, None)
    }

    /// A panic elsewhere leaves it whole: every change is one assignment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn system_roots() -> Option<PathBuf> {
    let mut places = SYSTEM_ROOTS.iter().map(PathBuf::from);
    places.find(|path| path.exists())
}

fn tls(files: Option<&Files>) -> Result<Option<TlsClient>, SiteError> {
    let Some((files, roots)) = files.and_then(|files| Some((files, files.roots()?))) else {
        return Ok(None);
    };
    Ok(Some(TlsClient::new(roots, files.identity(), Alpn::Http1)?))
}

fn endpoint(origin: &str, files: Option<&Files>, network: &Network) -> Result<Endpoint, SiteError> {
    Ok(Endpoint::new(origin, tls(files)?)?.through(network))
}

/// Scheme and host; path without a slash at its end.
fn split(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    (&url[..end], url[end..].trim_end_matches('/'))
}

fn bearer(path: &Path) -> io::Result<HeaderValue> {
    let mut text = Zeroizing::new("Bearer ".to_owned());
    let begins = text.len();
    File::open(path)?
        .take(LARGEST_TOKEN)
        .read_to_string(&mut text)?;
    if text[begins..].trim().is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    // What an error says of the value could show it.
    let mut value = HeaderValue::from_str(text.trim_end())
        .map_err(|_| io::Error::other("it holds more than a token"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(access: &Access) -> Result<Site, SiteError> {
        Site::new(access, &Network::default())
    }

    #[test]
    fn a_url_is_an_origin_and_a_path() {
        for (url, origin, path) in [
            ("http://h", "http://h", ""),
            ("http://h:1/", "http://h:1", ""),
            ("http://[::1]:1/a/b/", "http://[::1]:1", "/a/b"),
        ] {
            assert_eq!(split(url), (origin, path), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_or_does_not_fit_its_files_is_refused() {
        for url in ["", "h", "http://", "http://h?q", "http://u:secret@h"] {
            let access = Access {
                url: url.to_owned(),
                ..Access::default()
            };
            let error = site(&access).err().unwrap().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let missing = Access {
            url: "https://h".to_owned(),
            roots: Some("/does/not/exist".into()),
            ..Access::default()
        };
        assert!(matches!(site(&missing), Err(SiteError::Files(_))));
    }

    #[test]
    fn a_token_is_read_each_time_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let site = site(&Access {
            url: "http://h".to_owned(),
            token: Some(path.clone()),
            ..Access::default()
        });
        let site = site.unwrap();
        assert!(matches!(site.headers(), Err(SiteFault::Token { .. })));
        for (written, sent) in [("one\n", "Bearer one"), ("two", "Bearer two")] {
            std::fs::write(&path, written).unwrap();
            let headers = site.headers().unwrap();
            assert_eq!(headers[AUTHORIZATION], sent);
            assert!(!format!("{headers:?}").contains(sent));
        }
        for wrong in ["", " \n", "a\nhunter2"] {
            std::fs::write(&path, wrong).unwrap();
            let error = site.headers().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
