//! Where a member is, whom to trust there, and as whom to appear.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kelpie_net::{Alpn, Endpoint, FilePaths, Files, TlsClient};
use tracing::warn;

use crate::Fault;

/// A URL of a member: `http` or `https`, a host and a port, and for a metrics page its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    is_https: bool,
    authority: String,
    path: String,
}

/// Why a text is no address of a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Another scheme, or none where one is needed.
    #[error("has the scheme `{0}`; write http://HOST:PORT or https://HOST:PORT")]
    Scheme(String),
    /// Not host and port.
    #[error("is no host and port; write http://HOST:PORT or https://HOST:PORT")]
    Authority,
    /// A user name, query or fragment, which may hold a secret and has no use here.
    #[error(
        "has more than scheme, host, port and path; write http://HOST:PORT or https://HOST:PORT"
    )]
    Extra,
}

impl Address {
    /// From a URL; without a scheme, as etcdctl has it, `https` is a guess of the caller.
    pub fn parse(text: &str, https_if_bare: bool) -> Result<Self, AddressError> {
        let (is_https, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => return Err(AddressError::Scheme(scheme.to_owned())),
            None => (https_if_bare, text),
        };
        if rest.contains(['@', '?', '#']) {
            return Err(AddressError::Extra);
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        let address = Self {
            is_https,
            authority: authority.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
        };
        // The rest is told by who connects; TLS settings are another matter.
        let plain = format!("http://{authority}");
        if !has_port || Endpoint::new(&plain, None).is_err() {
            return Err(AddressError::Authority);
        }
        Ok(address)
    }

    /// Spoken to over TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Below which the metrics page is, `/metrics` if the address has no path.
    pub(crate) fn metrics_path(&self) -> &str {
        if self.path.is_empty() {
            "/metrics"
        } else {
            &self.path
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

/// Certificates from files, which are looked at before each connection. Clones share them.
#[derive(Clone, Debug)]
pub struct Access {
    paths: FilePaths,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// As last read; none while they never could be.
    files: Option<Files>,
    /// What the log was told about files that cannot be read again.
    told: Option<String>,
}

impl Access {
    /// With certificates from these files. Files that cannot be read are trouble of the calls, not
    /// of the start: they may come later.
    pub fn new(paths: FilePaths) -> Self {
        Self {
            paths,
            state: Arc::default(),
        }
    }

    pub(crate) fn endpoint(&self, address: &Address, alpn: Alpn) -> Result<Endpoint, Fault> {
        let tls = if address.is_https {
            Some(self.tls(alpn)?)
        } else {
            None
        };
        let scheme = if address.is_https { "https" } else { "http" };
        let url = format!("{scheme}://{}", address.authority);
        Endpoint::new(&url, tls).map_err(own)
    }

    fn tls(&self, alpn: Alpn) -> Result<TlsClient, Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { files, told } = &mut *state;
        let files = match files {
            Some(files) => {
                // What was good stays in use while new files are half written.
                let problem = files.refresh().err().map(|error| error.to_string());
                if let Some(problem) = problem.as_ref().filter(|_| problem != *told) {
                    warn!(%problem, "certificates cannot be read again; the former stay in use");
                }
                *told = problem;
                files
            }
            None => files.insert(Files::load(self.paths.clone()).map_err(own)?),
        };
        let Some(roots) = files.roots() else {
            let text = "no certificate authority to trust: give it by --cacert";
            return Err(Fault::Own(text.to_owned()));
        };
        TlsClient::new(roots, files.identity(), alpn).map_err(own)
    }
}

fn own(error: impl fmt::Display) -> Fault {
    Fault::Own(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_etcdctl() {
        for (text, https_if_bare, shown) in [
            ("http://127.0.0.1:2379", false, "http://127.0.0.1:2379"),
            ("https://etcd-0:2379/", false, "https://etcd-0:2379"),
            ("127.0.0.1:2379", false, "http://127.0.0.1:2379"),
            ("127.0.0.1:2379", true, "https://127.0.0.1:2379"),
            ("http://[::1]:2379", true, "http://[::1]:2379"),
            ("http://a:2381/x/metrics", false, "http://a:2381/x/metrics"),
        ] {
            let address = Address::parse(text, https_if_bare).unwrap();
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_says_what_to_write() {
        for text in [
            "",
            "etcd-0",
            "http://etcd-0",
            "http://etcd-0:0",
            "http://etcd-0:x",
            "http://:2379",
            "http://a b:2379",
            "unix://etcd.sock:0",
            "http://user:secret@etcd:2379",
            "http://etcd:2379?x=secret",
            "http://a:1,http://b:2",
        ] {
            let error = Address::parse(text, false).unwrap_err().to_string();
            assert!(error.ends_with("https://HOST:PORT"), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_metrics_page_has_a_usual_place() {
        let path = |text| {
            let address = Address::parse(text, false).unwrap();
            address.metrics_path().to_owned()
        };
        assert_eq!(path("http://a:2381"), "/metrics");
        assert_eq!(path("http://a:2381/"), "/metrics");
        assert_eq!(path("http://a:2381/x/metrics"), "/x/metrics");
    }
}
