//! Who we are: a certificate chain and its key.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use secrecy::{ExposeSecret, SecretSlice};

use crate::crypto::provider;

/// Certificates in one chain or one bundle of authorities: more is no honest file.
pub(crate) const MOST_CERTIFICATES: usize = 256;

/// Certificates or a key that cannot be used. Messages never show key material.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate where at least one has to be.
    #[error("no certificate found: expected PEM with at least one CERTIFICATE block")]
    NoCertificate,
    /// Not PEM, or not a certificate.
    #[error("the certificates cannot be read: {0}")]
    Certificate(String),
    /// No private key in the PEM, or none that can be read.
    #[error("the private key cannot be read: expected PEM with a PKCS#8, PKCS#1 or SEC1 key")]
    Key,
    /// The key is of a kind that is not supported, or broken.
    #[error(
        "the private key cannot be used: expected an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key"
    )]
    KeyKind,
    /// Certificate and key are not a pair.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// TLS cannot be set up with this.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// A certificate chain with its private key, of a client or a server. Cheap to clone; `Debug` does
/// not show it.
#[derive(Clone)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// From PEM: the chain, own certificate first, and its key. They must be a pair.
    pub fn from_pem(chain: &[u8], key: &SecretSlice<u8>) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key.expose_secret()).map_err(|_| TlsError::Key)?;
        let certified =
            CertifiedKey::from_der(chain, key, provider()).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
                rustls::Error::InvalidCertificate(fault) => {
                    TlsError::Certificate(fault.to_string())
                }
                _ => TlsError::KeyKind,
            })?;
        Ok(Self(Arc::new(certified)))
    }

    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.0)))
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// The certificates of a PEM text, at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| TlsError::Certificate(error.to_string()))?;
        if found.len() == MOST_CERTIFICATES {
            let text = format!("more than {MOST_CERTIFICATES}");
            return Err(TlsError::Certificate(text));
        }
        found.push(certificate);
    }
    if found.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    Ok(found)
}
