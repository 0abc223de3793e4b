//! Kubeconfigs of tenants: untrusted input that names a server and contains secrets.

mod raw;

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kelpie_net::{
    Alpn, Endpoint, EndpointError, Identity, Network, Roots, TlsClient, TlsConfigError,
};
use secrecy::SecretSlice;

use raw::{RawCluster, RawKubeconfig, RawUser, non_empty};

/// The maximum size of a kubeconfig. A Secret cannot hold more either.
const MAX_BYTES: usize = 1024 * 1024;

/// The maximum length of a token, which is sent with every request.
const MAX_TOKEN_BYTES: usize = 64 * 1024;

/// The reason why a kubeconfig cannot be used. Messages never quote its contents.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The kubeconfig is too large.
    #[error("the kubeconfig has {size} bytes: at most {MAX_BYTES} are allowed")]
    #[expect(missing_docs, reason = "the message shows the field")]
    TooLarge { size: usize },
    /// The input is not YAML, or does not have the structure of a kubeconfig.
    #[error("the kubeconfig is not valid at line {line}, column {column}")]
    Syntax {
        /// The line, counted from 1; 0 if unknown.
        line: u64,
        /// The column, counted from 1; 0 if unknown.
        column: u64,
    },
    /// There is no `current-context`.
    #[error("the kubeconfig has no current-context: set it to the context to use")]
    NoContext,
    /// The current context, its cluster or its user does not exist.
    #[error("the kubeconfig's current context is incomplete: {0} has no element of that name")]
    Missing(&'static str),
    /// The current context, its cluster or its user exists more than once.
    #[error("the kubeconfig is ambiguous: {0} has several elements of the name that is used")]
    Ambiguous(&'static str),
    /// The kubeconfig uses a field that is refused for security.
    #[error(
        "the kubeconfig uses {0}, which is refused: a tenant's kubeconfig may only have an https \
         server, certificate-authority-data, tls-server-name, token, client-certificate-data and \
         client-key-data"
    )]
    Refused(&'static str),
    /// The server's URL is not `https`.
    #[error("the kubeconfig's server is not https: credentials are only sent encrypted")]
    NotHttps,
    /// The server's URL or `tls-server-name` is invalid.
    #[error("the kubeconfig's server cannot be used: {0}")]
    Server(EndpointError),
    /// A field is not valid base64.
    #[error("the kubeconfig's {0} is not base64")]
    NotBase64(&'static str),
    /// There is no certificate authority.
    #[error(
        "the kubeconfig has no certificate-authority-data, without which the server cannot be \
         verified"
    )]
    NoAuthority,
    /// The certificates of the authority are invalid.
    #[error("the kubeconfig's certificate-authority-data cannot be used: {0}")]
    Authority(TlsConfigError),
    /// There is neither a token nor a client certificate.
    #[error("the kubeconfig has no credentials: give a token, or a client certificate and its key")]
    NoCredentials,
    /// There is a client certificate without its key, or a key without its certificate.
    #[error("the kubeconfig has only one of client-certificate-data and client-key-data")]
    HalfPair,
    /// The client certificate or its key is invalid.
    #[error("the kubeconfig's client certificate cannot be used: {0}")]
    Identity(TlsConfigError),
    /// The token cannot be sent in a header.
    #[error(
        "the kubeconfig's token cannot be sent: it is too long or has characters that are not \
         allowed in a header"
    )]
    Token,
    /// The TLS client cannot be set up.
    #[error("the kubeconfig cannot be used: {0}")]
    Tls(TlsConfigError),
}

/// The address of a tenant's API server and the credentials for it, from a valid kubeconfig.
/// `Debug` shows only the server.
#[derive(Clone)]
pub struct TenantConfig {
    pub(crate) endpoint: Endpoint,
    pub(crate) authorization: Option<HeaderValue>,
}

impl TenantConfig {
    /// Parses a kubeconfig. Only the cluster and the user of its current context are used.
    pub fn from_kubeconfig(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        if bytes.len() > MAX_BYTES {
            return Err(KubeconfigError::TooLarge { size: bytes.len() });
        }
        let (cluster, user) = RawKubeconfig::parse(bytes)?.into_current()?;
        if let Some(field) = cluster.refused_field().or_else(|| user.refused_field()) {
            return Err(KubeconfigError::Refused(field));
        }
        let identity = identity(&user)?;
        let authorization = non_empty(user.token.as_ref())
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

    /// Connects through `network` instead of TCP.
    #[must_use]
    pub fn with_network(mut self, network: &Network) -> Self {
        self.endpoint = self.endpoint.with_network(network);
        self
    }
}

impl fmt::Debug for TenantConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TenantConfig").field(&self.endpoint).finish()
    }
}

fn endpoint(
    cluster: &RawCluster,
    identity: Option<&Identity>,
) -> Result<Endpoint, KubeconfigError> {
    // The scheme of a URL is case-insensitive.
    let is_https = cluster
        .server
        .get(..8)
        .is_some_and(|s| s.eq_ignore_ascii_case("https://"));
    if !is_https {
        return Err(KubeconfigError::NotHttps);
    }
    let authority = non_empty(cluster.certificate_authority_data.as_ref());
    let authority = authority.ok_or(KubeconfigError::NoAuthority)?;
    let authority = decode("certificate-authority-data", authority)?;
    let roots = Roots::from_pem(&authority).map_err(KubeconfigError::Authority)?;
    let tls = TlsClient::new(&roots, identity, Alpn::Http1).map_err(KubeconfigError::Tls)?;
    let endpoint = Endpoint::new(&cluster.server, Some(tls)).map_err(KubeconfigError::Server)?;
    match non_empty(cluster.tls_server_name.as_ref()) {
        Some(name) => endpoint
            .with_server_name(name)
            .map_err(KubeconfigError::Server),
        None => Ok(endpoint),
    }
}

fn identity(user: &RawUser) -> Result<Option<Identity>, KubeconfigError> {
    let chain = non_empty(user.client_certificate_data.as_ref());
    let key = non_empty(user.client_key_data.as_ref());
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
    if token.len() > MAX_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(KubeconfigError::Token);
    }
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| KubeconfigError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Decodes base64 and ignores the white space that YAML may leave in it.
fn decode(field: &'static str, text: &str) -> Result<Vec<u8>, KubeconfigError> {
    let compact: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    STANDARD
        .decode(compact)
        .map_err(|_| KubeconfigError::NotBase64(field))
}
