//! Kubeconfigs of tenants: untrusted input that names a server and holds secrets.

mod document;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kelpie_net::{Alpn, Endpoint, EndpointError, Identity, Network, Roots, TlsClient, TlsError};
use secrecy::SecretSlice;

use document::{Cluster, Document, User, given};

/// Larger is no kubeconfig; a Secret cannot hold more either.
const LARGEST: usize = 1024 * 1024;

/// Longer is no token. It goes out with every request.
const LONGEST_TOKEN: usize = 64 * 1024;

/// Why a kubeconfig cannot be used. Messages never show what is in it.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// Too large to be one.
    #[error("the kubeconfig has {size} bytes: at most {LARGEST} are read")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// Not YAML, or not of the form of a kubeconfig.
    #[error("the kubeconfig is not valid at line {line}, column {column}")]
    Syntax {
        /// Counted from 1; 0 if unknown.
        line: u64,
        /// Counted from 1; 0 if unknown.
        column: u64,
    },
    /// No `current-context`.
    #[error("the kubeconfig has no current-context: set it to the context to use")]
    NoContext,
    /// The context names something that is not there.
    #[error("the kubeconfig's current context is incomplete: {0} has no element of that name")]
    Missing(&'static str),
    /// Two elements of one name.
    #[error("the kubeconfig is ambiguous: {0} has several elements of the name that is used")]
    Ambiguous(&'static str),
    /// A field that is refused for safety.
    #[error(
        "the kubeconfig uses {0}, which is refused: a tenant's kubeconfig may only have an https \
         server, certificate-authority-data, tls-server-name, token, client-certificate-data and \
         client-key-data"
    )]
    Refused(&'static str),
    /// Plain text.
    #[error("the kubeconfig's server is not https: credentials are only sent encrypted")]
    NotHttps,
    /// The server's URL or the expected name is of no use.
    #[error("the kubeconfig's server cannot be used: {0}")]
    Server(EndpointError),
    /// A field is not base64.
    #[error("the kubeconfig's {0} is not base64")]
    NotBase64(&'static str),
    /// Nobody to trust.
    #[error("the kubeconfig has no certificate-authority-data: the server could be anybody")]
    NoAuthority,
    /// The authority's certificates are of no use.
    #[error("the kubeconfig's certificate-authority-data cannot be used: {0}")]
    Authority(TlsError),
    /// Neither token nor certificate.
    #[error("the kubeconfig has no credentials: give a token, or a client certificate and its key")]
    NoCredentials,
    /// A certificate without its key, or the other way round.
    #[error("the kubeconfig has only one of client-certificate-data and client-key-data")]
    HalfPair,
    /// Certificate or key are of no use.
    #[error("the kubeconfig's client certificate cannot be used: {0}")]
    Identity(TlsError),
    /// Not fit for a header.
    #[error("the kubeconfig's token cannot be sent: it is too long or has bytes that no token has")]
    Token,
    /// TLS cannot be set up.
    #[error("the kubeconfig cannot be used: {0}")]
    Tls(TlsError),
}

/// How to reach a tenant's API server, from a kubeconfig that is fit for use. `Debug` shows the server
/// only.
#[derive(Clone)]
pub struct Access {
    endpoint: Endpoint,
    authorization: Option<HeaderValue>,
}

impl Access {
    /// Reads a kubeconfig. Only the cluster and user of its current context are looked at.
    pub fn from_kubeconfig(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        if bytes.len() > LARGEST {
            return Err(KubeconfigError::TooLarge { size: bytes.len() });
        }
        let (cluster, user) = Document::read(bytes)?.current()?;
        if let Some(field) = cluster.refused().or_else(|| user.refused()) {
            return Err(KubeconfigError::Refused(field));
        }
        let identity = identity(&user)?;
        let authorization = given(user.token.as_ref())
            .map(|token| bearer(token))
            .transpose()?;
        if identity.is_none() && authorization.is_none() {
            return Err(KubeconfigError::NoCredentials);
        }
        Ok(Self {
            endpoint: endpoint(&cluster, identity.as_ref())?,
            authorization,
        })
    }

    /// Reached through `network` rather than over TCP.
    #[must_use]
    pub fn through(mut self, network: &Network) -> Self {
        self.endpoint = self.endpoint.through(network);
        self
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Access").field(&self.endpoint).finish()
    }
}

fn endpoint(cluster: &Cluster, identity: Option<&Identity>) -> Result<Endpoint, KubeconfigError> {
    // Schemes know no case.
    let is_https = cluster
        .server
        .get(..8)
        .is_some_and(|s| s.eq_ignore_ascii_case("https://"));
    if !is_https {
        return Err(KubeconfigError::NotHttps);
    }
    let authority = given(cluster.certificate_authority_data.as_ref());
    let authority = authority.ok_or(KubeconfigError::NoAuthority)?;
    let authority = decode("certificate-authority-data", authority)?;
    let roots = Roots::from_pem(&authority).map_err(KubeconfigError::Authority)?;
    let tls = TlsClient::new(&roots, identity, Alpn::Http1).map_err(KubeconfigError::Tls)?;
    let endpoint = Endpoint::new(&cluster.server, Some(tls)).map_err(KubeconfigError::Server)?;
    match given(cluster.tls_server_name.as_ref()) {
        Some(name) => endpoint
            .with_server_name(name)
            .map_err(KubeconfigError::Server),
        None => Ok(endpoint),
    }
}

fn identity(user: &User) -> Result<Option<Identity>, KubeconfigError> {
    let chain = given(user.client_certificate_data.as_ref());
    let key = given(user.client_key_data.as_ref());
    let (chain, key) = match (chain, key) {
        (None, None) => return Ok(None),
        (Some(chain), Some(key)) => (chain, key),
        _ => return Err(KubeconfigError::HalfPair),
    };
    let chain = decode("client-certificate-data", chain)?;
    let key = SecretSlice::from(decode("client-key-data", key)?);
    let identity = Identity::from_pem(&chain, &key).map_err(KubeconfigError::Identity)?;
    Ok(Some(identity))
}

fn bearer(token: &str) -> Result<HeaderValue, KubeconfigError> {
    if token.len() > LONGEST_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KubeconfigError::Token);
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| KubeconfigError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Base64 with whatever white space YAML left in it.
fn decode(field: &'static str, text: &str) -> Result<Vec<u8>, KubeconfigError> {
    let dense: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    STANDARD
        .decode(dense)
        .map_err(|_| KubeconfigError::NotBase64(field))
}
