//! Certificates that are reloaded when their files change.

use std::fmt;
use std::sync::Arc;

use kelpie_net::{Alpn, Endpoint, TlsClient, TlsFilePaths, TlsFiles};
use parking_lot::Mutex;
use tracing::warn;

use crate::EtcdError;
use crate::client::member_url::MemberUrl;

/// Certificates from files, which are checked for changes before each connection.
///
/// Clones share them.
#[derive(Clone, Debug)]
pub struct TlsCredentials {
    paths: TlsFilePaths,
    state: Arc<Mutex<CredentialState>>,
}

#[derive(Debug, Default)]
struct CredentialState {
    /// The files as last read. `None` until they could be read once.
    files: Option<TlsFiles>,
    /// The last reload error that was logged.
    logged: Option<String>,
}

impl TlsCredentials {
    /// Creates credentials from these files.
    ///
    /// Files that cannot be read fail the calls, not this function: they may appear later.
    pub fn new(paths: TlsFilePaths) -> Self {
        Self {
            paths,
            state: Arc::default(),
        }
    }

    pub(crate) fn endpoint(&self, url: &MemberUrl, alpn: Alpn) -> Result<Endpoint, EtcdError> {
        let tls = if url.is_https() {
            Some(self.tls(alpn)?)
        } else {
            None
        };
        let url = format!("{}://{}", url.scheme(), url.authority());
        Endpoint::new(&url, tls).map_err(misconfigured)
    }

    fn tls(&self, alpn: Alpn) -> Result<TlsClient, EtcdError> {
        let mut state = self.state.lock();
        let CredentialState { files, logged } = &mut *state;
        let files = match files {
            Some(files) => {
                // The previous certificates stay in use while new files are half written.
                let problem = files.refresh().err().map(|error| error.to_string());
                if let Some(problem) = problem.as_ref().filter(|_| problem != *logged) {
                    warn!(%problem, "cannot reload certificates; still using the previous ones");
                }
                *logged = problem;
                files
            }
            None => files.insert(TlsFiles::load(self.paths.clone()).map_err(misconfigured)?),
        };
        let Some(roots) = files.roots() else {
            let text = "no trusted certificate authority: set --cacert";
            return Err(EtcdError::Misconfigured(text.to_owned()));
        };
        TlsClient::new(roots, files.identity(), alpn).map_err(misconfigured)
    }
}

fn misconfigured(error: impl fmt::Display) -> EtcdError {
    EtcdError::Misconfigured(error.to_string())
}
