//! TLS settings of a client.

use std::fmt;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use crate::crypto::provider;
use crate::identity::{Identity, TlsConfigError, certificates};
use crate::session_store::SingleSessionStore;

/// Certificate authorities that verify the other side. It is cheap to clone.
#[derive(Clone)]
pub struct Roots(Arc<RootCertStore>);

impl Roots {
    /// Parses PEM with one or more certificates. Every one of them must be usable.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsConfigError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(pem)? {
            let added = store.add(certificate);
            added.map_err(|error| TlsConfigError::Certificate(error.to_string()))?;
        }
        Ok(Self(Arc::new(store)))
    }

    /// Verifies client certificates. Clients without one are accepted unless it is `required`.
    pub(crate) fn client_verifier(
        &self,
        required: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsConfigError> {
        let (roots, provider) = (Arc::clone(&self.0), provider().clone());
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
        if !required {
            verifier = verifier.allow_unauthenticated();
        }
        verifier
            .build()
            .map_err(|error| TlsConfigError::Setup(error.to_string()))
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.0.len())
    }
}

/// The application protocol to offer in the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/1.1, for [`crate::HttpConnection`].
    Http1,
    /// HTTP/2, for gRPC clients.
    Http2,
}

/// TLS settings for one server. It is cheap to clone, and clones share the session to resume.
#[derive(Clone)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Trusts servers that `roots` verify. Presents `identity` if the server requests a
    /// certificate.
    pub fn new(
        roots: &Roots,
        identity: Option<&Identity>,
        alpn: Alpn,
    ) -> Result<Self, TlsConfigError> {
        let setup = |error: &dyn fmt::Display| TlsConfigError::Setup(error.to_string());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots.0), provider().clone());
        let verifier = verifier.build().map_err(|error| setup(&error))?;
        let builder = ClientConfig::builder_with_provider(provider().clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| setup(&error))?
            .with_webpki_verifier(verifier);
        let mut config = match identity {
            Some(identity) => {
                let resolver = SingleCertAndKey::from(Arc::clone(&identity.0));
                builder.with_client_cert_resolver(Arc::new(resolver))
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::store(Arc::new(SingleSessionStore::default()));
        config.alpn_protocols = vec![match alpn {
            Alpn::Http1 => b"http/1.1".to_vec(),
            Alpn::Http2 => b"h2".to_vec(),
        }];
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}
