//! A certificate chain with its private key.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret, SecretSlice};

use crate::crypto::provider;

/// Limits the certificates in one chain or CA bundle. No real file has more.
pub(crate) const MAX_CERTIFICATES: usize = 256;

/// Unusable certificates or an unusable key. Messages never show key material.
#[derive(Debug, thiserror::Error)]
pub enum TlsConfigError {
    /// The PEM has no certificate, but at least one is required.
    #[error("no certificate found: expected PEM with at least one CERTIFICATE block")]
    NoCertificate,
    /// The input is not PEM, or a block is not a valid certificate.
    #[error("the certificates cannot be read: {0}")]
    Certificate(String),
    /// The PEM has no readable private key.
    #[error("the private key cannot be read: expected PEM with a PKCS#8, PKCS#1 or SEC1 key")]
    Key,
    /// The key is invalid, or its type is not supported.
    #[error(
        "the private key cannot be used: expected an RSA, ECDSA (P-256 or P-384) or Ed25519 \
         key"
    )]
    KeyKind,
    /// The key does not belong to the certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// rustls rejects this configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// A certificate chain with its private key, for a client or a server. It is cheap to clone, and
/// `Debug` does not show it.
#[derive(Clone)]
pub struct Identity(pub(crate) Arc<CertifiedKey>);

impl Identity {
    /// Parses a PEM chain, leaf certificate first, and its PEM key. The two must be a pair.
    pub fn from_pem(chain: &[u8], key: &SecretSlice<u8>) -> Result<Self, TlsConfigError> {
        let chain = certificates(chain)?;
        let key =
            PrivateKeyDer::from_pem_slice(key.expose_secret()).map_err(|_| TlsConfigError::Key)?;
        let certified =
            CertifiedKey::from_der(chain, key, provider()).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsConfigError::Mismatch,
                rustls::Error::InvalidCertificate(fault) => {
                    TlsConfigError::Certificate(fault.to_string())
                }
                _ => TlsConfigError::KeyKind,
            })?;
        Ok(Self(Arc::new(certified)))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Parses the certificates of a PEM text. An empty result is an error.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|error| TlsConfigError::Certificate(error.to_string()))?;
        if found.len() == MAX_CERTIFICATES {
            let text = format!("more than {MAX_CERTIFICATES}");
            return Err(TlsConfigError::Certificate(text));
        }
        found.push(certificate);
    }
    if found.is_empty() {
        return Err(TlsConfigError::NoCertificate);
    }
    Ok(found)
}
