//! The address of a server and the settings to connect to it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use rustls::pki_types::ServerName;

use crate::network::Network;
use crate::resolve::AddressCache;
use crate::tls::TlsClient;

/// The length limit of a server's URL. No real address is longer.
const MAX_URL_BYTES: usize = 2_048;

/// The default limit of a response's head. That of an API server takes about half a kilobyte.
const DEFAULT_MAX_HEAD_BYTES: usize = 8 * 1024;

/// An invalid server address.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The URL does not have the expected form. The message never repeats the URL, which may
    /// contain a secret.
    #[error("the server's URL {0}: expected https://host[:port][/path]")]
    Malformed(&'static str),
    /// The URL is `https`, but there are no TLS settings.
    #[error("the server's URL is https, but no certificate authorities are configured")]
    NeedsTls,
    /// The URL is `http`, but there are TLS settings.
    #[error("the server's URL is http, but certificates are configured: use https")]
    NeedsHttps,
    /// The server name is neither a DNS name nor an IP address.
    #[error("the TLS server name is neither a DNS name nor an IP address")]
    ServerName,
}

/// The address of a server with everything that a connection to it needs. Clones share the TLS
/// settings.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    pub(crate) tls: Option<(TlsClient, ServerName<'static>)>,
    /// The path of the URL without a trailing slash.
    pub(crate) base_path: Box<str>,
    pub(crate) host_header: HeaderValue,
    pub(crate) network: Network,
    pub(crate) max_head_bytes: usize,
    /// `None` if no addresses are kept.
    pub(crate) addresses: Option<Arc<AddressCache>>,
}

impl Endpoint {
    /// Parses a URL. `https` requires `tls`, and `http` must not have it. User info, a query and a
    /// fragment are rejected. The path of the URL is prepended to the path of every request.
    pub fn new(url: &str, tls: Option<TlsClient>) -> Result<Self, EndpointError> {
        use EndpointError::Malformed;
        if url.len() > MAX_URL_BYTES {
            return Err(Malformed("is longer than 2048 bytes"));
        }
        // `Uri` drops a fragment silently.
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
        let host_part = authority.host();
        let host = host_part.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(Malformed("has no host"));
        }
        let is_https = *scheme == Scheme::HTTPS;
        if !is_https && *scheme != Scheme::HTTP {
            return Err(Malformed("is neither https nor http"));
        }
        let default_port = if is_https { 443 } else { 80 };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str() == host_part => default_port,
            None => return Err(Malformed("has a port that is not a number up to 65535")),
        };
        if port == 0 {
            return Err(Malformed("has port 0"));
        }
        let header = if port == default_port {
            HeaderValue::from_str(host_part)
        } else {
            HeaderValue::from_str(&format!("{host_part}:{port}"))
        };
        Ok(Self {
            tls: match (is_https, tls) {
                (true, Some(tls)) => {
                    let name = ServerName::try_from(host);
                    let name = name.map_err(|_| Malformed("has an invalid host name"))?;
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
            max_head_bytes: DEFAULT_MAX_HEAD_BYTES,
            addresses: None,
        })
    }

    /// Expects `name` instead of the URL's host in the server's certificate, and sends it as SNI.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, EndpointError> {
        let name = ServerName::try_from(name).map_err(|_| EndpointError::ServerName)?;
        let tls = self.tls.as_mut().ok_or(EndpointError::NeedsTls)?;
        tls.1 = name.to_owned();
        Ok(self)
    }

    /// Connects through `network` instead of over TCP.
    #[must_use]
    pub fn with_network(mut self, network: &Network) -> Self {
        self.network = network.clone();
        self
    }

    /// Accepts response heads of up to this many bytes instead of 8 KiB. Each request allocates a
    /// buffer of that size.
    #[must_use]
    pub fn with_max_head_bytes(mut self, bytes: usize) -> Self {
        self.max_head_bytes = bytes;
        self
    }

    /// Keeps the last addresses of the host name, at most eight, and uses them while the resolver
    /// does not answer or does not know the name. Clones of the result share them.
    #[must_use]
    pub fn with_address_cache(mut self) -> Self {
        // An address needs no lookup.
        if self.host.parse::<IpAddr>().is_err() {
            self.addresses = Some(Arc::default());
        }
        self
    }

    /// Shares the kept addresses of `other`, if both have the same host and port.
    #[must_use]
    pub fn with_addresses_of(mut self, other: &Self) -> Self {
        if (&self.host, self.port) == (&other.host, other.port) {
            self.addresses.clone_from(&other.addresses);
        }
        self
    }

    /// Returns `host:port`, the form that is used in messages.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns true if connections use TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
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
    fn url_is_split_into_parts() {
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
    fn invalid_url_is_rejected_without_leaking_it() {
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
