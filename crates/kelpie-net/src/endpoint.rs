//! Where a server is, and how to speak to it.

use std::fmt;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;

use crate::network::Network;
use crate::tls::TlsClient;

/// Longer is no honest address of a server.
const LONGEST_URL: usize = 2_048;

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Not a URL of the expected form. The text never repeats the URL: it may hold a secret.
    #[error("the server's URL {0}: expected https://host[:port][/path]")]
    Malformed(&'static str),
    /// `https` without TLS settings.
    #[error("the server's URL says https, but there are no certificate authorities to trust")]
    NeedsTls,
    /// `http` although there are TLS settings.
    #[error("the server's URL says http, but certificates are given: use https")]
    NeedsHttps,
    /// Neither a DNS name nor an IP address.
    #[error("the TLS server name is neither a DNS name nor an IP address")]
    ServerName,
}

/// A server's address with all that a connection to it needs. Clones share the TLS settings.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    pub(crate) tls: Option<(TlsClient, ServerName<'static>)>,
    /// Without a slash at its end.
    base_path: Box<str>,
    host_header: HeaderValue,
    pub(crate) network: Network,
}

impl Endpoint {
    /// From a URL. `https` needs `tls`, `http` must have none. Userinfo, query and fragment are
    /// refused; a path is put before every request's path.
    pub fn new(url: &str, tls: Option<TlsClient>) -> Result<Self, EndpointError> {
        use EndpointError::Malformed;
        if url.len() > LONGEST_URL {
            return Err(Malformed("is longer than 2048 bytes"));
        }
        // `Uri` drops a fragment without a word.
        if url.contains('#') {
            return Err(Malformed("has a fragment (#)"));
        }
        let uri: Uri = url.parse().map_err(|_| Malformed("is not a URL"))?;
        if uri.query().is_some() {
            return Err(Malformed("has a query (?)"));
        }
        let scheme = uri.scheme().ok_or(Malformed("has no scheme"))?;
        let authority = uri.authority().ok_or(Malformed("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(Malformed("has a user name or password (@)"));
        }
        let written = authority.host();
        let host = written.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(Malformed("has no host"));
        }
        let is_https = *scheme == Scheme::HTTPS;
        if !is_https && *scheme != Scheme::HTTP {
            return Err(Malformed("is neither https nor http"));
        }
        let usual = if is_https { 443 } else { 80 };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str() == written => usual,
            None => return Err(Malformed("has a port that is no number up to 65535")),
        };
        if port == 0 {
            return Err(Malformed("has port 0"));
        }
        let header = if port == usual {
            HeaderValue::from_str(written)
        } else {
            HeaderValue::from_str(&format!("{written}:{port}"))
        };
        Ok(Self {
            tls: match (is_https, tls) {
                (true, Some(tls)) => {
                    let name = ServerName::try_from(host);
                    let name = name.map_err(|_| Malformed("has a host that is no name"))?;
                    Some((tls, name.to_owned()))
                }
                (false, None) => None,
                (true, None) => return Err(EndpointError::NeedsTls),
                (false, Some(_)) => return Err(EndpointError::NeedsHttps),
            },
            host: host.into(),
            port,
            base_path: uri.path().trim_end_matches('/').into(),
            host_header: header.map_err(|_| Malformed("is not a URL"))?,
            network: Network::default(),
        })
    }

    /// Expects `name` in the server's certificate instead of the URL's host, and sends it as SNI.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, EndpointError> {
        let name = ServerName::try_from(name).map_err(|_| EndpointError::ServerName)?;
        let tls = self.tls.as_mut().ok_or(EndpointError::NeedsTls)?;
        tls.1 = name.to_owned();
        Ok(self)
    }

    /// Reached through `network` rather than over TCP.
    #[must_use]
    pub fn through(mut self, network: &Network) -> Self {
        self.network = network.clone();
        self
    }

    /// `host:port`, as messages name it.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Whether the server is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    pub(crate) fn base_path(&self) -> &str {
        &self.base_path
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(url, None)
    }

    #[test]
    fn a_url_is_host_port_and_path() {
        for (url, shown) in [
            ("http://api", "http://api:80"),
            ("http://api:8080/", "http://api:8080"),
            ("http://api:8080/k8s/c-1/", "http://api:8080/k8s/c-1"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("http://[::1]:6443/x", "http://[::1]:6443/x"),
        ] {
            assert_eq!(format!("{:?}", plain(url).unwrap()), shown, "{url}");
        }
    }

    #[test]
    fn what_is_no_plain_address_is_refused_without_repeating_it() {
        for url in [
            "",
            "api",
            "/path",
            "ftp://secret",
            "http://user:secret@api",
            "http://secret@api",
            "http://api?token=secret",
            "http://api/#secret",
            "http://api:99999",
            "http://api:0",
            "http://api:",
            "http://[::1",
            "http://secret secret",
            "https://secret",
            &format!("http://{}", "a".repeat(3_000)),
        ] {
            let error = plain(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
