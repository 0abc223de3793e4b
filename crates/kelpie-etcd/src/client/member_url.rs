//! The URL of a member.

use std::fmt;

use kelpie_net::Endpoint;

/// The URL of a member: `http` or `https`, a host, a port, and the path of a metrics page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberUrl {
    is_https: bool,
    authority: String,
    path: String,
}

/// The reason why a text is not a [`MemberUrl`]. The message follows the name of a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberUrlError {
    /// The scheme is neither `http` nor `https`.
    #[error("has the unsupported scheme `{0}`; write http://HOST:PORT or https://HOST:PORT")]
    Scheme(String),
    /// The host or the port is missing or invalid.
    #[error("needs a host and a port; write http://HOST:PORT or https://HOST:PORT")]
    Authority,
    /// There is a user name, query or fragment, which has no use here and may contain a secret.
    #[error("has a user, query or fragment; write http://HOST:PORT or https://HOST:PORT")]
    Extra,
}

impl MemberUrl {
    /// Parses a URL. The scheme is optional, as for etcdctl; `https_if_bare` is the default.
    pub fn parse(text: &str, https_if_bare: bool) -> Result<Self, MemberUrlError> {
        let (is_https, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => return Err(MemberUrlError::Scheme(scheme.to_owned())),
            None => (https_if_bare, text),
        };
        if rest.contains(['@', '?', '#']) {
            return Err(MemberUrlError::Extra);
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let port = authority.rsplit_once(':').map(|(_, port)| port);
        let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        let url = Self {
            is_https,
            authority: authority.to_owned(),
            path: path.trim_end_matches('/').to_owned(),
        };
        // `Endpoint` validates the host. Plain HTTP will do here, because TLS needs credentials.
        let plain = format!("http://{authority}");
        if !has_port || Endpoint::new(&plain, None).is_err() {
            return Err(MemberUrlError::Authority);
        }
        Ok(url)
    }

    /// Returns true if the member is reached over TLS.
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Returns the host and the port, as in `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the path of the metrics page, which is `/metrics` unless the URL has a path.
    pub(crate) fn metrics_path(&self) -> &str {
        if self.path.is_empty() {
            "/metrics"
        } else {
            &self.path
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }
}

impl fmt::Display for MemberUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcdctl_endpoints_parse() {
        for (text, https_if_bare, shown) in [
            ("http://127.0.0.1:2379", false, "http://127.0.0.1:2379"),
            ("https://etcd-0:2379/", false, "https://etcd-0:2379"),
            ("127.0.0.1:2379", false, "http://127.0.0.1:2379"),
            ("127.0.0.1:2379", true, "https://127.0.0.1:2379"),
            ("http://[::1]:2379", true, "http://[::1]:2379"),
            ("http://a:2381/x/metrics", false, "http://a:2381/x/metrics"),
        ] {
            let url = MemberUrl::parse(text, https_if_bare).unwrap();
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn errors_show_the_format_and_no_secret() {
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
            let error = MemberUrl::parse(text, false).unwrap_err().to_string();
            assert!(error.ends_with("https://HOST:PORT"), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn metrics_path_has_a_default() {
        let path = |text| {
            let url = MemberUrl::parse(text, false).unwrap();
            url.metrics_path().to_owned()
        };
        assert_eq!(path("http://a:2381"), "/metrics");
        assert_eq!(path("http://a:2381/"), "/metrics");
        assert_eq!(path("http://a:2381/x/metrics"), "/x/metrics");
    }
}
